"""A model whose figures are known: it finds as many head and tail labels as its parameters say."""

from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from unmissed.execution import Piece
from unmissed.models import Model
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking

HEAD, N_LABELS = 4, 40


class Guesser(Model):
    """Knows the two labels of a row by its two features, but lists only some of them.

    It lists the first label of a fraction `head` of the rows with a head label, and of a fraction `tail` of the others,
    and the second label of a fraction `second` of all rows.
    """

    baseline_params: ClassVar = {"tail": 0.5}
    n_fitted = 0

    def __init__(self, *, head: float = 1.0, tail: float = 0.5, second: float = 0.5, step: float = 1.0) -> None:
        self.head, self.tail, self.second, self.step = head, tail, second, step

    def _fit(self, rows, work):
        type(self).n_fitted += 1
        work.pieces.put(Piece("nothing"))

    def _open(self, pieces):
        pass

    def _rank(self, X, k):
        first, second = X.indices.reshape(-1, 2).T
        at = np.arange(len(first)) % 10
        lucky = at < 10 * np.where(first < HEAD, self.head, self.tail)
        labels = np.full((len(first), k), -1, np.int32)
        labels[:, 0] = np.where(lucky, first, (first + 1) % HEAD)  # a wrong label
        if k > 1:
            labels[:, 1] = np.where(at < 10 * self.second, second, N_LABELS + (second + 1) % N_LABELS)
        return Ranking(labels, np.where(labels < 0, -np.inf, -np.arange(k)).astype(np.float32))


def rows_of_two_labels(n=3000):
    """Half of the rows have a head label first; the second label is one of as many others."""
    rng = np.random.default_rng(0)
    first = np.where(rng.random(n) < 0.5, rng.integers(0, HEAD, n), rng.integers(HEAD, N_LABELS, n))
    second = rng.integers(N_LABELS, 2 * N_LABELS, n)
    indices = np.stack([first, second], axis=1).ravel()
    both = sp.csr_matrix((np.ones(2 * n, np.float32), indices, 2 * np.arange(n + 1)), shape=(n, 2 * N_LABELS))
    return TrainingData.check(both, both)
