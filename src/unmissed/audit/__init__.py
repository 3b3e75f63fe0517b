"""Which labels are probably missing, samples for people to check, and propensities from their answers.

`unchecked_cells.py` has the (row, label) pairs without a label that a calibrated run knows, with the probability that the
label is true all the same. `answers.py`, the answers of people to "does this row have this label?".
"""

from unmissed.audit.unchecked_cells import UncheckedCells, missing_probability, unchecked_cells

__all__ = ["UncheckedCells", "missing_probability", "unchecked_cells"]
