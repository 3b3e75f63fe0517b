"""make_corpus: a synthetic long-tailed corpus with complete labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.text import inverse_document_frequency, weigh_terms
from unmissed.errors import InputError
from unmissed.matrices import LARGEST, assemble

_TOPIC_WORDS = 12  # words of a label's topic
_LABELS_PER_THEME = 15
_SHARED = 0.4  # fraction of a topic's words drawn from the label's theme, which other labels share

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Corpus(NamedTuple):
    """Training and test data sets with complete labels."""

    train: Dataset
    test: Dataset


def make_corpus(
    n_train: int = 10_000,
    n_test: int = 2_500,
    n_labels: int = 500,
    n_features: int = 5_000,
    *,
    labels_per_row: float = 3.0,
    words_per_row: float = 60.0,
    exponent: float = 1.0,
    background: float = 0.5,
    correlation: float = 0.5,
    rng: int | np.random.Generator = 0,
) -> Corpus:
    """Generate documents whose label frequencies follow the power law n_(r) ~ r^-exponent; Y is complete.

    A document draws a theme, then 1 + Poisson labels: each with probability `correlation` from the theme, else from all
    labels, both in proportion to the power law, so that labels are correlated and the law still holds. A fraction
    `background` of its words is drawn from a Zipf distribution over the vocabulary, the others from the topics of its
    labels: twelve words each, some of them shared with the labels of the same theme. Features are L2-normalized TF-IDF,
    fitted on the training documents. Equal seeds give equal corpora. Label 0 is the most frequent one.

    Parameters
    ----------
    n_train, n_test, n_labels, n_features : sizes
    labels_per_row, words_per_row : mean number of draws; a label drawn twice counts once
    exponent : exponent of the power law; 0 makes all labels equally frequent
    background : fraction of words independent of the labels, between 0 and 1
    correlation : probability that a label is drawn from the document's theme, between 0 and 1
    rng : seed or Generator
    """
    _check(n_train, n_test, n_labels, n_features, labels_per_row, words_per_row, exponent, background, correlation)
    rng = np.random.default_rng(rng)
    n = n_train + n_test
    frequency = np.arange(1, n_labels + 1, dtype=np.float64) ** -exponent
    theme_of = rng.integers(0, max(1, n_labels // _LABELS_PER_THEME), n_labels)
    Y = _draw_labels(rng, n, frequency, theme_of, labels_per_row, correlation)
    topics = _draw_topics(rng, theme_of, n_features)
    counts = _draw_words(rng, Y, topics, n_features, words_per_row, background)
    idf = inverse_document_frequency(counts[:n_train])
    label_names = [f"label{label}" for label in range(n_labels)]
    feature_names = [f"word{word}" for word in range(n_features)]
    train, test = (
        Dataset(weigh_terms(counts[rows], idf), Y[rows], label_names=label_names, feature_names=feature_names)
        for rows in (slice(0, n_train), slice(n_train, n))
    )
    return Corpus(train, test)


def _draw_labels(
    rng: np.random.Generator, n: int, frequency: Floats, theme_of: Ints, labels_per_row: float, correlation: float
) -> sparse.csr_matrix:
    """Return Y: labels drawn in proportion to `frequency`, a fraction `correlation` within the theme of the row."""
    order = np.argsort(theme_of, kind="stable")  # groups labels by theme
    edges = np.concatenate(([0.0], np.cumsum(frequency[order])))
    bounds = np.searchsorted(theme_of[order], np.arange(theme_of.max() + 2))
    low, high = edges[bounds[:-1]], edges[bounds[1:]]
    theme = np.searchsorted(high, rng.random(n) * edges[-1], side="right").clip(max=high.size - 1)
    rows = np.repeat(np.arange(n), 1 + rng.poisson(labels_per_row - 1, n))
    inside = rng.random(rows.size) < correlation
    begin = np.where(inside, low[theme[rows]], 0.0)
    width = np.where(inside, high[theme[rows]], edges[-1]) - begin
    drawn = np.searchsorted(edges, begin + rng.random(rows.size) * width, side="right") - 1
    return _tally(rows, order[drawn.clip(0, order.size - 1)], (n, order.size), at_most_one=True)


def _draw_topics(rng: np.random.Generator, theme_of: Ints, n_features: int) -> Ints:
    """Return the topic words of each label, shape (n_labels, _TOPIC_WORDS)."""
    shape = (theme_of.size, _TOPIC_WORDS)
    own = rng.integers(0, n_features, shape)
    pool = rng.integers(0, n_features, (int(theme_of.max()) + 1, 2 * _TOPIC_WORDS))
    shared = pool[theme_of[:, None], rng.integers(0, 2 * _TOPIC_WORDS, shape)]
    return np.where(rng.random(shape) < _SHARED, shared, own)


def _draw_words(
    rng: np.random.Generator,
    Y: sparse.csr_matrix,
    topics: Ints,
    n_features: int,
    words_per_row: float,
    background: float,
) -> sparse.csr_matrix:
    """Return word counts per row: words come from the topics of the row's labels, or from the background."""
    n = Y.shape[0]
    rows = np.repeat(np.arange(n), 1 + rng.poisson(words_per_row * rng.gamma(4.0, 0.25, n)))
    zipf = np.cumsum(1.0 / np.arange(2, n_features + 2))
    shuffled = rng.permutation(n_features)  # decouples a word's frequency from its index
    noise = shuffled[np.searchsorted(zipf, rng.random(rows.size) * zipf[-1], side="right").clip(max=n_features - 1)]
    n_own = np.diff(Y.indptr)[rows]
    label = Y.indices[Y.indptr[rows] + (rng.random(rows.size) * n_own).astype(np.int64)]
    preference = np.cumsum(1.0 / np.arange(1, _TOPIC_WORDS + 1))
    choice = np.searchsorted(preference, rng.random(rows.size) * preference[-1], side="right").clip(
        max=_TOPIC_WORDS - 1
    )
    word = np.where(rng.random(rows.size) < background, noise, topics[label, choice])
    return _tally(rows, word, (n, n_features), at_most_one=False)


