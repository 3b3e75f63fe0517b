"""Scoring: evaluate a ranking against Y and inverse propensities in one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses.inverse import check_cells, check_inverse_propensities
from unmissed.matrices import check_Y
from unmissed.metrics.conventions import PYXCLIB, RERANK_DEPTH, SCALINGS, Conventions
from unmissed.metrics.evaluation import Evaluation, LabelTally, Unseen
from unmissed.metrics.hits import BEST, HIT, LISTED, NDCG, SCORED, TRUE, mark_hits, tally
from unmissed.metrics.metric import CompiledMetric, Counts, EvaluatedRows, Floats, Metric, RowMetric, check_values
from unmissed.metrics.metric_registry import find_metrics, known_metrics
from unmissed.ranking import Ranking


class _RankedRows(NamedTuple):
    """The ranking of each row, its true labels in CSR form with sorted indices, and 1/p of each, if it is given."""

    labels: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    inverse: Floats | None


def evaluate(
    ranking: Any,
    Y: Any,
    inverse_propensities: npt.ArrayLike | sparse.csr_matrix | None = None,
    k: int | Sequence[int] = (1, 3, 5),
    *,
    metrics: Iterable[str | Metric] | None = None,
    train_counts: npt.ArrayLike | None = None,
    filtered: npt.ArrayLike | None = None,
    conventions: Conventions = PYXCLIB,
) -> Evaluation:
    """Compute metrics of a ranking at each k: P, nDCG, PSP, PSnDCG, recall, coverage, macro averages, your own.

    Parameters
    ----------
    ranking : Ranking, or scores of shape (n_samples, n_labels)
        A ranking at least as deep as the largest k. Of scores, dense or sparse, the best labels are kept as
        `Ranking.from_scores` does.
    Y : scipy sparse matrix or array of shape (n_samples, n_labels)
        The true labels: 1 for a true label, 0 or no entry elsewhere.
    inverse_propensities : array of n_labels, or sparse matrix with the pattern of Y, optional
        1/p of each label, estimated from the *training* counts, or 1/p of each true label of each row. PSP and PSnDCG
        need it.
    k : int or sequence of int
        The cut-offs.
    metrics : names or `Metric` objects, optional
        By default every registered metric that is computed by default and whose needs are given.
    train_counts : array of n_labels, optional
        Training positives per label; needed for deciles and to drop unseen labels.
    filtered : int array of shape (n_pairs, 2), optional
        (row, label) pairs to ignore, such as the reciprocal pairs of label-feature data sets. The labels after a
        filtered one move up, so the ranking should be deeper than the largest k.
    conventions : Conventions
        The definitions that the metrics follow; the defaults give pyxclib's numbers.

    Returns
    -------
    Evaluation
        `evaluation["PSP@5"]` is one figure, `evaluation.figures` a dict of all.
    """
    cuts = _check_cuts(k)
    truth = check_Y(Y)
    n_labels = int(truth.shape[1])
    pairs = None if filtered is None else _check_pairs(filtered, truth.shape)
    if not isinstance(ranking, Ranking):
        ranking = _rank_scores(ranking, n_labels, needed_depth(cuts, conventions, pairs))
    _check_depth(ranking, cuts, conventions)
    _check_fit(ranking, truth.shape)
    inverse, of_cells = _check_inverse(inverse_propensities, truth, conventions)
    counts = _check_counts(train_counts, n_labels)
    given = {"inverse_propensities": inverse is not None, "train_counts": counts is not None}
    computed = _choose(metrics, given, per_cell=inverse is None and of_cells is not None)
    depth = max(cuts[-1], RERANK_DEPTH if conventions.rerank else 0)
    indptr, indices = truth.indptr.astype(np.int64), truth.indices.astype(np.int32, copy=False)
    rows = _RankedRows(ranking.labels, ranking.scores, indptr, indices, of_cells)
    if pairs is not None:
        rows = _without_pairs(rows, pairs, n_labels, conventions)
    unseen = None if counts is None else _unseen(rows, counts)
    if conventions.unseen_labels == "drop":
        if counts is None:
            raise InputError("unseen_labels='drop' needs training counts; pass train_counts to evaluate")
        rows = _keep_assignments(rows, counts[rows.indices] > 0)
    if conventions.empty_rows == "drop":
        rows = _without_rows(rows)
    terms, totals, labels = _tally(rows, depth, cuts, n_labels, inverse, conventions)
    if conventions.empty_ndcg == "one":
        empty = np.diff(rows.indptr) == 0
        terms[empty, :, NDCG] = 1
        totals[:, NDCG] += np.count_nonzero(empty)
    own = [metric for metric in computed if isinstance(metric, RowMetric)]
    if own:
        more, more_totals = _row_terms(own, _evaluated_rows(rows, cuts[-1], n_labels, inverse, counts), cuts)
        terms, totals = np.concatenate([terms, more], axis=2), np.concatenate([totals, more_totals], axis=1)
    return Evaluation(cuts, terms, totals, labels, inverse, counts, conventions, computed, unseen)


def _check_inverse(
    inverse: Any, truth: sparse.csr_matrix, conventions: Conventions
) -> tuple[Floats | None, Floats | None]:
    """Return 1/p of each label, and of each true label of each row; the former is None if the latter was given."""
    if inverse is None:
        return None, None
    if not sparse.issparse(inverse):
        of_labels = check_inverse_propensities(inverse, truth.shape[1])
        return of_labels, of_labels[truth.indices]
    if conventions.rerank:
        raise InputError("rerank moves labels by one inverse propensity per label; a matrix of them has other cells")
    return None, check_cells(inverse, truth, "inverse_propensities", inverse=True).data


def _choose(
    metrics: Iterable[str | Metric] | None, given: dict[str, bool], *, per_cell: bool = False
) -> tuple[Metric, ...]:
    """Return the named metrics, or those that are computed by default; raise if a named one needs what is missing.

    Inverse propensities per cell are enough for metrics of the compiled pass.
    """

    def lacks(metric: Metric) -> list[str]:
        compiled = per_cell and isinstance(metric, CompiledMetric)
        return [need for need in metric.needs if not (given[need] or (compiled and need == "inverse_propensities"))]

    if metrics is None:
        return tuple(metric for metric in known_metrics().values() if metric.by_default and not lacks(metric))
    named = find_metrics(metrics)
    for metric in named:
        missing = lacks(metric)
        if missing:
            raise InputError(f"{metric.name} needs {' and '.join(missing)}; pass them to evaluate")
    return named


def _evaluated_rows(
    rows: _RankedRows, depth: int, n_labels: int, inverse: Floats | None, counts: Counts | None
) -> EvaluatedRows:
    """Return what metrics written in numpy are computed from."""
    labels, indptr, indices = rows.labels[:, :depth], rows.indptr, rows.indices
    hits = np.empty(labels.shape, dtype=np.bool_)
    mark_hits(
        _as_kernel_array(labels, np.int32),
        _as_kernel_array(indptr, np.int64),
        _as_kernel_array(indices, np.int32),
        hits,
    )
    Y = sparse.csr_matrix((np.ones(indices.size, dtype=np.float32), indices, indptr), shape=(len(labels), n_labels))
    return EvaluatedRows(labels, rows.scores[:, :depth], hits, Y, inverse, counts)


def _row_terms(
    metrics: Sequence[RowMetric], rows: EvaluatedRows, cuts: tuple[int, ...]
) -> tuple[npt.NDArray[np.float32], Floats]:
    """Return numerators and denominators of each row, and their sums."""
    n_samples = len(rows.labels)
    terms = np.empty((n_samples, len(cuts), 2 * len(metrics)), dtype=np.float32)
    totals = np.empty((len(cuts), 2 * len(metrics)))
    for cut, k in enumerate(cuts):
        at_cut = rows.top(k)
        for position, metric in enumerate(metrics):
            values = check_values(metric, metric.per_row(at_cut), n_samples, "row")
            columns = slice(2 * position, 2 * position + 2)
            terms[:, cut, columns] = values.T
            totals[cut, columns] = values.sum(axis=1)
    return terms, totals


def _tally(
    rows: _RankedRows,
    depth: int,
    cuts: tuple[int, ...],
    n_labels: int,
    inverse: Floats | None,
    conventions: Conventions,
) -> tuple[npt.NDArray[np.float32], Floats, LabelTally]:
    """Run the compiled pass; return the row terms, their sums, and the label counts accumulated over cut-offs."""
    n_samples = rows.labels.shape[0]
    width = 3 if rows.inverse is None else 7
    terms = np.empty((n_samples, len(cuts), width), dtype=np.float32)
    totals = np.zeros((len(cuts), width))
    counts = np.zeros((n_labels, len(cuts), 5), dtype=np.int32)
    reranked = conventions.rerank and inverse is not None
    nothing = np.empty(0)
    tally(
        _as_kernel_array(rows.labels[:, :depth], np.int32),
        _as_kernel_array(rows.scores[:, :RERANK_DEPTH] if reranked else np.empty((0, 0)), np.float32),
        _as_kernel_array(rows.indptr, np.int64),
        _as_kernel_array(rows.indices, np.int32),
        _as_kernel_array(nothing if rows.inverse is None else rows.inverse, np.float64),
        _as_kernel_array(nothing if inverse is None else inverse, np.float64),
        np.array(cuts, dtype=np.int64),
        SCALINGS[conventions.variant],
        terms,
        totals,
        counts,
    )
    up_to = np.cumsum(counts, axis=1, dtype=np.int64)
    true, listed, hits, scored, best = (up_to[:, :, column] for column in (TRUE, LISTED, HIT, SCORED, BEST))
    return terms, totals, LabelTally(true[:, 0], listed, hits, scored, best)


def _as_kernel_array(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a contiguous, writable array of one dtype; for any other, Numba would compile the kernel again."""
    return np.require(array, dtype=dtype, requirements=["C", "W"])


