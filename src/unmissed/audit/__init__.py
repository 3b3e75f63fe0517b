"""Which labels are probably missing, samples for people to check, and propensities from their answers.

`unchecked_cells.py` has the (row, label) pairs without a label that a calibrated run knows, with the probability that
the label is true all the same. `answers.py`, the answers of people to "does this row have this label?". An audit draws
a sample (`sampling.py`), writes it as a sheet (`sheets.py`) and estimates propensities from the answers
(`audit_estimates.py`, `missing_draws.py`). `duplicates.py` estimates them from rows with the same text.
"""

from unmissed.audit.unchecked_cells import UncheckedCells, missing_probability, unchecked_cells

__all__ = ["UncheckedCells", "missing_probability", "unchecked_cells"]
