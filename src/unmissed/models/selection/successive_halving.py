"""Search: candidates are tried in rungs, on more and more rows, and compared by paired bootstrap intervals."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sklearn.base import clone

from unmissed.errors import InputError
from unmissed.metrics import Difference, Evaluation, compare
from unmissed.models.base import Model
from unmissed.models.selection.choice import CandidateResult, Choice, say_params
from unmissed.models.selection.goal import Goal, Lead
from unmissed.models.selection.held_out import HeldOut, Measured, Part, Sampling, join_folds
from unmissed.models.selection.search_space import Params, SearchSpace, Tries
from unmissed.models.training_data import TrainingData
from unmissed.progress import Progress, describe, silent

LEAST_ROWS = 100
"""With fewer rows, held-out parts are too small to distinguish candidates."""
_RESAMPLES = 1000
_EARLY_RESAMPLES = 300  # before the last rung
_LEAST_HELD = 2_500  # rows that a comparison of models holds out, if there are as many
_FIXED_COST = 0.03  # of a training on few rows, in trainings on all rows: each label has its own cost
_LEAST_SHARE = 0.15  # of the rows in the first rung; below it, a coarse grid is tried first
_SHARES = (0.35, 0.3, 0.35)  # of the budget, per rung
_COARSE_SHARES = (0.3, 0.7)
_BEHIND = 2.0  # standard errors by which a candidate is clearly behind


class Trained(NamedTuple):
    """A candidate's last comparison with the baseline."""

    rung: int
    part: Part
    measured: Measured
    gains: dict[str, Difference]