def _check_cuts(k: Any) -> tuple[int, ...]:
    cuts = list(k) if isinstance(k, Iterable) and not isinstance(k, str) else [k]
    valid = all(isinstance(cut, int | np.integer) and not isinstance(cut, bool) and cut >= 1 for cut in cuts)
    if not cuts or not valid:
        raise InputError(f"k must be one or more integers of at least 1, not {k!r}")
    return tuple(sorted({int(cut) for cut in cuts}))


def needed_depth(k: Sequence[int], conventions: Conventions, pairs: npt.NDArray[np.int64] | None) -> int:
    """Return the required depth of a ranking: the largest k plus the labels per row that filtering can remove."""
    deepest = max(*k, RERANK_DEPTH if conventions.rerank else 0)
    removed = 0 if pairs is None or not len(pairs) else int(np.unique(pairs[:, 0], return_counts=True)[1].max())
    return deepest + removed


def _rank_scores(scores: Any, n_labels: int, depth: int) -> Ranking:
    """Return the ranking of a score matrix, which must have one column per label of Y."""
    ranking = Ranking.from_scores(scores, depth)
    n_columns = np.shape(scores)[1]
    if n_columns != n_labels:
        raise InputError(f"the scores have {n_columns} columns, the truth has {n_labels} labels")
    return ranking


