"""Exact top-k labels of many rows: weights are laid out once for the quantized scan (`scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.execution import Layouts, Once, Threads
from unmissed.models.linear.ranking import exact_scores
from unmissed.models.linear.ranking.candidates import CROWDED, Candidates, score_candidates
from unmissed.models.linear.ranking.chunks import ChunkArrays
from unmissed.models.linear.ranking.dense_scores import DensePart
from unmissed.models.linear.ranking.int8 import TILE
from unmissed.models.linear.ranking.kept_layout import keep_layout, layout_key, open_layout
from unmissed.models.linear.ranking.layout import ScanLayout, build_layout
from unmissed.models.linear.ranking.scan import QuantizedBatch, quantize_rows, scan_chunk
from unmissed.models.linear.ranking.top_labels import TopLabels
from unmissed.models.linear.shard import Shard
from unmissed.numerics.csr import csr_arrays
from unmissed.numerics.workspace import workspace
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS

_PER_CANDIDATE = 2  # 32-bit numbers
_MIN_ROWS_PER_THREAD = 256  # fewer do not repay a thread
# Nanoseconds of scoring a row directly, per weight, per feature and shard, per label, and per dense weight; and of
# scoring one candidate, per feature and per dense weight (`benchmarks.ranking`, `benchmarks.ranking_dense`).
_WEIGHT_COST, _SEARCH_COST, _LABEL_COST, _DENSE_COST = 1.0, 150.0, 2.0, 0.03
_CANDIDATE_COST, _DENSE_CANDIDATE_COST = 13.0, 0.2


class Ranker:
    """Exact top-k labels: rows are scored directly from shards, or by the quantized scan once its layout is there.

    `prepare` opens the layout that is kept on disk, or builds it, once for all threads. So does a call of `rank` with
    at least SETTINGS.prepare_rows rows, which repays it. Other calls never do and use the layout if it is there, so no
    call waits for a layout that only later calls need. All ways give the same bits.

    Parameters
    ----------
    shards : the weights of all labels
    n_sparse : number of sparse features
    layouts : where layouts are kept on disk; None builds the layout in each process
    """

    def __init__(self, shards: Sequence[Shard], n_sparse: int, layouts: Layouts | None = None) -> None:
        self._shards = shards
        self.scan = Once("quantized weights", partial(prepare_scan, shards, n_sparse, layouts))

    def prepare(self, n_jobs: int | None) -> None:
        """Open or build the layout of the scan, unless it is there or not worth its memory."""
        self.scan.get(n_jobs)

    def rank(self, X: sp.csr_matrix, k: int, n_jobs: int | None, dense: DensePart | None = None) -> Ranking:
        """Return the k highest-scoring labels of each row, exactly; `dense` is the dense part of the scores."""
        top = TopLabels.empty(X.shape[0], k)
        self._merge(X, top, n_jobs, dense)
        return top.ranking

    def decide(
        self, X: sp.csr_matrix, threshold: float, n_jobs: int | None, dense: DensePart | None = None
    ) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels with a score of at least `threshold`.

        It is a ranking above the threshold. Rows with too many labels for that are scored directly.
        """
        n_labels = sum(shard.n_labels for shard in self._shards)
        least = max(np.float32(threshold), np.finfo(np.float32).min)  # -inf is the score of labels that are not ranked
        top = TopLabels.above(least, X.shape[0], max(min(SETTINGS.decided_labels, n_labels), 1))
        self._merge(X, top, n_jobs, dense)
        full = np.flatnonzero(top.full)
        top.scores[full] = -np.inf
        rows, positions = np.nonzero(top.scores >= least)
        labels = top.labels[rows, positions]
        if len(full):
            their_dense = None if dense is None else dense.of(full)
            their_rows, their_labels = exact_scores.decide(X[full], self._shards, least, n_jobs, their_dense)
            rows, labels = np.append(rows, full[their_rows]), np.append(labels, their_labels)
        return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=(X.shape[0], n_labels))

    def _merge(self, X: sp.csr_matrix, top: TopLabels, n_jobs: int | None, dense: DensePart | None) -> None:
        if X.shape[0] >= SETTINGS.prepare_rows:
            self.prepare(n_jobs)
        scan = self.scan.peek()
        if scan is None:
            exact_scores.merge(X, self._shards, top, n_jobs, dense)
        else:
            scan.merge(X, top, n_jobs, dense)


