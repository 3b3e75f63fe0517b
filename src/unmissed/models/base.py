"""Model: what every system writes, what it gets for free, and how it says what it cannot do."""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError, NotFittedError
from unmissed.execution import InMemory, Overlay, Piece, Pieces, Threads, Work
from unmissed.matrices import check_X, check_Y
from unmissed.models.estimator import Estimator
from unmissed.models.frames import check_feature_names, match_labels, one_of, open_features, open_labels
from unmissed.models.rows import Rows, check_k, scale_rows
from unmissed.ranking import Ranking

MOST_BYTES = 2**31  # of scores that are given at once


class UncertifiedWarning(UserWarning):
    """Some labels stopped before their duality gap came down to the tolerance."""


@dataclass(frozen=True)
class Certificate:
    """How far from its optimum each problem that was solved can be at most.

    Parameters
    ----------
    tol : the relative duality gap that was asked for
    gap : the relative duality gap of each problem
    objective : the sum of the objectives reached
    unit : what the problems are: "labels", or for example "classifiers" where labels share them
    columns : more numbers per problem that `inspect` shows beside the gap, by title
    """

    tol: float
    gap: npt.NDArray[np.float64]
    objective: float
    unit: str = "labels"
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def missed(self) -> npt.NDArray[np.int64]:
        """The problems whose gap exceeds the tolerance."""
        return np.flatnonzero(~(self.gap <= self.tol))


@dataclass(frozen=True)
class Explanation:
    """What speaks for a label: features, their weights, and a constant."""

    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    constant: float

    def strongest(self, top: int) -> Explanation:
        """Keep the `top` features of the largest weights in size, largest first; ties by number."""
        if top < 1:
            raise InputError(f"top is {top}; expected at least 1")
        order = np.lexsort((self.features, -np.abs(self.weights)))[:top]
        return Explanation(self.features[order], self.weights[order], self.constant)


