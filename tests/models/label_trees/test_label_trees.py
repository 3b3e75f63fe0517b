"""Parabel and Bonsai: clusters, beam search, weighting, exact rescoring, and how trees are shown."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cli.speaking import refused, said
from tests.models.label_trees.naive_trees import naive_halves, naive_rank, naive_representations
from tests.runs.corpora import small_corpus, write_texts
from unmissed import Bonsai, DiSMEC, Parabel
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.models import UncertifiedWarning
from unmissed.models.label_trees.cluster_kernels import split_in_half
from unmissed.models.label_trees.label_clusters import balanced_2means, grow, label_representations, spherical_kmeans
from unmissed.models.label_trees.tree_file import SearchTree
from unmissed.propensity import Constant
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS

TRAIN, TEST = small_corpus()
SMALL = {"n_trees": 2, "max_leaf": 8, "n_jobs": 1}


@pytest.fixture(scope="module")
def parabel():
    return Parabel(**SMALL, beam=3).fit(TRAIN.X, TRAIN.Y)


@pytest.fixture(scope="module")
def bonsai():
    return Bonsai(**SMALL, beam=2, branching=6).fit(TRAIN.X, TRAIN.Y)


def with_dense(X, n_dense):
    """Return the features of a sparse matrix, the last `n_dense` as a dense part."""
    n_sparse = X.shape[1] - n_dense
    dense = np.ascontiguousarray(X[:, n_sparse:].toarray())
    return Features(sp.csr_matrix(X[:, :n_sparse]) if n_sparse else None, dense)


ALL = TRAIN.X.shape[1]


@pytest.fixture(scope="module", params=[("parabel", ALL), ("parabel", 150), ("bonsai", ALL), ("bonsai", 150)], ids=str)
def on_dense(request):
    """A model trained on dense or mixed features, and its number of dense ones."""
    kind, n_dense = request.param
    model = Parabel(**SMALL, beam=3) if kind == "parabel" else Bonsai(**SMALL, beam=2, branching=6, label_space="both")
    return model.fit(with_dense(TRAIN.X, n_dense), TRAIN.Y), n_dense


def dense(representations, n_labels):
    """Return representations as a SciPy matrix."""
    return sp.csr_matrix(
        (representations.values, representations.indices, representations.indptr),
        (n_labels, representations.n_features),
    )


@pytest.mark.kernel
def test_representations_are_the_sums_of_rows_even_if_entries_cancel():
    X = sp.csr_matrix(np.array([[1, -1, 0], [-1, 1, 2], [1, 0, 1], [0, 0, 0]], np.float32))
    Y = sp.csr_matrix(np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32))
    found = label_representations(Features(X), Y, 1)
    assert dense(found, 3).toarray() == pytest.approx(naive_representations(X, Y), abs=1e-6)
    assert len(set(found.indices[: found.indptr[1]])) == found.indptr[1]
    for n_dense in (1, 2, 3):
        in_parts = label_representations(with_dense(X, n_dense), Y, 1)
        assert dense(in_parts, 3).toarray() == pytest.approx(naive_representations(X, Y), abs=1e-6)


@pytest.mark.kernel
@pytest.mark.parametrize("n_labels", [2, 9, 40])
def test_halves_equal_the_reference_implementation(n_labels):
    X, Y = sp.csr_matrix(TRAIN.X), sp.csr_matrix(TRAIN.Y[:, :n_labels])
    representations = label_representations(Features(X), Y, 1)
    order, sums = np.empty(n_labels, np.int64), np.zeros((X.shape[1], 2), np.float32)
    _, cosine = split_in_half(*representations.arrays, np.arange(n_labels), 0, 1, 50, 1e-4, sums, order)
    halves, expected = naive_halves(naive_representations(X, Y), 0, 1)
    half = (n_labels + 1) // 2
    assert set(order[:half]) == set(halves[0])
    assert set(order[half:]) == set(halves[1])
    assert cosine == pytest.approx(expected, abs=1e-5)
    assert not sums.any(), "the workspace is zero again"


def mean_cosine(D, parts):
    return sum(np.linalg.norm(D[part].sum(axis=0)) for part in parts) / sum(len(part) for part in parts)


@pytest.mark.kernel
def test_k_means_assigns_each_label_to_its_nearest_mean():
    X, Y = sp.csr_matrix(TRAIN.X), sp.csr_matrix(TRAIN.Y)
    D = naive_representations(X, Y)
    rng = np.random.default_rng(0)
    parts = spherical_kmeans(label_representations(Features(X), Y, 1), 6, 8)(np.arange(40), rng)
    assert 2 <= len(parts) <= 6
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(40))
    shuffled = np.split(np.random.default_rng(1).permutation(40), np.cumsum([len(part) for part in parts])[:-1])
    assert mean_cosine(D, parts) > mean_cosine(D, shuffled) + 0.02
    means = np.array([D[part].sum(axis=0) / np.linalg.norm(D[part].sum(axis=0)) for part in parts])
    own = np.array([next(at for at, part in enumerate(parts) if label in part) for label in range(40)])
    assert np.mean(np.argmax(D @ means.T, axis=1) == own) >= 0.9


def test_indistinguishable_labels_are_split():
    X = sp.csr_matrix(np.ones((4, 2), np.float32))
    representations = label_representations(Features(X), sp.csr_matrix(np.ones((4, 12), np.float32)), 1)
    for split in (balanced_2means(representations), spherical_kmeans(representations, 4, 3)):
        clusters = grow(12, 3, split, [0])
        assert (clusters.ends - clusters.begins)[clusters.children < 0].max() <= 3


def test_parabel_halves_and_bonsai_does_not_balance(parabel, bonsai):
    for tree in parabel.trees_:
        sizes = tree.clusters.ends - tree.clusters.begins
        assert set(sizes[tree.clusters.children < 0]) == {5}
        assert set(tree.clusters.n_children[tree.clusters.children >= 0]) == {2}
        assert tree.clusters.depths().max() == 3
    assert not np.array_equal(parabel.trees_[0].clusters.labels, parabel.trees_[1].clusters.labels)
    sizes = np.concatenate([tree.clusters.ends - tree.clusters.begins for tree in bonsai.trees_])
    assert len(set(sizes)) > 3
    assert max(tree.clusters.n_children.max() for tree in bonsai.trees_) <= 6


@pytest.mark.parametrize("kind", ["parabel", "bonsai"])
def test_the_beam_search_equals_the_reference_implementation(kind, request):
    model = request.getfixturevalue(kind)
    X = model._checked(TEST.X).csr
    ranking = model.rank(TEST.X, 7)
    for row in range(0, X.shape[0], 5):
        labels, scores = naive_rank(model.trees_, X[row].toarray().ravel().astype(float), model.beam, 7)
        assert ranking.labels[row, : len(labels)].tolist() == labels
        assert ranking.scores[row, : len(labels)] == pytest.approx(scores, rel=1e-4, abs=1e-9)


def test_the_beam_search_over_dense_weights_equals_the_reference_implementation(on_dense):
    model, n_dense = on_dense
    X = with_dense(TEST.X, n_dense)
    assert model.trees_[0].n_dense == n_dense
    assert (model.certificate().gap <= model.tol).all()
    ranking, checked = model.rank(X, 7), model._checked(X).csr
    for row in range(0, checked.shape[0], 5):
        labels, scores = naive_rank(model.trees_, checked[row].toarray().ravel().astype(float), model.beam, 7)
        assert ranking.labels[row, : len(labels)].tolist() == labels
        assert ranking.scores[row, : len(labels)] == pytest.approx(scores, rel=1e-4, abs=1e-9)
        one = model.rank(X[row : row + 1], 7)
        assert one.labels[0].tobytes() == ranking.labels[row].tobytes(), "the same bits in any batch"
        assert one.scores[0].tobytes() == ranking.scores[row].tobytes()


@pytest.mark.parametrize("n_dense", [ALL, 150])
def test_dense_nodes_have_the_objectives_of_sparse_ones(parabel, n_dense):
    X = parabel._checked(TRAIN.X).csr  # normalized: parts are not normalized again
    model = Parabel(**SMALL, beam=3, normalize=False, tol=1e-3).fit(with_dense(X, n_dense), TRAIN.Y)
    same = Parabel(**SMALL, beam=3, normalize=False, tol=1e-3).fit(X, TRAIN.Y)
    assert model.certificate().objective == pytest.approx(same.certificate().objective, rel=2e-3)


def test_a_run_without_dense_weights_ranks_dense_rows(parabel):
    model = pickle.loads(pickle.dumps(parabel))
    model.n_dense_in_ = ALL  # as in runs that converted dense features
    found, expected = model.rank(with_dense(TEST.X, ALL), 5), parabel.rank(TEST.X, 5)
    assert found.labels.tobytes() == expected.labels.tobytes()


def test_dense_weights_that_do_not_fit_are_refused(on_dense):
    model, n_dense = on_dense
    piece = model.pieces_.get("tree/000")
    with pytest.raises(InputError, match="dense weights do not fit"):
        SearchTree.open(piece, ALL, n_dense - 1, 40)


def test_a_row_gets_the_same_bits_in_any_batch(parabel):
    many = sp.csr_matrix(sp.vstack([TEST.X] * 40))
    batch = parabel.rank(many, 5)
    for row in range(5):
        one = parabel.rank(TEST.X[row], 5)
        assert np.array_equal(one.labels[0], batch.labels[row])
        assert np.array_equal(one.scores[0], batch.scores[row])


@pytest.mark.parametrize("kind", ["parabel", "bonsai"])
@pytest.mark.parametrize(("columns", "many"), [(0, 4), (6, 4), (10**6, 0), (10**6, 10**6)])
def test_levels_scored_in_one_pass_or_one_by_one_give_the_same_bits(kind, columns, many, request, monkeypatch):
    model = request.getfixturevalue(kind)
    before = model.rank(TEST.X, 5)
    monkeypatch.setattr(SETTINGS, "top_columns", columns)
    monkeypatch.setattr(SETTINGS, "dense_columns", many)
    again = pickle.loads(pickle.dumps(model)).rank(TEST.X, 5)  # a copy builds its own layout
    tops = [tree.top for tree in model.trees_]
    assert (again.labels.tobytes(), again.scores.tobytes()) == (before.labels.tobytes(), before.scores.tobytes())
    assert all((top.positions >= 0).any() == (columns > 0) for top in tops)
    assert many != 0 or all(len(top.dense) == 0 for top in tops)
    assert many != 10**6 or all(len(top.weights) == 0 for top in tops)


def test_a_beam_as_wide_as_the_tree_reaches_every_label(parabel):
    wide = Parabel(**SMALL, beam=64).fit(TRAIN.X, TRAIN.Y)
    assert (wide.rank(TEST.X, 40).labels >= 0).all()
    assert (parabel.rank(TEST.X, 40).labels < 0).any()


def test_a_node_is_trained_on_the_rows_that_have_a_label_below_it(parabel):
    Y = sp.csc_matrix(TRAIN.Y)
    for tree in parabel.trees_:
        for node in range(tree.clusters.n_nodes):
            rows = np.unique(Y[:, tree.clusters.below(node)].indices)
            assert tree.saved["n_rows"][node] == len(rows)


def test_every_classifier_is_certified_and_a_warning_names_the_others(parabel):
    found = parabel.certificate()
    assert found.unit == "classifiers"
    assert len(found.gap) == sum(40 + tree.clusters.n_nodes - 1 for tree in parabel.trees_)
    assert (found.gap <= parabel.tol).all()
    with pytest.warns(UncertifiedWarning, match="classifiers missed"):
        Parabel(**SMALL, max_sweeps=1, tol=1e-4).fit(TRAIN.X, TRAIN.Y)


def test_higher_costs_of_positives_raise_rare_labels():
    counts = np.asarray(TRAIN.Y.sum(axis=0)).ravel()
    rare = counts <= np.median(counts)

    def share(weighting):
        model = Parabel(**SMALL, weighting=weighting, propensity=Constant(0.2)).fit(TRAIN.X, TRAIN.Y)
        return np.mean(rare[model.rank(TEST.X, 3).labels])

    plain = Parabel(**SMALL).fit(TRAIN.X, TRAIN.Y)
    same = Parabel(**SMALL, weighting="surrogate", propensity=Constant(1.0)).fit(TRAIN.X, TRAIN.Y)
    assert np.array_equal(plain.rank(TEST.X, 5).scores, same.rank(TEST.X, 5).scores), "p = 1 leaves the costs unchanged"
    assert share("surrogate") > np.mean(rare[plain.rank(TEST.X, 3).labels])


def test_labels_can_be_clustered_by_co_occurring_labels():
    orders = [
        Bonsai(**SMALL, branching=6, label_space=space).fit(TRAIN.X, TRAIN.Y).trees_[0].clusters.labels.tolist()
        for space in ("rows", "labels", "both")
    ]
    assert orders[0] != orders[1] != orders[2]


def test_rescoring_all_labels_gives_the_bits_of_the_full_ranking():
    model = DiSMEC(n_jobs=1, block_size=16).fit(TRAIN.X, TRAIN.Y)
    full = model.rank(TEST.X, 6)
    every = np.tile(np.arange(40), (TEST.n_samples, 1))
    rescored = model.rank(TEST.X, 6, candidates=Ranking.sort(every, np.zeros(every.shape)))
    assert np.array_equal(rescored.labels, full.labels)
    assert np.array_equal(rescored.scores, full.scores)


def test_only_the_candidates_of_a_tree_are_ranked(parabel):
    model = DiSMEC(n_jobs=1, block_size=16).fit(TRAIN.X, TRAIN.Y)
    proposed = parabel.rank(TEST.X, 9)
    rescored = model.rank(TEST.X, 4, candidates=parabel, n_candidates=9)
    scores = model.decision_function(TEST.X, np.arange(40))
    for row in range(TEST.n_samples):
        labels = proposed.labels[row][proposed.labels[row] >= 0]
        best = labels[np.lexsort((labels, -scores[row, labels]))][:4]
        assert np.array_equal(rescored.labels[row, : len(best)], best)
        assert np.array_equal(rescored.scores[row, : len(best)], scores[row, best])
    assert model.rank(TEST.X, 50, candidates=proposed).labels.shape == (TEST.n_samples, 50)
    more = DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y[:, :3]).fit_labels(TRAIN.X, TRAIN.Y[:, 3:])
    assert np.array_equal(more.rank(TEST.X, 4, candidates=proposed).labels, rescored.labels)


def test_candidates_for_other_rows_or_labels_are_rejected(parabel):
    model = DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y[:, :10])
    with pytest.raises(InputError, match="candidates have 2 rows, X has 50"):
        model.rank(TEST.X, candidates=Ranking(np.zeros((2, 1), np.int32), np.zeros((2, 1), np.float32)))
    with pytest.raises(InputError, match="expected labels below 10"):
        model.rank(TEST.X, candidates=parabel)


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"n_trees": 0}, "n_trees must be an integer from 1"),
        ({"max_leaf": 113}, "max_leaf must be an integer from 1 to 112"),
        ({"beam": 0}, "beam must be"),
        ({"branching": 1}, "branching must be"),
        ({"label_space": "words"}, "label_space must be 'rows', 'labels' or 'both'"),
        ({"weighting": "unbiased"}, "not convex"),
        ({"C": 0}, "C must be a number above 0"),
    ],
)
def test_invalid_parameters_are_rejected(params, line):
    with pytest.raises(InputError, match=line):
        Bonsai(**params).fit(TRAIN.X, TRAIN.Y)


def test_metadata_contains_depth_sizes_and_balance(parabel, bonsai):
    metadata = parabel.metadata()
    assert metadata["trees"] == 2
    assert metadata["depth"] == "3"
    assert metadata["labels per leaf"] == "5"
    assert metadata["largest leaf over the mean"] == 1.0
    assert 1 <= metadata["leaves per row"] <= 8
    assert bonsai.metadata()["largest leaf over the mean"] > 1.2


def test_inspect_draws_the_top_of_a_tree_with_names(tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl", n=120)
    said(capsys, "train", "parabel", texts, "--run", tmp_path / "run", "--max-leaf", 2, "--n-trees", 1)
    drawn = said(capsys, "inspect", tmp_path / "run", "--tree")
    lines = drawn.splitlines()
    assert lines[0].startswith("3 labels, 120 rows (")
    assert len(lines) == 3
    assert lines[1].startswith("├─ 2 labels")
    assert lines[2].startswith("└─ 1 labels")
    words = {"fish": "cod net quota", "law": "court judge appeal", "food": "bread milk cheese"}
    (single,) = [label for label in words if label in lines[2]]
    assert any(word in lines[2].split("(")[0] for word in words[single].split())


def test_a_linear_model_cannot_be_drawn(tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    assert "DiSMEC cannot be drawn" in refused(capsys, "inspect", tmp_path / "run", "--tree")


def test_a_finished_tree_is_not_trained_again(tmp_path, monkeypatch):
    from unmissed.execution import OnDisk, Work
    from unmissed.models.label_trees import label_tree

    pieces = OnDisk(tmp_path / "pieces")
    Parabel(**SMALL).fit(TRAIN.X, TRAIN.Y, work=Work(pieces=pieces))
    pieces.drop("tree/001")
    trained = []
    train = label_tree.NodeTrainer.train

    def watch(self, clusters, tree, node):
        trained.append(tree)
        return train(self, clusters, tree, node)

    monkeypatch.setattr(label_tree.NodeTrainer, "train", watch)
    Parabel(**SMALL).fit(TRAIN.X, TRAIN.Y, work=Work(pieces=pieces))
    assert set(trained) == {1}
    assert pieces.listed() == ["tree/000", "tree/001"]