def prepare_scan(
    shards: Sequence[Shard], n_sparse: int, layouts: Layouts | None, n_jobs: int | None = None
) -> QuantizedScan | None:
    """Return the scan, or None if its layout would be large relative to the weights.

    It is for a million labels with few weights each.
    """
    n_labels = sum(shard.n_labels for shard in shards)
    n_weights = sum(shard.weights.size for shard in shards)
    if all(np.isneginf(shard.bias).all() for shard in shards):
        return None  # no label can be ranked
    table_bytes = SETTINGS.table_bytes * n_sparse * -(-n_labels // SETTINGS.chunk_labels)
    pays = table_bytes <= 2**26 + 8 * n_weights and n_weights < 2**32  # positions in lists are uint32
    return QuantizedScan(shards, _find_layout(shards, n_sparse, layouts, n_jobs)) if pays else None


def _find_layout(shards: Sequence[Shard], n_sparse: int, layouts: Layouts | None, n_jobs: int | None) -> ScanLayout:
    """Open the layout that is kept for these weights, or build and keep it."""
    key = layout_key(shards, n_sparse)
    if layouts is None or key is None:
        return build_layout(shards, n_sparse, n_jobs)
    found = open_layout(layouts, key, shards, n_sparse)
    if found is None:
        found = build_layout(shards, n_sparse, n_jobs)
        keep_layout(layouts, key, found)
    return found


class QuantizedScan:
    """Exact top-k labels by the quantized scan of a layout; crowded rows are scored from the shards."""

    def __init__(self, shards: Sequence[Shard], layout: ScanLayout) -> None:
        self._shards = shards
        self.layout = layout
        self.chunks = list(zip(layout.firsts, layout.chunks, strict=True))
        self._feature_costs = _WEIGHT_COST * layout.feature_counts + _SEARCH_COST * len(shards)
        self._n_dense = max((0 if shard.dense is None else shard.dense.shape[1] for shard in shards), default=0)
        n_labels = sum(shard.n_labels for shard in shards)
        self._label_costs = (_LABEL_COST + _DENSE_COST * self._n_dense) * n_labels

    @property
    def n_bytes(self) -> int:
        """Size in memory."""
        return self.layout.n_bytes

    def merge(self, X: sp.csr_matrix, top: TopLabels, n_jobs: int | None, dense: DensePart | None = None) -> None:
        """Merge all labels into each row's top k, exactly; `dense` is the dense part of the scores."""
        indptr, indices, data = csr_arrays(X)
        threads = Threads(n_jobs)
        width = max(TILE * len(chunk.scale) for _, chunk in self.chunks)
        size = _rows_at_a_time(X.shape[0], width + _PER_CANDIDATE * _capacity(top), threads.n_jobs)

        def rank_rows(begin: int) -> None:
            end = min(begin + size, X.shape[0])
            rows = _quantize(indptr[begin : end + 1], indices, data, None if dense is None else dense.X[begin:end])
            mine = top.of(slice(begin, end))
            candidates = _empty_candidates(mine)
            for first, chunk in self.chunks:
                scan_chunk(chunk, first, rows, *_scan_workspaces(chunk, rows), candidates)
            self._mark_crowded(rows, candidates)
            for first, chunk in self.chunks:
                score_candidates(chunk, first, rows, candidates, *mine)
            crowded = begin + np.flatnonzero(candidates.counts == CROWDED)
            if len(crowded):
                theirs = top.of(crowded)
                exact_scores.merge(X[crowded], self._shards, theirs, 1, None if dense is None else dense.of(crowded))
                top.labels[crowded], top.scores[crowded] = theirs

        pieces = range(0, X.shape[0], size)
        for _ in (threads if len(pieces) > 1 else Threads(1)).each(rank_rows, pieces):
            pass

    def _mark_crowded(self, rows: QuantizedBatch, candidates: Candidates) -> None:
        """Mark the rows as crowded whose candidates cost more than all labels."""
        cost = _CANDIDATE_COST * np.maximum(np.diff(rows.indptr), 1) + _DENSE_CANDIDATE_COST * self._n_dense
        cost *= candidates.counts
        if (cost <= self._label_costs).all():
            return  # most batches end here, without the costs of features
        begin, end = rows.indptr[0], rows.indptr[-1]
        sums = np.append(0.0, np.cumsum(self._feature_costs[rows.indices[begin:end]]))
        candidates.counts[cost > self._label_costs + np.diff(sums[rows.indptr - begin])] = CROWDED


def _rows_at_a_time(n_rows: int, width: int, n_jobs: int) -> int:
    """Return the number of rows per task: equal parts for all threads, as few parts as memory permits."""
    most = max(SETTINGS.scan_sums // max(width, 1), 1)
    n_parts = n_jobs * -(-n_rows // (n_jobs * most))
    return max(-(-n_rows // max(n_parts, 1)), min(_MIN_ROWS_PER_THREAD, most))


def _quantize(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32] | None = None,
) -> QuantizedBatch:
    """Return quantized rows."""
    factors, n_rows = np.empty(indptr[-1] - indptr[0], np.int16), len(indptr) - 1
    with_ones = np.ones((n_rows, 1 if dense is None else dense.shape[1] + 1), np.float32)
    if dense is not None:
        with_ones[:, :-1] = dense
    unit, norm, l1_norm, dense_norm = np.empty((4, n_rows))
    rows = QuantizedBatch(indptr, indices, data, factors, unit, norm, l1_norm, dense_norm, with_ones)
    quantize_rows(rows)
    return rows


def _scan_workspaces(chunk: ChunkArrays, rows: QuantizedBatch) -> tuple[npt.NDArray[Any], ...]:
    """Return the offsets of the scan, the bias or the products of the dense part, and its workspaces."""
    shape = len(rows.unit), TILE * len(chunk.scale)
    sums = workspace("quantized scores", shape, np.int32)
    if not len(chunk.dense):
        return chunk.bias[None], sums, sums.view(np.float32)
    products = workspace("dense products", shape, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        np.matmul(rows.dense, chunk.dense.T, out=products)
    return products, sums, products


def _capacity(top: TopLabels) -> int:
    """Return the capacity of a row's list of candidates."""
    return SETTINGS.candidate_capacity + 4 * int(top.labels.shape[1])


def _empty_candidates(top: TopLabels) -> Candidates:
    """Return empty lists of candidates for each row's top k, in the workspace of this thread."""
    n_rows, shape = len(top.labels), (len(top.labels), _capacity(top))
    labels, upper_bounds = workspace("candidates", shape, np.int32), workspace("upper bounds", shape, np.float32)
    return Candidates(top.scores.copy(), np.zeros(n_rows, np.int64), labels, upper_bounds)
