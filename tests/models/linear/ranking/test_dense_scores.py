"""Models with dense weights rank, decide and explain exactly; no bit depends on BLAS, threads or batches."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tests.models.linear.ranking.test_ranker import make_shards
from unmissed._jit import kernel
from unmissed.errors import InputError
from unmissed.execution import InMemory
from unmissed.features import Features
from unmissed.matrices import check_X
from unmissed.models import DiSMEC, Popularity
from unmissed.models.linear.linear_model import open_shard, shard_piece
from unmissed.models.linear.ranking import dense_products, dense_scores, scan
from unmissed.models.linear.ranking import ranker as ranker_module
from unmissed.models.linear.ranking.int8 import TILE
from unmissed.models.linear.ranking.layout import build_layout
from unmissed.models.untrained import Counts
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS


class Problem:
    """Random weights and rows with a sparse and a dense part; `alike` labels differ in the last digits only."""

    def __init__(self, seed, *, n_labels=60, n_sparse=9, n_dense=40, n_rows=23, alike=False):
        rng = np.random.default_rng(seed)
        W = rng.standard_normal((n_labels, n_sparse + n_dense))
        X = rng.standard_normal((n_rows, n_sparse + n_dense))
        if alike:
            W = W[:1] + rng.integers(-3, 4, W.shape) * 1e-7
        W[:, :n_sparse] *= rng.random((n_labels, n_sparse)) < 0.6
        X[:, :n_sparse] *= rng.random((n_rows, n_sparse)) < 0.5
        X[:2] = 0
        self.W, self.X, self.n_sparse = W.astype(np.float32), X.astype(np.float32), n_sparse
        self.bias = (0 if alike else 1) * rng.standard_normal(n_labels).astype(np.float32)

    @property
    def features(self):
        return Features(*self.parts(self.X))

    def parts(self, X):
        sparse = check_X(X[:, : self.n_sparse]) if self.n_sparse else None
        dense = np.ascontiguousarray(X[:, self.n_sparse :])
        return sparse, dense if dense.shape[1] else None

    def shards(self, cuts=(7, 50)):
        cuts = [cut for cut in cuts if cut < len(self.bias)]
        dense = np.ascontiguousarray(self.W[:, self.n_sparse :]) if self.n_sparse < self.W.shape[1] else None
        for shard in make_shards(self.W[:, : self.n_sparse], self.bias, cuts):
            mine = None if dense is None else dense[shard.first : shard.first + shard.n_labels]
            yield replace(shard, dense=mine)

    def model(self, cuts=(7, 50), counts=None, n_jobs=1, **params):
        pieces = InMemory()
        for shard in self.shards(cuts):
            pieces.put(shard_piece(shard))
        params = {"normalize": False, "n_jobs": n_jobs} | params
        return DiSMEC.open(params, pieces, self.W.shape[1], len(self.bias), counts, self.W.shape[1] - self.n_sparse)

    def scores(self, bias=None):
        """All scores, by the rule: the sparse part in float32, in order; the dense part in float64, rounded once."""
        scores = np.tile(self.bias if bias is None else bias, (len(self.X), 1))
        for feature in range(self.n_sparse):
            scores += self.X[:, feature, None] * self.W[:, feature]
        X, W = (part[:, self.n_sparse :].astype(np.float64) for part in (self.X, self.W))
        n_summed = X.shape[1] // 16 * 16
        sums = np.zeros((16, *scores.shape))
        for feature in range(n_summed):
            sums[feature % 16] += X[:, feature, None] * W[:, feature]
        total = np.zeros(scores.shape)
        for part in sums:
            total += part
        for feature in range(n_summed, X.shape[1]):
            total += X[:, feature, None] * W[:, feature]
        with np.errstate(over="ignore"):
            return (scores + total).astype(np.float32)


def best_of(scores, k):
    return Ranking.sort(np.broadcast_to(np.arange(scores.shape[1]), scores.shape), scores).top(k)


def assert_equal(one, other):
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.scores, other.scores)


def blas_threads():
    """Return the threads of NumPy's BLAS; that of faiss, built with OpenMP, has a limit per thread."""
    libraries = (one for one in threadpool_info() if one["user_api"] == "blas")
    return {one["num_threads"] for one in libraries if one.get("threading_layer") != "openmp"}


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_labels=st.sampled_from([1, 6, 130]),
    sizes=st.sampled_from([(0, 1), (0, 40), (9, 16), (9, 40), (9, 0), (3, 1)]),
    k=st.sampled_from([1, 4, 200]),
    alike=st.booleans(),
)
def test_the_ranking_is_the_exact_top_k_in_batches_of_any_size(seed, n_labels, sizes, k, alike):
    problem = Problem(seed, n_labels=n_labels, n_sparse=sizes[0], n_dense=sizes[1], alike=alike)
    model, rows = problem.model(), problem.features
    expected = best_of(problem.scores(), min(k, n_labels)).padded(k)
    assert_equal(model.rank(rows, k), expected)
    assert_equal(problem.model(cuts=range(3, n_labels, 40)).rank(rows, k), expected)
    for size in (1, 7):
        for begin in range(0, rows.shape[0], size):
            found = model.rank(rows[begin : begin + size], k)
            assert np.array_equal(found.labels, expected.labels[begin : begin + size])
            assert np.array_equal(found.scores, expected.scores[begin : begin + size])


