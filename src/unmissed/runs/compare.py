"""The verb compare: methods side by side on one data set, by the verbs train, predict and evaluate."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unmissed.archive import is_archive, read_json, remove_torn, write_json
from unmissed.data import (
    Columns,
    Dataset,
    TextFeatures,
    catalog,
    check_dataset,
    load,
    load_labels,
    open_store,
    write_store,
)
from unmissed.data.catalog import Recognised
from unmissed.data.statistics import describe_labels
from unmissed.errors import InputError
from unmissed.execution import Limits
from unmissed.metrics import Conventions, Evaluation
from unmissed.metrics.conventions import RERANK_DEPTH, Policy
from unmissed.propensity import Jain, Propensity, PropensityLike, as_propensity, default_propensity, describe
from unmissed.runs.beside import beside_published, check_claims
from unmissed.runs.bouts import RANKING, Bout, Stage, no_stage, settle, write_warm_rows
from unmissed.runs.contenders import Contender, folder_name, read_contenders
from unmissed.runs.earlier import Earlier, find_earlier
from unmissed.runs.evaluate import Judge, Measuring
from unmissed.runs.folder import versions

RESULTS = "results.json"
KIND, VERSION = "comparison", 1
BASELINE = "dismec"  # the method that the paper counts gains from
RERANKED = ("PSP", "PSnDCG")  # what the authors' re-ranking changes
_POINTS = 200  # of the curve of label frequencies
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Comparison:
    """What is compared, and how.

    Parameters
    ----------
    contenders : the methods; all of the registry by default
    scores : files of other systems by name, in any form that `evaluate` reads
    baseline : the key of the contender that gains are counted from; where it is missing, the first one
    propensity : for training and measuring alike; by default the constants that the catalogue has for the data set
    k, n_resamples, level, seed : of measuring
    limits : of one method
    n_jobs : threads of one method
    name : of the data set; by default the name of the training set's folder
    unseen_labels : whether true labels without a training row count, as `evaluate` has it: "keep" or "drop"
    only : leave out the methods and scores of earlier comparisons in the folder, which stay in the page by default
    """

    contenders: Sequence[Contender] = field(default_factory=read_contenders)
    scores: Mapping[str, PathLike] = field(default_factory=dict)
    baseline: str = BASELINE
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


class Prepared(NamedTuple):
    """The two stores, their paths, what they are called, and what looks wrong with the training set."""

    train: Dataset
    test: Dataset
    folder: Path
    name: str
    recognised: Recognised | None
    warnings: list[str]


def compare(
    train: PathLike,
    test: PathLike,
    out: PathLike,
    comparison: Comparison | None = None,
    *,
    text: TextFeatures | None = None,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    stage: Stage = no_stage,
    warn: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train and evaluate every contender, each in a process of its own; return what `results.json` then holds.

    Parameters
    ----------
    train, test : data sets in any form that `unmissed.data.load` reads; all contenders see the same features
    out : the folder; finished methods in it are not trained again, an interrupted one goes on where it stopped. Methods
        of earlier comparisons in it are part of the results, too, unless they were trained with other settings
    comparison : Comparison
    text : how texts become features
    columns : where tables keep texts and labels
    header, one_based : for XMC text
    stage : given a description, opens a context that gives a `Progress`, such as `unmissed.cli.show.progress_bar`
    warn : told, before anything is trained, what looks wrong with the training set
    """
    how = comparison or Comparison()
    how.limits.check()
    if not how.contenders and not how.scores:
        raise InputError("nothing to compare: no method and no scores")
    folder = Path(out)
    with stage("reading") as progress:
        reading = {"columns": columns, "header": header, "one_based": one_based, "progress": progress}
        data = prepare(train, test, folder / "data", how.name, text, reading)
        truth = keep_truth(test, data, reading)
    for line in data.warnings:
        warn(line)
    propensity = _usual(data.recognised) if how.propensity is None else as_propensity(how.propensity)
    write_warm_rows(data.train, data.folder / "warm")
    trials = _Trials(data, how, propensity, folder)
    entries = [_entry(one, settle(trials.bout(one), trials.wanted(one), how.limits, stage)) for one in how.contenders]
    earlier = Earlier([], {}, {})
    if not how.only:
        known = read_results(folder) if (folder / RESULTS).is_file() else {}
        taken = {*(one[name] for one in entries for name in ("key", "title")), *how.scores}
        earlier = find_earlier(folder, known, taken, trials.wanted)
    entries += [_entry(*one) for one in earlier.methods]
    with stage("measuring"):
        files = _files({**earlier.scores, **how.scores}, folder, entries)
        results = _results(entries, data, how, propensity, truth, files)
    results["kept"] = [*(one.key for one, _ in earlier.methods), *earlier.scores]
    results["left_out"] = earlier.left_out
    write_json(folder / RESULTS, results)
    return results


