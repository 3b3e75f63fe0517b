"""Evaluation of rankings against true labels, with inverse propensities from the training counts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import isnan
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from unmissed.data import Columns, load_labels
from unmissed.data.documents import Documents
from unmissed.data.formats import holds_text
from unmissed.data.readers.reader import ReadOptions
from unmissed.errors import InputError
from unmissed.files import read_text
from unmissed.metrics import (
    ANNIF,
    ANNIF_METRICS,
    Conventions,
    Evaluation,
    Metric,
    annif_figures,
    evaluate,
    find_metrics,
    known_metrics,
    merge,
)
from unmissed.metrics.calibration_error import ErrorSettings, probability_errors
from unmissed.metrics.scoring import needed_depth
from unmissed.metrics.summary import summarize, summarize_difference, summarize_probabilities
from unmissed.metrics.uncertainty import Interval, pooled_intervals
from unmissed.progress import Progress, silent
from unmissed.propensity import (
    Constant,
    FrequencyCurve,
    FromTable,
    Propensity,
    as_propensity,
    default_propensity,
    describe,
)
from unmissed.ranking import Ranking
from unmissed.runs.run import is_run, open_run
from unmissed.runs.scores import read_ranking
from unmissed.runs.tables import NO_ROWS, SHOWN, RankedRows, Wanted, listed
from unmissed.settings import SETTINGS

MissingRows = Literal["refuse", "miss", "skip"]
PathLike = str | os.PathLike[str]
_PROPENSITY_DRAWS = 50


@dataclass(frozen=True)
class Measuring:
    """Settings of an evaluation.

    Parameters
    ----------
    k : cut-offs
    propensity : propensity model
    conventions : conventions of the metrics
    filtered : file of (row, label) pairs that do not count
    n_resamples, level, seed : bootstrap intervals
    missing_rows : rows of the truth that a ranking file lacks raise an error ("refuse"), count as rows without any
        suggestion ("miss"), or are left out ("skip")
    metrics : names or `Metric` objects; by default those of `unmissed.metrics.evaluate`
    n_subjects : number of subjects of the vocabulary, for the figures of Annif
    """

    k: Sequence[int] = (1, 3, 5)
    propensity: Propensity = field(default_factory=default_propensity)
    conventions: Conventions = field(default_factory=Conventions)
    filtered: PathLike | None = None
    n_resamples: int = 1000
    level: float = 0.95
    seed: int = 0
    missing_rows: MissingRows = "refuse"
    metrics: Sequence[str | Metric] | None = None
    n_subjects: int | None = None

    def __post_init__(self) -> None:
        if self.missing_rows not in get_args(MissingRows):
            raise InputError(f"unknown missing_rows {self.missing_rows!r}; known: {', '.join(get_args(MissingRows))}")
        object.__setattr__(self, "propensity", as_propensity(self.propensity))
        if self.metrics is not None:
            find_metrics(self.metrics)  # raise now, before files are read


def evaluate_ranking(
    ranking: PathLike,
    truth: PathLike,
    train: PathLike | None = None,
    measuring: Measuring | None = None,
    *,
    against: PathLike | None = None,
    columns: Columns | None = None,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Return the metrics of a ranking or score file; inverse propensities and deciles use the *training* counts.

    Parameters
    ----------
    ranking, against : files in any format that `unmissed.runs.scores.read_ranking` reads
        With `against`, the result also has the paired differences to that second ranking; rows that one of them skips
        are left out of both.
    truth, train : data sets in any format that `unmissed.data.load_labels` reads; for `train` also a run's folder
        Labels of truth and training set are matched by name if they have names. A table of propensities, or one
        propensity for all labels, needs no training set; there are no results by decile then.
    measuring : Measuring
    columns : columns of labels and ids in tables
    header, one_based : for XMC text, of data and scores
    """
    evaluator = RankingEvaluator(
        truth, train, measuring, columns=columns, header=header, one_based=one_based, progress=progress
    )
    files = [ranking] if against is None else [ranking, against]
    rankings = [evaluator.read(file) for file in files]
    missing = np.unique(np.concatenate([one.missing for one in rankings]))
    found = [evaluator.measure_rows(one.ranking, missing) for one in rankings]
    result = {
        "ranking": str(ranking),
        "truth": str(truth),
        "train": None if train is None else str(train),
        **evaluator.summarize(found[0]),
    }
    result["probabilities"] = evaluator.summarize_probabilities(rankings[0].ranking)
    result["missing_rows"] = {
        "policy": evaluator.measuring.missing_rows,
        **dict(zip(("rows", "against"), (int(one.missing.size) for one in rankings), strict=False)),
    }
    result["warnings"] += evaluator.say_missing(files, rankings)
    for name, interval in evaluator.propensity_intervals(rankings[0].ranking, missing).items():
        ends = [None if isnan(end) else end for end in interval]
        result["figures"][name] |= dict(zip(("low_with_p", "high_with_p"), ends, strict=True))
    if against is not None:
        result["against"] = str(against)
        result["differences"] = evaluator.difference(*found)
    return result


