"""Which labels are probably missing, samples for people to check, and propensities from their answers.

`unchecked_cells.py` has the (row, label) pairs without a label that a calibrated run knows, with the probability that
the label is true all the same. `missing_cells.py` lists the most probable ones, with what `training_documents.py`
reads again: ids, texts and features. `exports.py` writes them to files. `answers.py` has the answers of people to
"does this row have this label?", and `answer_files.py` reads them.
`corrections.py` writes the data with confirmed labels added. An audit draws a sample (`sampling.py`), writes it as
a sheet (`sheets.py`) and estimates propensities from the answers (`audit_estimates.py`, `missing_draws.py`).
`duplicates.py` estimates them from rows with the same text.
"""

from unmissed.audit.answer_files import read_answers
from unmissed.audit.answers import Answer
from unmissed.audit.corrections import Corrections, apply_answers
from unmissed.audit.exports import write_missing
from unmissed.audit.missing_cells import MissingLabels, find_missing
from unmissed.audit.unchecked_cells import UncheckedCells, missing_probability, unchecked_cells

__all__ = [
    "Answer",
    "Corrections",
    "MissingLabels",
    "UncheckedCells",
    "apply_answers",
    "find_missing",
    "missing_probability",
    "read_answers",
    "unchecked_cells",
    "write_missing",
]
