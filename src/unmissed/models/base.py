"""Model: the base class of every estimator, with the methods that a subclass implements or inherits."""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
from unmissed.models.ranges import check_ranges
from unmissed.models.training_data import TrainingData, check_k, scale_rows
from unmissed.models.untrained import Counts, Mask, rank_trained, untrained_mask
from unmissed.ranking import Ranking

MOST_BYTES = 2**31  # largest matrix of scores that decision_function returns


class UncertifiedWarning(UserWarning):
    """Some problems stopped with a relative duality gap above the tolerance."""


@dataclass(frozen=True)
class Certificate:
    """Upper bounds on the suboptimality of each optimization problem that training solved.

    Parameters
    ----------
    tol : the required relative duality gap
    gap : the relative duality gap of each problem
    objective : the sum of the objective values
    unit : what a problem stands for: "labels", or "classifiers" if several labels share one
    columns : further numbers per problem, by title; `inspect` shows them next to the gap
    """

    tol: float
    gap: npt.NDArray[np.float64]
    objective: float
    unit: str = "labels"
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def missed(self) -> npt.NDArray[np.int64]:
        """Indices of the problems whose gap exceeds the tolerance."""
        return np.flatnonzero(~(self.gap <= self.tol))


@dataclass(frozen=True)
class Explanation:
    """The linear score of a label: features, their weights, and a constant."""

    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]
    constant: float

    def strongest(self, top: int) -> Explanation:
        """Return the `top` features of largest absolute weight, in falling order; ties by feature index."""
        if top < 1:
            raise InputError(f"top is {top}; expected at least 1")
        order = np.lexsort((self.features, -np.abs(self.weights)))[:top]
        return Explanation(self.features[order], self.weights[order], self.constant)