def _tally(rows: Ints, columns: Ints, shape: tuple[int, int], *, at_most_one: bool) -> sparse.csr_matrix:
    """Return the counts of columns per row as a CSR matrix, or their indicators with `at_most_one`."""
    cells, counts = np.unique(rows * shape[1] + columns, return_counts=True)
    pointers = np.concatenate(([0], np.cumsum(np.bincount(cells // shape[1], minlength=shape[0]))))
    values = np.ones(cells.size, np.float32) if at_most_one else counts.astype(np.float32)
    return assemble(values, (cells % shape[1]).astype(np.int32), pointers, shape)


def _check(
    n_train: int,
    n_test: int,
    n_labels: int,
    n_features: int,
    labels_per_row: float,
    words_per_row: float,
    exponent: float,
    background: float,
    correlation: float,
) -> None:
    for name, size, least in (
        ("n_train", n_train, 1),
        ("n_test", n_test, 0),
        ("n_labels", n_labels, 1),
        ("n_features", n_features, 1),
        ("labels_per_row", labels_per_row, 1),
        ("words_per_row", words_per_row, 0),
        ("exponent", exponent, 0),
    ):
        if not size >= least:
            raise InputError(f"{name} is {size}; expected at least {least}")
    for name, size in (("n_train", n_train), ("n_test", n_test), ("n_labels", n_labels), ("n_features", n_features)):
        if size > LARGEST:
            raise InputError(f"{name} is {size}; expected at most {LARGEST}")
    for name, mean in (("labels_per_row", labels_per_row), ("words_per_row", words_per_row)):
        if not mean * (n_train + n_test) <= LARGEST:
            raise InputError(
                f"{name} is {mean:g}, for {n_train + n_test} rows; at most {LARGEST} can be drawn in total"
            )
    for name, share in (("background", background), ("correlation", correlation)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} is {share}; expected between 0 and 1")
