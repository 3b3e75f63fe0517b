"""Comparison of methods on one data set: trains, ranks and evaluates each of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unmissed.archive import is_archive, read_json, remove_torn, write_json
from unmissed.data import (
    Columns,
    Dataset,
    TextFeatures,
    catalog,
    check_dataset,
    load,
    open_store,
    write_store,
)
from unmissed.data.catalog import Recognized
from unmissed.data.statistics import describe_labels
from unmissed.errors import InputError
from unmissed.execution import Limits
from unmissed.matrices import assemble
from unmissed.metrics import Conventions, Evaluation, known_metrics
from unmissed.metrics.conventions import RERANK_DEPTH, Policy
from unmissed.models.method_registry import UNWEIGHTED, method_with_role
from unmissed.propensity import Jain, Propensity, PropensityLike, as_propensity, default_propensity, describe
from unmissed.runs.compare.earlier import Earlier, find_earlier
from unmissed.runs.compare.method_specs import MethodSpec, folder_name, read_method_specs
from unmissed.runs.compare.paper_comparison import check_claims, compare_with_published
from unmissed.runs.compare.trials import RANKING, Stage, Trial, no_stage, run_trial, write_warm_rows
from unmissed.runs.measurement import Measuring, RankingEvaluator
from unmissed.runs.run_folder import versions

RESULTS = "results.json"
KIND, VERSION = "comparison", 1
_POINTS = 200  # points of the curve of label frequencies
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Comparison:
    """Methods and settings of a comparison.

    Parameters
    ----------
    specs : the methods; all registered ones by default
    scores : score files of other systems by name, in any format that `evaluate` reads
    baseline : the key of the method that differences are computed against; by default the unweighted method, or
        the first one if that is missing
    propensity : for training and evaluation; by default with the constants of the catalog for the data set
    k, n_resamples, level, seed : settings of the evaluation
    limits : limits of time and memory per method
    n_jobs : number of threads per method
    name : name of the data set; by default the name of the training set's folder
    unseen_labels : whether true labels without a training positive count, as in `evaluate`: "keep" or "drop"
    only : leave out methods and scores of earlier comparisons in the folder
    """

    specs: Sequence[MethodSpec] = field(default_factory=read_method_specs)
    scores: Mapping[str, PathLike] = field(default_factory=dict)
    baseline: str = field(default_factory=partial(method_with_role, UNWEIGHTED))
    propensity: PropensityLike | None = None
    k: Sequence[int] = (1, 3, 5)
    n_resamples: int = 1000
    level: float = 0.95
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    n_jobs: int | None = None
    name: str | None = None
    unseen_labels: Policy = "keep"
    only: bool = False


class PreparedData(NamedTuple):
    """Training and test stores, their folder, the name of the data set, its catalog entry, and warnings.

    The test rows have the labels of the training set only. `truth` is the store with all of their labels, as `evaluate`
    counts them; the conventions decide whether labels without a training positive count.
    """

    train: Dataset
    test: Dataset
    folder: Path
    name: str
    recognized: Recognized | None
    warnings: list[str]
    truth: Path


def compare(
    train: PathLike,
    test: PathLike,
    out: PathLike,
    comparison: Comparison | None = None,
    *,
    text: TextFeatures | None = None,
    dense: PathLike | None = None,
    test_dense: PathLike | None = None,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    stage: Stage = no_stage,
    warn: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train and evaluate every method, each in its own process; write `results.json` and return its content.

    Parameters
    ----------
    train, test : data sets in any format that `unmissed.data.load` reads; all methods get the same features
    out : the folder; finished methods in it are not trained again, an interrupted one resumes. Methods of earlier
        comparisons in it are included, unless they were trained with other settings
    comparison : Comparison
    text : text features
    dense, test_dense : `.npy` files with the dense features of the training and of the test rows, as in `load`
    columns : columns of texts and labels in tables
    header, one_based : for XMC text
    stage : takes a description and returns a context with a `Progress`, such as `unmissed.cli.show.progress_bar`
    warn : callback for warnings about the training set, called before training
    """
    how = comparison or Comparison()
    how.limits.check()
    if not how.specs and not how.scores:
        raise InputError("nothing to compare: no method and no scores")
    folder = Path(out)
    with stage("reading") as progress:
        reading = {"columns": columns, "header": header, "one_based": one_based, "progress": progress}
        data = prepare(train, test, folder / "data", how.name, text, reading, (dense, test_dense))
    for line in data.warnings:
        warn(line)
    propensity = _usual(data.recognized) if how.propensity is None else as_propensity(how.propensity)
    write_warm_rows(data.train, data.folder / "warm")
    trials = _Trials(data, how, propensity, folder)
    entries = [_entry(one, run_trial(trials.trial(one), trials.wanted(one), how.limits, stage)) for one in how.specs]
    earlier = Earlier([], {}, {})
    if not how.only:
        known = read_results(folder) if (folder / RESULTS).is_file() else {}
        taken = {*(one[name] for one in entries for name in ("key", "title")), *how.scores}
        earlier = find_earlier(folder, known, taken, trials.wanted)
    entries += [_entry(*one) for one in earlier.methods]
    with stage("measuring"):
        files = _files({**earlier.scores, **how.scores}, folder, entries)
        results = _results(entries, data, how, propensity, files)
    results["kept"] = [*(one.key for one, _ in earlier.methods), *earlier.scores]
    results["left_out"] = earlier.left_out
    write_json(folder / RESULTS, results)
    return results