class RankingEvaluator:
    """Evaluates several rankings of the same rows; reads the truth once. Parameters: see `evaluate_ranking`."""

    def __init__(
        self,
        truth: PathLike,
        train: PathLike | None = None,
        measuring: Measuring | None = None,
        *,
        columns: Columns | None = None,
        header: bool = True,
        one_based: bool = False,
        progress: Progress = silent,
    ) -> None:
        self.measuring = measuring or Measuring()
        self._reading: dict[str, Any] = {"header": header, "one_based": one_based, "progress": progress}
        self._progress = progress
        self._source, self._truth = str(truth if train is None else train), truth
        self._known = _read_truth(truth, train, self.measuring, {**self._reading, "columns": columns})
        self._ids = cache(partial(_row_ids, truth, ReadOptions(header, one_based, columns or Columns())))
        self._pairs = None if self.measuring.filtered is None else read_pairs(self.measuring.filtered)

    def read(self, file: PathLike) -> RankedRows:
        """Return a ranking or ranked scores; by default raise if rows of the truth are missing."""
        wanted = self._known.wanted._replace(ids=self._ids)
        found = read_ranking(
            file, wanted, needed_depth(self.measuring.k, self.measuring.conventions, self._pairs), **self._reading
        )
        found.ranking.check_names(self._known.wanted.names, self._source)
        if found.ranking.rows_digest is not None:
            found.ranking.check_rows(self._ids(), str(self._truth))
        if found.missing.size and self.measuring.missing_rows == "refuse":
            raise InputError(
                f"{file}: {self._count_missing(found.missing)}; evaluate --missing-rows miss counts them as rows "
                "without a suggestion (predict --threshold and --decide leave such rows out of a table), skip leaves "
                "them out"
            )
        return found

    def with_measuring(self, **changes: Any) -> RankingEvaluator:
        """Return an evaluator of the same truth, which is not read again, with other conventions or metrics."""
        other = copy(self)
        other.measuring = replace(self.measuring, **changes)
        return other

    def measure_rows(self, ranking: Ranking, missing: npt.NDArray[np.int64] = NO_ROWS) -> Evaluation:
        """Return the evaluation of a ranking; missing rows count or are left out, as `missing_rows` says."""
        ranking, known, pairs = self._counted_rows(ranking, missing)
        return _measure(ranking, known, pairs, self.measuring)

    def propensity_intervals(self, ranking: Ranking, missing: npt.NDArray[np.int64] = NO_ROWS) -> dict[str, Interval]:
        """Return intervals of the figures that need propensities, over draws of these and of rows.

        There are none if the propensity model has no uncertainty.
        """
        how, model = self.measuring, self.measuring.propensity
        ranking, known, pairs = self._counted_rows(ranking, missing)
        if not isinstance(model, FrequencyCurve) or not how.n_resamples or not ranking.n_samples:
            return {}
        metrics = [one for one in find_metrics(how.metrics or list(known_metrics())) if _weighted(one)]
        if not metrics or known.counts is None:
            return {}
        how, rng = replace(how, metrics=metrics), np.random.default_rng([how.seed, 1])
        n_rows = max(known.n_train, int(known.counts.max(initial=0)))
        draws = [model.draw(known.counts, n_rows, rng) for _ in range(min(_PROPENSITY_DRAWS, how.n_resamples))]
        found = [_measure(ranking, known._replace(p=p), pairs, how) for p in draws]
        return pooled_intervals(found, how.n_resamples, how.level, how.seed)

    def _counted_rows(
        self, ranking: Ranking, missing: npt.NDArray[np.int64]
    ) -> tuple[Ranking, _Truth, npt.NDArray[np.int64] | None]:
        """Return the ranking, the truth and the filtered pairs of the rows that count."""
        known, pairs = self._known, self._pairs
        if missing.size and self.measuring.missing_rows == "skip":
            kept = np.delete(np.arange(known.Y.shape[0]), missing)
            ranking = Ranking(ranking.labels[kept], ranking.scores[kept])
            if pairs is not None:
                pairs = pairs[~np.isin(pairs[:, 0], missing)]
                pairs = np.column_stack([np.searchsorted(kept, pairs[:, 0]), pairs[:, 1]])
            if not kept.size:
                raise InputError(f"{self._truth}: the ranking has none of its {missing.size:,} rows; nothing is left")
            known = known._replace(Y=known.Y[kept])
        return ranking, known, pairs

    def say_missing(self, files: Sequence[PathLike], rankings: Sequence[RankedRows]) -> list[str]:
        """Return a warning for each file that lacks rows of the truth."""
        policy = self.measuring.missing_rows
        done = "are left out" if policy == "skip" else "count as rows without a suggestion"
        sentences = [
            f"{file}: {self._count_missing(one.missing)}; they {done}"
            for file, one in zip(files, rankings, strict=True)
            if one.missing.size
        ]
        if policy == "skip" and len(files) > 1 and sentences:
            sentences.append("metrics and differences are those of the rows that both rankings have")
        return sentences

    def _count_missing(self, missing: npt.NDArray[np.int64]) -> str:
        ids = self._ids()
        names = [str(row) if ids is None else repr(ids[row]) for row in missing[: SHOWN + 1].tolist()]
        return (
            f"{missing.size:,} of the {self._known.Y.shape[0]:,} rows of the truth are missing, first "
            f"{'row' if ids is None else 'id'} {listed(names)}"
        )

    def summarize(self, found: Evaluation) -> dict[str, Any]:
        """Return metrics, intervals, deciles and warnings as JSON values."""
        how = self.measuring
        result = {
            "propensity": _short_description(how.propensity),
            "inverse_propensities_from": _origin(how.propensity),
            **summarize(found, how.n_resamples, how.level, how.seed, self._progress),
        }
        result["warnings"] += _dropped_assignments(result, self._truth, self._known)
        if how.conventions == ANNIF and set(ANNIF_METRICS) <= {metric.name for metric in found.metrics}:
            result["annif"] = annif_figures(found, how.n_subjects)
        return result

    def summarize_probabilities(self, ranking: Ranking) -> list[dict[str, Any]] | None:
        """Return the errors of a ranking's probabilities at each k, by decile at the largest; None if it has none.

        Filtered pairs are left out. All other listed labels count, also those of rows without true labels.
        """
        if ranking.probabilities is None:
            return None
        how, known, pairs = self.measuring, self._known, self._pairs
        if pairs is not None and pairs.size:
            n_labels = known.Y.shape[1]
            keys = np.arange(ranking.n_samples)[:, None] * n_labels + ranking.labels
            ranking = ranking.keep(~np.isin(keys, pairs[:, 0] * n_labels + pairs[:, 1]))
        settings = ErrorSettings(n_resamples=how.n_resamples, level=how.level, seed=how.seed)
        *others, deepest = sorted(set(how.k))
        p = ranking.probabilities
        assert p is not None  # as before
        found = probability_errors(ranking.labels, p, known.Y, others, settings=settings)
        found += probability_errors(ranking.labels, p, known.Y, [deepest], train_counts=known.counts, settings=settings)
        return summarize_probabilities(found)

    def difference(self, first: Evaluation, second: Evaluation) -> dict[str, Any]:
        """Return the paired differences of two evaluations as JSON values."""
        how = self.measuring
        return summarize_difference(first, second, how.n_resamples, how.level, how.seed, self._progress)


