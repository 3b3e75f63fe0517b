"""The verb evaluate: a ranking, the truth and the training set's counts in, a result that JSON can hold out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.data import Columns, load_labels
from unmissed.data.documents import Reading
from unmissed.data.forms import holds_text
from unmissed.errors import InputError
from unmissed.files import read_text
from unmissed.metrics import Conventions, Evaluation, evaluate, merge
from unmissed.metrics.scoring import needed_depth
from unmissed.metrics.summary import summarise, summarise_difference
from unmissed.progress import Progress, silent
from unmissed.propensity import Constant, FromTable, Propensity, as_propensity, default_propensity, describe
from unmissed.ranking import Ranking
from unmissed.runs.run import is_run, open_run
from unmissed.runs.scores import Wanted, read_ranking

PART = 1 << 18  # rows measured at a time
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Measuring:
    """How a ranking is measured: cut-offs, propensity model, conventions, filtered pairs and the bootstrap."""

    k: Sequence[int] = (1, 3, 5)
    propensity: Propensity = field(default_factory=default_propensity)
    conventions: Conventions = field(default_factory=Conventions)
    filtered: PathLike | None = None
    n_resamples: int = 1000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "propensity", as_propensity(self.propensity))


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
    """Measure a ranking or a file of scores; inverse propensities and deciles come from the *training* counts.

    Parameters
    ----------
    ranking, against : files in any form that `unmissed.runs.scores.read_ranking` reads
        With `against`, the result also holds the paired differences to that second ranking.
    truth, train : data sets in any form that `unmissed.data.load_labels` reads; for `train` also a run's folder
        Labels of the truth are matched to those of the training set by name where they have names. A table of
        propensities, or one for all labels, needs no training set; results by decile then are left out.
    measuring : Measuring
    columns : where truth and training set, if they are tables, keep their labels and ids
    header, one_based : for XMC text, data and scores alike
    """
    judge = Judge(truth, train, measuring, columns=columns, header=header, one_based=one_based, progress=progress)
    found = judge.measure(ranking)
    result = {
        "ranking": str(ranking),
        "truth": str(truth),
        "train": None if train is None else str(train),
        **judge.summarise(found),
    }
    if against is not None:
        result["against"] = str(against)
        result["differences"] = judge.difference(found, judge.measure(against))
    return result


class Judge:
    """Measures any number of rankings of the same rows; the truth is read once. Parameters: see `evaluate_ranking`."""

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
        self._ids = partial(_row_ids, truth, Reading(columns or Columns(), header))
        self._pairs = None if self.measuring.filtered is None else read_pairs(self.measuring.filtered)

    def measure(self, ranking: PathLike) -> Evaluation:
        """Read a ranking or a file of scores, and measure it."""
        wanted = self._known.wanted._replace(ids=self._ids)
        depth = needed_depth(self.measuring.k, self.measuring.conventions, self._pairs)
        one = read_ranking(ranking, wanted, depth, **self._reading)
        one.check_names(self._known.wanted.names, self._source)
        if one.rows_digest is not None:
            one.check_rows(self._ids(), str(self._truth))
        return _measure(one, self._known, self._pairs, self.measuring)

    def summarise(self, found: Evaluation) -> dict[str, Any]:
        """Return figures, intervals, deciles and warnings as a value that JSON can hold."""
        how = self.measuring
        result = {
            "propensity": _short_description(how.propensity),
            "inverse_propensities_from": _origin(how.propensity),
            **summarise(found, how.n_resamples, how.level, how.seed, self._progress),
        }
        result["warnings"] += _lost_marks(result, self._truth, self._known)
        return result

    def difference(self, first: Evaluation, second: Evaluation) -> dict[str, Any]:
        """Return the paired differences of two evaluations as a value that JSON can hold."""
        how = self.measuring
        return summarise_difference(first, second, how.n_resamples, how.level, how.seed, self._progress)


class _Truth(NamedTuple):
    """The true labels, and what training says of each: its count, or None where it was not asked, and p."""

    Y: Any
    wanted: Wanted
    counts: npt.NDArray[np.int64] | None
    p: npt.NDArray[np.float64]
    n_left_out: int


def _measure(ranking: Ranking, known: _Truth, pairs: npt.NDArray[np.int64] | None, measuring: Measuring) -> Evaluation:
    """Measure rows in parts and merge what they add, so that memory beside the result does not grow with the rows."""
    n_samples = int(known.Y.shape[0])
    if ranking.n_samples != n_samples:
        raise InputError(f"the ranking has {ranking.n_samples} rows, the truth has {n_samples}")
    if pairs is not None and pairs.size and not 0 <= pairs[:, 0].min() <= pairs[:, 0].max() < n_samples:
        raise InputError(f"filtered pairs name a row that the truth, with {n_samples} rows, does not have")
    inverse = 1 / known.p

    def part(begin: int, end: int) -> Evaluation:
        inside = None if pairs is None else pairs[(pairs[:, 0] >= begin) & (pairs[:, 0] < end)]
        return evaluate(
            replace(ranking, labels=ranking.labels[begin:end], scores=ranking.scores[begin:end]),
            known.Y[begin:end],
            inverse,
            measuring.k,
            train_counts=known.counts,
            filtered=None if inside is None else inside - (begin, 0),
            conventions=measuring.conventions,
        )

    found = part(0, PART)
    for begin in range(PART, n_samples, PART):
        found = merge([found, part(begin, begin + PART)])
    return found


def _read_truth(truth: PathLike, train: PathLike | None, measuring: Measuring, reading: dict[str, Any]) -> _Truth:
    """Read the truth in the columns of the training set; labels that this does not have get columns behind them."""
    if train is None:
        return _read_truth_alone(truth, measuring.propensity, reading)
    names, counts, n_samples, p = _training_labels(train, measuring.propensity, reading)
    Y, all_names, n_left_out = load_labels(truth, like_names=names, n_labels=counts.size, keep_unknown=True, **reading)
    unknown = np.zeros(Y.shape[1] - counts.size, dtype=np.int64)  # none of the training rows is positive for them
    p_unknown = np.ones(unknown.size)
    if not isinstance(measuring.propensity, FromTable):
        p_unknown = measuring.propensity.fit(unknown, n_samples)
    elif unknown.size and measuring.conventions.unseen_labels == "keep":
        raise InputError(
            f"{truth}: has {unknown.size} labels that the training set does not have, and the table of propensities "
            "has no entry for them; drop unseen labels, or name another propensity"
        )
    wanted = Wanted(Y.shape[0], counts.size, all_names if names is None else names)
    return _Truth(Y, wanted, np.concatenate([counts, unknown]), np.concatenate([p, p_unknown]), n_left_out)


def _read_truth_alone(truth: PathLike, propensity: Propensity, reading: dict[str, Any]) -> _Truth:
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
    """Return names, counts, the number of rows and p of the labels of the training set or of a run's folder."""
    if is_run(train):
        run = open_run(train)
        p = run.propensities(propensity)
        assert run.label_counts is not None  # propensities has looked
        return run.label_names, run.label_counts, run.parts[0].n_samples, p
    Y, names, _ = load_labels(train, **reading)
    counts = np.asarray(Y.sum(axis=0)).ravel().astype(np.int64)
    return names, counts, Y.shape[0], propensity.fit(counts, Y.shape[0])


