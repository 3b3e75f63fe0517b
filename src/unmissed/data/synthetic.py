"""make_corpus and make_recommendations: synthetic long-tailed data sets with complete labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.data.dataset import Dataset
from unmissed.data.term_weights import inverse_document_frequency, weigh_terms
from unmissed.errors import InputError
from unmissed.matrices import LARGEST, assemble

_TOPIC_WORDS = 12  # words of a label's topic
_LABELS_PER_THEME = 15
_SHARED = 0.4  # fraction of a topic's words drawn from the label's theme, which other labels share
_TASTE_SPREAD = 3.0  # standard deviation of the log-odds that an item belongs to a taste
_TASTES_PER_USER = 1.0  # total of the Dirichlet parameters; small values give users of a single taste
_USERS_AT_A_TIME = 2**14

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
    _check_sizes(
        {"n_train": (n_train, 1), "n_test": (n_test, 0), "n_labels": (n_labels, 1), "n_features": (n_features, 1)}
    )
    _check_draws(n_train + n_test, {"labels_per_row": (labels_per_row, 1), "words_per_row": (words_per_row, 0)})
    _check_exponent(exponent)
    for name, share in (("background", background), ("correlation", correlation)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} is {share}; expected between 0 and 1")
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


def make_recommendations(
    n_train: int = 10_000,
    n_test: int = 2_500,
    n_items: int = 5_000,
    *,
    items_per_row: float = 28.0,
    labels_per_row: float = 3.0,
    exponent: float = 0.7,
    n_tastes: int = 32,
    rng: int | np.random.Generator = 0,
) -> Corpus:
    """Generate users with the items of their history (binary X) and the items that come next (Y).

    Items are labels and features: column j of X and column j of Y are the same item, and no item is in both for one
    user. A user draws items from P = Theta Phi, a matrix of rank `n_tastes`. A row of Phi is a taste, a distribution
    over items; a row of Theta is drawn from a Dirichlet distribution and says how much a user has of each taste. Over
    all users an item is drawn in proportion to its popularity (rank r: r^-exponent), whatever the tastes. A history has
    1 + Poisson draws, whose mean differs between users; an item drawn again counts once. A user whose next items are
    all in the history has no label. Equal seeds give equal data. Item 0 is the most popular one.

    Parameters
    ----------
    n_train, n_test, n_items : sizes
    items_per_row, labels_per_row : mean number of draws for the history and for the next items
    exponent : exponent of the power law of popularity; 0 makes all items equally popular
    n_tastes : rank of P; more tastes make items harder to predict
    rng : seed or Generator
    """
    _check_sizes({"n_train": (n_train, 1), "n_test": (n_test, 0), "n_items": (n_items, 1), "n_tastes": (n_tastes, 1)})
    _check_draws(n_train + n_test, {"items_per_row": (items_per_row, 1), "labels_per_row": (labels_per_row, 1)})
    _check_exponent(exponent)
    if n_tastes * n_items > LARGEST:
        raise InputError(f"n_tastes is {n_tastes}, for {n_items} items; their product can be at most {LARGEST}")
    rng = np.random.default_rng(rng)
    tastes = _draw_tastes(rng, n_items, n_tastes, exponent)
    n = n_train + n_test
    parts = [
        _draw_users(rng, min(_USERS_AT_A_TIME, n - begin), tastes, items_per_row, labels_per_row)
        for begin in range(0, n, _USERS_AT_A_TIME)
    ]
    X, Y = (sparse.csr_matrix(sparse.vstack(part)) for part in zip(*parts, strict=True))
    names = [f"item{item}" for item in range(n_items)]
    train, test = (
        Dataset(X[rows], Y[rows], label_names=names, feature_names=names)
        for rows in (slice(0, n_train), slice(n_train, n))
    )
    return Corpus(train, test)


class _Tastes(NamedTuple):
    """Cumulative distributions over items, (n_tastes, n_items), and the fraction of all draws that each taste has."""

    edges: Floats
    share: Floats


def _draw_tastes(rng: np.random.Generator, n_items: int, n_tastes: int, exponent: float) -> _Tastes:
    """Return tastes: each item is divided among them at random, so that their mixture is the power law."""
    popularity = np.arange(1, n_items + 1, dtype=np.float64) ** -exponent
    weights = np.exp(_TASTE_SPREAD * rng.standard_normal((n_tastes, n_items)))
    edges = np.cumsum(weights * (popularity / weights.sum(axis=0)), axis=1)
    share = edges[:, -1] / edges[:, -1].sum()
    return _Tastes(edges / edges[:, -1:], share)


def _draw_users(
    rng: np.random.Generator, n: int, tastes: _Tastes, items_per_row: float, labels_per_row: float
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Return X and Y of n users: the items of the history, and the items that are drawn after it only."""
    n_items = tastes.edges.shape[1]
    n_history = 1 + rng.poisson((items_per_row - 1) * rng.gamma(4.0, 0.25, n))
    n_drawn = n_history + 1 + rng.poisson(labels_per_row - 1, n)
    user = np.repeat(np.arange(n), n_drawn)
    mixture = np.cumsum(rng.dirichlet(_TASTES_PER_USER * tastes.share, n), axis=1)
    taste = _draw_columns(rng, mixture, user)
    item = _draw_columns(rng, tastes.edges, taste)
    cells, first = np.unique(user * n_items + item, return_index=True)
    user = cells // n_items
    in_history = first - (np.cumsum(n_drawn) - n_drawn)[user] < n_history[user]
    X, Y = (
        _tally(user[chosen], cells[chosen] % n_items, (n, n_items), at_most_one=True)
        for chosen in (in_history, ~in_history)
    )
    return X, Y


def _draw_columns(rng: np.random.Generator, edges: Floats, rows: Ints) -> Ints:
    """Return a column for each of the given rows of cumulative distributions, (n_rows, n_columns)."""
    n_rows, n_columns = edges.shape
    ascending = (edges + np.arange(n_rows)[:, None]).ravel()
    drawn = np.searchsorted(ascending, rows + rng.random(rows.size), side="right") - rows * n_columns
    return np.asarray(drawn.clip(0, n_columns - 1))


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


def _check_sizes(sizes: dict[str, tuple[int, int]]) -> None:
    """Raise if a size, given with its minimum, is out of range."""
    for name, (size, least) in sizes.items():
        if not size >= least:
            raise InputError(f"{name} is {size}; expected at least {least}")
        if size > LARGEST:
            raise InputError(f"{name} is {size}; expected at most {LARGEST}")


def _check_draws(n: int, means: dict[str, tuple[float, int]]) -> None:
    """Raise if a mean number of draws per row, given with its minimum, is out of range."""
    for name, (mean, least) in means.items():
        if not mean >= least:
            raise InputError(f"{name} is {mean}; expected at least {least}")
        if not mean * n <= LARGEST:
            raise InputError(f"{name} is {mean:g}, for {n} rows; at most {LARGEST} can be drawn in total")


def _check_exponent(exponent: float) -> None:
    if not exponent >= 0:
        raise InputError(f"exponent is {exponent}; expected at least 0")