class _Trials(NamedTuple):
    """Makes the trial of each method."""

    data: PreparedData
    how: Comparison
    propensity: Propensity
    folder: Path

    @property
    def depth(self) -> int:
        """Number of ranked labels per row."""
        return max(*self.how.k, RERANK_DEPTH)

    def trial(self, spec: MethodSpec) -> Trial:
        """Return the trial of a method."""
        position = self.folder / "methods" / spec.folder
        return Trial(spec, self.propensity, self.data.folder, position, self.depth, self.how.n_jobs)

    def wanted(self, spec: MethodSpec) -> dict[str, Any]:
        """Return what determines a method's ranking: recipe, digests of the data, and depth."""
        text = self.data.train.text
        return {
            "recipe": self.trial(spec).recipe(None if text is None else text.options, self.data.train.n_dense > 0),
            "data": [self.data.train.digest, self.data.test.digest],
            "depth": self.depth,
        }


def read_results(path: PathLike) -> dict[str, Any]:
    """Return the results that `compare` wrote into a folder."""
    value = read_json(Path(path) / RESULTS)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise InputError(f"{path}: {RESULTS} was not written by compare")
    if value.get("version") != VERSION:
        raise InputError(f"{path}: a comparison of version {value.get('version')!r}; this program reads {VERSION}")
    return value


def prepare(
    train: PathLike,
    test: PathLike,
    folder: Path,
    name: str | None,
    text: TextFeatures | None,
    reading: dict[str, Any],
    dense: tuple[PathLike | None, PathLike | None] = (None, None),
) -> PreparedData:
    """Write both data sets as stores; every file is read once, and unchanged files are not read again.

    `reading` has the options of `load`: columns, header, one_based and progress. `dense` has the files of dense
    features of both data sets.
    """
    source = {
        "train": _fingerprint(train),
        "test": _fingerprint(test),
        "text": None if text is None else text.options,
        "reading": [asdict(reading["columns"] or Columns()), reading["header"], reading["one_based"]],
        **({} if dense == (None, None) else {"dense": [None if one is None else _fingerprint(one) for one in dense]}),
    }
    noted = folder / "source.json"
    paths = [folder / "train", folder / "test"]
    truth = folder / "truth"
    warnings: list[str] | None = None
    if not (noted.is_file() and read_json(noted) == source and all(map(is_archive, paths))):
        rows = load(train, text=text, dense=dense[0], **reading)
        warnings = check_dataset(rows)
        every = load(test, like=rows, keep_unknown=True, dense=dense[1], **reading)
        test_rows = _known_labels(every, rows)
        stores = dict(zip(paths, (rows, test_rows), strict=True))
        if test_rows.n_unknown_labels:
            stores[truth] = _only_labels(every)
        for path, dataset in stores.items():
            if not is_archive(path):
                remove_torn(path)
                write_store(dataset, path)
            elif open_store(path).digest != dataset.digest:
                raise InputError(f"{path}: holds other data; choose another folder")
        write_json(noted, source)
    rows, test_rows = (open_store(path) for path in paths)
    names = _names(train)
    sizes = (rows.n_samples, test_rows.n_samples, rows.n_labels, rows.n_features)
    recognized = catalog.recognize([name] if name else names, sizes)
    called = name or (recognized.entry.name if recognized else names[0])
    warnings = check_dataset(rows) if warnings is None else warnings
    return PreparedData(
        rows, test_rows, folder, called, recognized, warnings, truth if test_rows.n_unknown_labels else paths[1]
    )