@dataclass
class CandidateComparison:
    """Candidates of one search, each compared with the baseline on the same held-out rows.

    Parameters
    ----------
    models : the unfitted model of each candidate
    params : the parameters that name each candidate
    held_out : the data
    baseline : index of the baseline
    progress : progress callback: rows trained on
    other_verdict : the verdict on candidates that are allowed and not chosen
    own_data : the data of each candidate, if their features differ
    """

    models: Sequence[Model]
    params: Sequence[Params]
    held_out: HeldOut
    baseline: int
    progress: Progress = silent
    other_verdict: str = "not likely better than the chosen one"
    own_data: Sequence[HeldOut] = ()

    def __post_init__(self) -> None:
        self.goal = self.held_out.goal
        self.results: dict[int, Trained] = {}
        self._folds: dict[tuple[int, int, int], Measured] = {}
        self._begin = time.monotonic()
        self._n_resamples = _RESAMPLES

    def run_rung(self, rung: int, of: int, alive: Sequence[int], part: Part, done: float, share: float) -> None:
        """Train and compare candidates on a part; `done` and `share` are fractions of the whole search."""
        for one in (self.held_out, *self.own_data):
            one.begin()
        self._n_resamples = _RESAMPLES if rung == of else _EARLY_RESAMPLES
        total = int(self.held_out.budget * self.held_out.rows.n_samples)
        order = [self.baseline, *(one for one in alive if one != self.baseline)]
        for position, at in enumerate(order):
            fraction = done + share * position / len(order)
            trying = f"rung {rung} of {of}: {say_params(self.params[at])} ({position + 1} of {len(order)})"
            describe(self.progress, trying + self._time_left(fraction))
            measured = join_folds([self._measure(at, part.n_fit, fold) for fold in range(part.n_folds)])
            if at == self.baseline:
                reference, gains = measured.evaluation, dict.fromkeys(self.goal.names, Difference(0.0, 0.0, 0.0, 0.5))
            else:
                gains = self.gains(measured.evaluation, reference)
            self.results[at] = Trained(rung, part, measured, gains)
            self.progress(int(total * (done + share * (position + 1) / len(order))), total)

    def _measure(self, at: int, n_fit: int, fold: int) -> Measured:
        """Return the evaluation on a fold; a later rung on as many rows trains only on further folds."""
        if (at, n_fit, fold) not in self._folds:
            data = self.own_data[at] if self.own_data else self.held_out
            self._folds[at, n_fit, fold] = data.measure_fold(self.models[at], n_fit, fold)
        return self._folds[at, n_fit, fold]

    def gains(self, first: Evaluation, second: Evaluation) -> dict[str, Difference]:
        """Return the paired differences of two candidates on the same rows."""
        differences = compare(first, second, self._n_resamples, self.goal.level)
        return {name: differences[name] for name in self.goal.names}

    def value(self, at: int) -> float:
        """Return the mean of the metrics to maximize, as a gain over the baseline in the same rung."""
        return self.goal.lead(self.results[at].gains).value

    def lead(self, at: int, over: int) -> Lead:
        """Return the lead of a candidate over another of the same rung."""
        first, second = (self.results[one].measured.evaluation for one in (at, over))
        return self.goal.lead(self.gains(first, second))

    def best_of(self, alive: Sequence[int], most: int) -> list[int]:
        """Return at most `most` candidates that go on: the best, without those that are clearly behind it.

        A candidate that is shown to lose against the baseline comes after all others.
        """
        ranked = sorted(alive, key=lambda at: (self.goal.shown_to_fall(self.results[at].gains), -self.value(at)))
        kept = ranked[:1]
        for at in ranked[1:most]:
            behind = self.lead(at, ranked[0])
            if behind.value + _BEHIND * behind.error >= 0:
                kept.append(at)
        return kept

    def choose(self, alive: Sequence[int], preferred: int) -> int:
        """Return the chosen candidate.

        The search starts with the preferred candidate unless it is likely to fall against the baseline: it was better
        on many data sets, so few held-out rows do not decide against it. It leaves it for the best of the allowed
        candidates that are likely better.
        """
        allowed = [at for at in alive if at == self.baseline or not self.goal.falls(self.results[at].gains)]
        start = self.baseline if self.goal.likely_falls(self.results[preferred].gains) else preferred
        better = [at for at in allowed if at != start and self.lead(at, start).is_likely]
        return max([start, *better], key=self.value)

    def result(self, at: int, chosen: int, last_rung: int) -> CandidateResult:
        """Return the result of a candidate."""
        rung, part, measured, gains = self.results[at]
        figures = {name: measured.evaluation[name] for name in self.goal.names}
        n_held = self.held_out.n_held(part.n_folds)
        verdict = self._verdict(at, chosen, last_rung)
        gains = {} if at == self.baseline else gains
        return CandidateResult(self.params[at], rung, part.n_fit, n_held, figures, gains, verdict)

    def _verdict(self, at: int, chosen: int, last_rung: int) -> str:
        if at == self.baseline:
            return "baseline, chosen" if at == chosen else "baseline"
        if at == chosen:
            return "chosen"
        if self.results[at].rung < last_rung:
            return f"dropped after rung {self.results[at].rung}"
        lower = self.goal.falls(self.results[at].gains)
        return f"{lower[0]} is lower" if lower else self.other_verdict

    def _time_left(self, fraction: float) -> str:
        if fraction <= 0:
            return ""
        seconds = (time.monotonic() - self._begin) * (1 - fraction) / fraction
        return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