def _check_depth(ranking: Ranking, cuts: tuple[int, ...], conventions: Conventions) -> None:
    if cuts[-1] > ranking.k:
        raise InputError(
            f"k = {cuts[-1]} exceeds the ranking, which has {ranking.k} labels per row; choose a smaller k"
        )
    if conventions.rerank and ranking.k < RERANK_DEPTH:
        raise InputError(f"re-ranking needs {RERANK_DEPTH} labels per row, and the ranking has {ranking.k}")


def _check_fit(ranking: Ranking, shape: tuple[int, int]) -> None:
    """Refuse a ranking that is not one of the truth's rows and labels."""
    if shape[0] != ranking.n_samples:
        raise InputError(f"the ranking has {ranking.n_samples} rows, the truth has {shape[0]}")
    highest = int(ranking.labels.max(initial=-1))
    if highest >= shape[1]:
        row = int(np.argmax(ranking.labels.max(axis=1)))
        raise InputError(f"row {row} of the ranking lists label {highest}, the truth has only {shape[1]} labels")


def _check_counts(train_counts: npt.ArrayLike | None, n_labels: int) -> Counts | None:
    if train_counts is None:
        return None
    counts = np.asarray(train_counts)
    if counts.shape != (n_labels,) or not (counts >= 0).all():
        raise InputError(f"training counts must be {n_labels} numbers of at least 0, one for each label of the truth")
    return counts.astype(np.int64)


