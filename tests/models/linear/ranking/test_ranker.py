"""The quantized scan returns the exact top k, bit for bit."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed._jit import kernel
from unmissed.matrices import check_X
from unmissed.models import DiSMEC
from unmissed.models.linear.ranking import chunks, exact_scores, int8, scan
from unmissed.models.linear.ranking import ranker as ranker_module
from unmissed.models.linear.ranking.candidates import CROWDED, Candidates, add_candidate, score_candidates
from unmissed.models.linear.ranking.chunks import NO_LINE
from unmissed.models.linear.ranking.int8 import TILE
from unmissed.models.linear.ranking.layout import build_layout
from unmissed.models.linear.ranking.ranker import QuantizedScan, Ranker
from unmissed.models.linear.ranking.top_labels import TopLabels
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import csr_arrays
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS

N_FEATURES = 110  # more than two words of flags


def make_shards(weights, bias, cuts):
    """Shards of dense weights (n_labels, n_features) with labels split at `cuts`."""
    shards = []
    for first, last in zip([0, *cuts], [*cuts, len(bias)], strict=True):
        mine = sp.csc_matrix(weights[first:last])
        features = np.flatnonzero(np.diff(mine.indptr)).astype(np.int32)
        starts = np.append(mine.indptr[features], mine.indptr[-1]).astype(np.int64)
        nothing = np.zeros(last - first)
        arrays = features, starts, mine.indices.astype(np.uint16), mine.data.astype(np.float32)
        shards.append(Shard(*arrays, bias[first:last], nothing, nothing, nothing.astype(np.int32), first))
    return shards


def make_scan(shards):
    return QuantizedScan(shards, build_layout(shards, N_FEATURES, 1))


def draw(seed, n_labels, alike):
    """Random weights with dense and sparse features; `alike` labels differ in the last digits only."""
    rng = np.random.default_rng(seed)
    density = rng.choice([0.02, 0.3, 1.0], N_FEATURES)
    weights = rng.standard_normal((n_labels, N_FEATURES)).astype(np.float32)
    if alike:
        weights = weights[:1] * (1 + rng.integers(-9, 10, weights.shape) * 1e-6)
    weights *= rng.random(weights.shape) < density
    weights *= 10.0 ** rng.integers(-2, 3, (n_labels, 1))
    X = rng.standard_normal((9, N_FEATURES)) * (rng.random((9, N_FEATURES)) < 0.5) * 10.0 ** rng.integers(-3, 4)
    X[0] = 0
    bias = rng.standard_normal(n_labels).astype(np.float32) * (0 if alike else 1)
    cuts = sorted(set(rng.integers(1, n_labels, 3).tolist())) if n_labels > 1 else []
    return make_shards(weights.astype(np.float32), bias, cuts), check_X(X)


def naive(X, shards, k):
    n_labels = sum(shard.n_labels for shard in shards)
    scores = exact_scores.scores_of(X, shards, np.arange(n_labels))
    return Ranking.sort(np.broadcast_to(np.arange(n_labels), scores.shape), scores).top(min(k, n_labels))


def rank_by_scan(shards, X, k):
    top = TopLabels.empty(X.shape[0], k)
    make_scan(shards).merge(X, top, 1)
    return top.ranking


@pytest.mark.kernel
@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_labels=st.sampled_from([1, 5, TILE, 2 * TILE + 7, 5 * TILE]),
    k=st.sampled_from([1, 3, 8]),
    alike=st.booleans(),
    reach=st.sampled_from([1, 4]),  # many weights outside the int8 range, or none
)
def test_the_scan_returns_the_exact_top_k_bit_for_bit(seed, n_labels, k, alike, reach):
    shards, X = draw(seed, n_labels, alike)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "chunk_labels", 2 * TILE)
        patch.setattr(SETTINGS, "scan_sums", 4 * TILE)
        patch.setattr(SETTINGS, "int8_range", reach)
        ranking = rank_by_scan(shards, X, k)
    expected = naive(X, shards, k)
    assert np.array_equal(ranking.labels[:, : expected.k], expected.labels)
    assert np.array_equal(ranking.scores[:, : expected.k], expected.scores)
    assert (ranking.labels[:, expected.k :] == -1).all()


def test_labels_with_many_weights_are_scanned_first_and_a_small_remainder_makes_no_chunk(monkeypatch):
    shards, _ = draw(2, 5 * TILE, alike=False)
    monkeypatch.setattr(SETTINGS, "chunk_labels", 2 * TILE - 7)
    cut = make_scan(shards).chunks
    counts = np.concatenate([np.bincount(shard.labels, minlength=shard.n_labels) for shard in shards])
    assert [first for first, _ in cut] == [0, 107, 214]
    assert np.array_equal(np.sort(np.concatenate([chunk.label_ids for _, chunk in cut])), np.arange(5 * TILE))
    for (_, one), (_, other) in pairwise(cut):
        assert counts[one.label_ids].min() >= counts[other.label_ids].max()
    monkeypatch.setattr(SETTINGS, "chunk_labels", 5 * TILE - 12)
    assert len(make_scan(shards).chunks) == 1


def test_a_scan_without_labels_ranks_nothing():
    assert (rank_by_scan([], draw(0, 1, alike=False)[1], 2).labels == -1).all()


def test_scores_that_overflow_float32_are_ranked_exactly():
    shards, X = draw(1, 2 * TILE, alike=False)
    shards = [replace(shard, weights=np.abs(shard.weights)) for shard in shards]  # no sum of both infinities
    huge = abs(X) * np.float32(1e38 / X.data.max())
    ranking, expected = rank_by_scan(shards, huge, 3), naive(huge, shards, 3)
    assert np.isinf(expected.scores).any()
    assert np.array_equal(ranking.labels, expected.labels)
    assert np.array_equal(ranking.scores, expected.scores)


def test_the_bounds_leave_few_candidates(monkeypatch):
    shards, X = draw(3, 20 * TILE, alike=False)
    calls = []
    monkeypatch.setattr(
        ranker_module, "score_candidates", lambda *arguments: calls.append(arguments) or score_candidates(*arguments)
    )
    monkeypatch.setattr(SETTINGS, "dense_labels", 8)
    monkeypatch.setattr(SETTINGS, "int8_range", 2)
    rank_by_scan(shards, X, 5)
    chunk, candidates = calls[0][0], calls[0][3]
    has_line = chunk.table[:-1, 1] != NO_LINE
    assert 0 < has_line.sum() < N_FEATURES  # features of both kinds
    assert chunk.lines.ctypes.data % TILE == 0  # a line of weights is one cache line
    assert (np.diff(chunk.table[:, 0].astype(np.int64))[has_line] > 0).any()  # int16 weights are in lists
    kept = [
        candidates.upper_bounds[row, : candidates.counts[row]] >= candidates.lower_bounds[row, -1]
        for row in range(1, X.shape[0])
    ]
    assert 5 <= np.mean([row.sum() for row in kept]) < 30  # of 1,280


def draw_crowded(seed, kind):
    """Labels whose scores are equal, take few values, are nearly equal, or all differ but for ties on top."""
    rng = np.random.default_rng(seed)
    n_labels = 4 * TILE + 3
    base = rng.standard_normal((n_labels, N_FEATURES)) * (rng.random((n_labels, N_FEATURES)) < 0.3)
    families = {"equal": 1, "ties": 7, "near": 1, "ties on top": n_labels}[kind]
    weights = base[rng.integers(0, families, n_labels)]
    if kind == "near":
        weights = weights * (1 + 1e-6 * rng.integers(-9, 10, weights.shape))
    bias = np.zeros(n_labels, np.float32)
    if kind == "ties on top":
        on_top = rng.random(n_labels) < 0.3
        weights[on_top], bias[on_top] = base[0], 50
    X = check_X((rng.random((7, N_FEATURES)) < 0.3) / np.sqrt(N_FEATURES))
    return make_shards(weights.astype(np.float32), bias, [TILE, 100]), X


@pytest.mark.kernel
@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["equal", "ties", "near", "ties on top"]),
    k=st.sampled_from([1, 5]),
    capacity=st.sampled_from([6, 50, 150, 1000]),  # of 259 labels
    cost=st.sampled_from([0.01, 13.0]),  # no row is scored directly for its cost, or many are
)
def test_crowded_scores_are_ranked_exactly_whatever_the_capacity(seed, kind, k, capacity, cost):
    shards, X = draw_crowded(seed, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "chunk_labels", 2 * TILE)
        patch.setattr(SETTINGS, "candidate_capacity", capacity - 4 * k)
        patch.setattr(ranker_module, "_CANDIDATE_COST", cost)
        ranking = rank_by_scan(shards, X, k)
    expected = naive(X, shards, k)
    assert np.array_equal(ranking.labels, expected.labels)
    assert np.array_equal(ranking.scores, expected.scores)


@pytest.mark.parametrize(
    ("kind", "capacity", "cost", "crowded"),
    [("equal", 200, 0.01, [7]), ("equal", 600, 0.01, []), ("equal", 600, 1e6, [7]), ("ties on top", 200, 0.01, [])],
)
def test_rows_whose_candidates_exceed_the_list_or_the_cost_of_all_labels_are_scored_directly(
    kind, capacity, cost, crowded, monkeypatch
):
    shards, X = draw_crowded(0, kind)
    directly, score = [], exact_scores.merge
    monkeypatch.setattr(exact_scores, "merge", lambda X, *more: directly.append(X.shape[0]) or score(X, *more))
    monkeypatch.setattr(SETTINGS, "candidate_capacity", capacity)
    monkeypatch.setattr(ranker_module, "_CANDIDATE_COST", cost)
    rank_by_scan(shards, X, 3)
    assert directly == crowded


def make_candidates(upper_bounds):
    """Candidates 10, 11, ... of one row, in a full list."""
    size = len(upper_bounds)
    labels = np.arange(10, 10 + size, dtype=np.int32)[None]
    lower_bounds = np.full((1, 2), -np.inf, np.float32)
    return Candidates(lower_bounds, np.array([size]), labels, np.array([upper_bounds], np.float32))


@pytest.mark.kernel
def test_a_full_list_drops_what_the_bound_excludes_and_is_crowded_if_more_than_half_remains():
    full = make_candidates([1, 5, 2, 5, 3, np.nan, 1, 4])
    add_candidate(full, 0, 30, np.float32(6), np.float32(4))
    assert full.counts[0] == 5
    assert full.labels[0, :5].tolist() == [11, 13, 15, 17, 30]  # equal to the bound, or unknown: it stays
    assert np.array_equal(full.upper_bounds[0, :5], np.array([5, 5, np.nan, 4, 6], np.float32), equal_nan=True)
    crowded = make_candidates([1, 5, 2, 5, 3, np.nan, 1, 4])
    add_candidate(crowded, 0, 30, np.float32(6), np.float32(3))
    assert crowded.counts[0] == CROWDED


@pytest.mark.kernel
@pytest.mark.parametrize("skipped", [True, False])
def test_candidates_are_scored_best_first_and_skipped_below_the_kth_exact_score(skipped):
    """The upper bound of the best label is wrong on purpose: the label is missing if and only if it was skipped."""
    shards, X = draw(3, 2 * TILE, alike=False)
    chunk, row = make_scan(shards).chunks[0][1], X[5]
    expected = naive(row, shards, 6)
    exact = expected.scores[0]
    positions = np.argsort(chunk.label_ids)[expected.labels].astype(np.int32)
    upper_bounds = np.append((exact[4] + exact[5]) / 2 if skipped else exact[4], exact[1:] + exact[0] - exact[5])[None]
    lower_bounds = np.full((1, 4), -np.inf, np.float32)
    candidates = Candidates(lower_bounds, np.array([6]), positions, upper_bounds.astype(np.float32))
    labels, scores = np.full((1, 4), -1, np.int32), np.full((1, 4), -np.inf, np.float32)
    score_candidates(chunk, 0, ranker_module._quantize(*csr_arrays(row)), candidates, labels, scores)
    found = slice(1, 5) if skipped else slice(0, 4)
    assert np.array_equal(labels[0], expected.labels[0, found])
    assert np.array_equal(scores[0], exact[found])


def test_a_ranker_prepares_in_a_call_that_repays_it_and_no_sooner(monkeypatch):
    shards, X = draw(4, 3 * TILE, alike=False)
    monkeypatch.setattr(SETTINGS, "prepare_rows", 5 * X.shape[0])
    ranker = Ranker(shards, N_FEATURES)
    some, many = (sp.csr_matrix(sp.vstack([X] * times)) for times in (4, 5))
    before = [ranker.rank(some, 5, 1) for _ in range(3)]
    assert ranker.scan.peek() is None, "few rows are scored directly, however often"
    after = ranker.rank(many, 5, 2)
    scan = ranker.scan.peek()
    assert scan is not None
    for found in (after, ranker.rank(X, 5, 1)):
        assert np.array_equal(found.labels[: X.shape[0]], before[0].labels[: X.shape[0]])
        assert np.array_equal(found.scores[: X.shape[0]], before[0].scores[: X.shape[0]])
    assert ranker.scan.peek() is scan
    copy = pickle.loads(pickle.dumps(ranker))
    assert copy.scan.peek() is None, "the layout is not sent"
    assert np.array_equal(copy.rank(X, 5, 1).scores, before[0].scores[: X.shape[0]])


def test_one_row_more_changes_no_bit_whether_prepared_or_not():
    shards, X = draw(4, 3 * TILE, alike=False)
    rows = sp.csr_matrix(sp.vstack([X] * 29))[:257]
    plain, prepared = Ranker(shards, N_FEATURES), Ranker(shards, N_FEATURES)
    prepared.prepare(1)
    rankings = [ranker.rank(rows[:size], 5, 1) for ranker in (plain, prepared) for size in (256, 257, 1)]
    assert plain.scan.peek() is None
    for ranking in rankings:
        assert np.array_equal(ranking.labels, rankings[1].labels[: len(ranking.labels)])
        assert np.array_equal(ranking.scores, rankings[1].scores[: len(ranking.labels)])


def test_few_rows_use_a_scan_that_is_there(monkeypatch):
    shards, X = draw(4, 3 * TILE, alike=False)
    ranker = Ranker(shards, N_FEATURES)
    ranker.prepare(1)
    monkeypatch.setattr(exact_scores, "merge", lambda *_: pytest.fail("scored directly"))
    assert np.array_equal(ranker.rank(X[:1], 5, 1).labels, naive(X[:1], shards, 5).labels)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("decided_labels", [1, 9, 1000])
def test_decisions_are_all_labels_whose_score_reaches_the_threshold(prepared, decided_labels, monkeypatch):
    monkeypatch.setattr(SETTINGS, "decided_labels", decided_labels)
    monkeypatch.setattr(SETTINGS, "chunk_labels", 2 * TILE)
    shards, X = draw(6, 5 * TILE, alike=False)
    shards[-1].bias[-1] = -np.inf  # never ranked
    ranker, scores = Ranker(shards, N_FEATURES), exact_scores.scores_of(X, shards, np.arange(5 * TILE))
    if prepared:
        ranker.prepare(1)
    high = np.sort(scores[5])[-7]
    for threshold in (high, np.nextafter(high, np.float32(np.inf)), 0.0, -np.inf, np.inf):
        expected = (scores >= np.float32(threshold)) & (scores > -np.inf)
        assert np.array_equal(ranker.decide(X, float(threshold), 1).toarray(), expected)


def test_decisions_score_few_labels_exactly(monkeypatch):
    shards, X = draw(3, 20 * TILE, alike=False)
    ranker, scores = Ranker(shards, N_FEATURES), exact_scores.scores_of(X, shards, np.arange(20 * TILE))
    ranker.prepare(1)
    monkeypatch.setattr(exact_scores, "_score", lambda *_: pytest.fail("scored directly"))
    monkeypatch.setattr(ranker_module, "_CANDIDATE_COST", 0.01)
    threshold = float(np.quantile(scores[1:], 0.99))
    assert np.array_equal(ranker.decide(X[1:], threshold, 1).toarray(), scores[1:] >= np.float32(threshold))


def test_no_scan_is_built_if_its_tables_outgrow_the_weights(monkeypatch):
    shards, X = draw(5, 3 * TILE, alike=False)
    monkeypatch.setattr(SETTINGS, "prepare_rows", 0)
    monkeypatch.setattr(SETTINGS, "table_bytes", 2**26)
    ranker = Ranker(shards, N_FEATURES)
    assert np.array_equal(ranker.rank(X, 5, 1).labels, naive(X, shards, 5).labels)
    assert ranker.scan.get() is None


def test_labels_added_by_fit_labels_are_scanned():
    rng = np.random.default_rng(0)
    X, Y = rng.random((40, 6)), rng.random((40, 9)) < 0.3
    many = np.tile(X, (10, 1))
    model = DiSMEC(n_jobs=1).fit(X, Y[:, :5])
    assert model.rank(many, 9).labels.max() == 4
    model.fit_labels(X, Y[:, 5:])
    assert model.rank(many, 9).labels.max() == 8


@pytest.mark.kernel
def test_the_lines_of_a_row_are_padded_to_an_even_number_and_shifted_by_128_times_their_factors():
    shards, X = draw(3, 2 * TILE, alike=False)
    chunk, rows = make_scan(shards).chunks[0][1], ranker_module._quantize(*csr_arrays(abs(X)))
    n_odd = 0
    for row in range(X.shape[0]):
        positions, factors, sums = (
            np.ones(N_FEATURES + 1, np.uint32),
            np.ones(N_FEATURES + 1, np.int16),
            np.ones(2 * TILE, np.int32),
        )
        end, shift = scan._add_lists(chunk, rows, row, positions, factors, 0, sums)
        begin, last = X.indptr[row : row + 2]
        lines = chunk.table[X.indices[begin:last], 1]
        n_odd += (lines != NO_LINE).sum() % 2
        wanted = rows.factors[begin:last][lines != NO_LINE]
        assert end % 2 == 0
        assert np.array_equal(positions[: len(wanted)], TILE * lines[lines != NO_LINE])
        assert np.array_equal(factors[: len(wanted)], wanted)
        assert not factors[len(wanted) : end].any()
        assert shift == 128 * int(wanted.astype(int).sum())
    assert 0 < n_odd < X.shape[0]


@kernel()
def score_int8(positions, factors, begin, end, weights, sums, shift, scale, bias, scores):
    return int8.score_int8(positions, factors, begin, end, weights, sums, shift, scale, bias, scores)


@pytest.mark.kernel
@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), bounds=st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_int8_scores_equal_the_reference_implementation_even_if_sums_wrap_around(seed, bounds):
    begin, end = (2 * bound for bound in sorted(bounds))
    rng = np.random.default_rng(seed)
    positions = (TILE * rng.integers(0, 7, 40 + int8.PREFETCH_DISTANCE)).astype(np.uint32)
    factors = rng.integers(-32767, 32768, 40).astype(np.int16)
    weights = rng.integers(-128, 128, 7 * TILE).astype(np.int8)
    sums = rng.integers(-(2**31), 2**31, TILE).astype(np.int32)
    shift, scale, bias = rng.integers(-(2**40), 2**40), np.float32(0.01), rng.standard_normal(TILE).astype(np.float32)
    scores, expected = np.empty((2, TILE), np.float32)
    row = positions, factors, begin, end, weights, sums, shift, scale, bias
    peaks = score_int8(*row, scores), int8.reference_score_int8(*row, expected)
    assert np.array_equal(scores, expected)
    assert peaks[0] == peaks[1] == expected.max()


@pytest.mark.kernel
def test_each_byte_slot_adds_to_its_own_label():
    weights = np.zeros((1, TILE), np.int8)
    wanted = np.arange(TILE) * 3 - 100
    for lane in range(TILE):
        weights[0, int8.byte_slot(lane)] = int8.to_byte(wanted[lane], lane)
    assert sorted(int8.byte_slot(lane) for lane in range(TILE)) == list(range(TILE))
    positions, factors = np.zeros(2 + int8.PREFETCH_DISTANCE, np.uint32), np.array([7, 0], np.int16)
    sums, bias, scores = np.ones(TILE, np.int32), np.arange(TILE, dtype=np.float32), np.empty(TILE, np.float32)
    score_int8(positions, factors, 0, 2, weights.reshape(-1), sums, 128 * 7, np.float32(2), bias, scores)
    assert np.array_equal(scores, 2 * (1 + 7 * wanted) + np.arange(TILE))


@pytest.mark.kernel
@pytest.mark.parametrize("weight", [-32767, -1, 0, 1, 32767])
@pytest.mark.parametrize("label", [0, 1, 6000])
def test_a_packed_entry_holds_a_label_and_its_weight(label, weight):
    entry = np.int32((label << 16) + weight)
    assert (chunks.entry_label(entry), chunks.entry_weight(entry)) == (label, weight)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 255, 700, 6000, 100_000])
@pytest.mark.parametrize("width", [TILE, 4160, 2**25])
def test_threads_share_rows_evenly_within_their_memory(n_rows, width, n_jobs):
    size = ranker_module._rows_at_a_time(n_rows, width, n_jobs)
    assert 1 <= size <= max(SETTINGS.scan_sums // width, 1)
    n_pieces = -(-n_rows // size)
    if size > ranker_module._MIN_ROWS_PER_THREAD:
        assert n_pieces % n_jobs == 0, "no thread waits for the others"
        assert (n_pieces // n_jobs - 1) * n_jobs * SETTINGS.scan_sums < n_rows * width, "no more rounds than needed"
    else:
        assert width > TILE or n_rows <= n_jobs * ranker_module._MIN_ROWS_PER_THREAD