def _known_labels(dataset: Dataset, like: Dataset) -> Dataset:
    """Return test rows with the labels of the training set only, which are the first ones; count the others."""
    Y = dataset.Y[:, : like.n_labels]
    n_unknown = dataset.n_unknown_labels + dataset.Y.nnz - Y.nnz
    kept = {name: getattr(like, name) for name in ("label_names", "feature_names", "label_titles", "text")}
    return Dataset(dataset.X, Y, **kept, n_unknown_labels=n_unknown, trusted=True, dense=dataset.dense)


def _only_labels(dataset: Dataset) -> Dataset:
    """Return the labels of a data set, without features."""
    pointers = np.zeros(dataset.n_samples + 1, np.int32)
    nothing = assemble(np.zeros(0, np.float32), np.zeros(0, np.int32), pointers, (dataset.n_samples, 1))
    return Dataset(nothing, dataset.Y, dataset.label_names, n_unknown_labels=dataset.n_unknown_labels, trusted=True)


def _fingerprint(path: PathLike) -> list[Any]:
    """Return path, size and modification time of the files of a data set; of a store those of its manifest."""
    found = []
    for part in str(path).split(","):
        file = Path(part) / "manifest.json" if Path(part).is_dir() else Path(part)
        state = file.stat() if file.exists() else None  # the reader raises for a missing file
        found.append([str(file.absolute()), state and state.st_size, state and state.st_mtime_ns])
    return found


def _names(path: PathLike) -> list[str]:
    """Return candidate names of a data set from its path: file name and folder name, the more specific first."""
    position = Path(str(path).split(",")[0]).absolute()
    stem = position.name.split(".")[0]
    return (
        [position.parent.name or stem, stem]
        if stem.casefold() in ("train", "x", "xtrain")
        else [stem, position.parent.name]
    )


def _usual(recognized: Recognized | None) -> Propensity:
    """Return the propensity model with the constants of the catalog for a data set, or the default one."""
    return default_propensity() if recognized is None else Jain(recognized.entry.a, recognized.entry.b)