class _Trials(NamedTuple):
    """How each method of a comparison is trained."""

    data: Prepared
    how: Comparison
    propensity: Propensity
    folder: Path

    @property
    def depth(self) -> int:
        """How many labels are ranked for each row."""
        return max(*self.how.k, RERANK_DEPTH)

    def bout(self, contender: Contender) -> Bout:
        """Return what a method's process does."""
        place = self.folder / "methods" / contender.folder
        return Bout(contender, self.propensity, self.data.folder, place, self.depth, self.how.n_jobs)

    def wanted(self, contender: Contender) -> dict[str, Any]:
        """Return what decides a method's ranking: its recipe, the data and the depth."""
        text = self.data.train.text
        return {
            "recipe": self.bout(contender).recipe(None if text is None else text.options),
            "data": [self.data.train.digest, self.data.test.digest],
            "depth": self.depth,
        }


def read_results(path: PathLike) -> dict[str, Any]:
    """Read what `compare` left in a folder."""
    value = read_json(Path(path) / RESULTS)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise InputError(f"{path}: {RESULTS} is not what compare leaves")
    if value.get("version") != VERSION:
        raise InputError(f"{path}: a comparison of version {value.get('version')!r}; this program reads {VERSION}")
    return value


def prepare(
    train: PathLike, test: PathLike, folder: Path, name: str | None, text: TextFeatures | None, reading: dict[str, Any]
) -> Prepared:
    """Keep both data sets as stores; where their files have not changed, they are not read again.

    `reading` holds what `load` takes: columns, header, one_based and progress.
    """
    source = {
        "train": _fingerprint(train),
        "test": _fingerprint(test),
        "text": None if text is None else text.options,
        "reading": [asdict(reading["columns"] or Columns()), reading["header"], reading["one_based"]],
    }
    noted = folder / "source.json"
    paths = [folder / "train", folder / "test"]
    warnings: list[str] | None = None
    if not (noted.is_file() and read_json(noted) == source and all(map(is_archive, paths))):
        rows = load(train, text=text, **reading)
        warnings = check_dataset(rows)
        asked = load(test, like=rows, **reading)
        for path, dataset in zip(paths, (rows, asked), strict=True):
            if not is_archive(path):
                remove_torn(path)
                write_store(dataset, path)
            elif open_store(path).digest != dataset.digest:
                raise InputError(f"{path}: holds other data; choose another folder")
        write_json(noted, source)
    rows, asked = (open_store(path) for path in paths)
    names = _names(train)
    sizes = (rows.n_samples, asked.n_samples, rows.n_labels, rows.n_features)
    recognised = catalog.recognise([name] if name else names, sizes)
    called = name or (recognised.entry.name if recognised else names[0])
    return Prepared(rows, asked, folder, called, recognised, check_dataset(rows) if warnings is None else warnings)


def keep_truth(test: PathLike, data: Prepared, reading: Mapping[str, Any]) -> Path:
    """Return the store that has all labels of the test rows, written if it is not there.

    The store of the test rows has the labels of the training set. Labels that training does not have are kept apart, as
    `evaluate` keeps them; whether they count is for the conventions to say.
    """
    path = data.folder / "truth"
    if not data.test.n_unknown_labels:
        return data.folder / "test"
    if not path.exists():
        known, n_labels = data.train.label_names, data.train.n_labels
        Y, names, n_left_out = load_labels(test, like_names=known, n_labels=n_labels, keep_unknown=True, **reading)
        no_features = sparse.csr_matrix((Y.shape[0], 1), dtype=np.float32)
        write_store(Dataset(no_features, Y, label_names=names, n_unknown_labels=n_left_out), path)
    return path


