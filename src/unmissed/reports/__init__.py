"""Tables, figures and HTML pages of results; nothing is computed here.

Start with `comparison_page.py`, the page of `unmissed compare`, made of `compare_tables.py` and `compare_figures.py`.
`demo_page.py`, `missing_page.py`, `paper_page.py` and `study_figures.py` render the studies; `metrics_tables.py` and
`choice_tables.py` the output of `evaluate` and `tune`. `grids.py` renders tables as Markdown, LaTeX and HTML,
`drawing.py` has the style of figures, and `pages.py` fills the templates in `templates/`.
"""
