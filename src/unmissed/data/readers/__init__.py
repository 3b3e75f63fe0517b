"""File formats: one module per format.

`delimited.py` (CSV, TSV), `json_lines.py`, `parquet.py` (also data frames) and `text_folder.py` yield documents: a
position for error messages, and a dict of cells. `xmc_text.py` and `npz.py` read X and Y as sparse matrices.
`unmissed.data.documents.DocumentReader` and `unmissed.data.sources.load` choose the reader; start there.
"""