def _check_pairs(filtered: npt.ArrayLike, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    pairs = np.asarray(filtered)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"filtered pairs must be integers of shape (n_pairs, 2), not {pairs.dtype} of {pairs.shape}")
    wrong = np.flatnonzero(((pairs < 0) | (pairs >= np.array(shape))).any(axis=1))
    if wrong.size:
        raise InputError(
            f"filtered pair {wrong[0]} is {tuple(pairs[wrong[0]].tolist())}; "
            f"a row below {shape[0]} and a label below {shape[1]} were expected"
        )
    return pairs.astype(np.int64)


def _without_pairs(
    rows: _RankedRows, pairs: npt.NDArray[np.int64], n_labels: int, conventions: Conventions
) -> _RankedRows:
    """Remove filtered pairs from the ranking, and from the true labels if the convention says so.

    The labels after a removed one move up.
    """
    keys = np.sort(pairs[:, 0] * n_labels + pairs[:, 1])
    n_samples = rows.labels.shape[0]
    of_row = np.arange(n_samples, dtype=np.int64)[:, None] * n_labels
    out = _among(np.where(rows.labels < 0, -1, of_row + rows.labels), keys)
    order = np.argsort(out, axis=1, kind="stable")
    rows = rows._replace(
        labels=np.take_along_axis(np.where(out, -1, rows.labels), order, axis=1).astype(np.int32),
        scores=np.take_along_axis(np.where(out, -np.inf, rows.scores), order, axis=1).astype(np.float32),
    )
    if conventions.filtered == "ranking":
        return rows
    lengths = np.diff(rows.indptr)
    return _keep_assignments(rows, ~_among(np.repeat(of_row[:, 0], lengths) + rows.indices, keys))


def _among(values: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which values are among the sorted keys."""
    if not keys.size:
        return np.zeros(values.shape, dtype=np.bool_)
    at = np.minimum(np.searchsorted(keys, values), keys.size - 1)
    return np.asarray(keys[at] == values)


def _keep_assignments(rows: _RankedRows, kept: npt.NDArray[np.bool_]) -> _RankedRows:
    """Keep the true label assignments of a mask."""
    before = np.concatenate([[0], np.cumsum(kept)])
    inverse = None if rows.inverse is None else rows.inverse[kept]
    return rows._replace(indptr=before[rows.indptr].astype(np.int64), indices=rows.indices[kept], inverse=inverse)


def _unseen(rows: _RankedRows, counts: Counts) -> Unseen:
    """Count the true labels without a training positive, the rows with any, and the rows with no others."""
    unseen = counts[rows.indices] == 0
    before = np.concatenate([[0], np.cumsum(unseen)])
    per_row = np.diff(before[rows.indptr])
    lengths = np.diff(rows.indptr)
    return Unseen(
        np.bincount(rows.indices[unseen], minlength=counts.size).astype(np.int64),
        int(np.count_nonzero(per_row)),
        int(np.count_nonzero((per_row > 0) & (per_row == lengths))),
    )


def _without_rows(rows: _RankedRows) -> _RankedRows:
    """Remove the rows that have no true label."""
    labeled = np.diff(rows.indptr) > 0
    indptr = np.concatenate([rows.indptr[:1], rows.indptr[1:][labeled]])
    return rows._replace(labels=rows.labels[labeled], scores=rows.scores[labeled], indptr=indptr)