class _Truth(NamedTuple):
    """True labels Y, expected shape, training counts (None without a training set), propensities p, training rows."""

    Y: Any
    wanted: Wanted
    counts: npt.NDArray[np.int64] | None
    p: npt.NDArray[np.float64]
    n_left_out: int
    n_train: int = 0


def _weighted(metric: Metric) -> bool:
    return metric.by_default and "inverse_propensities" in metric.needs


def _measure(ranking: Ranking, known: _Truth, pairs: npt.NDArray[np.int64] | None, measuring: Measuring) -> Evaluation:
    """Return the evaluation, computed in blocks of rows to bound the memory."""
    n_samples = int(known.Y.shape[0])
    if ranking.n_samples != n_samples:
        raise InputError(f"the ranking has {ranking.n_samples} rows, the truth has {n_samples}")
    if pairs is not None and pairs.size and not 0 <= pairs[:, 0].min() <= pairs[:, 0].max() < n_samples:
        raise InputError(f"filtered pairs name a row that the truth, with {n_samples} rows, does not have")
    inverse = 1 / known.p

    def part(begin: int, end: int) -> Evaluation:
        inside = None if pairs is None else pairs[(pairs[:, 0] >= begin) & (pairs[:, 0] < end)]
        return evaluate(
            Ranking(ranking.labels[begin:end], ranking.scores[begin:end]),
            known.Y[begin:end],
            inverse,
            measuring.k,
            metrics=measuring.metrics,
            train_counts=known.counts,
            filtered=None if inside is None else inside - (begin, 0),
            conventions=measuring.conventions,
        )

    found = part(0, SETTINGS.evaluated_rows)
    for begin in range(SETTINGS.evaluated_rows, n_samples, SETTINGS.evaluated_rows):
        found = merge([found, part(begin, begin + SETTINGS.evaluated_rows)])
    return found


