"""Choosing parameters on held-out rows: candidates are trained alike and compared row by row, with paired intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.metrics import Difference, Evaluation, compare, evaluate, merge
from unmissed.models.base import Model
from unmissed.models.rows import Rows
from unmissed.progress import Progress, silent
from unmissed.propensity import FromTable, PropensityLike, as_propensity

LEAST_ROWS = 100
"""Of fewer rows no part is large enough to tell candidates apart."""
_METRIC = re.compile(r"(P|nDCG|PSP|PSnDCG|recall)@([1-9][0-9]{0,3})")
_RESAMPLES = 1000
_LIKELY = 0.8  # the share of resamples in which a gain has to show
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Goal:
    """A metric to be raised, and one to be kept.

    Of the candidates that are better in `metric` in four fifths of the resamples, and whose loss in `keep` against the
    plain parameters is not shown (its interval reaches 0) and at most `margin`, the best in `metric` is taken; the
    plain parameters where there is none.
    """

    metric: str = "PSP@5"
    keep: str = "P@1"
    level: float = 0.95
    margin: float = 0.005

    def __post_init__(self) -> None:
        for name in (self.metric, self.keep):
            if not _METRIC.fullmatch(name):
                raise InputError(f"{name!r} is no metric to choose by; expected P, nDCG, PSP, PSnDCG or recall @k")
        if not 0 < self.level < 1:
            raise InputError(f"the level of intervals is between 0 and 1; got {self.level}")

    @property
    def cuts(self) -> list[int]:
        """The cut-offs of both metrics."""
        return sorted({int(name.partition("@")[2]) for name in (self.metric, self.keep)})

    def allows(self, gain: Difference) -> bool:
        """Tell whether a difference in the kept metric is no loss that matters."""
        return gain.high >= 0 and gain.value >= -self.margin

    def prefers(self, gain: Difference) -> bool:
        """Tell whether a difference in the metric is likely a gain."""
        return gain.value > 0 and gain.ahead >= _LIKELY


@dataclass(frozen=True)
class Sampling:
    """How much of the data candidates see: enough to tell them apart, not more.

    Parameters
    ----------
    n_folds : a fold is held out, the others are trained on; with few rows several folds take their turns
    least_held : folds take turns until so many rows were held out
    most_held, most_fit, most_labels : larger data is sampled down to so many rows and labels. Few rows mislead less
        than few labels: among a quarter of the labels the best five places hold what the best twenty would hold among
        all, and there weightings hardly differ
    seed : of the split and the samples
    """

    n_folds: int = 5
    least_held: int = 2_500
    most_held: int = 5_000
    most_fit: int = 20_000
    most_labels: int = 50_000
    seed: int = 0


QUICK = Sampling(least_held=0, most_held=2_000, most_fit=20_000, most_labels=100)
"""A look that costs little beside a training: few labels, which show a large loss, if not a small gain."""


class Trial(NamedTuple):
    """A candidate: its parameters, its figures, and by how much they exceed those of the plain parameters."""

    params: dict[str, Any]
    figures: dict[str, float]
    gains: dict[str, Difference]
    verdict: str


@dataclass(frozen=True)
class Choice:
    """What was chosen, what else was tried, and on how much data."""

    goal: Goal
    params: dict[str, Any]
    trials: list[Trial]
    n_held: int = 0
    n_fit: int = 0
    n_labels: int = 0

    @property
    def chosen(self) -> Trial | None:
        """The trial that was chosen; None where there was too little data to try anything."""
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
                    "figures": {name: _plain(value) for name, value in trial.figures.items()},
                    "gains": {
                        name: {part: _plain(value) for part, value in gain._asdict().items()}
                        for name, gain in trial.gains.items()
                    },
                    "verdict": trial.verdict,
                }
                for trial in self.trials
            ],
        }


@dataclass
class HeldOut:
    """Splits of rows into those that candidates learn from and those that they are measured on.

    Costs and metrics take propensities from the counts in all rows, so that a sample does not change them.
    """

    rows: Rows
    cuts: list[int]
    propensity: PropensityLike | None = None
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        p = as_propensity(self.propensity).fit(self.rows.label_counts, self.rows.n_samples)
        rng = np.random.default_rng(self.sampling.seed)
        self.labels: Indices = _some(np.arange(self.rows.n_labels), self.sampling.most_labels, rng)
        self.p = p[self.labels]
        self.Y = self.rows.Y if len(self.labels) == self.rows.n_labels else self.rows.Y[:, self.labels]
        self.splits = self._split(rng)

    @property
    def n_held(self) -> int:
        """How many rows are held out, all splits together."""
        return sum(len(held) for _, held in self.splits)

    @property
    def n_fit(self) -> int:
        """How many rows a candidate learns from."""
        return max((len(fit) for fit, _ in self.splits), default=0)

    def measure(self, model: Model) -> Evaluation:
        """Train an unfitted model on each split and evaluate it on what was held out."""
        known = model.get_params(deep=False)
        model = model.unfitted().set_params(**{name: value for name, value in model.rough.items() if name in known})
        if "propensity" in known:
            model.set_params(propensity=FromTable(self.p))
        parts = []
        for fit, held in self.splits:
            part = Rows(self.rows.X[fit], self.Y[fit], self.rows.unit_rows)
            ranking = model.unfitted().fit_rows(part).rank(self.rows.X[held], self.cuts[-1])
            parts.append(evaluate(ranking, self.Y[held], 1 / self.p, self.cuts))
        return merge(parts)

    def _split(self, rng: np.random.Generator) -> list[tuple[Indices, Indices]]:
        """Cut the rows into folds; a row without any of the labels is not held out, since nothing is to be found."""
        chosen = self.sampling
        fold = rng.permutation(self.rows.n_samples) % chosen.n_folds
        full = np.diff(self.Y.indptr) > 0
        splits: list[tuple[Indices, Indices]] = []
        for number in range(chosen.n_folds):
            held = _some(np.flatnonzero((fold == number) & full), chosen.most_held, rng)
            splits.append((_some(np.flatnonzero(fold != number), chosen.most_fit, rng), held))
            if sum(len(one) for _, one in splits) >= chosen.least_held:
                break
        return splits


def choose(
    model: Model,
    rows: Rows,
    tries: Mapping[str, Sequence[Any]],
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    progress: Progress = silent,
) -> Choice:
    """Choose one parameter after the other, each with the best of those before it; plain ones unless others are better.

    What is better is for the goal to say.

    Parameters
    ----------
    model : an unfitted model; with what it says is plain (`Model.plain`) the search begins, and compares
    rows : training rows
    tries : for each parameter the values to try
    goal : the metric to raise and the one to keep
    sampling : how much of the data is used
    progress : told how many candidates are done
    """
    goal = goal or Goal()
    plain = {name: model.plain.get(name, model.get_params(deep=False)[name]) for name in tries}
    if rows.n_samples < LEAST_ROWS:
        return Choice(goal, plain, [])
    held_out = HeldOut(rows, goal.cuts, getattr(model, "propensity", None), sampling or Sampling())
    candidates = _Candidates(model, held_out, goal, plain, progress)
    candidates.n_planned = 1 + sum(len([one for one in tried if one != plain[name]]) for name, tried in tries.items())
    best = plain
    candidates.measure(best)
    for name, values in tries.items():
        every = [{**best, name: value} for value in values]
        best = max([best, *(one for one in every if candidates.improves(one, best))], key=candidates.target)
    trials = [candidates.trial(params, best) for params in candidates.tried]
    return Choice(goal, best, trials, held_out.n_held, held_out.n_fit, len(held_out.labels))


class _Candidates:
    """Every candidate that was measured."""

    def __init__(self, model: Model, held_out: HeldOut, goal: Goal, plain: dict[str, Any], progress: Progress) -> None:
        self._model, self._held_out, self._goal, self._progress = model, held_out, goal, progress
        self._plain = plain
        self._found: list[tuple[dict[str, Any], Evaluation]] = []
        self.n_planned = 1

    @property
    def tried(self) -> list[dict[str, Any]]:
        """The parameters of all candidates, in the order in which they were measured."""
        return [params for params, _ in self._found]

    def measure(self, params: dict[str, Any]) -> Evaluation:
        """Return the evaluation of a candidate, training it unless it was."""
        for known, found in self._found:
            if known == params:
                return found
        evaluation = self._held_out.measure(self._model.unfitted().set_params(**params))
        self._found.append((params, evaluation))
        self._progress(len(self._found), max(self.n_planned, len(self._found)))
        return evaluation

    def target(self, params: dict[str, Any]) -> float:
        """Return the figure that is to be raised."""
        return self.measure(params)[self._goal.metric]

    def gains(self, params: dict[str, Any], over: dict[str, Any]) -> dict[str, Difference]:
        """Return by how much a candidate exceeds another, on the same rows."""
        found = compare(self.measure(params), self.measure(over), _RESAMPLES, self._goal.level)
        return {name: found[name] for name in (self._goal.keep, self._goal.metric)}

    def improves(self, params: dict[str, Any], best: dict[str, Any]) -> bool:
        """Tell whether a candidate is likely better than the best so far and no loss against the plain one."""
        if params == best:
            return False
        goal = self._goal
        kept = self.gains(params, self._plain)[goal.keep]
        return goal.allows(kept) and goal.prefers(self.gains(params, best)[goal.metric])

    def trial(self, params: dict[str, Any], best: dict[str, Any]) -> Trial:
        """Return what became of a candidate."""
        goal, evaluation = self._goal, self.measure(params)
        figures = {name: evaluation[name] for name in (goal.keep, goal.metric)}
        if params == self._plain:
            return Trial(params, figures, {}, "plain, chosen" if params == best else "plain")
        gains = self.gains(params, self._plain)
        verdict = "less than the chosen one"
        if params == best:
            verdict = "chosen"
        elif not goal.allows(gains[goal.keep]):
            verdict = f"{goal.keep} is lower"
        elif not goal.prefers(gains[goal.metric]):
            verdict = f"{goal.metric} is not likely higher"
        return Trial(params, figures, gains, verdict)


def _some(values: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Return all values, or so many of them, chosen at random, in their order."""
    return values if len(values) <= most else np.sort(rng.choice(values, most, replace=False))


def _plain(value: float) -> float | None:
    return float(value) if isfinite(value) else None
