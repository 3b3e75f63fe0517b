"""The demo: train on synthetic data with missing labels, and evaluate on observed and on complete labels."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed._version import __version__
from unmissed.archive import write_json, write_text
from unmissed.audit import find_missing
from unmissed.audit.training_documents import is_observed
from unmissed.data import Dataset, make_corpus, open_store, write_store
from unmissed.errors import InputError
from unmissed.metrics import (
    Conventions,
    Difference,
    Evaluation,
    Interval,
    by_decile,
    compare,
    decile_of,
    evaluate,
    intervals,
)
from unmissed.progress import Progress, silent
from unmissed.propensity import Jain, drop_labels
from unmissed.ranking import Ranking
from unmissed.reports.demo_page import (
    TAIL_RECALL,
    DecileLine,
    DemoCell,
    DemoResults,
    FoundMissing,
    Line,
    MissingLine,
    render_page,
)
from unmissed.runs import calibrate, predict, train

CUTS = (1, 3, 5)
_RESAMPLES = 400
_OWN_ROWS = Conventions(empty_rows="drop")  # recall of tail or head labels is a mean over the rows that have one
_FINDER = 2  # the method whose run finds missing labels
_MOST_MISSING = 1_000  # cells that are looked at
_LISTED = 10  # cells that are shown
_HEAD = "recall@5 of head labels"


class DemoMethod(NamedTuple):
    """A method of the table, and the folder of its run."""

    title: str
    folder: str
    method: str
    params: dict[str, Any]


METHOD_SPECS = (
    DemoMethod("Popularity", "popularity", "popularity", {}),
    DemoMethod("DiSMEC", "dismec", "dismec", {}),
    DemoMethod("PW-DiSMEC surrogate", "pw-dismec-surrogate", "pw-dismec", {"weighting": "surrogate"}),
    DemoMethod("PW-DiSMEC tail", "pw-dismec-tail", "pw-dismec", {"weighting": "tail"}),
)


@dataclass(frozen=True)
class CorpusSizes:
    """Parameters of the synthetic corpus, as for `make_corpus`; 80 % of the words are independent of the labels."""

    n_train: int = 12_000
    n_test: int = 4_000
    n_labels: int = 1_000
    n_features: int = 8_000
    labels_per_row: float = 4.0
    words_per_row: float = 50.0
    exponent: float = 0.9
    background: float = 0.8


QUICK = CorpusSizes(n_train=1_500, n_test=600, n_labels=150, n_features=2_000)


class _Data(NamedTuple):
    """Observed training and test data, complete labels of both, true label counts and propensities."""

    train: Dataset
    test: Dataset
    complete: Dataset
    truth: sparse.csr_matrix
    true_counts: npt.NDArray[np.int64]
    p: npt.NDArray[np.float64]


def run_demo(
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    sizes: CorpusSizes | None = None,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> tuple[DemoResults, Path]:
    """Generate the corpus, train every method, and write `index.html`, `demo.json`, `data/` and `runs/` into `out`."""
    out = Path(out)
    seconds: dict[str, float] = {}
    with _timed(seconds, "corpus"):
        data = _make_data(out / "data", seed, sizes or CorpusSizes())
    rankings = []
    for position, spec in enumerate(METHOD_SPECS):
        with _timed(seconds, spec.title):
            params = spec.params if spec.method == "popularity" else {**spec.params, "n_jobs": n_jobs}
            own = _progress_of_method(progress, position, len(METHOD_SPECS))
            run = train(spec.method, data.train, out / "runs" / spec.folder, params, progress=own)
            rankings.append(predict(run, data.test.X, CUTS[-1]))
    with _timed(seconds, "missing labels"):
        missing = _find_missing(data, out / "runs", n_jobs)
    with _timed(seconds, "evaluation"):
        results = _compare(data, rankings, missing, seed, seconds)
    page = out / "index.html"
    write_text(page, render_page(results))
    write_json(out / "demo.json", as_json(results))
    return results, page


def as_json(results: DemoResults) -> dict[str, Any]:
    """Return the results as a JSON-serializable dict."""
    value = asdict(results)
    value["lines"] = [_line_json(line) for line in results.lines]
    value["corrected"] = [_line_json(line) for line in results.corrected]
    value["missing"] = {**results.missing._asdict(), "lines": [line._asdict() for line in results.missing.lines]}
    value["deciles"] = [line._asdict() for line in results.deciles]
    for name in ("true_counts", "observed_counts"):
        value[name] = value[name].tolist()
    return value


def _line_json(line: Line) -> dict[str, Any]:
    return {"measure": line.measure, "source": line.source, "cells": [cell._asdict() for cell in line.cells]}


def _make_data(folder: Path, seed: int, sizes: CorpusSizes) -> _Data:
    """Generate the corpus and drop labels of training and test rows by Jain's model of the true counts."""
    corpus_rng, drop_rng = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    corpus = make_corpus(**asdict(sizes), rng=corpus_rng)
    truth = corpus.train
    p = Jain().estimate(truth.label_counts, truth.n_samples)
    observed = [_observed(part, drop_labels(part.Y, p, drop_rng)) for part in corpus]
    data = _Data(observed[0], observed[1], corpus.test, truth.Y, truth.label_counts, p)
    stores = {"train": data.train, "train-complete": truth, "test": data.test, "test-complete": data.complete}
    for name, dataset in stores.items():
        _keep(dataset, folder / name)
    return data


