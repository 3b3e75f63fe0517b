"""The solver of LogisticOVR for a block of labels: logistic loss, l2 penalty, and a certificate per label.

Each label minimizes P(w, b) = 1/2 |w|^2 + 1/2 b^2 + sum_i l_i(w.x_i + b). With phi(m) = log(1 + exp(-m)) a negative
costs l(m) = c phi(-m). A positive costs `positive` phi(m) + `counter` phi(-m) = (`positive` + `counter`) phi(m) +
`counter` m because phi(-m) = phi(m) + m: the problem is convex if `positive` + `counter` >= 0, whatever the sign of
`counter`.

Certificate. P is 1-strongly convex, so P - min P <= 1/2 |gradient|^2, which is also the duality gap of the dual
variables -l_i'(m_i). It is reported relative to the sum of the absolute values of the terms of P: P itself unless
`counter` m < 0 for a positive.

Method. Let r_i = l_i'(m_i). A round is one pass over X for LANES labels at a time, which computes P, its gradient g and
a sample of rows, followed by the minimization of a model of P for each label. The sample has all positives, the heavy
negatives (r |x|^2 above a threshold t), and one light negative for every t of the sum of r |x|^2, drawn in proportion
to it and weighted to stand for t. Over a step d, the model is g.d + 1/2 |d|^2 plus what the losses of the sample have
beyond their tangents. It is convex and has the gradient of P, so its minimizer is in a direction of descent. Its
curvature estimates that of P with an error that is small relative to 1, the curvature of the penalty. Labels begin at
the solution of a label without positives, which all of them share.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unmissed.models.linear.certificate import rounding
from unmissed.models.linear.columns import FeatureColumns
from unmissed.models.linear.design import Design, Floats, LabelBlock, RowIndices, Solvable, lay_out
from unmissed.models.linear.duplicate_labels import DuplicateLabels
from unmissed.models.linear.logistic.kernels import (
    label_gradient,
    label_losses,
    lane_gradients,
    lane_losses,
    minimize_model,
    sample_derivatives,
    softplus,
)
from unmissed.models.linear.shard import Shard
from unmissed.models.linear.shard_builder import ShardBuilder
from unmissed.models.parameters import FitBias, MaxRounds, Prune, Tolerance, check_parameters
from unmissed.numerics.float64_sums import add_rows, scores_exact, squared_norm
from unmissed.numerics.simd import LANES
from unmissed.numerics.transpose import interleave, separate
from unmissed.numerics.workspace import workspace
from unmissed.settings import SETTINGS

_SLOW, _FALL = 0.1, 0.25  # If a round leaves more than this fraction of the gap, the threshold is multiplied by that.
_PHASE = 0.618  # Samples of successive rounds differ: each begins at another fraction of the threshold.
_MAX_INITIAL_SOLUTIONS = 16
_INITIAL_TOLERANCE = 1e-3

LabelCosts = tuple[float, float, float]
"""The costs (positive, counter, negative) of a label."""


@dataclass(frozen=True)
class Logistic:
    """Solve label blocks to a relative duality gap of `tol`, in at most `max_rounds` rounds per label.

    `fit_bias` adds a bias that is penalized like the weights (LIBLINEAR with -B 1). Weights with |w| < prune become 0
    after training if rows are L2-normalized; for other rows the threshold is divided by their typical norm.
    """

    solvable: ClassVar[Solvable] = Solvable("logistic", counter=True)
    tol: Tolerance = 1e-3
    prune: Prune = 0.01
    fit_bias: FitBias = True
    max_rounds: MaxRounds = 50

    def __post_init__(self) -> None:
        check_parameters(self)

    def prepare(self, X: Any, rows: npt.ArrayLike | None = None) -> PreparedLogistic:
        """Prepare X (canonical float32 CSR), or a sorted subset of its rows, for all blocks of labels."""
        return PreparedLogistic(self, X, rows)


class LogisticLabel:
    """A label: its positives and costs, weights, bias, gradient, sample (positives first) and certificate.

    `total` is the sum of r over all rows.
    """

    def __init__(self, at: int, positives: RowIndices, costs: LabelCosts, w: Floats, bias: float) -> None:
        self.at, self.positives, self.costs = at, positives, np.array(costs)
        self.w, self.bias = w, float(np.float32(bias))
        self.g = np.empty_like(w)
        self.total = 0.0
        self.rows, self.weights = positives, np.ones(len(positives))
        self.threshold = SETTINGS.logistic_threshold
        self.rounds = 0
        self.done = False
        self.objective, self.gap = np.inf, np.inf
        self.before: tuple[float, float, Floats, float] = np.inf, 0.0, w, 0.0  # objective, slope, step, its bias

    @property
    def sampling(self) -> tuple[float, float]:
        """The threshold of the sample, and the first value of the sum."""
        return self.threshold, self.threshold * (_PHASE * (self.rounds + 1) % 1)

    def set_sample(self, negatives: RowIndices, weights: npt.NDArray[Any]) -> None:
        """Set the sample to all positives and some negatives with their weights."""
        self.rows = np.concatenate([self.positives, negatives])
        self.weights = np.concatenate([np.ones(len(self.positives)), weights])

    @property
    def losses(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The losses of the sample: factors of log(1 + exp(m)) and of -m."""
        positive, counter, negative = self.costs
        is_positive = np.arange(len(self.rows)) < len(self.positives)
        return self.weights * np.where(is_positive, positive + counter, negative), np.where(is_positive, positive, 0.0)