class Model(Estimator, ABC):
    """The base of every system, with scikit-learn's interface: `fit(X, Y)`, `rank(X, k)`, `get_params`, `clone`.

    A system writes three methods:

    - `_fit(rows, work)` leaves everything it learned as pieces, most simply by `work.run(tasks, shared)`;
    - `_open(pieces)` sets the fitted attributes from those pieces, and refuses pieces that are not its own;
    - `_rank(X, k)` gives the k best labels of checked rows.

    Fitted in memory, trained into a folder, killed and resumed, or opened again years later, a model always comes from
    `_open`: that is why it ranks bit for bit the same. What only some systems can do (`fit_labels`, `certificate`,
    `explain`, `predict`, `decision_function`) is refused here in one line and written where it can be done.

    The constructor has keyword parameters only; each is described in the class's docstring, from which the command
    line and the recipe of a run take names, types, defaults and help. `n_jobs`, `unit_rows` and `random_state` mean the
    same in every model.
    """

    unit: ClassVar[str] = "labels"
    """What progress counts: what the sizes of tasks add up to."""
    no_effect: ClassVar[tuple[str, ...]] = ("n_jobs",)
    """Parameters that change the time it takes and nothing else: they are no part of a run's recipe."""
    plain: ClassVar[Mapping[str, Any]] = {}
    """Parameters that leave out what a method adds to a plainer one, which it may lose against."""
    rough: ClassVar[Mapping[str, Any]] = {}
    """Parameters that make training quicker where models are only to be compared."""

    n_features_in_: int
    n_labels_: int
    classes_: npt.NDArray[Any]
    label_counts_: npt.NDArray[np.int64]
    n_samples_: int
    feature_names_in_: npt.NDArray[np.object_]
    pieces_: Pieces

    @abstractmethod
    def _fit(self, rows: Rows, work: Work) -> None:
        """Learn from the rows and leave what was learned in `work.pieces`; parameters are checked here first."""

    @abstractmethod
    def _open(self, pieces: Pieces) -> None:
        """Set the fitted attributes from pieces; `n_features_in_` and `n_labels_` are set already."""

    @abstractmethod
    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        """Return the k best labels of each row of X, checked and scaled."""

    def fit(self, X: Any, Y: Any = None, *, y: Any = None, sample_weight: Any = None, work: Work | None = None) -> Self:
        """Learn from rows and their labels.

        Parameters
        ----------
        X : sparse matrix, array or data frame, (n_samples, n_features); or, without Y, the path of a store, which stays
            on the disk
        Y : sparse matrix, array or data frame of 0 and 1, (n_samples, n_labels), or a list or Series with one list of
            names per row
        y : the same as Y, for callers that use scikit-learn's name
        sample_weight : how often each row counts, a whole number: a row of weight 3 is as three rows, also in label
            counts and hence in propensities, one of weight 0 is left out
        work : where finished pieces are kept and looked for, where tasks run, and who is told how far it is; in memory
            and in threads by default
        """
        return self._fit_as_brought(X, one_of(Y, y), work, lambda rows: rows.repeated(sample_weight))

    def _fit_as_brought(self, X: Any, Y: Any, work: Work | None, adjust: Callable[[Rows], Rows]) -> Self:
        """Learn from what a user brings; `adjust` lets a system add to the rows once they are checked."""
        X, feature_names = open_features(X)
        Y, names = open_labels(Y)
        rows = adjust(self.check_rows(X, Y))
        self.fit_rows(rows, work)
        self.label_counts_, self.n_samples_ = rows.label_counts, rows.n_samples
        if names is not None:
            self.classes_ = names
        self._set_feature_names(feature_names)
        self._warn_of_missed(0)
        return self

    def fit_rows(self, rows: Rows, work: Work | None = None) -> Self:
        """Do what `fit` does with rows that are checked already; labels that missed the tolerance are left unsaid."""
        work = self._ready(Work() if work is None else work)
        self._fit(rows, work)
        return self.open_pieces(work.pieces, rows.n_features, rows.n_labels)

    def fit_labels(self, X: Any, Y_new: Any, *, work: Work | None = None) -> Self:
        """Learn further labels, the columns of Y_new, behind those that are there; the old ones stay as they are."""
        self._check_fitted()
        first, before = self.n_labels_, self.classes_
        X, feature_names = open_features(X)
        check_feature_names(feature_names, getattr(self, "feature_names_in_", None))
        Y_new, names = open_labels(Y_new)
        rows = self.check_rows(X, Y_new, self.n_features_in_)
        if (names is None) != (before.dtype != object):
            raise InputError("old and new labels must all have names, or none of them")
        self.fit_more(rows, Work(pieces=Overlay(self.pieces_)) if work is None else work)
        if names is not None:
            self.classes_ = np.concatenate([before, names])
        if hasattr(self, "label_counts_"):
            self.label_counts_ = np.concatenate([self.label_counts_, rows.label_counts])
        self._warn_of_missed(first)
        return self

    def fit_more(self, rows: Rows, work: Work) -> Self:
        """Do what `fit_labels` does with rows that are checked already."""
        work = self._ready(work)
        self._fit_labels(rows, work)
        return self.open_pieces(work.pieces, rows.n_features, self.n_labels_ + rows.n_labels)

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the k best labels of each row with their scores; places beyond the number of labels are -1."""
        self._check_fitted()
        return self._rank(self._checked(X), check_k(k))

    def score(self, X: Any, Y: Any = None, *, y: Any = None) -> float:
        """Return P@1: the share of rows whose best label is right; `y` is another name of Y."""
        Y = one_of(Y, y)
        best = self.rank(X, 1).labels[:, 0]
        truth = check_Y(match_labels(Y, self.classes_)[0] if hasattr(self, "classes_") else Y, len(best))
        right = np.asarray(truth[np.arange(len(best)), np.maximum(best, 0)]).ravel() * (best >= 0)
        return float(right.mean())

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        self._cannot("give every label a score to compare with a threshold; use rank")

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the scores of all labels, or of chosen ones: (n_samples, len(labels)).

        Scores of all labels that would take more than 2 GiB are refused; `rank` gives the best of any number.
        """
        self._cannot("give the scores of chosen labels; use rank")

    def certificate(self) -> Certificate | None:
        """Return how well the problems behind the model were solved, or None where nothing is certified."""
        return None

    def explain(self, label: int) -> Explanation:
        """Return the features that speak for a label."""
        self._cannot("name the features that speak for a label")

    def draw(self, label_name: Callable[[int], str], feature_name: Callable[[int], str]) -> str:
        """Return a picture of the model in lines of text, with the names of labels and features."""
        self._cannot("be drawn; it is no tree over labels")

    def choice(self) -> dict[str, Any] | None:
        """Return what was chosen on held-out rows and why, as `Choice.to_json` gives it; None where nothing was."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return what `inspect` shows of this model beside its parameters: short titles and plain values."""
        return {}

    def uncertified_labels(self) -> npt.NDArray[np.int64]:
        """Return the problems (labels, unless the certificate says otherwise) whose gap exceeds the tolerance."""
        self._check_fitted()
        found = self.certificate()
        return np.empty(0, np.int64) if found is None else found.missed

    def save(self, path: str | os.PathLike[str], **names: Any) -> None:
        """Write the model as a new run; `load` and `open_run` open it again, and it ranks bit for bit the same.

        Parameters
        ----------
        path : the folder, which must not exist
        names : `label_names`, `label_titles`, `label_counts`, `n_samples`, `feature_names` or `text`, for who opens it;
            names and counts that `fit` saw need not be given
        """
        self._check_fitted()
        _runs().save(self, path, **names)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a model that `save` or `unmissed train` wrote; one of another kind is refused."""
        model = _runs().load_model(path)
        if not isinstance(model, cls):
            raise InputError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model

    @classmethod
    def open(cls, params: Mapping[str, Any], pieces: Pieces, n_features: int, n_labels: int) -> Self:
        """Make a fitted model of its parameters and its finished pieces; nothing is copied."""
        return cls(**params).open_pieces(pieces, n_features, n_labels)

    @classmethod
    def rank_once(
        cls, params: Mapping[str, Any], pieces: Pieces, n_features: int, n_labels: int, X: Any, k: int
    ) -> Ranking:
        """Return what `open` and then `rank` would, for who ranks once; a system may read less than all of it."""
        return cls.open(params, pieces, n_features, n_labels).rank(X, k)

    def open_pieces(self, pieces: Pieces, n_features: int, n_labels: int) -> Self:
        """Become the fitted model that these pieces hold."""
        before = {name: value for name, value in vars(self).items() if name.endswith("_")}
        self.n_features_in_, self.n_labels_ = n_features, n_labels
        used = _Noted(pieces)
        try:
            self._open(used)
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            for name, value in before.items():
                setattr(self, name, value)
            raise
        self.pieces_ = used.kept()
        self.classes_ = np.arange(n_labels)
        return self

    def check_rows(self, X: Any, Y: Any, n_features: int | None = None) -> Rows:
        """Check training rows of any shape; without Y, X is the path of a store."""
        if Y is None:
            if not isinstance(X, str | os.PathLike):
                raise InputError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None; fit takes X and Y, or "
                    "the path of a store that holds both"
                )
            rows = Rows.stored(X, unit_rows=self._unit_rows)
        else:
            rows = Rows.check(X, Y, unit_rows=self._unit_rows, n_features=n_features)
        if not rows.n_samples:
            raise InputError(f"there are 0 rows to train on; {type(self).__name__} needs at least 1")
        return rows

    def with_jobs(self, n_jobs: int | None) -> Self:
        """Set the number of threads where the model has such a parameter and a number is given."""
        if n_jobs is not None and "n_jobs" in self.get_params(deep=False):
            self.set_params(n_jobs=n_jobs)
        return self

    def _fit_labels(self, rows: Rows, work: Work) -> None:
        """Learn further labels, numbered from `n_labels_` on, and leave them in `work.pieces`."""
        self._cannot("take in new labels; train it again on all of them")

    def _set_feature_names(self, names: npt.NDArray[np.object_] | None) -> None:
        """Keep the names of a data frame's columns, or forget those of an earlier fit."""
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def _unit_rows(self) -> bool:
        return bool(getattr(self, "unit_rows", False))

    def _checked(self, X: Any) -> sp.csr_matrix:
        """Check the rows to rank and scale them where that is wanted."""
        X, names = open_features(X)
        check_feature_names(names, getattr(self, "feature_names_in_", None))
        X = check_X(X, self.n_features_in_)
        return scale_rows(X) if self._unit_rows else X

    def _chosen(self, labels: npt.ArrayLike | None, n_samples: int = 1) -> npt.NDArray[np.int64]:
        """Return chosen labels as an array, or refuse what is no list of labels; None means all."""
        if labels is None:
            n_bytes = 4 * n_samples * self.n_labels_
            if n_bytes > MOST_BYTES:
                raise InputError(
                    f"the scores of {n_samples:,} rows and {self.n_labels_:,} labels would take "
                    f"{n_bytes / 2**30:,.1f} GiB; name the labels, or use rank for the best ones"
                )
            return np.arange(self.n_labels_)
        chosen = np.atleast_1d(np.asarray(labels))
        known = chosen.ndim == 1 and (chosen.dtype.kind in "iu" or not chosen.size)
        if not known or (chosen.size and not 0 <= chosen.min() <= chosen.max() < self.n_labels_):
            raise InputError(f"labels are whole numbers from 0 to {self.n_labels_ - 1}")
        return chosen.astype(np.int64)

    def _ready(self, work: Work) -> Work:
        if work.executor is None:
            work.executor = Threads(getattr(self, "n_jobs", None))
        return work

    def _check_fitted(self) -> None:
        if not hasattr(self, "pieces_"):
            raise _not_fitted()(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _cannot(self, what: str) -> NoReturn:
        self._check_fitted()
        raise InputError(f"{type(self).__name__} cannot {what}")

    def _warn_of_missed(self, first: int) -> None:
        found = self.certificate()
        if found is None:
            return
        missed = found.missed
        if found.unit == "labels":
            missed = missed[missed >= first]
        if len(missed):
            named = ", ".join(map(str, missed[:10])) + (", ..." if len(missed) > 10 else "")
            warnings.warn(
                f"{len(missed)} {found.unit} missed the relative duality gap {found.tol:g}: {named}; "
                "allow more work, raise tol or lower C",
                UncertifiedWarning,
                stacklevel=3,
            )


class _Noted:
    """Pieces that remember which of them a model asked for: those are the ones that saving it writes."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._used: dict[str, Piece] = {}

    def get(self, key: str) -> Piece | None:
        piece = self._pieces.get(key)
        if piece is not None:
            self._used[key] = piece
        return piece

    def put(self, piece: Piece) -> None:
        self._pieces.put(piece)

    def drop(self, key: str) -> None:
        self._pieces.drop(key)

    def listed(self) -> list[str]:
        return self._pieces.listed()

    def kept(self) -> InMemory:
        kept = InMemory()
        for piece in self._used.values():
            kept.put(piece)
        return kept


@cache
def _not_fitted() -> type[NotFittedError]:
    """Return the error for models that are not fitted: scikit-learn's too, where scikit-learn is imported."""
    sklearn = sys.modules.get("sklearn.exceptions")
    if sklearn is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, sklearn.NotFittedError), {})


def _runs() -> Any:
    """Return the room above that knows folders; models themselves know pieces only."""
    return import_module("unmissed.runs")
