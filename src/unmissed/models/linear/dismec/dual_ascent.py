"""Dual coordinate ascent for groups of up to LANES labels: initial solution, sweeps, rounds."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.losses.margin import squared_hinge_value
from unmissed.models.linear.certificate import Doubles
from unmissed.models.linear.design import Design, Floats, RowIndices, half_inverse
from unmissed.models.linear.dismec.label_ascent import FAR_FROM_ACTIVE, ascend, best_bias_shift
from unmissed.models.linear.dismec.label_state import InitialSolution, LabelState
from unmissed.models.linear.dismec.lane_ascent import apply_sweep, lane_sweep, sort_by_row
from unmissed.models.linear.dismec.near_margin import rows_not_in
from unmissed.models.linear.dismec.newton import Newton
from unmissed.models.linear.dismec.packed_design import PackedDesign
from unmissed.models.linear.dismec.passes import Passes
from unmissed.models.linear.dismec.quantized_rows import QuantizedRows
from unmissed.numerics.dense_rows import dense_add
from unmissed.numerics.float64_sums import load_into_cache, squared_norm
from unmissed.numerics.packed_rows import row_add
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import MAX_QUANTIZED
from unmissed.numerics.workspace import zeroed_workspace

_SWEEPS = 0.25, 1.0  # Ends of the sweeps, as fractions of the (shuffled) rows.
_NORM_GROWTH = 4.0  # Largest growth of |w| in a sweep; it determines the quantization step.
_MAX_SQUARE = 1e37  # Largest |w|^2 in float32; longer weights may only shrink.
_SWEEP_TOLERANCE = 1e-2  # Tolerance of the per-label phase between sweeps, relative to the dual objective.
_SWEEP_EPOCHS = 1
_ROUND_EPOCHS = 30
_ROUND_TOLERANCE = 0.5  # Tolerance of the per-label phase between rounds, relative to `tol`.
_VISITED_POSITIVES = 128  # Positives of a label that are visited in any case.
_SCORED_POSITIVES = 256  # Positives whose scores estimate the shift of the bias in the first round, if rows are dense.
_PACKED_ROUNDS = 2  # Rounds over packed rows; later rounds use the exact values.
_SHIFT_FACTOR = 0.55  # Rows violated by more than this fraction of the bias shift are added.
_SHIFT_FACTOR_DENSE = 0.4  # The same with dense features: another round costs more than visits of more rows.
_MAX_INITIAL_SOLUTIONS = 16
_SLOW_PROGRESS = 0.5  # Progress is slow if a round leaves more than this fraction of the gap.
_MAX_ASCENT_ROUNDS = 20  # After this many rounds, Newton's method is cheaper.
_MAX_EPOCHS = 0.25, 8, 500  # The same in epochs: a fraction of the number of features, between two limits.


def _sweep_slices(design: Design) -> list[slice]:
    """Return the range of rows of each sweep."""
    ends = [math.ceil(share * design.n_samples) for share in _SWEEPS]
    return [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]


def _working_sets(group: Sequence[LabelState]) -> tuple[Any, ...]:
    """Return the concatenated rows and dual variables of a group, and the start of each label."""
    starts = np.cumsum([0, *(len(label.rows) for label in group)])
    rows, variables = (np.concatenate(parts) for parts in zip(*((one.rows, one.a) for one in group), strict=True))
    return rows, variables, starts


def _far_positives(design: Design, label: LabelState, scores: Floats | Doubles | None = None) -> npt.NDArray[np.bool_]:
    """Return which rows of the working set need no visit unless they are active.

    These are positives of a frequent label: those with a high score, or all but the first if scores are unknown. There
    are none without dense features: a visit of a sparse row costs less than the additional rounds.
    """
    far = np.zeros(len(label.rows), np.bool_)
    if design.n_dense:
        far[_VISITED_POSITIVES : len(label.positives)] = (
            True if scores is None else scores[_VISITED_POSITIVES:] > 1 + FAR_FROM_ACTIVE
        )
    return far


class InitialSolutions:
    """Cache of initial solutions, one per cost of negatives; thread-safe."""

    def __init__(self, design: Design, packed: PackedDesign, free: bool, seed: int) -> None:
        self._design, self._packed, self._free, self._seed = design, packed, free, seed
        self._made: OrderedDict[float, InitialSolution] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, cost: float) -> InitialSolution:
        """Return the initial solution of labels whose negatives cost `cost`; the least recently used is evicted."""
        with self._lock:
            if cost not in self._made:
                self._made[cost] = self._make(cost)
                if len(self._made) > _MAX_INITIAL_SOLUTIONS:
                    self._made.popitem(last=False)
            self._made.move_to_end(cost)
            return self._made[cost]

    def _make(self, cost: float) -> InitialSolution:
        """Return one epoch of dual ascent for a label without positives, over the rows of the first sweep."""
        n = _sweep_slices(self._design)[0].stop
        w = np.zeros(self._design.n_features, np.float32)
        a = np.zeros(n, np.float32)
        center = -1.0 if self._free else 0.0  # at b = -1 no negative is violated
        bias, square, _ = ascend(
            *(self._packed.rows if self._design.n_dense else self._packed.exact),
            self._design.norms,
            self._design.use_bias,
            np.arange(n, dtype=np.int32),
            (np.empty(0, np.float32), half_inverse(cost), self._design.inverse_weights),
            a,
            np.zeros(n, np.bool_),
            w,
            np.empty(2 * len(w), np.float32),
            np.float32(center),
            0.0,
            0.0,
            1,  # one epoch: a better warm start saves no time
            self._seed,
            True,
        )
        active = np.flatnonzero(a > 0).astype(np.int32)
        return InitialSolution(w, float(square), np.float32(bias), self._free, center, active, a[active])


class DualAscent:
    """Sweeps in lanes over all rows, then rounds over each label's working set; a `schedule.BlockMethod`."""

    def __init__(
        self, design: Design, packed: PackedDesign, quantized: QuantizedRows, tol: float, max_rounds: int
    ) -> None:
        self._design, self._packed, self._tol, self._max_rounds = design, packed, tol, max_rounds
        self._passes = Passes(design, quantized)
        share, least, most = _MAX_EPOCHS
        self._max_epochs = int(min(max(share * design.n_features, least), most))

    def approach(self, group: Sequence[LabelState]) -> None:
        """Take labels from the initial solution to working sets of their own."""
        if all(label.is_resumed for label in group):
            self._begin_exactly(group)
            return
        for lane, label in enumerate(group):
            self._passes.weights[lane] = label.initial.w
            label.w = self._passes.weights[lane]
            self._visit_positives(label)
        for part in _sweep_slices(self._design):
            self._sweep(group, part)

    def _begin_exactly(self, group: Sequence[LabelState]) -> None:
        """Start from earlier dual variables: the next round is an exact one, which computes the weights."""
        for lane, label in enumerate(group):
            label.w, label.rounds = self._passes.weights[lane], 1
            if label.ascends_first:
                label.refresh(self._design)
                far = _far_positives(self._design, label)
                tolerance = _ROUND_TOLERANCE * self._tol * label.scale
                epochs = min(_ROUND_EPOCHS, self._max_epochs)
                label.ascend(self._design, self._packed.rows, far, tolerance, epochs, write_back=False)

    def _sweep(self, group: Sequence[LabelState], part: slice) -> None:
        """Sweep in lanes over a range of rows, update the labels, and run their per-label phases."""
        design, passes, quantized = self._design, self._passes, self._passes.quantized
        lanes = np.ones((4, LANES), np.float32)
        for lane, label in enumerate(group):
            max_norm = max(_NORM_GROWTH * math.sqrt(label.square), 1.0 / design.typical_length)
            lanes[:3, lane] = max_norm / MAX_QUANTIZED, min(label.square, _MAX_SQUARE), min(max_norm**2, _MAX_SQUARE)
            lanes[3, lane] = label.h_negative
        lane_weights = passes.to_lanes(group, lanes[0, : len(group)])
        working_sets, counts = _working_sets(group), np.zeros(LANES, np.int64)
        for batch, frequent, rare_scores in quantized.row_batches(part, lane_weights.rare_weights):
            lane_sweep(
                batch.start,
                frequent,
                rare_scores,
                quantized.rare_squares[batch],
                tuple(bounds[batch] for bounds in quantized.bounds),
                design.norms[batch],
                design.inverse_weights[batch],
                design.use_bias,
                lane_weights.weights,
                lanes,
                lane_weights.bias,
                lane_weights.positives(batch),
                sort_by_row(*working_sets, batch.start, batch.stop - batch.start),
                passes.rows,
                passes.numbers,
                counts,
            )
        workspaces = [
            zeroed_workspace(name, design.n_samples, np.float32) for name in ("new variables", "changes of rows")
        ]
        for lane, (label, listed) in enumerate(zip(group, passes.lists(counts), strict=False)):
            load_into_cache(label.w)
            old = label.rows, label.a, len(label.positives), part.start, part.stop
            label.rows, label.a = apply_sweep(*self._packed.rows, *old, *listed, *workspaces, label.w)
            label.bias, label.square = lane_weights.bias[lane], float(lanes[1, lane])
            tolerance = _SWEEP_TOLERANCE * label.scale
            label.ascend(design, self._packed.rows, _far_positives(design, label), tolerance, _SWEEP_EPOCHS)

    def round(self, group: Sequence[LabelState]) -> None:
        """Certify labels; add violated rows to those whose gap is too wide, and run their per-label phases.

        The first round uses approximate scores and certifies no label. In its last round a label is certified and not
        changed any more, so that the certificate belongs to its weights.
        """
        if all(label.rounds for label in group) or self._max_rounds == 1:
            self._round_exactly(group)
        else:
            self._round_approximately(group)

    def _round_approximately(self, group: Sequence[LabelState]) -> None:
        passed = self._passes.approximate(group, self._estimate_threshold)
        for label, (rows, _, scores) in zip(group, passed, strict=True):
            label.rounds += 1
            label.objective = label.scale
            self._improve(label, rows, scores)

    def _round_exactly(self, group: Sequence[LabelState]) -> None:
        for label in group:
            if not label.done:
                label.refresh(self._design)
        for label, (loss, rows, slack, scores) in zip(group, self._passes.exact(group), strict=True):
            if label.done:
                continue
            missed = float(np.sum(label.positive_costs * squared_hinge_value(scores)))
            label.rounds += 1
            self._certify(label, label.cost_negative * loss + missed)
            if not label.done:
                threshold = self._violation_threshold(label, rows, slack, 1.0, scores)
                self._improve(label, rows[slack > threshold], scores)

    def _estimate_threshold(self, label: LabelState, rows: RowIndices, slack: Floats, share: float) -> float:
        """Return `_violation_threshold` from the positives; with dense features, from the last, which are random."""
        positives = label.positives[-_SCORED_POSITIVES:] if self._design.n_dense else label.positives
        return self._violation_threshold(label, rows, slack, share, self._passes.scores(label, positives))

    def _violation_threshold(
        self, label: LabelState, rows: RowIndices, slack: Floats, share: float, scores: Doubles
    ) -> float:
        """Return the violation above which a row is likely to stay violated at the optimal bias.

        `slack` has the violations of the violated `rows` among a fraction `share` of all rows, `scores` the scores of
        the last positives, or of all.
        """
        if not self._design.use_bias:
            return 0.0
        weights = self._design.weights[rows] if len(self._design.weights) else self._design.weights
        scored = label.positive_costs[len(label.positives) - len(scores) :]
        costs = scored * (len(label.positives) / max(len(scores), 1)), label.cost_negative / share
        factor = _SHIFT_FACTOR_DENSE if self._design.n_dense else _SHIFT_FACTOR
        return -factor * float(best_bias_shift(slack, weights, scores, *costs, label.offset))

    def _certify(self, label: LabelState, loss: float) -> None:
        """Certify a label; Newton's method is the fallback for one that makes no progress."""
        before = label.gap
        label.certify(self._design, loss)
        label.done = label.gap <= self._tol or label.rounds >= self._max_rounds
        tried = label.epochs >= self._max_epochs or label.rounds >= _MAX_ASCENT_ROUNDS
        if not label.done and tried and (label.hit_epoch_limit or label.gap > _SLOW_PROGRESS * before):
            Newton(self._design, label).solve(self._tol)
            label.done, label.is_dual_current = True, False

    def _improve(self, label: LabelState, violated: RowIndices, scores: Floats | Doubles) -> None:
        """Add violated rows to the working set and run the per-label phase; `scores` has those of the positives."""
        label.add_negatives(
            rows_not_in(violated, label.rows, zeroed_workspace("rows of a label", self._design.n_samples, np.bool_))
        )
        if label.free:
            label.recenter()
        tolerance = _ROUND_TOLERANCE * 0.5 ** max(label.rounds - 3, 0)  # later rounds are solved more accurately
        X = self._packed.rows if label.rounds <= _PACKED_ROUNDS else self._packed.exact
        label.ascend(
            self._design,
            X,
            _far_positives(self._design, label, scores),
            tolerance * self._tol * label.objective,
            min(_ROUND_EPOCHS, self._max_epochs),
            write_back=False,
        )

    def _visit_positives(self, label: LabelState) -> None:
        """Remove a label's positives from the negatives of the initial solution, and visit some positives once."""
        design, initial = self._design, label.initial
        at = np.searchsorted(initial.rows, label.positives)
        at = at[np.append(initial.rows, -1)[at] == label.positives]
        rows, variables = initial.rows, initial.a
        if len(at):
            for row, a in zip(rows[at], variables[at], strict=True):
                begin, end = design.indptr[row], design.indptr[row + 1]
                row_add(design.indices, design.values, begin, end, a, label.w)
                begins, values, n_dense, steps = design.dense
                dense_add(values, begins[row], a * steps[row], label.w, 0, n_dense)
                label.bias = np.float32(label.bias + design.use_bias * a)
            label.square = float(squared_norm(label.w))
            rows, variables = np.delete(rows, at), np.delete(variables, at)
        label.ascend(design, self._packed.rows, _far_positives(design, label), 0.0, 1)
        label.rows, label.a = np.concatenate([label.positives, rows]), np.concatenate([label.a, variables])
