"""FastXML, PfastXML and PfastreXML against reference implementations."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.corpora import small_corpus
from unmissed import FastXML, PfastreXML, PfastXML
from unmissed.errors import InputError
from unmissed.features import scale_rows
from unmissed.models.instance_trees.voting import find_leaf
from unmissed.propensity import Constant, Jain
from unmissed.settings import SETTINGS

TRAIN, TEST = small_corpus()
FOREST = {"n_trees": 3, "C": 4.0, "n_jobs": 1}


@pytest.fixture(scope="module")
def forests():
    """One fitted forest per class."""
    return {cls: cls(**FOREST).fit(TRAIN.X, TRAIN.Y) for cls in (FastXML, PfastXML, PfastreXML)}


def reference_votes(model, X):
    """Return the mean of the leaves that each row reaches, dense."""
    X = scale_rows(sp.csr_matrix(X, dtype=np.float32)).toarray()
    votes = np.zeros((len(X), model.n_labels_))
    for tree in model.trees_:
        for row, x in enumerate(X):
            node = 0 if len(tree.children) else -1
            while node >= 0:
                part = slice(tree.starts[node], tree.starts[node + 1])
                score = x[tree.features[part]] @ tree.weights[part] + tree.constants[node]
                node = tree.children[node, 0 if score > 0 else 1]
            part = slice(tree.leaf_starts[~node], tree.leaf_starts[~node + 1])
            votes[row, tree.labels[part]] += tree.means[part]
    return votes / len(model.trees_)


def assert_ranks_by(ranking, scores):
    """Compare with dense scores; labels of score 0 are not ranked."""
    for row in range(len(scores)):
        order = np.lexsort((np.arange(scores.shape[1]), -scores[row].astype(np.float32)))[: ranking.k]
        order = order[scores[row, order] > 0]
        listed = ranking.labels[row] >= 0
        assert listed.sum() == len(order)
        assert ranking.scores[row, listed] == pytest.approx(scores[row, order], rel=1e-4)
        assert scores[row, ranking.labels[row, listed]] == pytest.approx(ranking.scores[row, listed], rel=1e-4)


@pytest.mark.parametrize("cls", [FastXML, PfastXML])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_scores_are_the_mean_over_the_leaves_that_a_row_reaches(cls, k, forests):
    assert_ranks_by(forests[cls].rank(TEST.X, k), reference_votes(forests[cls], TEST.X))


@pytest.mark.parametrize("alpha", [0.8, 0.3])
def test_tail_classifiers_rerank_the_candidates_of_the_trees(alpha, forests):
    model = forests[PfastreXML]
    votes = reference_votes(model, TEST.X)
    X, x = (scale_rows(sp.csr_matrix(rows, dtype=np.float32)).toarray() for rows in (TRAIN.X, TEST.X))
    Y = TRAIN.Y.toarray()
    means = (Y.T @ X) / np.maximum(Y.sum(axis=0), 1)[:, None]
    distances = ((x[:, None] - means[None]) ** 2).sum(axis=-1)
    expected = votes**alpha * (1 / (1 + np.exp(15 * distances))) ** (1 - alpha)
    model.set_params(alpha=alpha)
    try:
        assert_ranks_by(model.rank(TEST.X, 10), expected)
    finally:
        model.set_params(alpha=0.8)


def test_without_tail_classifiers_it_is_pfastxml_and_without_propensities_fastxml(forests):
    without_tail = PfastreXML(**FOREST, alpha=1.0).fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 8)
    expected = forests[PfastXML].rank(TEST.X, 8)
    assert without_tail.scores == pytest.approx(expected.scores, rel=1e-5)
    certain = PfastXML(**FOREST, propensity=Constant(1.0)).fit(TRAIN.X, TRAIN.Y)
    assert np.array_equal(certain.rank(TEST.X, 8).labels, forests[FastXML].rank(TEST.X, 8).labels)
    assert not np.array_equal(expected.labels, forests[FastXML].rank(TEST.X, 8).labels)


def test_the_trees_propose_no_more_candidates_than_allowed(forests):
    model = PfastreXML(**FOREST, candidates=3).fit(TRAIN.X, TRAIN.Y)
    votes = reference_votes(model, TEST.X)
    ranking = model.rank(TEST.X, 10)
    for row in range(TEST.n_samples):
        best = np.lexsort((np.arange(votes.shape[1]), -votes[row].astype(np.float32)))[:3]
        assert set(ranking.labels[row]) - {-1} <= set(best[votes[row, best] > 0])
    assert (ranking.labels >= 0).sum(axis=1).max() == 3


def test_leaves_are_scored_by_inverse_propensities():
    model = PfastXML(n_trees=1, max_leaf=TRAIN.n_samples).fit(TRAIN.X, TRAIN.Y)
    tree = model.trees_[0]
    inverse = 1 / Jain().estimate(TRAIN.label_counts, TRAIN.n_samples)
    expected = inverse * TRAIN.label_counts / TRAIN.n_samples
    assert tree.means == pytest.approx(expected[tree.labels], rel=1e-5)


def test_the_batch_size_does_not_change_the_ranking(forests, monkeypatch):
    expected = forests[PfastreXML].rank(TEST.X, 6)
    monkeypatch.setattr(SETTINGS, "vote_cells", 500)
    found = forests[PfastreXML].rank(TEST.X, 6)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def leaves_of(model, X):
    """The leaf of each row in each tree, by the kernel that prediction uses: (n_trees, n_rows)."""
    X = model._checked(X).csr.toarray()
    return np.array([[find_leaf(*tree[:5], x) for x in X] for tree in model.traversal_arrays_])


def test_training_and_prediction_agree_on_rows_whose_score_is_exactly_0():
    rng = np.random.default_rng(345)
    X, Y = (sp.csr_matrix((rng.random(shape) < 0.25).astype(np.float32)) for shape in ((30, 8), (30, 6)))
    model = FastXML(n_trees=1, normalize=False, n_jobs=1).fit(X, Y)
    leaves = leaves_of(model, X)[0]
    assert np.bincount(leaves).tolist() == model.trees_[0].leaf_rows.tolist()
    assert len(model.trees_[0].leaf_rows) > 3


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cls=st.sampled_from([FastXML, PfastXML, PfastreXML]),
    size=st.sampled_from([(30, 1), (100, 8), (300, 25), (300, 60)]),
    kind=st.sampled_from(["binary", "counts", "normal", "dense"]),
    normalize=st.booleans(),
    C=st.sampled_from([1.0, 4.0]),
    small=st.sampled_from([8, 2048]),
)
def test_every_training_row_reaches_the_leaf_that_it_was_trained_in(seed, cls, size, kind, normalize, C, small):
    """Each row has a unique label, so the labels of a leaf identify its training rows."""
    rng = np.random.default_rng(seed)
    n_rows, X = size[0], rng.standard_normal(size)
    if kind in ("binary", "counts"):
        X = np.minimum(rng.poisson(0.4, size), 1 if kind == "binary" else 9)
    elif kind == "normal":
        X[rng.random(size) < 0.6] = 0
    Y = np.hstack([np.eye(n_rows), rng.random((n_rows, 6)) < 0.3])
    X, Y = sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y, dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "small_node", small)
        model = cls(n_trees=3, max_leaf=3, leaf_labels=1000, C=C, normalize=normalize, n_jobs=1).fit(X, Y)
    for tree, leaves in zip(model.trees_, leaves_of(model, X), strict=True):
        trained_in = np.full(Y.shape[1], -1)
        trained_in[tree.labels] = np.repeat(np.arange(len(tree.leaf_rows)), np.diff(tree.leaf_starts))
        assert np.array_equal(trained_in[:n_rows], leaves)
        assert np.array_equal(np.bincount(leaves, minlength=len(tree.leaf_rows)), tree.leaf_rows)


def test_a_tree_does_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(SETTINGS, "small_node", 20)
    one, four = (FastXML(n_trees=1, C=4.0, n_jobs=n_jobs).fit(TRAIN.X, TRAIN.Y).trees_[0] for n_jobs in (1, 4))
    assert len(one.children) > 20
    for name, array in one.arrays.items():
        assert np.array_equal(array, four.arrays[name]), name


def test_trees_differ_and_depend_only_on_the_seed_and_their_number():
    few, more = (FastXML(**{**FOREST, "n_trees": n}).fit(TRAIN.X, TRAIN.Y) for n in (2, 4))
    other = FastXML(**FOREST, random_state=1).fit(TRAIN.X, TRAIN.Y)
    for number in range(2):
        assert np.array_equal(few.trees_[number].weights, more.trees_[number].weights)
        assert not np.array_equal(few.trees_[number].weights, other.trees_[number].weights)
    assert not np.array_equal(few.trees_[0].weights, few.trees_[1].weights)


def test_metadata_has_depth_sizes_and_balance(forests):
    metadata = forests[PfastreXML].metadata()
    trees = forests[PfastreXML].trees_
    assert metadata["trees"] == 3
    assert metadata["depth, largest"] == max(tree.depths()[1].max() for tree in trees)
    assert metadata["rows of a leaf, largest"] == max(tree.leaf_rows.max() for tree in trees)
    assert metadata["leaves per tree"] == round(sum(len(tree.leaf_rows) for tree in trees) / 3, 1)
    assert 20 < metadata["rows on the smaller side of a node, %"] <= 50
    assert 1 <= metadata["depth of a row's leaf, mean"] <= metadata["depth, largest"]
    single_leaf = FastXML(n_trees=1, max_leaf=1000).fit(TRAIN.X, TRAIN.Y).metadata()
    assert single_leaf["depth, largest"] == 0
    assert single_leaf["weights of a node, mean"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_trees": 0},
        {"max_leaf": 0},
        {"leaf_labels": 2.5},
        {"max_steps": -1},
        {"C": 0},
        {"tol": -1},
        {"random_state": -1},
        {"gamma": 0},
        {"alpha": 1.5},
        {"candidates": 0},
    ],
)
def test_invalid_parameters_are_rejected_by_name(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        PfastreXML(**wrong).fit(TRAIN.X, TRAIN.Y)
