"""File formats: one module per format, behind the base classes of `reader.py`, listed in `format_registry.py`.

`delimited.py` (CSV, TSV), `json_lines.py`, `annif_corpora.py`, `fasttext.py`, `parquet.py`, `data_frame.py` and
`text_folder.py` yield documents: a position for error messages, and a dict of cells. `xmc_text.py`, `npz.py` and
`store_folder.py` read X and Y as sparse matrices. `unmissed.data.formats.find_reader` chooses the reader of a source;
start with `reader.py`.
"""
