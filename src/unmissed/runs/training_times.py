"""Training times of several methods on one data set, estimated from trainings on samples of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.models.base import Model
from unmissed.models.linear.one_vs_rest import OneVsRest
from unmissed.models.method_registry import make_model
from unmissed.models.training_data import TrainingData
from unmissed.runs.planning import Estimate, make_plan

_SAMPLES = 32, 8  # a method is trained on 1/32 and on 1/8 of the rows
_LEAST_ROWS = 500  # of the smaller sample
_EXPONENTS = 0.5, 2.0  # limits of the growth of time with the number of rows
_EXPONENT_ERROR = 0.1  # error of the exponent that the interval allows for
_ERROR = 0.15  # relative half-width of the interval of a time that was measured


@dataclass(frozen=True)
class TrainingTime:
    """The estimated processor time of training a method on all rows and labels, on one thread.

    `sample` says what was trained for the estimate.
    """

    method: str
    seconds: Estimate
    sample: str

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {"method": self.method, "seconds": self.seconds._asdict(), "sample": self.sample}


def estimate_times(
    methods: Sequence[str], dataset: Dataset, *, n_sampled: int = 1024, seed: int = 0
) -> list[TrainingTime]:
    """Estimate the training time of methods with their default parameters; the fastest comes first.

    Methods that train labels one by one train `n_sampled` labels on all rows (`make_plan`). Others train all labels on
    1/32 and on 1/8 of the rows, and the time is extrapolated from these two (`extrapolate`).
    """
    names = list(dict.fromkeys(methods))
    if len(names) < 2:
        raise InputError("a comparison needs at least two methods, separated by commas: --methods dismec,parabel")
    models = [make_model(name, {}).with_jobs(1) for name in names]
    found = [_estimate_time(name, model, dataset, n_sampled, seed) for name, model in zip(names, models, strict=True)]
    return sorted(found, key=lambda one: one.seconds.value)


def _estimate_time(name: str, model: Model, dataset: Dataset, n_sampled: int, seed: int) -> TrainingTime:
    if isinstance(model, OneVsRest):
        plan = make_plan(model, dataset, n_sampled=n_sampled, seed=seed)
        seconds = Estimate(*(plan.layout_seconds + one for one in plan.core_seconds))
        return TrainingTime(name, seconds, f"{plan.n_sampled:,} labels")
    rows = model.check_rows(dataset)
    order = np.random.default_rng(seed).permutation(rows.n_samples)
    few, many = sample_sizes(rows.n_samples)
    _train(model, rows, order[:few])  # compiles kernels
    times = [_train(model, rows, order[:n]) for n in (few, many)]
    return TrainingTime(name, extrapolate((few, many), (times[0], times[1]), rows.n_samples), f"{many:,} rows")


def sample_sizes(n_samples: int) -> tuple[int, int]:
    """Return the numbers of rows of the two samples; the larger one is all rows if there are few."""
    few = max(n_samples // _SAMPLES[0], min(_LEAST_ROWS, n_samples))
    many = max(n_samples // _SAMPLES[1], 4 * few)
    return few, min(many, n_samples)


def extrapolate(n_rows: tuple[int, int], seconds: tuple[float, float], n_samples: int) -> Estimate:
    """Return the time for `n_samples` rows, given the times of two samples.

    It grows by the power law through both. If that is slower than n, part of the time of the small samples may not grow
    at all: the estimate is then the geometric mean of the power law and of the straight line through both. The interval
    covers these two, and allows for an error of the exponent of 0.1 and of a measured time of 15 %.
    """
    growth = n_samples / n_rows[1]
    exponent, line = 1.0, seconds[1] * growth
    if n_rows[1] > n_rows[0] and min(seconds) > 0:
        exponent = math.log(seconds[1] / seconds[0]) / math.log(n_rows[1] / n_rows[0])
        line = seconds[1] + max(seconds[1] - seconds[0], 0.0) * (n_samples - n_rows[1]) / (n_rows[1] - n_rows[0])
    power = seconds[1] * growth ** min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1])
    low, high = sorted((power, line if exponent < 1 else power))
    spread = growth**_EXPONENT_ERROR
    return Estimate(low * (1 - _ERROR) / spread, math.sqrt(low * high), high * (1 + _ERROR) * spread)


def _train(model: Model, rows: TrainingData, chosen: Any) -> float:
    """Train a new model on some rows; return the processor time."""
    chosen = np.sort(chosen)
    sample = replace(rows, X=rows.X[chosen], Y=rows.Y[chosen], store=None)
    begin = time.process_time()
    type(model)(**model.get_params(deep=False)).fit_rows(sample)
    return time.process_time() - begin
