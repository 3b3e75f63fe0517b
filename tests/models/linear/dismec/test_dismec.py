"""DiSMEC and PW-DiSMEC behave like scikit-learn estimators, on any form of input, and rank exactly."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import normalize

from tests.models.linear.problems import make_problem
from unmissed.data import make_corpus
from unmissed.errors import InputError
from unmissed.execution import InMemory, Work
from unmissed.features import scale_rows
from unmissed.matrices import check_X
from unmissed.models import DiSMEC, PWDiSMEC, UncertifiedWarning
from unmissed.models.linear.ranking import exact_scores
from unmissed.models.linear.ranking.top_labels import TopLabels
from unmissed.models.untrained import drop_untrained
from unmissed.propensity import Constant, FromTable, Jain
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS


@pytest.fixture(scope="module")
def problem():
    return make_problem(20, n_samples=150, n_features=40, n_labels=20)


@pytest.fixture(scope="module")
def fitted(problem):
    return DiSMEC(block_size=8, n_jobs=1).fit(*problem)


def naive_ranking(model, X, k):
    scores = model.decision_function(X, np.arange(model.n_labels_))
    every = np.broadcast_to(np.arange(model.n_labels_), scores.shape)
    return Ranking.sort(every, scores).top(k)


def same(a, b):
    return all(
        np.array_equal(getattr(x, name), getattr(y, name))
        for x, y in zip(a.shards_, b.shards_, strict=True)
        for name in x.arrays
    )


@pytest.fixture(params=["straight from the shards", "over dense tiles"])
def scoring(request, monkeypatch):
    """Both ways to score rows, whatever their number."""
    for name in ("direct_rows", "prepare_rows"):
        monkeypatch.setattr(SETTINGS, name, 10**9 if request.param == "straight from the shards" else 0)


def naive_scores(model, X):
    """Score label by label and product by product, in float32, in rising order of feature."""
    X = scale_rows(X)
    scores = np.concatenate([np.tile(shard.bias, (X.shape[0], 1)) for shard in model.shards_], axis=1)
    for shard in model.shards_:
        for label in range(shard.n_labels):
            weights = dict(zip(*(part.tolist() for part in shard.of_label(label)), strict=True))
            for row in range(X.shape[0]):
                line = X[row]
                for feature, value in sorted(zip(line.indices.tolist(), line.data.tolist(), strict=True)):
                    product = np.float32(value) * np.float32(weights.get(feature, 0.0))
                    scores[row, shard.first + label] += product
    return scores


@pytest.mark.kernel
def test_both_implementations_of_scoring_give_the_same_bits(fitted, problem, scoring):
    X = problem[0][:25]
    assert np.array_equal(fitted.decision_function(X, np.arange(20)), naive_scores(fitted, X))


@pytest.mark.parametrize("rows", [1, 17, 150])
def test_rank_equals_sorting_all_scores(fitted, problem, rows, scoring):
    X = problem[0][:rows]
    ranking, expected = fitted.rank(X, 7), naive_ranking(fitted, X, 7)
    assert np.array_equal(ranking.labels, expected.labels)
    assert np.array_equal(ranking.scores, expected.scores)


def test_a_k_above_the_number_of_labels_is_padded(fitted, problem, scoring):
    for rows in (3, 40):
        ranking = fitted.rank(problem[0][:rows], 25)
        assert (ranking.labels[:, 20:] == -1).all()
        assert (np.sort(ranking.labels[:, :20], axis=1) == np.arange(20)).all()


def test_predict_returns_the_labels_with_scores_at_or_above_the_threshold(fitted, problem, scoring):
    X = problem[0]
    scores = fitted.decision_function(X, np.arange(20))
    assert np.array_equal(fitted.predict(X, threshold=-0.3).toarray(), scores >= -0.3)
    assert fitted.predict(X, threshold=1e9).nnz == 0
    least = float(scores.min())
    assert fitted.predict(X, threshold=least).nnz == scores.size, "a score equal to the threshold counts"


@pytest.mark.parametrize(
    "convert",
    [
        sp.csr_matrix,
        sp.csc_matrix,
        sp.csr_array,
        sp.coo_array,
        lambda Y: Y.toarray(),
        lambda Y: Y.toarray().astype(bool),
        lambda Y: Y.astype(np.int64),
        lambda Y: Y.toarray().tolist(),
    ],
)
def test_any_form_of_labels_gives_the_same_model(fitted, problem, convert):
    X, Y = problem
    assert same(fitted, DiSMEC(block_size=8, n_jobs=1).fit(X, convert(Y)))


def test_any_form_of_rows_gives_the_same_model(fitted, problem):
    X, Y = problem
    for form in (sp.csc_matrix(X), sp.csr_array(X), X.astype(np.float64)):
        assert same(fitted, DiSMEC(block_size=8, n_jobs=1).fit(form, Y))
    dense = DiSMEC(block_size=8, n_jobs=1, prune=0.0, tol=1e-6).fit(X.toarray(), Y)  # solved as dense features
    again = DiSMEC(block_size=8, n_jobs=1, prune=0.0, tol=1e-6).fit(X, Y)
    np.testing.assert_allclose(dense.decision_function(X), again.decision_function(X), atol=2e-2)


def test_read_only_inputs_are_accepted_and_not_changed(fitted, problem, scoring):
    X, Y = problem[0].copy(), problem[1].copy()
    for matrix in (X, Y):
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.flags.writeable = False
    model = DiSMEC(block_size=8, n_jobs=1).fit(X, Y)
    assert same(fitted, model)
    for rows in (2, 60):
        assert np.array_equal(model.rank(X[:rows], 3).labels, fitted.rank(problem[0][:rows], 3).labels)


def test_unsorted_duplicated_entries_are_summed_without_touching_the_input():
    rows = sp.csr_matrix(
        (np.array([1.0, 2.0, 3.0], np.float32), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3)
    )
    before = rows.indices.copy()
    Y = np.array([[1], [0]])
    messy = DiSMEC(n_jobs=1).fit(rows, Y)
    clean = DiSMEC(n_jobs=1).fit(sp.csr_matrix(np.array([[2.0, 0.0, 4.0], [0, 0, 0]])), Y)
    assert same(messy, clean)
    assert np.array_equal(rows.indices, before)


def test_threads_and_blocks_do_not_change_the_bits(problem):
    X, Y = problem
    one = PWDiSMEC(block_size=3, n_jobs=1).fit(X, Y)
    two = PWDiSMEC(block_size=3, n_jobs=3).fit(X, Y)
    assert same(one, two)
    assert np.array_equal(one.rank(X, 4).scores, two.rank(X, 4).scores)


def test_weighting_none_and_propensity_one_equal_dismec(problem):
    X, Y = problem
    unweighted = DiSMEC(n_jobs=1).fit(X, Y)
    assert same(unweighted, PWDiSMEC(weighting="none", n_jobs=1).fit(X, Y))
    assert same(unweighted, PWDiSMEC(weighting="surrogate", propensity=Constant(1.0), n_jobs=1).fit(X, Y))


def test_propensity_costs_raise_the_scores_of_rare_labels(problem):
    X, Y = problem
    counts = np.asarray(Y.sum(axis=0)).ravel()
    rare = np.argsort(counts)[:5]
    unweighted = DiSMEC(n_jobs=1).fit(X, Y).decision_function(X, rare)
    weighted = PWDiSMEC(weighting="surrogate", propensity=Jain(), n_jobs=1).fit(X, Y).decision_function(X, rare)
    positive = Y[:, rare].toarray() > 0
    assert weighted[positive].mean() > unweighted[positive].mean()


def test_normalize_equals_rows_normalized_beforehand(problem):
    X, Y = problem
    scaled = normalize(X.astype(np.float64)).astype(np.float32)
    exact = {"tol": 1e-6, "n_jobs": 1}  # rows are rounded differently, so only the optimum is the same
    inside, before = DiSMEC(**exact).fit(10 * X, Y), DiSMEC(**exact, normalize=False).fit(scaled, Y)
    for rows in (5, 150):
        assert inside.rank(3 * X[:rows], 5).scores == pytest.approx(before.rank(scaled[:rows], 5).scores, abs=1e-3)
    empty = inside.decision_function(sp.csr_matrix((1, X.shape[1])), [0])
    assert np.isfinite(empty).all(), "an empty row has no length to divide by"


def test_finished_blocks_are_not_trained_again(problem):
    X, Y = problem
    pieces = InMemory()
    full = DiSMEC(block_size=5, n_jobs=1).fit(X, Y, work=Work(pieces))
    kept = pieces.get("labels/00000005")
    pieces.drop("labels/00000010")
    seen = []
    work = Work(pieces, progress=lambda done, total: seen.append((done, total)))
    again = DiSMEC(block_size=5, n_jobs=1).fit(X, Y, work=work)
    assert again.shards_[1].weights is kept.arrays["weights"]
    assert same(full, again)
    assert seen == [(15, 20), (20, 20)], "progress begins with what was there"


def test_new_labels_join_without_touching_the_old_ones(problem):
    X, Y = problem
    full = DiSMEC(block_size=8, n_jobs=1).fit(X, Y)
    model = DiSMEC(block_size=8, n_jobs=1).fit(X, Y[:, :16])
    old = [shard.weights for shard in model.shards_]
    model.fit_labels(X, Y[:, 16:])
    assert all(before is after.weights for before, after in zip(old, model.shards_[:2], strict=True))
    assert model.n_labels_ == 20
    assert same(full, model), "the same bits as if all labels had been there at once"


def test_parameters_survive_clone_and_fit(problem):
    model = PWDiSMEC(C=0.5, weighting="surrogate", propensity=Jain(0.6, 2.6), fit_bias="free", n_jobs=1)
    before = dict(model.get_params())
    assert clone(model).get_params() == before
    model.fit(*problem)
    assert model.get_params() == before


def test_new_labels_cannot_take_the_propensities_of_old_ones(problem):
    X, Y = problem
    model = PWDiSMEC(propensity=FromTable(np.full(10, 0.5)), n_jobs=1).fit(X, Y[:, :10])
    with pytest.raises(InputError, match="no entry for new labels"):
        model.fit_labels(X, Y[:, 10:])


def test_pieces_of_another_block_size_are_refused(problem):
    pieces = InMemory()
    DiSMEC(block_size=10, n_jobs=1).fit(*problem, work=Work(pieces))
    with pytest.raises(InputError, match="another block_size"):
        DiSMEC(block_size=5, n_jobs=1).fit(*problem, work=Work(pieces))


def test_one_row_one_label_and_no_label_at_all():
    model = DiSMEC(n_jobs=1).fit(np.array([[1.0, 0.0]]), np.array([[1]]))
    assert model.rank(np.array([[1.0, 0.0]]), 2).labels.tolist() == [[0, -1]]
    empty = DiSMEC(n_jobs=1).fit(np.array([[1.0], [2.0]]), sp.csr_matrix((2, 0)))
    assert empty.rank(np.ones((30, 1)), 2).labels.tolist() == [[-1, -1]] * 30


def test_labels_that_miss_the_tolerance_are_counted_and_named(problem):
    with pytest.warns(UncertifiedWarning, match=r"\d+ labels missed the relative duality gap 1e-06: \d+, \d+"):
        model = DiSMEC(C=10, tol=1e-6, max_rounds=1, n_jobs=1).fit(*problem)
    assert len(model.uncertified_labels()) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "C must be a number above 0"),
        ({"tol": -1.0}, "tol must be a number, at least 1e-06"),
        ({"tol": 1e-9}, "tol must be a number, at least 1e-06"),
        ({"prune": -0.1}, "prune must be a number, at least 0"),
        ({"fit_bias": "maybe"}, "fit_bias must be True, False or 'free'"),
        ({"block_size": 0}, "block_size"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": -1}, "random_state"),
        ({"weighting": "unbiased"}, "not convex"),
        ({"weighting": "heavy"}, "weighting must be 'none', .* or 'auto'; got 'heavy'"),
    ],
)
def test_bad_parameters_are_refused_with_their_name(problem, change, message):
    with pytest.raises(InputError, match=message):
        PWDiSMEC(**change).fit(*problem)


def test_bad_matrices_are_refused(problem, fitted):
    X, Y = problem
    with pytest.raises(InputError, match="Y has 10 rows, X has 150"):
        DiSMEC().fit(X, Y[:10])
    with pytest.raises(InputError, match="neither 0 nor 1"):
        DiSMEC().fit(X, 2 * Y)
    with pytest.raises(InputError, match="infinite or not a number"):
        DiSMEC().fit(np.array([[np.nan]]), [[1]])
    with pytest.raises(InputError, match="too long for float32"):
        DiSMEC(normalize=False).fit(np.array([[1e20], [1.0]]), [[1], [0]])
    with pytest.raises(InputError, match="two dimensions"):
        DiSMEC().fit(X, np.ones(150))
    with pytest.raises(InputError, match="X has 3 features, the model was fitted on 40"):
        fitted.rank(np.ones((1, 3)))
    with pytest.raises(InputError, match=r"\bk\b"):
        fitted.rank(X, 0)
    for labels in ([20], [[0, 1]], [0.5]):
        with pytest.raises(InputError, match="from 0 to 19"):
            fitted.decision_function(X, labels)
    with pytest.raises(NotFittedError):
        DiSMEC().rank(X)


def test_a_single_row_is_ranked_to_the_same_bits_as_all_rows():
    corpus = make_corpus(200, 40, 60, 300, words_per_row=15, rng=3)
    model = DiSMEC(n_jobs=1, block_size=16).fit(corpus.train.X, corpus.train.Y)
    rows = scale_rows(corpus.test.X)
    for k in (1, 5, 60, 99):
        expected = model.rank(corpus.test.X, k)
        for row in range(rows.shape[0]):
            top = TopLabels.empty(1, k)
            exact_scores.merge(rows[row], model.ranked_shards_, top, 1)
            found = drop_untrained(top.ranking, model.untrained_)
            assert np.array_equal(found.labels[0], expected.labels[row])
            assert np.array_equal(found.scores[0], expected.scores[row])


def test_labels_of_equal_score_stand_in_rising_order():
    X = np.eye(2, 3)
    model = DiSMEC(n_jobs=1).fit(X, np.array([[0, 1, 1, 0], [0, 1, 1, 0]]))
    shard = model.shards_[0]
    alike = replace(shard, weights=np.zeros_like(shard.weights), bias=np.array([0, 1, 0, 0], np.float32))
    top = TopLabels.empty(1, 3)
    exact_scores.merge(check_X(X[:1]), [alike], top, 1)
    assert top.labels[0].tolist() == [1, 0, 2]


def test_paper_is_the_literal_objective_and_refuses_what_contradicts_it():
    model = PWDiSMEC.paper(tol=0.1)
    assert (model.weighting, model.C, model.fit_bias, model.prune, model.tol) == ("tail", 0.5, "free", 0.01, 0.1)
    assert PWDiSMEC.paper(C=0.5).C == 0.5
    with pytest.raises(InputError, match=r"C is 0\.5 in the paper's objective of PWDiSMEC; got 2"):
        PWDiSMEC.paper(C=2)
    with pytest.raises(InputError, match="DiSMEC is not the method of the paper"):
        DiSMEC.paper()