def _read_truth(truth: PathLike, train: PathLike | None, measuring: Measuring, reading: dict[str, Any]) -> _Truth:
    """Return the truth in the column order of the training set; labels without a training positive come last."""
    if train is None:
        return _read_truth_without_train(truth, measuring.propensity, reading)
    names, counts, n_samples, p = _training_labels(train, measuring.propensity, reading)
    Y, all_names, n_left_out = load_labels(truth, like_names=names, n_labels=counts.size, keep_unknown=True, **reading)
    unknown = np.zeros(Y.shape[1] - counts.size, dtype=np.int64)  # they have no training positive
    p_unknown = np.ones(unknown.size)
    if not isinstance(measuring.propensity, FromTable):
        p_unknown = measuring.propensity.estimate(unknown, n_samples)
    elif unknown.size and measuring.conventions.unseen_labels == "keep":
        raise InputError(
            f"{truth}: has {unknown.size} labels that the training set does not have, and the table of propensities "
            "has no entry for them; drop unseen labels, or name another propensity"
        )
    wanted = Wanted(Y.shape[0], counts.size, all_names if names is None else names)
    return _Truth(Y, wanted, np.concatenate([counts, unknown]), np.concatenate([p, p_unknown]), n_left_out, n_samples)


def _read_truth_without_train(truth: PathLike, propensity: Propensity, reading: dict[str, Any]) -> _Truth:
    """Read the truth without a training set, for propensities that need no counts."""
    if not isinstance(propensity, FromTable | Constant):
        raise InputError(
            "propensities come from the counts of the training set: name it (--train), or a table of propensities "
            "(--propensity table:FILE)"
        )
    if holds_text(truth):
        raise InputError(f"{truth}: labels of texts have no numbers of their own; name the training set")
    n_labels = propensity.values.size if isinstance(propensity, FromTable) else None
    sized = bool(reading["header"])  # without a header, the table says how many labels there are
    Y, names, n_left_out = load_labels(truth, n_labels=None if sized else n_labels, **reading)
    if n_labels is not None and Y.shape[1] != n_labels:
        raise InputError(f"{truth}: has {Y.shape[1]} labels; the table has {n_labels} propensities")
    p = propensity.values if isinstance(propensity, FromTable) else np.full(Y.shape[1], propensity.p)
    return _Truth(Y, Wanted(Y.shape[0], Y.shape[1], names), None, p, n_left_out)