@contextmanager
def small_chunks(candidate_cost=0.01, capacity=1000):
    """Chunks of two tiles, tasks of a few rows; rows are scored directly only if their list of candidates is full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "chunk_labels", 2 * TILE)
        patch.setattr(SETTINGS, "scan_sums", 40 * TILE)
        patch.setattr(SETTINGS, "candidate_capacity", capacity)
        patch.setattr(ranker_module, "_MIN_ROWS_PER_THREAD", 3)
        patch.setattr(ranker_module, "_CANDIDATE_COST", candidate_cost)
        patch.setattr(ranker_module, "_DENSE_CANDIDATE_COST", candidate_cost)
        yield


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_labels=st.sampled_from([1, 6, 2 * TILE, 5 * TILE + 3]),
    sizes=st.sampled_from([(0, 1), (0, 40), (60, 16), (60, 40), (9, 1)]),
    k=st.sampled_from([1, 5]),
    kind=st.sampled_from(["different", "alike", "copies"]),
    capacity=st.sampled_from([6, 60, 1000]),
)
def test_the_scan_of_both_parts_gives_the_exact_top_k(seed, n_labels, sizes, k, kind, capacity):
    problem = Problem(seed, n_labels=n_labels, n_sparse=sizes[0], n_dense=sizes[1], alike=kind == "alike")
    problem.X[2, : problem.n_sparse] = 0
    problem.X[3, problem.n_sparse :] = 0
    if kind == "copies":  # ties go to the smaller label, whatever the order of labels in the scan
        same = np.random.default_rng(seed).integers(0, 3, n_labels) % n_labels
        problem.W, problem.bias = problem.W[same], problem.bias[same]
    rows, expected = problem.features, best_of(problem.scores(), min(k, n_labels)).padded(k)
    with small_chunks(capacity=capacity):
        assert_equal(problem.model(n_jobs=2).prepare().rank(rows, k), expected)
        model = problem.model(n_jobs=1).prepare()
        for begin in range(0, rows.shape[0], 5):
            found = model.rank(rows[begin : begin + 5], k)
            assert np.array_equal(found.labels, expected.labels[begin : begin + 5])
            assert np.array_equal(found.scores, expected.scores[begin : begin + 5])


def test_the_scan_ranks_both_parts_like_float64():
    problem = Problem(20, n_labels=7 * TILE, n_sparse=60)
    exact = problem.X.astype(np.float64) @ problem.W.T.astype(np.float64) + problem.bias
    order = np.sort(exact, axis=1)[:, ::-1]
    clear = (order[:, :5] - order[:, 1:6]).min(axis=1) > 1e-4  # float32 cannot change the order
    with small_chunks():
        found = problem.model().prepare().rank(problem.features, 5)
    assert clear.sum() > 15
    assert np.array_equal(found.labels[clear], np.argsort(-exact, axis=1)[clear, :5])
    assert found.scores == pytest.approx(order[:, :5], abs=1e-5)


@pytest.mark.parametrize("n_sparse", [0, 60])
def test_the_scan_of_both_parts_scores_few_labels_exactly(n_sparse, monkeypatch):
    problem, scored = Problem(21, n_labels=20 * TILE, n_sparse=n_sparse), []

    def watched(chunk, first, rows, candidates, *output):
        reaching = candidates.upper_bounds >= candidates.lower_bounds[:, -1:]
        reaching &= np.arange(reaching.shape[1]) < candidates.counts[:, None]
        scored.append(reaching.sum(axis=1).max())
        return score_candidates(chunk, first, rows, candidates, *output)

    score_candidates = ranker_module.score_candidates
    monkeypatch.setattr(ranker_module, "score_candidates", watched)
    monkeypatch.setattr(dense_products, "add_products", lambda *_: pytest.fail("scored all labels exactly"))
    expected = best_of(problem.scores(), 5)
    with small_chunks():
        assert_equal(problem.model().prepare().rank(problem.features, 5), expected)
    assert 5 <= max(scored) < (10 if n_sparse == 0 else 40)  # of 1,280


@pytest.mark.kernel
def test_products_of_blas_may_be_off_by_the_bound_of_the_scan():
    problem = Problem(22, n_labels=2 * TILE, n_sparse=0, n_dense=500, n_rows=9)
    chunk = build_layout(list(problem.shards()), 0, 1).chunks[0]
    sparse, dense = problem.features.both
    rows = ranker_module._quantize(np.zeros(10, np.int64), sparse.indices, sparse.data, dense)
    errors = np.empty(len(chunk.scale), np.float32)
    exact = problem.scores()[:, chunk.label_ids]
    approximate = np.zeros(exact.shape, np.float32)
    for feature in range(501):  # in sequence, the worst order
        approximate += rows.dense[:, feature, None] * chunk.dense[: exact.shape[1], feature]
    for row in range(9):
        scan._set_errors(chunk, rows, row, errors)
        assert (abs(approximate[row] - exact[row]) <= np.repeat(errors, TILE)[: exact.shape[1]]).all()
        bound = 600 * 2.0**-24 * (1 + np.linalg.norm(problem.X[row]) * np.linalg.norm(problem.W, axis=1).max() + 4)
        assert errors.max() < bound


def test_products_in_float32_would_give_another_ranking():
    problem = Problem(0, n_sparse=0, alike=True)
    approximate = best_of(problem.X @ problem.W.T, 5)
    assert (approximate.labels != best_of(problem.scores(), 5).labels).any()
    assert_equal(problem.model().rank(problem.features, 5), best_of(problem.scores(), 5))


def test_scores_agree_with_float64():
    problem = Problem(1)
    scores = problem.model().decision_function(problem.features)
    expected = problem.X.astype(np.float64) @ problem.W.T.astype(np.float64) + problem.bias
    assert scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n_sparse", [0, 9])
def test_threads_and_tiles_change_no_bit(n_sparse, monkeypatch):
    problem = Problem(2, n_labels=150, n_rows=1100, n_sparse=n_sparse, n_dense=20, alike=True)
    rows, scores = problem.features, problem.scores()
    for n_jobs in (1, 2):
        for direct_rows, prepare_rows in ((SETTINGS.direct_rows, 2000), (10**6, 2000), (0, 0)):  # tiles, shards, scan
            monkeypatch.setattr(SETTINGS, "direct_rows", direct_rows)
            monkeypatch.setattr(SETTINGS, "prepare_rows", prepare_rows)
            model = problem.model(n_jobs=n_jobs)
            assert_equal(model.rank(rows, 5), best_of(scores, 5))
            assert np.array_equal(model.predict(rows, 0.5).toarray(), scores >= 0.5)


@pytest.mark.parametrize("n_sparse", [0, 9])
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("prepared", [False, True])
def test_decisions_are_those_of_exact_scores_even_at_the_threshold(n_sparse, alike, prepared):
    problem = Problem(3, n_sparse=n_sparse, alike=alike)
    scores, model = problem.scores(), problem.model()
    if prepared:
        model.prepare()
    for threshold in (0.0, float(scores[5, 3]), float(np.nextafter(scores[5, 3], np.float32(9))), -np.inf, np.inf):
        expected = scores >= np.float32(threshold)
        for rows in (slice(0, 2), slice(None)):
            assert np.array_equal(model.predict(problem.features[rows], threshold).toarray(), expected[rows])
    if alike and not n_sparse:
        approximate = problem.X @ problem.W.T
        assert ((approximate >= scores[5, 3]) != (scores >= scores[5, 3])).any(), "the margin matters"


def test_scores_of_chosen_labels_are_those_of_all():
    problem = Problem(4)
    model, labels = problem.model(), np.array([51, 3, 3, 49, 0])
    assert np.array_equal(model.decision_function(problem.features), problem.scores())
    assert np.array_equal(model.decision_function(problem.features, labels), problem.scores()[:, labels])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_candidates_are_scored_like_all_labels(n_jobs):
    problem = Problem(5, n_rows=700)
    rng = np.random.default_rng(0)
    proposed = np.argsort(rng.random((700, 60)), axis=1)[:, :12].astype(np.int32)
    proposed[rng.random(proposed.shape) < 0.2] = -1
    scores = np.where(proposed < 0, -np.inf, np.take_along_axis(problem.scores(), proposed, 1)).astype(np.float32)
    candidates = Ranking.sort(proposed, np.where(proposed < 0, -np.inf, -proposed).astype(np.float32))
    found = problem.model(n_jobs=n_jobs).rank(problem.features, 5, candidates=candidates)
    assert_equal(found, Ranking.sort(proposed, scores).top(5))


def test_a_model_can_propose_candidates():
    problem = Problem(6)
    proposing = Popularity().fit(problem.features, np.ones((23, 60)))
    found = problem.model().rank(problem.features, 3, candidates=proposing, n_candidates=60)
    assert_equal(found, best_of(problem.scores(), 3))


def test_labels_without_a_positive_are_never_ranked():
    problem = Problem(7)
    counts = np.ones(60, np.int64)
    counts[:55] = 0
    model = problem.model(counts=Counts(counts, 100))
    expected = best_of(problem.scores(np.where(counts > 0, problem.bias, -np.inf).astype(np.float32)), 5)
    for rows in (slice(0, 3), slice(None)):
        ranking = model.rank(problem.features[rows], 8)
        assert np.array_equal(ranking.labels[:, :5], expected.labels[rows])
        assert (ranking.labels[:, 5:] == -1).all()
    assert not model.predict(problem.features, -1e30)[:, :55].nnz


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("exponent", [-25, 18, 19])
def test_scores_that_underflow_or_overflow_float32_are_ranked_exactly(exponent, prepared):
    problem = Problem(8, n_sparse=0, alike=False)
    problem.X, problem.W = (np.float32(10.0**exponent) * part for part in (problem.X, problem.W))
    problem.W[:30] *= np.sign(problem.W[:30]) * np.sign(problem.X[5])  # row 5: products of one sign
    expected = best_of(problem.scores(), 5)
    assert (exponent < 19) or np.isinf(expected.scores).any()
    model = problem.model()
    assert_equal((model.prepare() if prepared else model).rank(problem.features, 5), expected)


@pytest.mark.parametrize("prepare_rows", [0, 2000])
def test_ranking_uses_one_blas_thread_in_each_worker(prepare_rows, monkeypatch):
    problem, seen = Problem(9, n_rows=1100, n_labels=20), []
    module, name = (dense_products, "merge_bounded") if prepare_rows else (ranker_module, "scan_chunk")
    work = getattr(module, name)

    def watched(*arguments):
        seen.append(blas_threads())
        return work(*arguments)

    monkeypatch.setattr(SETTINGS, "prepare_rows", prepare_rows)
    monkeypatch.setattr(module, name, watched)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        problem.model(n_jobs=2).rank(problem.features, 5)
        assert blas_threads() == before
    assert seen
    assert seen == [{1}] * len(seen)


def test_many_rows_are_not_scored_exactly_but_for_the_best_labels(monkeypatch):
    problem = Problem(10, n_labels=100, n_sparse=0)
    monkeypatch.setattr(dense_products, "add_products", lambda *_: pytest.fail("scored all labels exactly"))
    assert_equal(problem.model().rank(problem.features, 5), best_of(problem.scores(), 5))


def test_a_saved_model_ranks_to_the_same_bits(tmp_path):
    problem = Problem(11)
    model = problem.model()
    model.save(tmp_path / "run")
    again = DiSMEC.load(tmp_path / "run").prepare()
    assert_equal(again.rank(problem.features, 5), model.rank(problem.features, 5))
    assert again.dense_.norms.peek() is not None


def test_weights_of_both_parts_are_shown():
    problem = Problem(12)
    model = problem.model()
    assert sp.issparse(model.coef_)
    assert np.array_equal(model.coef_.toarray(), problem.W)
    assert np.array_equal(Problem(12, n_sparse=0).model().coef_, Problem(12, n_sparse=0).W)
    problem.W[51, 20] = 0
    explanation = problem.model().explain(51)
    assert explanation.features.dtype == np.int32
    assert np.array_equal(explanation.features, np.flatnonzero(problem.W[51]))
    assert np.array_equal(explanation.weights, problem.W[51][explanation.features])
    metadata = model.metadata()
    n_sparse = np.count_nonzero(problem.W[:, :9])
    assert metadata["weights"] == n_sparse + 60 * 40
    assert metadata["dense features"] == 40
    assert "dense features" not in Problem(12, n_dense=0).model().metadata()


def test_rows_must_have_the_dense_features_of_training():
    problem = Problem(13)
    with pytest.raises(InputError, match="X has 0 dense features, the model was fitted on 40"):
        problem.model().rank(sp.csr_matrix(problem.X))
    with pytest.raises(InputError, match="X has 39 dense features"):
        problem.model().rank(Features(check_X(problem.X[:, :10]), np.ascontiguousarray(problem.X[:, 10:])))
    dense = Problem(13, n_sparse=0)
    assert_equal(dense.model().rank(sp.csr_matrix(dense.X)), dense.model().rank(dense.features))
    sparse = Problem(13, n_dense=0)
    assert_equal(sparse.model().rank(Features(dense=sparse.X)), sparse.model().rank(sparse.features))


def test_shards_with_other_dense_features_are_refused():
    problem, pieces = Problem(14), InMemory()
    first, second, third = problem.shards()
    pieces.put(shard_piece(first))
    pieces.put(shard_piece(replace(second, dense=second.dense[:, :30].copy())))
    pieces.put(shard_piece(third))
    with pytest.raises(InputError, match=r"\[30, 40\] dense features"):
        DiSMEC.open({}, pieces, 49, 60)
    piece = shard_piece(first)
    for n_dense in (41, "40", [40], 0, None):
        with pytest.raises(InputError, match="damaged"):
            open_shard(replace(piece, metadata=piece.metadata | {"n_dense": n_dense}), 0, 49)


@kernel()
def compiled_product(x, w):
    return dense_products.product(x, w)


@pytest.mark.kernel
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 50])
def test_the_compiled_product_equals_the_reference_implementation(n):
    x, w = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    assert compiled_product(x, w) == dense_products.reference_product(x, w)
    assert compiled_product(x, w) == pytest.approx(np.dot(x.astype(np.float64), w.astype(np.float64)), rel=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize("worst", [-1, 1])
def test_merging_finds_the_best_labels_whatever_the_error_of_products_within_the_bound(worst):
    problem = Problem(15, n_labels=70, n_sparse=0, n_rows=4)
    norms, factors = np.full(70, 2, np.float32), np.full(4, 0.1, np.float32)
    base, exact = np.tile(problem.bias, (4, 1)), problem.scores()
    errors = worst * 0.1 * 2 * np.sign(np.arange(70) - 35)
    products = (exact - base + errors).astype(np.float32)
    labels, best = np.full((4, 3), -1, np.int32), np.full((4, 3), -np.inf, np.float32)
    rows = base, products, problem.X, problem.W
    dense_products.merge_bounded(*rows, factors, norms, np.float32(1e-6), 0, labels, best)
    assert_equal(Ranking(labels, best), best_of(exact, 3))


@pytest.mark.kernel
def test_norms_of_weights_are_never_subnormal():
    norms = dense_scores.norms_of_labels([np.array([[3, 4], [0, 0], [1e-40, 0]], np.float32)])
    assert norms[0].tolist() == [5, 2.0**-126, 2.0**-126]
