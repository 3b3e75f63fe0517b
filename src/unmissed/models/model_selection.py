"""Parameter selection on held-out rows: candidates are compared with paired bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from unmissed.errors import InputError
from unmissed.metrics import Difference, Evaluation, compare, evaluate, merge, split_figure
from unmissed.models.base import Model
from unmissed.models.training_data import TrainingData
from unmissed.progress import Progress, silent
from unmissed.propensity import FromTable, PropensityLike, as_propensity

LEAST_ROWS = 100
"""With fewer rows, held-out parts are too small to distinguish candidates."""
_RESAMPLES = 1000
_LIKELY = 0.8  # fraction of resamples in which a gain must be positive
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Goal:
    """The metric to maximize, and a second metric that must not drop.

    A candidate is eligible if it has a higher `metric` in 80 % of the resamples, and if its loss in `keep` against the
    baseline parameters is not significant and at most `margin`. The eligible candidate with the highest `metric` is
    chosen; the baseline parameters if there is none.

    Parameters
    ----------
    metric, keep : registered metrics with a cut-off, such as "PSP@5" and "P@1"
    level : level of the bootstrap intervals
    margin : largest accepted loss in `keep`
    """

    metric: str = "PSP@5"
    keep: str = "P@1"
    level: float = 0.95
    margin: float = 0.005

    def __post_init__(self) -> None:
        for name in (self.metric, self.keep):
            split_figure(name)
        if not 0 < self.level < 1:
            raise InputError(f"the level of intervals is between 0 and 1; got {self.level}")

    @property
    def cuts(self) -> list[int]:
        """The cut-offs of both metrics."""
        return sorted({split_figure(name)[1] for name in (self.metric, self.keep)})

    @property
    def metrics(self) -> list[str]:
        """The names of both metrics without their cut-offs."""
        return sorted({split_figure(name)[0] for name in (self.metric, self.keep)})

    def allows(self, gain: Difference) -> bool:
        """Return whether a difference in `keep` is acceptable."""
        return gain.high >= 0 and gain.value >= -self.margin

    def prefers(self, gain: Difference) -> bool:
        """Return whether a difference in `metric` is likely a gain."""
        return gain.value > 0 and gain.ahead >= _LIKELY


@dataclass(frozen=True)
class Sampling:
    """How the data is split and sampled for model selection.

    Parameters
    ----------
    n_folds : one fold is held out, the others are trained on; with few rows several folds are held out in turn
    least_held : folds are held out in turn until this number of rows was held out
    most_held, most_fit, most_labels : largest numbers of held-out rows, training rows and labels; larger data is
        sampled. Sampling labels is worse than sampling rows: the top 5 of a quarter of the labels corresponds to the
        top 20 of all labels, where weightings hardly differ
    seed : seed of the split and of the samples
    """

    n_folds: int = 5
    least_held: int = 2_500
    most_held: int = 5_000
    most_fit: int = 20_000
    most_labels: int = 50_000
    seed: int = 0


QUICK = Sampling(least_held=0, most_held=2_000, most_fit=20_000, most_labels=100)
"""A fast check before training: few labels, enough to detect a large loss but not a small gain."""


class CandidateResult(NamedTuple):
    """A candidate: parameters, metrics, differences to the baseline parameters, and the decision."""

    params: dict[str, Any]
    figures: dict[str, float]
    gains: dict[str, Difference]
    verdict: str


@dataclass(frozen=True)
class Choice:
    """The chosen parameters, all candidates, and the size of the data that they were compared on."""

    goal: Goal
    params: dict[str, Any]
    trials: list[CandidateResult]
    n_held: int = 0
    n_fit: int = 0
    n_labels: int = 0

    @property
    def chosen(self) -> CandidateResult | None:
        """The chosen candidate; None if there was too little data to compare candidates."""
        return next((trial for trial in self.trials if trial.params == self.params), None)

    def to_json(self) -> dict[str, Any]:
        """Return the choice as a value that JSON can hold."""
        return {
            "metric": self.goal.metric,
            "keep": self.goal.keep,
            "level": self.goal.level,
            "params": self.params,
            "rows_held_out": self.n_held,
            "rows_trained_on": self.n_fit,
            "labels": self.n_labels,
            "trials": [
                {
                    "params": trial.params,
                    "figures": {name: _finite(value) for name, value in trial.figures.items()},
                    "gains": {
                        name: {part: _finite(value) for part, value in gain._asdict().items()}
                        for name, gain in trial.gains.items()
                    },
                    "verdict": trial.verdict,
                }
                for trial in self.trials
            ],
        }


@dataclass
class HeldOut:
    """Splits into training rows and held-out rows.

    Propensities come from the label counts of all rows, so that sampling does not change costs and metrics. `metrics`
    are names; by default those of `evaluate`.
    """

    rows: TrainingData
    cuts: list[int]
    propensity: PropensityLike | None = None
    sampling: Sampling = field(default_factory=Sampling)
    metrics: Sequence[str] | None = None

    def __post_init__(self) -> None:
        p = as_propensity(self.propensity).estimate(self.rows.label_counts, self.rows.n_samples)
        rng = np.random.default_rng(self.sampling.seed)
        self.labels: Indices = _sample(np.arange(self.rows.n_labels), self.sampling.most_labels, rng)
        self.p = p[self.labels]
        self.Y = self.rows.Y if len(self.labels) == self.rows.n_labels else self.rows.Y[:, self.labels]
        self.splits = self._split(rng)

    @property
    def n_held(self) -> int:
        """Number of held-out rows of all splits."""
        return sum(len(held) for _, held in self.splits)

    @property
    def n_fit(self) -> int:
        """Number of training rows of a candidate."""
        return max((len(fit) for fit, _ in self.splits), default=0)

    def measure(self, model: Model) -> Evaluation:
        """Train an unfitted model on each split, and return its evaluation on the held-out rows."""
        known = model.get_params(deep=False)
        fast = {name: value for name, value in model.fast_params.items() if name in known}
        model = clone(model).set_params(**fast)
        if "propensity" in known:
            model.set_params(propensity=FromTable(self.p))
        parts = []
        for fit, held in self.splits:
            part = replace(self.rows, X=self.rows.X[fit], Y=self.Y[fit], store=None)
            ranking = clone(model).fit_rows(part).rank(self.rows.X[held], self.cuts[-1])
            counts = self.rows.label_counts[self.labels]
            truth = self.Y[held]
            parts.append(evaluate(ranking, truth, 1 / self.p, self.cuts, metrics=self.metrics, train_counts=counts))
        return merge(parts)

    def _split(self, rng: np.random.Generator) -> list[tuple[Indices, Indices]]:
        """Return the splits; rows without any of the sampled labels are not held out."""
        chosen = self.sampling
        fold = rng.permutation(self.rows.n_samples) % chosen.n_folds
        has_labels = np.diff(self.Y.indptr) > 0
        splits: list[tuple[Indices, Indices]] = []
        for number in range(chosen.n_folds):
            held = _sample(np.flatnonzero((fold == number) & has_labels), chosen.most_held, rng)
            splits.append((_sample(np.flatnonzero(fold != number), chosen.most_fit, rng), held))
            if sum(len(one) for _, one in splits) >= chosen.least_held:
                break
        return splits


def choose(
    model: Model,
    rows: TrainingData,
    tries: Mapping[str, Sequence[Any]],
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    progress: Progress = silent,
) -> Choice:
    """Select parameters by coordinate search: one after the other, each with the best values of those before it.

    The search starts at `Model.baseline_params` and leaves them only for candidates that are better by `goal`.

    Parameters
    ----------
    model : an unfitted model
    rows : training rows
    tries : for each parameter the values to try
    goal : the metric to maximize and the one that must not drop
    sampling : splits and sample sizes
    progress : progress callback, called after each candidate
    """
    goal = goal or Goal()
    baseline = {name: model.baseline_params.get(name, model.get_params(deep=False)[name]) for name in tries}
    if rows.n_samples < LEAST_ROWS:
        return Choice(goal, baseline, [])
    held_out = HeldOut(rows, goal.cuts, getattr(model, "propensity", None), sampling or Sampling(), goal.metrics)
    candidates = _Candidates(model, held_out, goal, baseline, progress)
    candidates.n_planned = 1 + sum(
        len([one for one in tried if one != baseline[name]]) for name, tried in tries.items()
    )
    best = baseline
    candidates.measure(best)
    for name, values in tries.items():
        every = [{**best, name: value} for value in values]
        best = max([best, *(one for one in every if candidates.improves(one, best))], key=candidates.target)
    trials = [candidates.trial(params, best) for params in candidates.tried]
    return Choice(goal, best, trials, held_out.n_held, held_out.n_fit, len(held_out.labels))


class _Candidates:
    """Trains and evaluates candidates; each one once."""

    def __init__(
        self, model: Model, held_out: HeldOut, goal: Goal, baseline: dict[str, Any], progress: Progress
    ) -> None:
        self._model, self._held_out, self._goal, self._progress = model, held_out, goal, progress
        self._baseline = baseline
        self._evaluated: list[tuple[dict[str, Any], Evaluation]] = []
        self.n_planned = 1

    @property
    def tried(self) -> list[dict[str, Any]]:
        """The parameters of all evaluated candidates, in order of evaluation."""
        return [params for params, _ in self._evaluated]

    def measure(self, params: dict[str, Any]) -> Evaluation:
        """Return the evaluation of a candidate; train it on first use."""
        for known, evaluation in self._evaluated:
            if known == params:
                return evaluation
        evaluation = self._held_out.measure(clone(self._model).set_params(**params))
        self._evaluated.append((params, evaluation))
        self._progress(len(self._evaluated), max(self.n_planned, len(self._evaluated)))
        return evaluation

    def target(self, params: dict[str, Any]) -> float:
        """Return the metric to maximize."""
        return self.measure(params)[self._goal.metric]

    def gains(self, params: dict[str, Any], over: dict[str, Any]) -> dict[str, Difference]:
        """Return the paired differences of a candidate to another, on the same rows."""
        differences = compare(self.measure(params), self.measure(over), _RESAMPLES, self._goal.level)
        return {name: differences[name] for name in (self._goal.keep, self._goal.metric)}

    def improves(self, params: dict[str, Any], best: dict[str, Any]) -> bool:
        """Return whether a candidate likely improves on the best one, without a loss against the baseline."""
        if params == best:
            return False
        goal = self._goal
        kept = self.gains(params, self._baseline)[goal.keep]
        return goal.allows(kept) and goal.prefers(self.gains(params, best)[goal.metric])

    def trial(self, params: dict[str, Any], best: dict[str, Any]) -> CandidateResult:
        """Return the result of a candidate."""
        goal, evaluation = self._goal, self.measure(params)
        figures = {name: evaluation[name] for name in (goal.keep, goal.metric)}
        if params == self._baseline:
            return CandidateResult(params, figures, {}, "baseline, chosen" if params == best else "baseline")
        gains = self.gains(params, self._baseline)
        verdict = "less than the chosen one"
        if params == best:
            verdict = "chosen"
        elif not goal.allows(gains[goal.keep]):
            verdict = f"{goal.keep} is lower"
        elif not goal.prefers(gains[goal.metric]):
            verdict = f"{goal.metric} is not likely higher"
        return CandidateResult(params, figures, gains, verdict)


def _sample(values: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Return at most `most` of the values, sampled without replacement, in their order."""
    return values if len(values) <= most else np.sort(rng.choice(values, most, replace=False))


def _finite(value: float) -> float | None:
    """Return a float for JSON; None if it is not finite."""
    return float(value) if isfinite(value) else None