def _observed(dataset: Dataset, Y: sparse.csr_matrix) -> Dataset:
    return Dataset(dataset.X, Y, label_names=dataset.label_names, feature_names=dataset.feature_names)


def _keep(dataset: Dataset, path: Path) -> None:
    """Write a data set unless an earlier demo has written it."""
    if not path.exists():
        write_store(dataset, path)
    elif open_store(path).digest != dataset.digest:
        raise InputError(f"{path}: has the data of a demo with another seed or size; choose another folder")


class _Measured(NamedTuple):
    """Evaluations of every method on one kind of labels, with intervals and differences to DiSMEC."""

    source: str
    evaluations: list[Evaluation]
    intervals: list[dict[str, Interval]]
    differences: list[dict[str, Difference]]

    @classmethod
    def of(cls, source: str, evaluations: list[Evaluation]) -> _Measured:
        spread = [intervals(one, _RESAMPLES) for one in evaluations]
        return cls(source, evaluations, spread, [compare(one, evaluations[1], _RESAMPLES) for one in evaluations])

    def line(self, name: str, measure: str | None = None) -> Line:
        """Return one metric of every method; coverage has no interval."""
        pairs = zip(self.evaluations, self.intervals, strict=True)
        return Line(measure or name, self.source, [DemoCell(one[name], *bounds.get(name, ())) for one, bounds in pairs])

    def change(self, position: int, name: str) -> str:
        """Return a method's difference to DiSMEC in percentage points, and whether it is significant."""
        difference = self.differences[position][name]
        text = f"{100 * difference.value:+.1f} ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"
        return text if difference.low > 0 or difference.high < 0 else f"{text}, not significant"