def _fingerprint(path: PathLike) -> list[Any]:
    """Return path, size and time of the files behind a path; of a store those of its manifest."""
    found = []
    for part in str(path).split(","):
        file = Path(part) / "manifest.json" if Path(part).is_dir() else Path(part)
        state = file.stat() if file.exists() else None  # what is missing is for the reader to refuse
        found.append([str(file.absolute()), state and state.st_size, state and state.st_mtime_ns])
    return found


def _names(path: PathLike) -> list[str]:
    """Return what a data set may be called by its path: the folder's name first, unless all there is a file's."""
    place = Path(str(path).split(",")[0]).absolute()
    stem = place.name.split(".")[0]
    return (
        [place.parent.name or stem, stem] if stem.casefold() in ("train", "x", "xtrain") else [stem, place.parent.name]
    )


def _usual(recognised: Recognised | None) -> Propensity:
    """Return the propensity model with the constants that are usual for a data set."""
    return default_propensity() if recognised is None else Jain(recognised.entry.a, recognised.entry.b)


def _entry(contender: Contender, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's part of the results, without its figures."""
    kept = ("state", "seconds", "peak_bytes", "disk_bytes", "certificate", "warnings", "attempts", "made_with")
    return {
        "key": contender.key,
        "title": contender.title,
        "family": contender.family,
        "method": contender.method,
        "params": record["wanted"]["recipe"]["params"],
        "reason": record.get("reason", ""),
        **{name: record.get(name) for name in kept},
    }


def _files(scores: Mapping[str, PathLike], folder: Path, entries: list[dict[str, Any]]) -> dict[str, Path]:
    """Return the ranking of every finished method and the files of other systems; the latter get an entry each."""
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
    data: Prepared,
    how: Comparison,
    propensity: Propensity,
    truth: Path,
    files: Mapping[str, Path],
) -> dict[str, Any]:
    """Measure all rankings plainly and as the authors do, and set them beside each other and beside the paper."""
    stores = (truth, data.folder / "train")
    conventions = Conventions(unseen_labels=how.unseen_labels)
    plainly = Measuring(how.k, propensity, conventions, None, how.n_resamples, how.level, how.seed)
    judge = Judge(*stores, plainly)
    again = Judge(*stores, replace(plainly, conventions=replace(conventions, rerank=True)))
    found = {key: judge.measure(path) for key, path in files.items()}
    baseline = how.baseline if how.baseline in found else next(iter(found), None)
    best, against_best = _best(judge, found)
    for one in entries:
        if one["key"] not in found:
            continue
        summary = judge.summarise(found[one["key"]])
        one |= {name: summary[name] for name in ("figures", "deciles", "support")}
        one["warnings"] = [*(one.get("warnings") or []), *summary["warnings"]]
        one["reranked"] = _only(again.summarise(again.measure(files[one["key"]]))["figures"], RERANKED)
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
    results["published"] = beside_published(results, data.recognised)
    results["claims"] = check_claims(results, lambda one, other: judge.difference(found[one], found[other]))
    return results


def _best(judge: Judge, found: Mapping[str, Evaluation]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the best method by figure, and how far behind it every method is, both with paired intervals."""
    names = sorted({name for one in found.values() for name in one.figures if _has_interval(name)})
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


def _has_interval(name: str) -> bool:
    return name.partition("@")[0] in ("P", "nDCG", "PSP", "PSnDCG", "recall")


def _only(figures: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name.partition("@")[0] in names}


def _describe_data(data: Prepared, propensity: Propensity) -> dict[str, Any]:
    """Return the row of the data-set table, the curve of label frequencies, and what identifies the data."""
    known = data.recognised
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
        "values_per_row": data.train.X.nnz / max(data.train.n_samples, 1),
        **{name: statistics[name] for name in ("n_used_labels", "points_per_label", "labels_per_point", "power_law")},
        "digests": {"train": data.train.digest, "test": data.test.digest},
        "unknown_marks": data.test.n_unknown_labels,
        "recognised": None if known is None else {"entry": asdict(known.entry), "by": known.by},
        "cheap_marks": _cheap_marks(data.train, propensity),
        "frequencies": {"rank": ranks.tolist(), "count": falling[ranks - 1].tolist()},
    }


def _cheap_marks(rows: Dataset, propensity: Propensity) -> float:
    """Return the share of training marks whose label has 1/p - 1 below 1, less than a negative costs."""
    counts = rows.label_counts
    inverse = 1 / propensity.fit(counts, rows.n_samples)
    return float(counts[inverse - 1 < 1].sum() / max(counts.sum(), 1))