class PreparedLogistic:
    """A solver and the prepared rows of X; it is safe to share between threads."""

    def __init__(self, solver: Logistic, X: Any, rows: npt.ArrayLike | None = None) -> None:
        self.solver = solver
        self.design: Design = lay_out(X, bias=solver.fit_bias, seed=0, rows=rows)
        self.columns = FeatureColumns.of(self.design)
        self._longest = math.sqrt(float(self.design.norms.max(initial=0))) * (1 + 1e-6)
        self._duplicates = DuplicateLabels()
        self._initial: OrderedDict[float, tuple[LogisticLabel, Floats]] = OrderedDict()
        self._lock = threading.Lock()

    def solve(self, block: LabelBlock) -> Shard:
        """Return the solution of every label of the block; it does not depend on the assignment of labels to blocks."""
        self.solver.solvable.check(block)
        positions = self.design.positions(block.rows)
        builder = ShardBuilder(self.design, block.first, block.n_labels, self.solver.prune)
        counter = np.zeros(block.n_labels) if block.counter is None else block.counter
        todo = self._duplicates.begin(block, builder)
        active: list[LogisticLabel] = []
        for first in range(0, len(todo), LANES):
            for at in todo[first : first + LANES]:
                costs = float(block.positive[at]), float(counter[at]), float(block.negative[at])
                active.append(self._begin(at, np.sort(positions[block.starts[at] : block.starts[at + 1]]), costs))
            enough = LANES if first + LANES < len(todo) else 1
            while len(active) >= enough:
                self._round(active[:LANES])
                for label in active[:LANES]:
                    if label.done:
                        builder.add(label.at, label.w, np.float32(label.bias), label.objective, label.gap, label.rounds)
                active = [label for label in active if not label.done]
        self._duplicates.end(block, builder)
        return builder.build()

    def _begin(self, at: int, positives: RowIndices, costs: LabelCosts) -> LogisticLabel:
        """Return a label after the first step from the shared initial solution."""
        initial, r = self._initial_solution(costs[2])
        label = LogisticLabel(at, positives, costs, initial.w.copy(), initial.bias)
        label.g[:] = initial.g
        others = ~np.isin(initial.rows, positives)
        label.set_sample(initial.rows[others], initial.weights[others])
        margins, own, curvature = (np.empty(len(positives)) for _ in range(3))
        scores_exact(*self.design.rows, positives, label.w, label.bias, margins)
        sample_derivatives(margins, tuple(part[: len(positives)] for part in label.losses), own, curvature)
        own -= r[positives]  # they were negatives
        add_rows(*self.design.rows, positives, own, label.g)
        label.total = initial.total + float(np.sum(own))
        self._improve(label)
        return label

    def _initial_solution(self, cost: float) -> tuple[LogisticLabel, Floats]:
        """Return the solution of a label without positives whose negatives cost `cost`, and its r."""
        with self._lock:
            if cost not in self._initial:
                self._initial[cost] = self._solve_initial(cost)
                if len(self._initial) > _MAX_INITIAL_SOLUTIONS:
                    self._initial.popitem(last=False)
            self._initial.move_to_end(cost)
            return self._initial[cost]

    def _solve_initial(self, cost: float) -> tuple[LogisticLabel, Floats]:
        """Solve a label without positives, from the best bias of weights 0."""
        n, bias = self.design.n_samples, 0.0
        if self.design.use_bias:
            for _ in range(100):  # Newton's method for b + n cost sigma(b) = 0, from above: monotone
                _, sigma = softplus(bias)
                bias -= (bias + n * cost * sigma) / (1 + n * cost * sigma * (1 - sigma))
        w = np.zeros(self.design.n_features, np.float32)
        label = LogisticLabel(-1, np.empty(0, np.int32), (0.0, 0.0, cost), w, bias)
        r = np.empty(n, np.float32)
        for _ in range(self.solver.max_rounds):
            self._evaluate_one(label, r)
            self._certify(label, max(self.solver.tol, _INITIAL_TOLERANCE))
            if label.done:
                break
            self._improve(label)
        return label, r

    def _round(self, group: Sequence[LogisticLabel]) -> None:
        """Evaluate and certify labels; improve those that are not done."""
        if len(group) <= SETTINGS.logistic_per_label:
            for label in group:
                self._evaluate_one(label, workspace("derivatives of rows", (self.design.n_samples,)))
        else:
            self._evaluate(group)
        for label in group:
            self._certify(label, self.solver.tol)
            if not label.done:
                self._improve(label)

    def _evaluate(self, group: Sequence[LogisticLabel]) -> None:
        """Compute objective, gradient and sample of up to LANES labels."""
        n, d, k = self.design.n_samples, self.design.n_features, len(group)
        by_label = workspace("weights by label", (LANES, d))
        W, G = workspace("weights in lanes", (d * LANES,)), workspace("gradients in lanes", (d * LANES,))
        R = workspace("derivatives in lanes", (n * LANES,))
        sample = workspace("rows of lanes", (LANES, n), np.int32), workspace("numbers of rows of lanes", (LANES, n))
        bias, costs, sampling = np.zeros(LANES), np.zeros((LANES, 3)), np.ones((2, LANES))
        for lane, label in enumerate(group):
            by_label[lane], bias[lane] = label.w, label.bias
            costs[lane], sampling[:, lane] = label.costs, label.sampling
        by_label[k:] = 0
        interleave(by_label, W)
        sums, counts, squares = np.empty((4, LANES)), np.empty(LANES, np.int64), np.empty(LANES)
        positives = _by_row(group, n)
        X = self.design.rows, self.design.norms
        lane_losses(*X, W, bias, costs, positives, sampling, R, sums, sample, counts)
        lane_gradients(self.columns.arrays, W, R, G, squares)
        separate(G, by_label)
        for lane, label in enumerate(group):
            label.g[:] = by_label[lane]
            label.set_sample(*(part[lane, : counts[lane]] for part in sample))
            self._record(label, sums[:, lane], float(squares[lane]))

    def _evaluate_one(self, label: LogisticLabel, r: Floats) -> None:
        """Compute objective, gradient and sample of one label, and r."""
        n = self.design.n_samples
        sums, sample = np.empty(4), (workspace("rows of one label", (n,), np.int32), workspace("numbers of rows", (n,)))
        is_positive = np.zeros(n, np.bool_)
        is_positive[label.positives] = True
        of_label = label.w, label.bias, label.costs, is_positive, label.sampling
        count = label_losses(self.design.rows, self.design.norms, *of_label, r, sums, sample)
        square = label_gradient(self.columns.arrays, label.w, r, label.g)
        label.set_sample(*(part[:count] for part in sample))
        self._record(label, sums, float(square))

    def _record(self, label: LogisticLabel, sums: npt.NDArray[np.float64], square: float) -> None:
        """Set the objective and the bound of the gap of a label from the sums of a pass, rounding errors included."""
        design = self.design
        loss, label.total, mass, below = map(float, sums)
        mass += len(label.positives) * max(label.costs[1], 0.0)  # an error of a positive's r is relative to both parts
        label.rounds += 1
        length = math.sqrt(float(squared_norm(label.w)))
        margin_error = rounding(design.longest) * (length * self._longest + abs(label.bias))
        error = (2.0**-24 + margin_error + rounding(design.n_samples)) * mass * self._longest + 1e-30
        slope_bias = label.bias + label.total if design.use_bias else 0.0
        norm = math.sqrt(square + slope_bias * slope_bias) * (1 + rounding(design.n_features)) + error
        penalty = 0.5 * (length**2 + label.bias**2)
        scale = penalty + loss - 2 * below
        label.objective = penalty + loss + margin_error * mass + (1e-12 + rounding(design.n_samples)) * scale
        gap = 0.5 * norm * norm / scale if scale > 0 else (0.0 if norm == 0 else math.inf)
        if gap > _SLOW * label.gap:
            label.threshold *= _FALL
        label.gap = gap if gap < math.inf else math.inf

    def _certify(self, label: LogisticLabel, tol: float) -> None:
        """Set whether a label is done: solved, or out of rounds."""
        label.done = label.gap <= tol or label.rounds >= self.solver.max_rounds

    def _improve(self, label: LogisticLabel) -> None:
        """Take the step of the model, or shorten the last one if it raised the objective."""
        objective, slope, step, step_bias = label.before
        if label.objective > objective + 1e-4 * slope:
            t = min(max(-0.5 * slope / (label.objective - objective - slope), 0.1), 0.5)
            label.w -= np.float32(1 - t) * step
            label.bias -= (1 - t) * step_bias
            label.before = objective, t * slope, np.float32(t) * step, t * step_bias
        else:
            vectors = workspace("vectors of one label", (6, self.design.n_features))
            use_bias = float(self.design.use_bias)
            gradient = label.g, use_bias * (label.bias + label.total)
            bias, slope = minimize_model(
                self.design.rows, label.rows, label.losses, use_bias, *gradient, label.w, label.bias, vectors
            )
            label.before = label.objective, float(slope), vectors[5].copy(), bias - label.bias
            label.bias = float(bias)
        label.bias = float(np.float32(label.bias))


def _by_row(group: Sequence[LogisticLabel], n_samples: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the lanes whose label each row has, in CSR form."""
    rows = np.concatenate([label.positives for label in group])
    lanes = np.repeat(np.arange(len(group)), [len(label.positives) for label in group])
    starts = np.zeros(n_samples + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n_samples), out=starts[1:])
    return starts, lanes[np.argsort(rows, kind="stable")]