def choose(
    model: Model,
    rows: TrainingData,
    tries: Tries,
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    progress: Progress = silent,
) -> Choice:
    """Select parameters: all combinations of values are candidates, compared in rungs of successive halving.

    Each rung trains the remaining candidates on more rows, or holds out more folds, and keeps at most a third of them.
    The baseline (`Model.baseline_params`) and the preferred candidate (`Model.preferred_params`) stay to the end.
    A large grid on large data starts with every second value of numeric parameters and goes on with neighbors of the
    best; on the largest data it tries only the middle value and the neighbors of the preferred candidate.
    The result does not depend on the number of threads.

    Parameters
    ----------
    model : an unfitted model
    rows : training rows
    tries : for each parameter the values to try
    goal : the metrics to maximize and those that must not drop
    sampling : the cost of the search and the sizes of the samples
    progress : progress callback: rows trained on; its method `describe`, if it has one, gets each
        candidate and the time left
    """
    goal, grid = goal or Goal(), SearchSpace(model, tries)
    if rows.n_samples < LEAST_ROWS:
        return Choice(goal, grid.baseline, grid.baseline, [])
    held_out = HeldOut(rows, goal, getattr(model, "propensity", None), sampling or Sampling())
    params = grid.every
    budget = held_out.budget
    first = next(
        (some for some in (params, grid.coarse()) if _SHARES[0] * budget / len(some) >= _LEAST_SHARE),
        grid.coarse(middle=True),
    )
    is_coarse = len(first) < len(params)
    is_middle = is_coarse and first == grid.coarse(middle=True)
    alive = [params.index(one) for one in first]
    shares = _COARSE_SHARES if is_coarse else _SHARES[: 1 if len(params) <= 3 else 2 if len(params) <= 9 else 3]
    shares = tuple(one / sum(shares) for one in shares)
    models = [clone(model).set_params(**one) for one in params]
    found = CandidateComparison(models, params, held_out, params.index(grid.baseline), progress)
    kept = {params.index(grid.baseline), params.index(grid.preferred)}
    for number, share in enumerate(shares):
        part = held_out.part(share * budget / len(alive) - _FIXED_COST)
        found.run_rung(number + 1, len(shares), alive, part, sum(shares[:number]), share)
        if number + 1 < len(shares):
            best = found.best_of(alive, 2 if is_coarse else -(-len(alive) // 3))
            near = {params.index(one) for one in grid.neighbors(params[best[0]])} if is_coarse else set()
            if is_middle:  # no budget for candidates that were not tried yet
                near = {at for at in alive if params[at] in grid.neighbors(grid.preferred)}
            alive = sorted(kept | {*best} | near)
    chosen = found.choose(alive, params.index(grid.preferred))
    results = [found.result(at, chosen, len(shares)) for at in sorted(found.results)]
    return Choice(goal, params[chosen], grid.baseline, results, len(held_out.labels))


def compare_models(
    models: Mapping[str, Model],
    rows: TrainingData | Sequence[TrainingData],
    goal: Goal | None = None,
    sampling: Sampling | None = None,
    fastest_within: float | None = None,
    progress: Progress = silent,
    what: str = "method",
) -> Choice:
    """Compare models on the same held-out rows and recommend one for a goal; the first one is the baseline.

    Of the models without a loss against the baseline, the one with the highest mean of the goal's metrics is
    recommended; with `fastest_within`, the one with the shortest training of those that are at most that much lower.

    Parameters
    ----------
    models : unfitted models by name
    rows : training rows; or one for each model, the same rows and labels with other features
    goal : the metrics to maximize and those that must not drop
    sampling : sizes of the samples; each model is trained on at most `most_fit` rows
    fastest_within : accepted loss in the mean of the goal's metrics, as a fraction
    progress : progress callback
    what : what the names are, in the result
    """
    goal = goal or Goal()
    names = list(models)
    each = [rows] * len(names) if isinstance(rows, TrainingData) else list(rows)
    if each[0].n_samples < LEAST_ROWS:
        raise InputError(f"there are {each[0].n_samples} rows; a comparison needs at least {LEAST_ROWS}")
    data = [HeldOut(each[0], goal, None, sampling or Sampling())] * len(names)
    if not isinstance(rows, TrainingData):
        data = [HeldOut(one, goal, None, sampling or Sampling()) for one in each]  # the same folds: the same sizes
    held_out = data[0]
    named = [{what: name} for name in names]
    found = CandidateComparison(list(models.values()), named, held_out, 0, progress, "", data)
    every = range(len(names))
    for at in every:  # so that no time includes the compilation of kernels
        data[at].measure(models[names[at]], held_out.part(0))
    most = held_out.sampling.n_folds
    n_folds = next((n for n in range(1, most) if held_out.n_held(n) >= _LEAST_HELD), most)
    found.run_rung(1, 1, every, held_out.part(1.0)._replace(n_folds=n_folds), 0.0, 1.0)
    allowed = [at for at in every if at == 0 or not goal.falls(found.results[at].gains)]
    chosen = max(allowed, key=found.value)
    if fastest_within is not None:
        near = [at for at in allowed if found.value(at) >= found.value(chosen) - fastest_within]
        chosen = min(near, key=lambda at: found.results[at].measured.seconds)
    results = [found.result(at, chosen, 1)._replace(seconds=found.results[at].measured.seconds) for at in every]
    return Choice(goal, {what: names[chosen]}, {what: names[0]}, results, len(held_out.labels))
