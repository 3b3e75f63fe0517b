"""Planning: estimates the cost of a training from a sample of labels that is trained on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.data import Dataset, make_corpus
from unmissed.data.catalog import CatalogEntry
from unmissed.errors import InputError
from unmissed.execution import Piece, SharedState, Task, Work, peak_bytes
from unmissed.models.base import Model
from unmissed.models.linear.one_vs_rest import OneVsRest
from unmissed.numerics.simd import LANES
from unmissed.settings import SETTINGS

TASKS = 4  # calibration tasks; their spread gives the interval
_STUDENT = 3.182  # the 0.975 quantile of Student's t with TASKS - 1 degrees of freedom
_LEAST = 0.15  # smallest relative half-width of an interval: machines and data differ
_SCALED = 0.3  # the same for a plan from synthetic data


class Estimate(NamedTuple):
    """An estimate with the bounds of its 95 % interval."""

    low: float
    value: float
    high: float

    def times(self, factor: float) -> Estimate:
        """Return the estimate multiplied by a factor."""
        return Estimate(*(factor * one for one in self))


@dataclass(frozen=True)
class ProblemSizes:
    """Sizes of the data that determine the cost."""

    n_samples: int
    n_features: int
    n_labels: int
    n_values: int
    n_assignments: int

    @classmethod
    def of(cls, dataset: Dataset) -> ProblemSizes:
        """Return the sizes of a data set."""
        n_values = int(dataset.X.nnz) + dataset.n_samples * dataset.n_dense
        return cls(dataset.n_samples, dataset.n_features, dataset.n_labels, n_values, int(dataset.Y.nnz))


@dataclass(frozen=True)
class Plan:
    """Estimated cost of a training: processor time, wall time, memory and disk.

    Parameters
    ----------
    sizes : sizes of the data
    n_workers, n_threads : number of workers, and threads per worker
    n_tasks : number of label blocks
    n_sampled : number of labels trained for the estimate
    layout_seconds : time of each worker to build the shared state
    core_seconds : processor time of all tasks
    wall_seconds : wall time if all workers start at once
    worker_bytes : memory per worker
    disk_bytes : size of the run's folder
    """

    sizes: ProblemSizes
    n_workers: int
    n_threads: int
    n_tasks: int
    n_sampled: int
    layout_seconds: float
    core_seconds: Estimate
    wall_seconds: Estimate
    worker_bytes: float
    disk_bytes: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        named = {name: value._asdict() for name, value in vars(self).items() if isinstance(value, Estimate)}
        return {**asdict(self), **named}


@dataclass
class _Timing:
    """An executor that runs tasks sequentially and records processor time and bytes per label."""

    layout: float = 0.0
    seconds: list[float] = field(default_factory=list)
    n_bytes: list[int] = field(default_factory=list)

    def map(self, tasks: Iterable[Task], shared: SharedState) -> Iterator[Piece]:
        begin = time.thread_time()
        common = shared()
        self.layout = time.thread_time() - begin
        for task in tasks:
            begin = time.thread_time()
            piece = task.run(common)
            self.seconds.append((time.thread_time() - begin) / task.size)
            self.n_bytes.append(sum(array.nbytes for array in piece.arrays.values()) // task.size)
            yield piece


def make_plan(
    model: Model,
    dataset: Dataset,
    *,
    n_workers: int = 1,
    n_threads: int = 1,
    n_sampled: int = 1024,
    seed: int = 0,
) -> Plan:
    """Estimate the cost of training all labels from a sample that is trained on this machine.

    The sample has four blocks, each with labels of every frequency; their spread gives the interval. Times are
    processor times of one thread, which depend less on other load than wall time.
    """
    sizes = ProblemSizes.of(dataset)
    timing, used = _calibrate(model, dataset, n_sampled, seed)
    core = _estimate(timing.seconds, _LEAST)
    disk = _estimate([float(one) for one in timing.n_bytes], _LEAST)
    return _plan(model, sizes, timing.layout, core, disk, (n_workers, n_threads), used, peak_bytes())


def plan_entry(
    model: Model,
    entry: CatalogEntry,
    values_per_row: float,
    *,
    n_workers: int = 1,
    n_threads: int = 1,
    n_sampled: int = 512,
    seed: int = 0,
) -> Plan:
    """Estimate the cost for a data set of the catalog from a synthetic one of the same shape with fewer rows.

    The synthetic data has the entry's features, values per row, labels per row and rows per label. The cost of a label
    is scaled with the number of values.
    """
    fraction = min(1.0, SETTINGS.stand_in_rows / entry.n_train)
    corpus = make_corpus(
        round(fraction * entry.n_train),
        0,
        max(round(fraction * entry.n_labels), LANES),
        entry.n_features,
        labels_per_row=entry.labels_per_point,
        words_per_row=1.3 * values_per_row,  # some words are drawn twice
        rng=seed,
    )
    stand_in = ProblemSizes.of(corpus.train)
    scale = entry.n_train * values_per_row / stand_in.n_values
    timing, used = _calibrate(model, corpus.train, n_sampled, seed)
    sizes = ProblemSizes(
        entry.n_train,
        entry.n_features,
        entry.n_labels,
        round(entry.n_train * values_per_row),
        round(entry.n_train * entry.labels_per_point),
    )
    core = _estimate([scale * one for one in timing.seconds], _SCALED)
    disk = _estimate([float(one) for one in timing.n_bytes], _SCALED)
    peak = peak_bytes() + _layout_bytes(sizes) - _layout_bytes(stand_in)
    return _plan(model, sizes, scale * timing.layout, core, disk, (n_workers, n_threads), used, peak)


def _calibrate(model: Model, dataset: Dataset, n_sampled: int, seed: int) -> tuple[_Timing, int]:
    """Train a sample of labels in TASKS blocks; return timings and number of labels."""
    if not isinstance(model, OneVsRest):
        raise InputError(f"{type(model).__name__} does not train labels one by one; a plan is for methods that do")
    chosen = sample_labels(dataset.label_counts, n_sampled, np.random.default_rng(seed))
    timing = _Timing()
    few = model.__class__(**{**model.get_params(deep=False), "block_size": max(len(chosen) // TASKS, 1)})
    rows = few.check_rows(dataset).take(labels=chosen)
    warm = rows.take(labels=np.arange(1))
    few._fit(warm, few._ready(Work(executor=_Timing())))  # compile kernels and read pages before timing
    few._fit(rows, few._ready(Work(executor=timing)))
    return timing, len(chosen)


def sample_labels(counts: npt.NDArray[np.int64], n_sampled: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return sampled labels as TASKS blocks of equal size, each stratified by label frequency."""
    size = min(n_sampled, len(counts)) // TASKS
    if size < 1:
        raise InputError(f"a plan takes at least {TASKS} labels; got {min(n_sampled, len(counts))}")
    order = np.argsort(-counts, kind="stable")
    position = (np.arange(size * TASKS) + rng.random(size * TASKS)) * len(order) / (size * TASKS)
    positions = np.minimum(position.astype(np.int64), len(order) - 1)
    return np.asarray(order[np.concatenate([positions[first::TASKS] for first in range(TASKS)])])


