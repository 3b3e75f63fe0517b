"""Block coordinate ascent: compiled sweeps over rows that give each row its k best labels, the other rows fixed.

The counts of a label are expected ones over all rows. A row's gain of a label does not depend on its other labels, so
the k labels with the highest gains are the exact maximum over the sets of one row, and the objective never falls.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel
from unmissed.numerics.topk import put

Array = npt.NDArray[Any]


@kernel()
def sweep_macro_f1(
    labels: Array, p: Array, order: Array, k: int, positives: Array, true: Array, listed: Array, chosen: Array
) -> None:
    """Update the chosen labels of each row in turn, for the sum over labels of 2 true / (listed + positives).

    Parameters
    ----------
    labels, p, chosen : arrays of shape (n_samples, m); -1 pads labels
    order : rows in the order of their updates
    positives, true, listed : expected counts per label: positives, positives among the rows that get it, rows that get
        it; the last two change
    """
    best, gains = np.empty(k, dtype=np.int64), np.empty(k)
    for row in order:
        best[:] = -1
        for position in range(labels.shape[1]):
            label, probability = labels[row, position], p[row, position]
            if label < 0:
                continue
            if chosen[row, position]:
                chosen[row, position] = False
                true[label] -= probability
                listed[label] -= 1.0
            both = listed[label] + positives[label]
            before = true[label] / both if both > 0.0 else 0.0
            put(best, gains, position, (true[label] + probability) / (both + 1.0) - before)
        for taken in best:
            if taken >= 0:
                chosen[row, taken] = True
                true[labels[row, taken]] += p[row, taken]
                listed[labels[row, taken]] += 1.0


@kernel()
def sweep_coverage(
    labels: Array, p: Array, log_misses: Array, order: Array, k: int, missed: Array, chosen: Array
) -> None:
    """Update the chosen labels of each row in turn, for the expected number of labels that are hit at least once.

    Parameters
    ----------
    labels, p, chosen : arrays of shape (n_samples, m); -1 pads labels
    log_misses : log(1 - p)
    order : rows in the order of their updates
    missed : per label the sum of `log_misses` over the rows that get it; it changes
    """
    best, gains = np.empty(k, dtype=np.int64), np.empty(k)
    for row in order:
        best[:] = -1
        for position in range(labels.shape[1]):
            label = labels[row, position]
            if label < 0:
                continue
            if chosen[row, position]:
                chosen[row, position] = False
                missed[label] -= log_misses[row, position]
            put(best, gains, position, p[row, position] * np.exp(min(missed[label], 0.0)))
        for taken in best:
            if taken >= 0:
                chosen[row, taken] = True
                missed[labels[row, taken]] += log_misses[row, taken]
