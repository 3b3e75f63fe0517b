"""make_corpus and make_recommendations: a long tail whose complete truth is known."""

import numpy as np
import pytest

from unmissed.data import make_corpus, make_recommendations, synthetic
from unmissed.data.statistics import fit_power_law
from unmissed.errors import InputError


def test_one_seed_is_one_corpus_and_another_another():
    one, same, other = (make_corpus(200, 50, 30, 300, rng=seed) for seed in (7, np.random.default_rng(7), 8))
    assert one.train.digest == same.train.digest
    assert one.test.digest == same.test.digest
    assert one.train.digest != other.train.digest


def test_sizes_are_as_given_and_every_row_has_labels_and_unit_norm():
    train, test = make_corpus(300, 100, 40, 500, rng=0)
    assert train.X.shape == (300, 500)
    assert test.Y.shape == (100, 40)
    for dataset in (train, test):
        dataset.X.check_format(full_check=True)
        assert dataset.Y.sum(axis=1).min() >= 1
        np.testing.assert_allclose(dataset.X.multiply(dataset.X).sum(axis=1), 1, rtol=1e-5)
        assert dataset.label_names is not None
        assert dataset.label_names[3] == "label3"


@pytest.mark.parametrize("exponent", [0.6, 1.0])
def test_label_frequencies_follow_the_power_law(exponent):
    counts = make_corpus(20_000, 0, 300, 500, exponent=exponent, words_per_row=1, rng=1).train.label_counts
    law = fit_power_law(counts)
    assert law is not None
    assert abs(law.exponent - exponent) < 0.12  # a label drawn twice counts once, which flattens the head
    assert law.r_squared > 0.95
    assert np.corrcoef(np.arange(300), counts.argsort()[::-1])[0, 1] > 0.95  # label 0 is the most frequent


def test_labels_of_a_theme_go_together_only_with_correlation():
    def excess(correlation: float) -> float:
        """The most a pair of frequent labels occurs together, over what independence would give."""
        Y = make_corpus(5_000, 0, 60, 100, correlation=correlation, exponent=0.3, words_per_row=1, rng=2).train.Y
        together = (Y.T @ Y).toarray()
        counts = together.diagonal().copy()
        np.fill_diagonal(together, 0)
        return float((together / (np.outer(counts, counts) / 5_000)).max())

    assert excess(0.9) > 2 * excess(0.0)


def test_words_tell_labels():
    """The mean of the rows of a label lies nearer to its own test rows than to others."""
    train, test = make_corpus(2_000, 500, 20, 1_000, rng=3)
    centers = (train.Y.T @ train.X).toarray() / np.maximum(train.label_counts, 1)[:, None]
    scores = test.X @ (centers - centers.mean(axis=0)).T
    best = scores.argmax(axis=1)
    hits = test.Y.toarray()[np.arange(500), best].mean()
    assert hits > 2 * test.Y.mean()


def test_a_corpus_of_twenty_thousand_documents_takes_no_time():
    train, test = make_corpus(15_000, 5_000, 1_000, 5_000)
    assert train.n_samples + test.n_samples == 20_000


@pytest.mark.parametrize(
    "options",
    [
        {"n_train": 0},
        {"n_labels": 0},
        {"n_features": 0},
        {"labels_per_row": 0.5},
        {"exponent": -1},
        {"exponent": float("nan")},
        {"background": 1.5},
        {"correlation": -0.1},
    ],
)
def test_impossible_sizes_are_refused_by_name(options):
    with pytest.raises(InputError, match=next(iter(options))):
        make_corpus(**options)


def test_the_smallest_corpus_works():
    train, test = make_corpus(1, 0, 1, 1, rng=0)
    assert train.Y.toarray().tolist() == [[1]]
    assert test.n_samples == 0


@pytest.mark.parametrize(
    "options", [{"labels_per_row": 1e308}, {"words_per_row": np.inf}, {"n_train": 10**30}, {"n_features": 2**31}]
)
def test_sizes_that_nothing_can_hold_are_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} is .* at most"):
        make_corpus(**options)


def test_one_seed_is_one_set_of_users_and_another_another():
    one, same, other = (make_recommendations(60, 20, 30, rng=seed) for seed in (7, np.random.default_rng(7), 8))
    assert (one.train.digest, one.test.digest) == (same.train.digest, same.test.digest)
    assert one.train.digest != other.train.digest


def test_items_are_features_and_labels_and_no_user_has_an_item_in_both():
    train, test = make_recommendations(700, 50, 900, items_per_row=20, labels_per_row=4, rng=0)
    for dataset, n_rows in ((train, 700), (test, 50)):
        dataset.X.check_format(full_check=True)
        assert dataset.X.shape == dataset.Y.shape == (n_rows, 900)
        assert dataset.label_names == dataset.feature_names
        assert (dataset.X.data == 1).all()
        assert dataset.X.multiply(dataset.Y).nnz == 0
        assert dataset.X.sum(axis=1).min() >= 1
    assert 14 < train.X.sum(axis=1).mean() <= 20  # an item drawn again counts once
    assert 2.5 < train.Y.sum(axis=1).mean() <= 4


@pytest.mark.parametrize("exponent", [0.0, 0.8])
def test_popularity_follows_the_power_law_whatever_the_tastes(exponent):
    X = make_recommendations(40_000, 0, 50, items_per_row=1, exponent=exponent, n_tastes=6, rng=1).train.X
    expected = np.arange(1, 51) ** -exponent
    expected *= 40_000 / expected.sum()
    assert np.abs(X.sum(axis=0).A1 - expected).max() < 5 * np.sqrt(expected.max())


def test_the_history_tells_the_next_items_unless_all_users_have_the_same_taste():
    def mean_quantile(n_tastes):
        """The mean quantile of a user's next items among all items that are not in the history."""
        words = {"items_per_row": 12, "exponent": 0, "n_tastes": n_tastes, "rng": 2}
        train, test = make_recommendations(3_000, 500, 100, **words)
        scores = test.X @ (train.X.T @ train.Y).toarray() / (1.0 + train.label_counts)
        scores[test.X.nonzero()] = -np.inf
        n_history = np.diff(test.X.indptr)[:, None]
        quantiles = (scores.argsort(axis=1).argsort(axis=1) - n_history) / (99 - n_history)
        return quantiles[test.Y.nonzero()].mean()

    assert abs(mean_quantile(1) - 0.5) < 0.03
    assert mean_quantile(8) > 0.65


def test_users_are_drawn_in_blocks(monkeypatch):
    monkeypatch.setattr(synthetic, "_USERS_AT_A_TIME", 16)
    train, test = make_recommendations(30, 9, 40, rng=3)
    assert (train.n_samples, test.n_samples) == (30, 9)
    assert len({tuple(row.indices) for row in train.X}) > 16


@pytest.mark.parametrize(
    "options",
    [
        {"n_items": 0},
        {"n_tastes": 0},
        {"items_per_row": 0.5},
        {"labels_per_row": np.inf},
        {"exponent": -1},
        {"n_tastes": 2**20, "n_items": 2**20},
    ],
)
def test_impossible_users_and_items_are_refused_by_name(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} is"):
        make_recommendations(**options)
