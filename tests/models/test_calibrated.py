"""A calibrated model: probabilities beside scores, for every method, in memory and as a run."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from tests.models.test_contract import TEST, TRAIN, every_method, quick
from unmissed.calibration import CANDIDATES
from unmissed.errors import InputError
from unmissed.models import DiSMEC, Parabel
from unmissed.models.method_registry import COMPOSITES
from unmissed.runs import open_run


@pytest.fixture(scope="module")
def linear():
    return DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y).calibrate(TRAIN.X, TRAIN.Y)


@every_method
def test_every_method_ranks_with_probabilities_that_rise_with_the_score_of_a_label(method, tmp_path):
    model = quick(method).fit(TRAIN.X, TRAIN.Y)
    if model.uses_label_terms:  # a matrix has no names of labels
        with pytest.raises(InputError, match="the model ranked no labels"):
            model.calibrate(TRAIN.X, TRAIN.Y)
        return
    plain = model.rank(TEST.X, 5)
    found = model.calibrate(TRAIN.X, TRAIN.Y).rank(TEST.X, 5)
    assert plain.probabilities is None
    assert np.array_equal(found.labels, plain.labels)
    assert np.array_equal(found.scores, plain.scores)
    assert found.probabilities is not None
    for label in np.unique(found.labels[found.labels >= 0]):
        order = np.argsort(found.scores[found.labels == label], kind="stable")
        assert (np.diff(found.probabilities[found.labels == label][order]) >= 0).all()
    if method not in COMPOSITES:
        model.save(tmp_path / "run")
        assert np.array_equal(open_run(tmp_path / "run").rank(TEST.X, 5).probabilities, found.probabilities)


def test_probabilities_are_those_of_held_out_rows():
    """On random labels no row says anything: probabilities must be near the frequencies, whatever the margins."""
    rng = np.random.default_rng(0)
    Y = np.zeros((600, 4), np.float32)
    Y[np.arange(600), rng.choice(4, 600, p=[0.4, 0.3, 0.2, 0.1])] = 1
    X = rng.standard_normal((600, 300)).astype(np.float32)
    model = DiSMEC(n_jobs=1, C=10).fit(X, Y).calibrate(X, Y)
    trained = model.rank(X, 4)
    assert (trained.labels[:, 0] == Y.argmax(axis=1)).mean() > 0.9  # the model fits its own rows
    mean = [trained.probabilities[trained.labels == label].mean() for label in range(4)]
    np.testing.assert_allclose(mean, [0.4, 0.3, 0.2, 0.1], atol=0.12)


def test_ranking_by_probability_gives_the_most_probable_candidates(linear):
    by_score, found = linear.rank(TEST.X, CANDIDATES), linear.rank(TEST.X, 3, rank_by="probability")
    expected = -np.sort(-by_score.probabilities, axis=1)[:, :3]
    np.testing.assert_array_equal(found.probabilities, expected)
    np.testing.assert_array_equal(found.scores, found.probabilities)
    candidates = linear.rank(TEST.X, 3, rank_by="probability", candidates=by_score)
    np.testing.assert_array_equal(candidates.labels, found.labels)


def test_predict_proba_of_chosen_labels_and_of_the_best_ones_agree(linear):
    full = linear.predict_proba(TEST.X)
    assert full.shape == TEST.Y.shape
    np.testing.assert_array_equal(linear.predict_proba(TEST.X, [3, 1]), full[:, [3, 1]])
    ranked = linear.rank(TEST.X, 4)
    best = linear.predict_proba(TEST.X, k=4)
    assert best.nnz == (ranked.labels >= 0).sum()
    rows = np.arange(len(full))[:, None]
    np.testing.assert_allclose(best.toarray()[rows, ranked.labels], full[rows, ranked.labels], rtol=1e-4)


def test_labels_without_a_positive_have_probability_0():
    Y = TRAIN.Y.toarray()
    Y[:, 2] = 0
    model = DiSMEC(n_jobs=1).fit(TRAIN.X, Y).calibrate(TRAIN.X, Y)
    assert (model.predict_proba(TEST.X)[:, 2] == 0).all()
    assert not (model.rank(TEST.X, 5, rank_by="probability").labels == 2).any()


def test_a_copy_has_the_calibration_and_a_clone_or_a_new_fit_does_not(linear):
    copy = pickle.loads(pickle.dumps(linear))
    np.testing.assert_array_equal(copy.rank(TEST.X, 2).probabilities, linear.rank(TEST.X, 2).probabilities)
    assert copy.fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 2).probabilities is None
    assert not hasattr(clone(linear), "predict_proba")


def test_added_labels_get_the_probabilities_of_labels_as_frequent(linear):
    copy = pickle.loads(pickle.dumps(linear)).fit_labels(TRAIN.X, TRAIN.Y[:, :1])
    assert copy.calibration_.n_labels == linear.calibration_.n_labels + 1
    np.testing.assert_array_equal(copy.predict_proba(TEST.X, [1]), linear.predict_proba(TEST.X, [1]))
    assert 0 < copy.predict_proba(TEST.X, [copy.n_labels_ - 1]).mean() < 1


def test_bad_calls_say_what_to_do(linear):
    with pytest.raises(InputError, match=r"call calibrate\(X, Y\) first"):
        DiSMEC().fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 2, rank_by="probability")
    with pytest.raises(InputError, match="'score' or 'probability'; got 'name'"):
        linear.rank(TEST.X, 2, rank_by="name")
    with pytest.raises(InputError, match="calibrate with the training rows"):
        linear.calibrate(TEST.X, TEST.Y)
    with pytest.raises(InputError, match="labels or k, not both"):
        linear.predict_proba(TEST.X, [1], k=3)
    trees = Parabel(n_jobs=1).fit(TRAIN.X, TRAIN.Y).calibrate(TRAIN.X, TRAIN.Y)
    with pytest.raises(InputError, match="scores ranked labels only"):
        trees.predict_proba(TEST.X)
    assert trees.predict_proba(TEST.X, k=3).shape == TEST.Y.shape