def _plan(
    model: Any,
    sizes: ProblemSizes,
    layout: float,
    seconds: Estimate,
    n_bytes: Estimate,
    workers: tuple[int, int],
    n_sampled: int,
    peak: float,
) -> Plan:
    """Return the plan for all labels from the costs per label."""
    n_workers, n_threads = workers
    if n_workers < 1 or n_threads < 1:
        raise InputError(f"a plan is for at least 1 worker with 1 thread; got {n_workers} with {n_threads}")
    size = int(model.block_size)
    n_tasks = math.ceil(sizes.n_labels / size)
    core = seconds.times(sizes.n_labels)
    rounds = math.ceil(n_tasks / (n_workers * n_threads))
    wall = Estimate(*(layout + rounds * one / n_tasks for one in core))
    memory = peak + 12 * sizes.n_assignments + 40 * sizes.n_labels + (n_threads - 1) * _lane_bytes(sizes)
    disk = Estimate(*(one * sizes.n_labels + 2500 * n_tasks for one in n_bytes))
    return Plan(sizes, n_workers, n_threads, n_tasks, n_sampled, layout, core, wall, memory, disk)


def _estimate(found: list[float], least: float) -> Estimate:
    """Return the mean with its 95 % interval, whose relative half-width is at least `least`."""
    mean = float(np.mean(found))
    spread = max(_STUDENT * float(np.std(found, ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else 0, least * mean)
    return Estimate(max(mean - spread, 0.0), mean, mean + spread)


def _layout_bytes(sizes: ProblemSizes) -> float:
    """Return the memory per worker for the data: X mapped, normalized and packed, and the SIMD lanes."""
    return 20.0 * sizes.n_values + 20.0 * sizes.n_samples + _lane_bytes(sizes)


def _lane_bytes(sizes: ProblemSizes) -> float:
    """Return the memory per thread: weights of 4 and 2 bytes, and 8 bytes for each active row (1 in 8)."""
    return LANES * (6.0 * sizes.n_features + sizes.n_samples)
