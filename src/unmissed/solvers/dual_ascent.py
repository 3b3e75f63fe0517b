"""DualAscent: how labels of the squared hinge go from the common start to their optimum, LANES at a time."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from unmissed.kernels.ascent import ascend, best_shift, row_add
from unmissed.kernels.exact import squared_length, touch
from unmissed.kernels.lanes import by_row, follow, lane_sweep
from unmissed.kernels.near import missing
from unmissed.kernels.transpose import LARGEST
from unmissed.kernels.vectors import LANES
from unmissed.losses.margin import squared_hinge_value
from unmissed.solvers.buffers import clean_scratch
from unmissed.solvers.certificate import Doubles
from unmissed.solvers.design import Design, Floats, Rows
from unmissed.solvers.label import Label, Start, half_inverse
from unmissed.solvers.newton import Newton
from unmissed.solvers.packed import Packed
from unmissed.solvers.passes import Passes
from unmissed.solvers.rounded import Rounded

_SWEEPS = 0.25, 1.0  # where sweeps end, as shares of the rows in their random order; each begins where one ended
_GROWTH = 4.0  # weights may become so many times as long in a sweep
_LONGEST = 1e37  # squared lengths that float32 holds; weights that are longer already may only become shorter
_EARLY = 1e-2  # how far, relative to the dual objective, a label goes alone between two sweeps
_EARLY_EPOCHS = 1
_LATE_EPOCHS = 30
_LATE = 0.5  # the same between two rounds, relative to the tolerance
_PACKED_ROUNDS = 2  # a label that is not done after so many is solved over rows as they are
_TAKE = 0.55  # rows violated by more than this share of the bias's overshoot are taken in
_MOST_STARTS = 16
_SLOW = 0.5  # a round that leaves more of the gap than this is one too many
_MOST_ROUNDS = (
    20  # after so many rounds, or epochs (a share of the number of features, within limits), Newton is cheaper
)
_PATIENCE = 0.25, 8, 500


def _swept(design: Design) -> list[slice]:
    """Return the rows that each sweep goes over."""
    ends = [math.ceil(share * design.n_samples) for share in _SWEEPS]
    return [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]


def _working_sets(group: Sequence[Label]) -> tuple[Any, ...]:
    """Return the rows and variables of a group, one label after the other, and where each begins."""
    starts = np.cumsum([0, *(len(label.rows) for label in group)])
    rows, variables = (np.concatenate(parts) for parts in zip(*((one.rows, one.a) for one in group), strict=True))
    return rows, variables, starts


class Starts:
    """The common start of labels whose negatives cost the same, made when it is first asked for."""

    def __init__(self, design: Design, packed: Packed, free: bool, seed: int) -> None:
        self._design, self._packed, self._free, self._seed = design, packed, free, seed
        self._made: OrderedDict[float, Start] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, cost: float) -> Start:
        """Return the start of labels whose negatives cost `cost`; only the last few costs are remembered."""
        with self._lock:
            if cost not in self._made:
                self._made[cost] = self._make(cost)
                if len(self._made) > _MOST_STARTS:
                    self._made.popitem(last=False)
            self._made.move_to_end(cost)
            return self._made[cost]

    def _make(self, cost: float) -> Start:
        """Go one epoch towards the solution of the label without positives, over the rows of the first sweep."""
        n = _swept(self._design)[0].stop
        w = np.zeros(self._design.n_features, np.float32)
        a = np.zeros(n, np.float32)
        centre = -1.0 if self._free else 0.0  # at -1 every negative is satisfied
        bias, square, _ = ascend(
            *self._packed.exact,
            self._design.norms,
            self._design.use_bias,
            np.arange(n, dtype=np.int32),
            (0, half_inverse(cost), half_inverse(cost)),
            a,
            w,
            np.empty(2 * len(w), np.float32),
            np.float32(centre),
            0.0,
            0.0,
            1,  # every label goes on from here, and a better start was seen to save nothing
            self._seed,
            True,
        )
        awake = np.flatnonzero(a > 0).astype(np.int32)
        return Start(w, float(square), np.float32(bias), self._free, centre, awake, a[awake])


class DualAscent:
    """Sweeps in lanes over all rows, then rounds over each label's working set; a method of `schedule.run`."""

    def __init__(self, design: Design, packed: Packed, rounded: Rounded, tol: float, max_rounds: int) -> None:
        self._design, self._packed, self._tol, self._max_rounds = design, packed, tol, max_rounds
        self._passes = Passes(design, rounded)
        share, least, most = _PATIENCE
        self._patience = int(min(max(share * design.n_features, least), most))

    def approach(self, group: Sequence[Label]) -> None:
        """Bring labels from the common start to where their own working sets are known."""
        for lane, label in enumerate(group):
            self._passes.weights[lane] = label.start.w
            label.w = self._passes.weights[lane]
            self._visit_positives(label)
        for part in _swept(self._design):
            self._sweep(group, part)

    def _sweep(self, group: Sequence[Label], part: slice) -> None:
        """Sweep in lanes over a part of the rows, let labels follow, and let each go on alone."""
        design, passes, rounded = self._design, self._passes, self._passes.rounded
        lanes = np.ones((5, LANES), np.float32)
        for lane, label in enumerate(group):
            reach = max(_GROWTH * math.sqrt(label.square), 1.0 / design.typical_length)
            lanes[:3, lane] = reach / LARGEST, min(label.square, _LONGEST), min(reach**2, _LONGEST)
            lanes[3:, lane] = label.h_positive, label.h_negative
        in_lanes = passes.into_lanes(group, lanes[0, : len(group)])
        working_sets, counts = _working_sets(group), np.zeros(LANES, np.int64)
        for piece, frequent, given in rounded.pieces(part, in_lanes.listed):
            lane_sweep(
                piece.start,
                frequent,
                given,
                rounded.rare_squares[piece],
                tuple(bounds[piece] for bounds in rounded.bounds),
                design.norms[piece],
                design.use_bias,
                in_lanes.weights,
                lanes,
                in_lanes.bias,
                in_lanes.positives(piece),
                by_row(*working_sets, piece.start, piece.stop - piece.start),
                passes.rows,
                passes.numbers,
                counts,
            )
        scratches = [clean_scratch(name, design.n_samples, np.float32) for name in ("new variables", "changes of rows")]
        for lane, (label, listed) in enumerate(zip(group, passes.lists(counts), strict=False)):
            touch(label.w)
            old = label.rows, label.a, len(label.positives), part.start, part.stop
            label.rows, label.a = follow(*self._packed.rows, *old, *listed, *scratches, label.w)
            label.bias, label.square = in_lanes.bias[lane], float(lanes[1, lane])
            label.ascend(design, self._packed.rows, _EARLY * label.scale, _EARLY_EPOCHS)

    def round(self, group: Sequence[Label]) -> None:
        """Certify labels; those whose gap is too wide take in the rows they missed and go on alone.

        No label is done in its first round, which is a rough one. A label in its last round is certified and left as it
        is, so that its certificate is that of its weights.
        """
        if all(label.rounds for label in group) or self._max_rounds == 1:
            self._round_exactly(group)
        else:
            self._round_roughly(group)

    def _round_roughly(self, group: Sequence[Label]) -> None:
        for label, (rows, _) in zip(group, self._passes.rough(group, self._least), strict=True):
            label.rounds += 1
            label.objective = label.scale
            self._improve(label, rows)

    def _round_exactly(self, group: Sequence[Label]) -> None:
        for label in group:
            if not label.done:
                label.refresh(self._design)
        for label, (loss, rows, slack) in zip(group, self._passes.exact(group), strict=True):
            if label.done:
                continue
            scores = self._passes.scores(label, label.positives)
            missed = float(np.sum(squared_hinge_value(scores)))
            label.rounds += 1
            self._judge(label, label.cost_negative * loss + label.cost_positive * missed)
            if not label.done:
                self._improve(label, rows[slack > self._least(label, slack, 1.0, scores)])

    def _least(self, label: Label, slack: Floats, share: float, scores: Doubles | None = None) -> float:
        """Return by how much a row must be violated to stay so when the bias falls to its best value, nearly.

        What is known is the slack of a share of the violated rows, and the scores of the positives.
        """
        if not self._design.use_bias:
            return 0.0
        if scores is None:
            scores = self._passes.scores(label, label.positives)
        return -_TAKE * float(best_shift(slack, scores, label.cost_positive, label.cost_negative / share, label.offset))

    def _judge(self, label: Label, loss: float) -> None:
        """Certify a label; one that makes no headway is handed to Newton's method, which has the last word."""
        before = label.gap
        label.certify(self._design, loss)
        label.done = label.gap <= self._tol or label.rounds >= self._max_rounds
        tried = label.epochs >= self._patience or label.rounds >= _MOST_ROUNDS
        if not label.done and tried and (label.spent or label.gap > _SLOW * before):
            Newton(self._design, label).solve(self._tol)
            label.done = True

    def _improve(self, label: Label, violated: Rows) -> None:
        """Take in rows that it violates, and go on alone."""
        label.take_in(missing(violated, label.rows, clean_scratch("rows of a label", self._design.n_samples, np.bool_)))
        if label.free:
            label.recentre()
        late = _LATE * 0.5 ** max(label.rounds - 3, 0)  # a label that keeps coming back stopped at gains that add up
        X = self._packed.rows if label.rounds <= _PACKED_ROUNDS else self._packed.exact
        label.ascend(
            self._design, X, late * self._tol * label.objective, min(_LATE_EPOCHS, self._patience), put_back=False
        )

    def _visit_positives(self, label: Label) -> None:
        """Take the rows that are a label's positives out of the common start, and visit those once."""
        design, start = self._design, label.start
        at = np.searchsorted(start.rows, label.positives)
        at = at[np.append(start.rows, -1)[at] == label.positives]
        rows, variables = start.rows, start.a
        if len(at):
            for row, a in zip(rows[at], variables[at], strict=True):
                begin, end = design.indptr[row], design.indptr[row + 1]
                row_add(design.indices, design.values, begin, end, a, label.w)
                label.bias = np.float32(label.bias + design.use_bias * a)
            label.square = float(squared_length(label.w))
            rows, variables = np.delete(rows, at), np.delete(variables, at)
        label.ascend(design, self._packed.rows, 0.0, 1)
        label.rows, label.a = np.concatenate([label.positives, rows]), np.concatenate([label.a, variables])