def _find_missing(data: _Data, runs: Path, n_jobs: int | None) -> FoundMissing:
    """Calibrate a run and return the labels that it finds missing in the training rows."""
    spec = METHOD_SPECS[_FINDER]
    run = calibrate(runs / spec.folder, old_rows=[data.train], n_jobs=n_jobs)
    n_dropped = data.truth.nnz - data.train.Y.nnz
    found = find_missing(run, top=min(_MOST_MISSING, max(n_dropped // 10, _LISTED)), words=3, old_rows=[data.train])
    was_dropped = is_observed(data.truth, found.cells.rows, found.cells.labels).tolist()
    best = {cell["label"]: (cell, dropped) for cell, dropped in reversed(list(zip(found, was_dropped, strict=True)))}
    lines = [
        MissingLine(
            cell["row"], cell["label"], cell["missing_probability"], [name for name, _ in cell["words"]], dropped
        )
        for cell, dropped in islice(sorted(best.values(), key=lambda one: -one[0]["missing_probability"]), _LISTED)
    ]
    return FoundMissing(spec.title, len(found), sum(was_dropped), lines)


def _compare(
    data: _Data, rankings: list[Ranking], missing: FoundMissing, seed: int, seconds: dict[str, float]
) -> DemoResults:
    """Evaluate every ranking on the observed and on the complete labels."""
    counts = data.train.label_counts
    inverse = 1 / Jain().estimate(counts, data.train.n_samples)
    decile = decile_of(counts)

    def of_labels(kept: npt.NDArray[np.bool_]) -> _Measured:
        Y = _columns(data.complete.Y, kept)
        return _Measured.of("truth", [evaluate(r, Y, None, CUTS, conventions=_OWN_ROWS) for r in rankings])

    observed = _Measured.of("observed", [evaluate(r, data.test.Y, inverse, CUTS) for r in rankings])
    truth = _Measured.of("truth", [evaluate(r, data.complete.Y, None, CUTS, train_counts=counts) for r in rankings])
    tail, head = of_labels((decile >= 1) & (decile <= 5)), of_labels(decile == 10)
    known = [evaluate(r, data.test.Y, 1 / data.p, CUTS) for r in rankings]
    corrected = Line("P@5 corrected by 1/p", "observed", [_corrected(one, seed) for one in known])
    groups = zip(*(by_decile(one, 5) for one in truth.evaluations), strict=True)
    return DemoResults(
        sizes=_metadata(data, seed),
        methods=[spec.title for spec in METHOD_SPECS],
        lines=[
            *(part.line(name) for name in ("P@1", "P@5") for part in (observed, truth)),
            *(observed.line(name) for name in ("PSP@1", "PSP@5")),
            tail.line("recall@5", TAIL_RECALL),
            head.line("recall@5", _HEAD),
            truth.line("recall@5", "recall@5 of all labels"),
            truth.line("coverage@5"),
        ],
        deciles=[
            DecileLine(g[0].decile, g[0].fewest, g[0].most, g[0].n_labels, g[0].true, [one.recall for one in g])
            for g in groups
            if g[0].true and g[0].decile
        ],
        corrected=[observed.line("P@5"), corrected, truth.line("P@5")],
        true_counts=data.true_counts,
        observed_counts=counts,
        verdicts=_verdicts(observed, truth, tail, head),
        seconds=seconds,
        missing=missing,
    )


def _metadata(data: _Data, seed: int) -> dict[str, Any]:
    return {
        "n_train": data.train.n_samples,
        "n_test": data.test.n_samples,
        "n_labels": data.train.n_labels,
        "n_features": data.train.n_features,
        "labels_per_row": float(data.complete.Y.nnz / data.complete.n_samples),
        "kept": data.train.Y.nnz / int(data.true_counts.sum()),
        "n_unseen": int(np.count_nonzero(data.train.label_counts == 0)),
        "seed": seed,
        "version": __version__,
        "last_run": METHOD_SPECS[-1].folder,
    }


def _columns(Y: sparse.csr_matrix, kept: npt.NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return Y with the entries of some labels only, in its original shape."""
    thinned = Y.copy()
    thinned.data = thinned.data * kept[thinned.indices]
    thinned.eliminate_zeros()
    return thinned


def _corrected(evaluation: Evaluation, seed: int) -> DemoCell:
    """Return an estimate of the true P@5, the mean of hit/p over rows and ranks, with a bootstrap interval."""
    gains = evaluation.per_row(f"PSP@{CUTS[-1]}")[0] / CUTS[-1]
    rng = np.random.default_rng(seed)
    means = [rng.choice(gains, gains.size).mean() for _ in range(_RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return DemoCell(float(gains.mean()), float(low), float(high))


def _verdicts(observed: _Measured, truth: _Measured, tail: _Measured, head: _Measured) -> list[str]:
    """Return sentences on the differences of the weighted methods to DiSMEC."""
    sentences = [
        f"{METHOD_SPECS[position].title} against DiSMEC on the complete labels, in percentage points: tail recall@5 "
        f"{tail.change(position, 'recall@5')}; head recall@5 {head.change(position, 'recall@5')}; "
        f"P@1 {truth.change(position, 'P@1')}; P@5 {truth.change(position, 'P@5')}."
        for position in range(2, len(METHOD_SPECS))
    ]
    last = len(METHOD_SPECS) - 1
    sentences.append(
        f"{METHOD_SPECS[last].title} against DiSMEC on the observed labels: "
        f"P@1 {observed.change(last, 'P@1')}; "
        f"P@5 {observed.change(last, 'P@5')}; PSP@5 {observed.change(last, 'PSP@5')}."
    )
    return sentences


def _progress_of_method(progress: Progress, position: int, n: int) -> Progress:
    """Return a progress callback for one of n trainings."""

    def report(done: int, total: int | None) -> None:
        if total:
            progress(position * total + done, n * total)

    return report


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - begin