def _row_ids(truth: PathLike, reading: Reading) -> list[str] | None:
    """Return the ids of the truth's rows, read when a ranking names rows by theirs."""
    return reading.label_lists(truth)[1] if holds_text(truth) else None


def _origin(propensity: Propensity) -> str:
    """Say where inverse propensities come from."""
    if isinstance(propensity, FromTable):
        return f"table {propensity.source}".strip()
    return "constant" if isinstance(propensity, Constant) else "training counts"


def _lost_marks(result: Mapping[str, Any], truth: PathLike, known: _Truth) -> list[str]:
    """Say which marks left the truth before anything was counted, and what became of their rows."""
    sentences = []
    kept = result["conventions"]["empty_rows"] == "keep"
    fate = f"no true label left and {'count as rows in which nothing is found' if kept else 'do not count'}"
    if known.n_left_out:
        n_empty = int(np.count_nonzero(np.diff(known.Y.indptr) == 0))
        sentences.append(
            f"{known.n_left_out} marks of unknown labels had left the truth when {truth} was made; {n_empty} rows have "
            f"{fate}"
        )
    unseen = result["unseen"]
    if unseen and unseen["policy"] == "drop" and unseen["marks"]:
        sentences.append(
            f"{unseen['marks']} marks of {unseen['labels']} labels unseen in training left the truth, in "
            f"{unseen['rows']} rows; {unseen['rows_without_others']} rows have {fate}"
        )
    return sentences


def read_pairs(path: PathLike) -> npt.NDArray[np.int64]:
    """Read filtered pairs: a row and a label per line, both counted from 0."""
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
    """Return the model's description without a table's values, which can be millions."""
    return {name: value for name, value in describe(model).items() if name != "values"}
