"""Small random rankings and truths, drawn by hypothesis."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from unmissed.metrics import Conventions
from unmissed.ranking import Ranking

conventions = st.builds(
    Conventions,
    variant=st.sampled_from(["pyxclib", "dismecpp", "row-ratios", "fastxml", "raw"]),
    rerank=st.booleans(),
    empty_rows=st.sampled_from(["keep", "drop"]),
    unseen_labels=st.sampled_from(["keep", "drop"]),
    filtered=st.sampled_from(["ranking", "both"]),
    macro=st.sampled_from(["true", "all"]),
    empty_ndcg=st.sampled_from(["zero", "one"]),
)


@dataclass
class Case:
    ranking: Ranking
    Y: sp.csr_matrix
    inverse: np.ndarray
    train_counts: np.ndarray
    filtered: np.ndarray

    @property
    def truths(self):
        return [set(row.indices.tolist()) for row in self.Y]


@st.composite
def cases(draw, least_rows=1):
    """Draw rankings of depth 6 with empty places and ties, rows without labels, rows with more labels than k."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, n_labels = draw(st.integers(least_rows, 12)), draw(st.integers(1, 30))
    density = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9]))
    Y = sp.csr_matrix((rng.random((rows, n_labels)) < density).astype(np.float32))
    labels = np.full((rows, 6), -1, dtype=np.int32)
    for row in labels:
        size = min(6, n_labels, int(rng.integers(0, 8)))
        row[:size] = rng.permutation(n_labels)[:size]
    scores = rng.integers(-3, 4, size=labels.shape).astype(np.float32)  # many ties
    inverse = 1 + rng.integers(0, 5, size=n_labels) * rng.choice([0.25, 1.0])
    train_counts = rng.integers(0, 4, size=n_labels)
    pairs = np.stack([rng.integers(0, rows, 8), rng.integers(0, n_labels, 8)], axis=1)
    return Case(Ranking.sort(labels, scores), Y, inverse, train_counts, pairs[: int(rng.integers(0, 9))])


def corpus(n_samples=400, n_labels=50, seed=0, per_row=4, skill=0.5):
    """Return one fixed ranking with a long tail of labels, for statistics."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, n_labels + 1)
    keys = np.log(rng.random((n_samples, n_labels))) / weight  # the largest keys are a draw without replacement
    true = np.argsort(-keys, axis=1)[:, :per_row]
    rows = np.repeat(np.arange(n_samples), per_row)
    Y = sp.csr_matrix((np.ones(rows.size, dtype=np.float32), (rows, true.ravel())), shape=(n_samples, n_labels))
    scores = rng.random((n_samples, n_labels)) + skill * Y.toarray()
    listed = np.argsort(-scores, axis=1)[:, :6]
    return Ranking.sort(listed, np.take_along_axis(scores, listed, 1)), Y
