"""The verb evaluate: a ranking, the truth and the training set's counts in, a result that JSON can hold out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.data import load_labels
from unmissed.errors import InputError
from unmissed.files import read_text
from unmissed.metrics import Conventions, Evaluation, evaluate
from unmissed.metrics.summary import summarise, summarise_difference
from unmissed.progress import Progress, silent
from unmissed.propensity import FromTable, Propensity, default_propensity, describe
from unmissed.ranking import Ranking
from unmissed.runs.run import is_run, open_run

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


def evaluate_ranking(
    ranking: PathLike,
    truth: PathLike,
    train: PathLike,
    measuring: Measuring | None = None,
    *,
    against: PathLike | None = None,
    header: bool = True,
    one_based: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure a saved ranking; inverse propensities and deciles come from the counts of the *training* set.

    Parameters
    ----------
    ranking, against : `.npz` files that `Ranking.save` wrote
        With `against`, the result also holds the paired differences to that second ranking.
    truth, train : data sets in any form that `unmissed.data.load_labels` reads; for `train` also a run's folder
        Labels of the truth are matched to those of the training set by name where they have names.
    measuring : Measuring
    header, one_based : for XMC text
    """
    measuring = measuring or Measuring()
    listed = Ranking.load(ranking)
    other = None if against is None else Ranking.load(against)
    reading: dict[str, Any] = {"header": header, "one_based": one_based, "progress": progress}
    known = _training_labels(train, measuring.propensity, **reading)
    Y, _, n_left_out = load_labels(
        truth, like_names=known.names, n_labels=known.counts.size, keep_unknown=True, **reading
    )
    known = known.with_unknown(Y.shape[1] - known.counts.size, measuring, truth)
    pairs = None if measuring.filtered is None else read_pairs(measuring.filtered)

    def measure(one: Ranking) -> Evaluation:
        return evaluate(
            one,
            Y,
            1 / known.p,
            measuring.k,
            train_counts=known.counts,
            filtered=pairs,
            conventions=measuring.conventions,
        )

    found = measure(listed)
    result = {
        "ranking": str(ranking),
        "truth": str(truth),
        "train": str(train),
        "propensity": _short_description(measuring.propensity),
        "inverse_propensities_from": "training counts",
        **summarise(found, measuring.n_resamples, measuring.level, measuring.seed, progress),
    }
    result["warnings"] += _lost_marks(result, truth, n_left_out)
    if other is not None:
        result["against"] = str(against)
        result["differences"] = summarise_difference(
            found, measure(other), measuring.n_resamples, measuring.level, measuring.seed, progress
        )
    return result


class _Labels(NamedTuple):
    """The labels of the training set: names, counts among `n_samples` rows, and propensities."""

    names: list[str] | None
    counts: npt.NDArray[np.int64]
    n_samples: int
    p: npt.NDArray[np.float64]

    def with_unknown(self, n_labels: int, measuring: Measuring, truth: PathLike) -> _Labels:
        """Add labels that the truth has and the training set has not: none of its rows is positive for them."""
        counts = np.zeros(n_labels, dtype=np.int64)
        if n_labels and isinstance(measuring.propensity, FromTable):
            if measuring.conventions.unseen_labels == "keep":
                raise InputError(
                    f"{truth}: has {n_labels} labels that the training set does not have, and the table of "
                    "propensities has no entry for them; drop unseen labels, or name another propensity"
                )
            p = np.ones(n_labels)  # no mark of theirs will count
        else:
            p = measuring.propensity.fit(counts, self.n_samples)
        return self._replace(counts=np.concatenate([self.counts, counts]), p=np.concatenate([self.p, p]))


def _training_labels(train: PathLike, propensity: Propensity, **reading: Any) -> _Labels:
    """Return the labels of the training set or of a run's folder."""
    if is_run(train):
        run = open_run(train)
        p = run.propensities(propensity)
        assert run.label_counts is not None  # propensities has looked
        return _Labels(run.label_names, run.label_counts, run.parts[0].n_samples, p)
    Y, names, _ = load_labels(train, **reading)
    counts = np.asarray(Y.sum(axis=0)).ravel().astype(np.int64)
    return _Labels(names, counts, Y.shape[0], propensity.fit(counts, Y.shape[0]))


def _lost_marks(result: Mapping[str, Any], truth: PathLike, n_left_out: int) -> list[str]:
    """Say which marks left the truth before anything was counted, and what became of their rows."""
    sentences = []
    if n_left_out:
        sentences.append(f"{n_left_out} marks of unknown labels had left the truth when {truth} was made")
    unseen = result["unseen"]
    if unseen["policy"] == "drop" and unseen["marks"]:
        fate = (
            "count as rows in which nothing is found"
            if result["conventions"]["empty_rows"] == "keep"
            else "do not count"
        )
        sentences.append(
            f"{unseen['marks']} marks of {unseen['labels']} labels unseen in training left the truth, in "
            f"{unseen['rows']} rows; {unseen['rows_without_others']} rows have no true label left and {fate}"
        )
    return sentences


def read_pairs(path: PathLike) -> npt.NDArray[np.int64]:
    """Read filtered pairs: a row and a label a line, both counted from 0."""
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