def _training_labels(
    train: PathLike, propensity: Propensity, reading: dict[str, Any]
) -> tuple[list[str] | None, npt.NDArray[np.int64], int, npt.NDArray[np.float64]]:
    """Return names, counts, number of rows and p of the labels of a training set or run."""
    if is_run(train):
        run = open_run(train)
        p = run.propensities(propensity)
        assert run.label_counts is not None  # `propensities` raises without counts
        return run.label_names, run.label_counts, run.parts[0].n_samples, p
    Y, names, _ = load_labels(train, **reading)
    counts = np.asarray(Y.sum(axis=0)).ravel().astype(np.int64)
    return names, counts, Y.shape[0], propensity.estimate(counts, Y.shape[0])


def _row_ids(truth: PathLike, options: ReadOptions) -> list[str] | None:
    """Return the ids of the truth's rows, read when a ranking names rows by theirs."""
    return Documents(truth, options).label_lists()[1] if holds_text(truth) else None


def _origin(propensity: Propensity) -> str:
    """Return the origin of the inverse propensities, for reports."""
    if isinstance(propensity, FromTable):
        return f"table {propensity.source}".strip()
    return "constant" if isinstance(propensity, Constant) else "training counts"


def _dropped_assignments(result: Mapping[str, Any], truth: PathLike, known: _Truth) -> list[str]:
    """Return warnings about label assignments that were dropped from the truth before the evaluation."""
    sentences = []
    kept = result["conventions"]["empty_rows"] == "keep"
    fate = f"no true label left and {'count as rows in which nothing is found' if kept else 'do not count'}"
    if known.n_left_out:
        n_empty = int(np.count_nonzero(np.diff(known.Y.indptr) == 0))
        sentences.append(
            f"{known.n_left_out} assignments of unknown labels were dropped when {truth} was made; {n_empty} rows have "
            f"{fate}"
        )
    unseen = result["unseen"]
    if unseen and unseen["policy"] == "drop" and unseen["assignments"]:
        sentences.append(
            f"{unseen['assignments']} label assignments of {unseen['labels']} labels unseen in training "
            "left the truth, in "
            f"{unseen['rows']} rows; {unseen['rows_without_others']} rows have {fate}"
        )
    return sentences


def read_pairs(path: PathLike) -> npt.NDArray[np.int64]:
    """Return filtered pairs, read from lines of row and label, both counted from 0."""
    pairs = []
    for number, line in enumerate(read_text(path, "a text file of row and label pairs").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isdecimal() and len(word) < 19 for word in words):
            raise InputError(f"{path}, line {number}: a row and a label were expected, found {line.strip()[:60]!r}")
        pairs.append((int(words[0]), int(words[1])))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _short_description(model: Propensity) -> dict[str, Any]:
    """Return the description of a propensity model, without the values of a table or of a curve."""
    return {name: value for name, value in describe(model).items() if not isinstance(value, list)}