class Model(Estimator, ABC):
    """Base class of all estimators, with scikit-learn's interface: `fit(X, Y)`, `rank(X, k)`, `get_params`, `clone`.

    A subclass implements three methods:

    - `_fit(rows, work)` stores everything it learns as pieces, usually by `work.run(tasks, shared)`;
    - `_open(pieces)` sets the fitted attributes from these pieces and raises if they are not its own;
    - `_rank(X, k)` returns the k highest-scoring labels of validated rows.

    `_open` makes every fitted model: one fitted in memory, one trained into a folder, one resumed after a kill. So all
    of them rank identically, bit for bit. Optional methods (`fit_labels`, `certificate`, `explain`, `predict`,
    `decision_function`) raise an error here; subclasses that support them override them.

    The constructor takes keyword parameters only. The docstring of the class describes each one; the command line and
    the recipe of a run take names, types, defaults and help from there. `n_jobs`, `normalize` and `random_state` mean
    the same in every model.
    """

    unit: ClassVar[str] = "labels"
    """The unit of task sizes, for progress reports."""
    no_effect: ClassVar[tuple[str, ...]] = ("n_jobs",)
    """Parameters that change the training time but not the result; a run's recipe leaves them out."""
    baseline_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters of the simpler method that this one extends, such as no weighting; the baseline of `choose`."""
    preferred_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters that `choose` takes unless others are likely better; by default the model's own."""
    fast_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters that make training faster when candidates are only compared, such as a larger `tol`."""
    row_exponents: ClassVar[Mapping[str, float]] = {}
    """Parameters whose best value falls with the number of rows, as rows ** -exponent; for comparisons on few rows."""
    compile_params: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Parameters that reach kernels which neither the defaults nor single other values reach; for `compile`."""

    n_features_in_: int
    n_labels_: int
    classes_: npt.NDArray[Any]
    label_counts_: npt.NDArray[np.int64]
    n_samples_: int
    untrained_: Mask
    feature_names_in_: npt.NDArray[np.object_]
    pieces_: Pieces

    @abstractmethod
    def _fit(self, rows: TrainingData, work: Work) -> None:
        """Train on the rows and store the result in `work.pieces`; check parameters first."""

    @abstractmethod
    def _open(self, pieces: Pieces) -> None:
        """Set the fitted attributes from pieces; `n_features_in_` and `n_labels_` are already set."""

    @abstractmethod
    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        """Return the k highest-scoring labels of each row of X, which is validated and normalized; k <= `n_labels_`."""

    def fit(self, X: Any, Y: Any = None, *, y: Any = None, sample_weight: Any = None, work: Work | None = None) -> Self:
        """Fit the model to rows and their labels.

        Parameters
        ----------
        X : sparse matrix, array or data frame, (n_samples, n_features); or, without Y, the path of a store, which is
            memory-mapped
        Y : sparse matrix, array or data frame of 0 and 1, (n_samples, n_labels); or a list or Series with one list of
            label names per row
        y : alias of Y, scikit-learn's name
        sample_weight : non-negative integers, (n_samples,): the number of copies of each row. Copies also count in the
            label counts and hence in the propensities
        work : storage of pieces, executor and progress callback; in memory and in threads by default
        """
        return self._validate_and_fit(X, one_of(Y, y), work, lambda rows: rows.repeated(sample_weight))

    def _validate_and_fit(
        self, X: Any, Y: Any, work: Work | None, adjust: Callable[[TrainingData], TrainingData]
    ) -> Self:
        """Validate the arguments of `fit` and train; `adjust` lets a subclass add to the validated rows."""
        X, feature_names = open_features(X)
        Y, names = open_labels(Y)
        rows = adjust(self.check_rows(X, Y))
        if self.risky_params():
            import_module("unmissed.models.selection").warn_of_loss(self, rows)
        self.fit_rows(rows, work)
        if names is not None:
            self.classes_ = names
        self._set_feature_names(feature_names)
        self._warn_of_missed(0)
        return self

    def fit_rows(self, rows: TrainingData, work: Work | None = None) -> Self:
        """Fit to validated rows; no warning about problems above the tolerance."""
        work = self._ready(Work() if work is None else work)
        self._fit(rows, work)
        counts = Counts(rows.label_counts, rows.n_samples)
        return self.open_pieces(work.pieces, rows.n_features, rows.n_labels, counts)

    def fit_labels(self, X: Any, Y_new: Any, *, work: Work | None = None) -> Self:
        """Train further labels, the columns of Y_new, and append them; the existing labels do not change."""
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
        self._warn_of_missed(first)
        return self

    def fit_more(self, rows: TrainingData, work: Work) -> Self:
        """Train further labels on validated rows, as `fit_labels` does."""
        work = self._ready(work)
        self._fit_labels(rows, work)
        counts = None
        if hasattr(self, "label_counts_"):
            counts = Counts(np.concatenate([self.label_counts_, rows.label_counts]), self.n_samples_)
        return self.open_pieces(work.pieces, rows.n_features, self.n_labels_ + rows.n_labels, counts)

    def rank(self, X: Any, k: int = 5) -> Ranking:
        """Return the k highest-scoring labels of each row with their scores.

        Labels without a training positive are never ranked. Rows with fewer than k labels are padded with -1.
        """
        self._check_fitted()
        rows = self._checked(X)
        k = check_k(k, rows.shape[0], self.n_labels_)
        return rank_trained(self._rank, rows, min(k, max(self.n_labels_, 1)), self.untrained_).padded(k)

    def score(self, X: Any, Y: Any = None, *, y: Any = None) -> float:
        """Return P@1, the fraction of rows whose highest-scoring label is correct; `y` is an alias of Y."""
        Y = one_of(Y, y)
        best = self.rank(X, 1).labels[:, 0]
        truth = check_Y(match_labels(Y, self.classes_)[0] if hasattr(self, "classes_") else Y, len(best))
        right = np.asarray(truth[np.arange(len(best)), np.maximum(best, 0)]).ravel() * (best >= 0)
        return float(right.mean())

    def predict(self, X: Any, threshold: float = 0.0) -> sp.csr_matrix:
        """Return the sparse 0/1 matrix of labels whose score is at least `threshold`."""
        self._cannot("score every label for a threshold; use rank")

    def decision_function(self, X: Any, labels: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Return the scores of all labels, or of chosen ones: (n_samples, len(labels)).

        A result of more than 2 GiB is refused if `labels` is None; `rank` handles any number of labels.
        """
        self._cannot("score chosen labels; use rank")

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Call the kernels that a tiny data set does not reach, given a larger one; there are none by default."""

    def certificate(self) -> Certificate | None:
        """Return the duality gaps of the problems that training solved; None if the method has no certificate."""
        return None

    def explain(self, label: int) -> Explanation:
        """Return the features that contribute to a label's score, with their weights."""
        self._cannot("list the features that contribute to a label")

    def draw(self, label_name: Callable[[int], str], feature_name: Callable[[int], str]) -> str:
        """Return a text drawing of the model, with the names of labels and features."""
        self._cannot("be drawn; only label trees can")

    def risky_params(self) -> tuple[str, ...]:
        """Return the parameters whose values lose on some data; `fit` checks them against `baseline_params`."""
        return ()

    def choice(self) -> dict[str, Any] | None:
        """Return the parameters chosen on held-out rows, as `Choice.to_json` writes them; None if none were chosen."""
        return None

    def metadata(self) -> dict[str, Any]:
        """Return further properties of the fitted model for `inspect`: short titles and JSON values."""
        return {}

    def uncertified_labels(self) -> npt.NDArray[np.int64]:
        """Return the problems (labels, unless the certificate has another unit) whose gap exceeds the tolerance."""
        self._check_fitted()
        found = self.certificate()
        return np.empty(0, np.int64) if found is None else found.missed

    def save(self, path: str | os.PathLike[str], **names: Any) -> None:
        """Write the model as a new run; `load` and `open_run` read it, and it ranks identically, bit for bit.

        Parameters
        ----------
        path : the folder, which must not exist
        names : `label_names`, `label_titles`, `label_counts`, `n_samples`, `feature_names` or `text`, to be stored with
            the model; names and counts known from `fit` are stored by default
        """
        self._check_fitted()
        _runs().save(self, path, **names)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a model that `save` or `unmissed train` wrote; raise if it is of another class."""
        model = _runs().load_model(path)
        if not isinstance(model, cls):
            raise InputError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model

    @classmethod
    def open(
        cls,
        params: Mapping[str, Any],
        pieces: Pieces,
        n_features: int,
        n_labels: int,
        counts: Counts | None = None,
    ) -> Self:
        """Return a fitted model from its parameters and its pieces, without copies."""
        return cls(**params).open_pieces(pieces, n_features, n_labels, counts)

    @classmethod
    def rank_once(
        cls,
        params: Mapping[str, Any],
        pieces: Pieces,
        n_features: int,
        n_labels: int,
        X: Any,
        k: int,
        counts: Counts | None = None,
    ) -> Ranking:
        """Return the ranking of `open(...).rank(X, k)`; a subclass may read only the arrays that it needs."""
        return cls.open(params, pieces, n_features, n_labels, counts).rank(X, k)

    def open_pieces(self, pieces: Pieces, n_features: int, n_labels: int, counts: Counts | None = None) -> Self:
        """Set the fitted attributes from pieces, and return self.

        Without `counts`, labels without a training positive are unknown and may be ranked.
        """
        before = {name: value for name, value in vars(self).items() if name.endswith("_")}
        self.n_features_in_, self.n_labels_ = n_features, n_labels
        self.untrained_ = untrained_mask(counts)
        for name in ("label_counts_", "n_samples_"):
            vars(self).pop(name, None)
        if counts is not None:
            self.label_counts_, self.n_samples_ = counts.labels, counts.n_samples
        used = _RecordedPieces(pieces)
        try:
            self._open(used)
        except BaseException:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            for name, value in before.items():
                setattr(self, name, value)
            raise
        self.pieces_ = used.read_pieces()
        self.classes_ = np.arange(n_labels)
        return self

    def check_rows(self, X: Any, Y: Any, n_features: int | None = None) -> TrainingData:
        """Return validated training rows; without Y, X is the path of a store."""
        if Y is None:
            if not isinstance(X, str | os.PathLike):
                raise InputError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None; fit takes X and Y, or "
                    "the path of a store that holds both"
                )
            rows = TrainingData.stored(X, normalize=self._normalizes)
        else:
            rows = TrainingData.check(X, Y, normalize=self._normalizes, n_features=n_features)
        if not rows.n_samples:
            raise InputError(f"there are 0 rows to train on; {type(self).__name__} needs at least 1")
        return rows

    def with_jobs(self, n_jobs: int | None) -> Self:
        """Set `n_jobs` if the model has this parameter and a number is given; return self."""
        if n_jobs is not None and "n_jobs" in self.get_params(deep=False):
            self.set_params(n_jobs=n_jobs)
        return self

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        """Train further labels, numbered from `n_labels_` on, and store them in `work.pieces`."""
        self._cannot("add labels; train it again on all labels")

    def _set_feature_names(self, names: npt.NDArray[np.object_] | None) -> None:
        """Set `feature_names_in_`, or delete it if X had no column names."""
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def _normalizes(self) -> bool:
        return bool(getattr(self, "normalize", False))

    def _checked(self, X: Any) -> sp.csr_matrix:
        """Return validated rows, L2-normalized if the model does that."""
        X, names = open_features(X)
        check_feature_names(names, getattr(self, "feature_names_in_", None))
        X = check_X(X, self.n_features_in_)
        return scale_rows(X) if self._normalizes else X

    def _chosen(self, labels: npt.ArrayLike | None, n_samples: int = 1) -> npt.NDArray[np.int64]:
        """Return label indices as an array; None means all labels."""
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
            raise InputError(f"labels must be integers from 0 to {self.n_labels_ - 1}")
        return chosen.astype(np.int64)

    def _ready(self, work: Work) -> Work:
        """Check the parameters; return `work` with an executor."""
        check_ranges(self, type(self).__init__)
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
                "allow more iterations, raise tol or lower C",
                UncertifiedWarning,
                stacklevel=3,
            )


class _RecordedPieces:
    """Pieces that record which of them `_open` reads; `save` writes exactly these."""

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

    def read_pieces(self) -> InMemory:
        pieces = InMemory()
        for piece in self._used.values():
            pieces.put(piece)
        return pieces


@cache
def _not_fitted() -> type[NotFittedError]:
    """Return the exception class for models that are not fitted; also scikit-learn's, if that is imported."""
    sklearn = sys.modules.get("sklearn.exceptions")
    if sklearn is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, sklearn.NotFittedError), {})


def _runs() -> Any:
    """Return the package `runs`, imported late because it imports this one."""
    return import_module("unmissed.runs")