def _entry(spec: MethodSpec, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's entry of the results, without metrics."""
    kept = ("state", "seconds", "peak_bytes", "disk_bytes", "certificate", "warnings", "attempts", "made_with")
    return {
        "key": spec.key,
        "title": spec.title,
        "family": spec.family,
        "method": spec.method,
        "params": record["wanted"]["recipe"]["params"],
        "reason": record.get("reason", ""),
        **{name: record.get(name) for name in kept},
    }


def _files(scores: Mapping[str, PathLike], folder: Path, entries: list[dict[str, Any]]) -> dict[str, Path]:
    """Return the ranking files of finished methods and of other systems; add an entry for each of the latter."""
    found = {
        one["key"]: folder / "methods" / folder_name(one["key"]) / RANKING
        for one in entries
        if one["state"] == "finished"
    }
    for name, path in scores.items():
        if any(name in (one["key"], one["title"]) for one in entries):
            raise InputError(f"--scores {name}: a method has this name; choose another")
        source = str(Path(path).absolute())
        entries.append({"key": name, "title": name, "family": "given scores", "state": "finished", "source": source})
        found[name] = Path(path)
    return found


def _results(
    entries: list[dict[str, Any]],
    data: PreparedData,
    how: Comparison,
    propensity: Propensity,
    files: Mapping[str, Path],
) -> dict[str, Any]:
    """Evaluate all rankings, without and with the authors' re-ranking, and compare them with the paper."""
    conventions = Conventions(unseen_labels=how.unseen_labels)
    plainly = Measuring(how.k, propensity, conventions, None, how.n_resamples, how.level, how.seed)
    judge = RankingEvaluator(data.truth, data.folder / "train", plainly)
    reranked = [metric for metric in known_metrics().values() if metric.reranked]
    again = judge.with_measuring(conventions=replace(conventions, rerank=True), metrics=reranked)
    rankings = {key: again.read(path) for key, path in files.items()}  # as deep as re-ranking needs
    found = {key: judge.measure_rows(*one) for key, one in rankings.items()}
    baseline = how.baseline if how.baseline in found else next(iter(found), None)
    best, against_best = _best(judge, found)
    for one in entries:
        if one["key"] not in found:
            continue
        summary = judge.summarize(found[one["key"]])
        one |= {name: summary[name] for name in ("figures", "deciles", "support")}
        one["probabilities"] = judge.summarize_probabilities(rankings[one["key"]].ranking)
        one["warnings"] = [*(one.get("warnings") or []), *summary["warnings"]]
        one["reranked"] = again.summarize(again.measure_rows(*rankings[one["key"]]))["figures"]
        one["against_baseline"] = judge.difference(found[one["key"]], found[baseline]) if baseline else {}
        one["against_best"] = against_best[one["key"]]
    results = {
        "kind": KIND,
        "version": VERSION,
        "settings": {
            "k": list(how.k),
            "propensity": describe(propensity) if not hasattr(propensity, "values") else {"model": "table"},
            "conventions": plainly.conventions.describe(),
            "interval": {"level": how.level, "resamples": how.n_resamples, "seed": how.seed},
            "limits": how.limits._asdict(),
            "n_jobs": how.n_jobs,
        },
        "made_with": {**versions(), "machine": platform.machine(), "cores": os.cpu_count()},
        "data": {**_describe_data(data, propensity), "unknown_policy": how.unseen_labels},
        "baseline": baseline,
        "best": best,
        "methods": entries,
    }
    results["published"] = compare_with_published(results, data.recognized)
    results["claims"] = check_claims(results, lambda one, other: judge.difference(found[one], found[other]))
    return results


def _best(judge: RankingEvaluator, found: Mapping[str, Evaluation]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the best method per metric, and the paired differences of every method to it."""
    names = sorted({name for one in found.values() for name in one.figures})
    best: dict[str, Any] = {}
    behind: dict[str, dict[str, Any]] = {key: {} for key in found}
    pairs: dict[tuple[str, str], dict[str, Any]] = {}
    for name in names:
        ranked = [key for key, one in found.items() if np.isfinite(one[name])]
        if not ranked:
            continue
        leader = max(ranked, key=lambda key: found[key][name])
        for key in ranked:
            if (key, leader) not in pairs:
                pairs[key, leader] = judge.difference(found[key], found[leader])
            behind[key][name] = pairs[key, leader][name]
        near = [key for key in ranked if key != leader and behind[key][name]["high"] >= 0]
        best[name] = {"key": leader, "near": near}
    return best, behind


def _describe_data(data: PreparedData, propensity: Propensity) -> dict[str, Any]:
    """Return statistics of the data, the curve of label frequencies, and digests."""
    known = data.recognized
    falling = np.sort(data.train.label_counts)[::-1]
    falling = falling[falling > 0]
    ranks = np.unique(np.geomspace(1, max(falling.size, 1), _POINTS).astype(np.int64))[: falling.size]
    statistics = asdict(describe_labels(data.train.Y))
    return {
        "name": data.name,
        "n_train": data.train.n_samples,
        "n_test": data.test.n_samples,
        "n_labels": data.train.n_labels,
        "n_features": data.train.n_features,
        "n_dense": data.train.n_dense,
        "values_per_row": data.train.X.nnz / max(data.train.n_samples, 1) + data.train.n_dense,
        **{name: statistics[name] for name in ("n_used_labels", "points_per_label", "labels_per_point", "power_law")},
        "digests": {"train": data.train.digest, "test": data.test.digest},
        "unknown_assignments": data.test.n_unknown_labels,
        "recognized": None if known is None else {"entry": asdict(known.entry), "by": known.by},
        "low_cost_fraction": _low_cost_fraction(data.train, propensity),
        "frequencies": {"rank": ranks.tolist(), "count": falling[ranks - 1].tolist()},
    }


def _low_cost_fraction(rows: Dataset, propensity: Propensity) -> float:
    """Return the fraction of training assignments whose label has 1/p - 1 < 1, below the cost of a negative."""
    counts = rows.label_counts
    inverse = 1 / propensity.estimate(counts, rows.n_samples)
    return float(counts[inverse - 1 < 1].sum() / max(counts.sum(), 1))
