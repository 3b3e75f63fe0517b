"""Model: the base class of every estimator, with the methods that a subclass implements or inherits."""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from unmissed.calibration import Calibration
from unmissed.errors import InputError
from unmissed.execution import Overlay, Pieces, RecordedPieces, Threads, Work
from unmissed.features import Features
from unmissed.matrices import check_Y
from unmissed.models.calibrated import CalibratedRanking, RankBy
from unmissed.models.evidence import Certificate
from unmissed.models.frames import check_feature_names, match_labels, one_of
from unmissed.models.parameters import check_parameters, describe_parameters, seeded, with_predict_params
from unmissed.models.training_data import TrainingData, check_k
from unmissed.models.untrained import Counts, Mask, rank_trained, untrained_mask
from unmissed.progress import Progress, print_progress
from unmissed.propensity import CellPropensities, as_propensity
from unmissed.ranking import Ranking

_logger = logging.getLogger(__name__)


class Model(CalibratedRanking, ClassifierMixin, BaseEstimator, ABC):
    """Base class of all estimators: scikit-learn's multi-label classifiers, with `fit(X, Y)` and `rank(X, k)`.

    A subclass implements three methods:

    - `_fit(rows, work)` stores everything it learns as pieces, usually by `work.run(tasks, shared)`;
    - `_open(pieces)` sets the fitted attributes from these pieces and raises if they are not its own;
    - `_rank(X, k)` returns the k highest-scoring labels of validated rows.

    `_open` makes every fitted model: one fitted in memory, one trained into a folder, one resumed after a kill. So all
    of them rank identically, bit for bit.

    A subclass may also have these methods, and callers ask by `hasattr(model, "explain")`:

    - `predict(X, threshold=0.0)`: the sparse 0/1 matrix of labels whose score is at least `threshold`;
    - `decision_function(X, labels=None)`: the scores of all or of chosen labels, (n_samples, len(labels));
    - `explain(label)`: an `Explanation`, the features that contribute to a label's score, with their weights;
    - `draw(label_name, feature_name)`: a text drawing, with the names that these functions return;
    - `_fit_labels(rows, work)`: train further labels, numbered from `n_labels_` on; `fit_labels` calls it.

    The constructor takes keyword parameters only. Their annotations declare type, range, help and group
    (`unmissed.models.parameters`); validation, the docstring, the command line and the recipe of a run are made from
    them. `n_jobs`, `normalize`, `dense_weight` and `random_state` mean the same in every model.
    """

    unit: ClassVar[str] = "labels"
    """The unit of task sizes, for progress reports."""
    baseline_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters of the simpler method that this one extends, such as no weighting; the baseline of `choose`."""
    preferred_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters that `choose` takes unless others are likely better; by default the model's own."""
    paper_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters of the objective that the method's paper states; `paper` makes a model with them."""
    fast_params: ClassVar[Mapping[str, Any]] = {}
    """Parameters that make training faster when candidates are only compared, such as a larger `tol`."""
    row_exponents: ClassVar[Mapping[str, float]] = {}
    """Parameters whose best value falls with the number of rows, as rows ** -exponent; for comparisons on few rows."""
    ranks_untrained: bool = False
    """Whether labels without a training positive are ranked, too."""
    compile_params: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Parameters that reach kernels which neither the defaults nor single other values reach; for `compile`."""

    classes_: npt.NDArray[Any]
    label_counts_: npt.NDArray[np.int64]
    n_samples_: float
    untrained_: Mask
    cell_propensity_: CellPropensities | None
    pieces_: Pieces
    random_state_: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        describe_parameters(cls)

    @classmethod
    def paper(cls, **params: Any) -> Self:
        """Return an unfitted model with the paper's literal objective, `paper_params`, and the given parameters.

        Raise if the class has no `paper_params`, or if a given parameter contradicts them.
        """
        if not cls.paper_params:
            raise InputError(f"{cls.__name__} is not the method of the paper; pw-dismec has its literal objective")
        for name in cls.paper_params.keys() & params.keys():
            if params[name] != cls.paper_params[name]:
                raise InputError(
                    f"{name} is {cls.paper_params[name]} in the paper's objective of {cls.__name__}; got {params[name]}"
                )
        return cls(**{**params, **cls.paper_params})

    @abstractmethod
    def _fit(self, rows: TrainingData, work: Work) -> None:
        """Train on the rows and store the result in `work.pieces`; parameters are checked, `_seed` is the seed."""

    @abstractmethod
    def _open(self, pieces: Pieces) -> None:
        """Set the fitted attributes from pieces; `n_features_in_`, `n_dense_in_` and `n_labels_` are already set."""

    @abstractmethod
    def _rank(self, X: sp.csr_matrix, k: int) -> Ranking:
        """Return the k highest-scoring labels of each row of X, which is validated and normalized; k <= `n_labels_`."""

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        y: Any = None,
        sample_weight: Any = None,
        cell_propensity: Any = None,
        verbose: int = 0,
        progress: Progress | None = None,
        work: Work | None = None,
    ) -> Self:
        """Fit the model to rows and their labels.

        Parameters
        ----------
        X : sparse matrix, array or data frame, (n_samples, n_features), or `Features` with a sparse and a dense part;
            or, without Y, a `Dataset` or the path of a store, which is memory-mapped. A sparse matrix, or a data frame
            of sparse columns, is the sparse part of X; any other matrix, frame or list is the dense part
        Y : sparse matrix, array or data frame of 0 and 1, (n_samples, n_labels); or a list or Series with one list of
            label names per row
        y : alias of Y, scikit-learn's name
        sample_weight : non-negative numbers, (n_samples,): how often each row counts, also in the label counts and
            hence in the propensities. DiSMEC and PW-DiSMEC multiply the costs of a row by its weight; other models
            repeat rows and take integers only
        cell_propensity : sparse matrix with the pattern of Y: the probability, in (0, 1], that this label of this row
            is observed, in place of a propensity per label. PW-DiSMEC takes it, other models refuse it
        verbose : 0 prints nothing; 1 prints lines about the progress to standard error, at most one per second
        progress : called as `progress(done, total)` after each task, from one thread at a time: the finished and the
            total amount of work in the model's `unit`, such as labels. An exception that it raises ends training
        work : storage of pieces and executor; in memory and in threads by default
        """
        return self._validate_and_fit(
            X, one_of(Y, y), lambda rows: self._add_costs(rows, sample_weight, cell_propensity), verbose, progress, work
        )

    def _validate_and_fit(
        self,
        X: Any,
        Y: Any,
        adjust: Callable[[TrainingData], TrainingData],
        verbose: int,
        progress: Progress | None,
        work: Work | None,
    ) -> Self:
        """Validate the arguments of `fit` and train; `adjust` lets a subclass add to the validated rows."""
        rows = adjust(self.check_rows(X, Y))
        if self.risky_params():
            import_module("unmissed.models.selection").warn_of_loss(self, rows)
        work = Work() if work is None else work
        with work.reporting(*self._reports(verbose, progress)):
            self.fit_rows(rows, work)
        if rows.label_names is not None:
            self.classes_ = rows.label_names
        self._set_feature_names(rows.feature_names)
        self._warn_of_missed(0)
        return self

    def fit_rows(self, rows: TrainingData, work: Work | None = None) -> Self:
        """Fit to validated rows; no warning about problems above the tolerance."""
        work = self._ready(Work() if work is None else work)
        self.dense_support.check(type(self).__name__, rows.X)
        self.cost_support.check(type(self).__name__, rows)
        training = seeded(self)
        with self._logged(rows):
            training._fit(rows, work)
        self.cell_propensity_ = CellPropensities.without_values(rows.cell_propensity)
        counts = Counts(rows.label_counts, rows.total_weight)
        self._open_pieces(work.pieces, rows.n_features, rows.n_labels, counts, rows.n_dense)
        self.random_state_ = training._seed
        return self

    @available_if(lambda self: hasattr(self, "_fit_labels"))  # type: ignore[untyped-decorator]
    def fit_labels(
        self, X: Any, Y_new: Any, *, verbose: int = 0, progress: Progress | None = None, work: Work | None = None
    ) -> Self:
        """Train further labels, the columns of Y_new, and append them; the existing labels do not change.

        `verbose`, `progress` and `work` are those of `fit`.
        """
        self._check_fitted()
        first, before = self.n_labels_, self.classes_
        rows = self.check_rows(X, Y_new, like_fitted=True)
        check_feature_names(rows.feature_names, getattr(self, "feature_names_in_", None))
        if (rows.label_names is None) != (before.dtype != object):
            raise InputError("old and new labels must all have names, or none of them")
        work = Work(pieces=Overlay(self.pieces_)) if work is None else work
        with work.reporting(*self._reports(verbose, progress)):
            self.fit_more(rows, work)
        if rows.label_names is not None:
            self.classes_ = np.concatenate([before, rows.label_names])
        self._warn_of_missed(first)
        return self

    def fit_more(self, rows: TrainingData, work: Work) -> Self:
        """Train further labels on validated rows, as `fit_labels` does."""
        work = self._ready(work)
        training = seeded(self, getattr(self, "random_state_", None))
        with self._logged(rows):
            training._fit_labels(rows, work)
        counts = None
        if hasattr(self, "label_counts_"):
            counts = Counts(np.concatenate([self.label_counts_, rows.label_counts]), self.n_samples_)
        before: Calibration | None = getattr(self, "calibration_", None)
        self._open_pieces(work.pieces, rows.n_features, self.n_labels_ + rows.n_labels, counts, rows.n_dense)
        if before is not None:
            self.calibration_ = before.extend(rows.label_counts)
        return self

    def prepare(self) -> Self:
        """Build the layout in which many rows are ranked fastest, unless it is there; return self.

        A call of `rank` builds it, too, if it has enough rows to repay it (`SETTINGS.prepare_rows`), or if the
        model cannot rank without. `prepare` chooses the moment: call it first in a service, or before many calls with
        few rows each. The layout is built once, under a lock, and never changes; it is no part of a pickled model. Any
        number of threads may call `prepare` and `rank` at the same time, but not while the model is fitted.
        """
        self._check_fitted()
        self._prepare()
        return self

    def rank(self, X: Any, k: int = 5, *, rank_by: RankBy = "score", **params: Any) -> Ranking:
        """Return the k highest-scoring labels of each row with their scores, and probabilities if it is calibrated.

        Labels without a training positive are never ranked, unless the model is one that finds them by their names
        (`ranks_untrained`). Rows with fewer than k labels are padded with -1. The model
        does not change, and any number of threads may rank at the same time (see `prepare`).

        Parameters
        ----------
        X : the rows, in any form that `fit` takes. Rows with one part are converted to the part that the model was
            fitted on, so a model fitted on a sparse matrix ranks an array, and vice versa
        k : labels per row
        rank_by : "score", or "probability": the most probable among the 50 (or k) highest-scoring labels, in falling
            order of probability, which is then the score. A calibrated model can do that
        params : other values of prediction parameters, such as `beam` of label trees, for this call only
        """
        self._check_fitted()
        if params:
            return with_predict_params(self, params).rank(X, k, rank_by=rank_by)
        rows = self._checked(X)
        k = check_k(k, rows.shape[0], self.n_labels_)
        depth = self._depth(k, rank_by)
        ranking = rank_trained(self._rank_features, rows, min(depth, max(self.n_labels_, 1)), self.untrained_)
        return self._finish(ranking.padded(k), k, rank_by)

    def score(self, X: Any, Y: Any = None, *, y: Any = None) -> float:
        """Return P@1, the fraction of rows whose highest-scoring label is correct; `y` is an alias of Y."""
        Y = one_of(Y, y)
        best = self.rank(X, 1).labels[:, 0]
        truth = check_Y(match_labels(Y, self.classes_)[0] if hasattr(self, "classes_") else Y, len(best))
        right = np.asarray(truth[np.arange(len(best)), np.maximum(best, 0)]).ravel() * (best >= 0)
        return float(right.mean())

    @classmethod
    def compile_kernels(cls, X: sp.csr_matrix, Y: sp.csr_matrix) -> None:
        """Call the kernels that a tiny data set does not reach, given a larger one; there are none by default."""

    def certificate(self) -> Certificate | None:
        """Return the duality gaps of the problems that training solved; None if the method has no certificate."""
        return None

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
        n_dense: int = 0,
    ) -> Self:
        """Return a fitted model from its parameters and its pieces, without copies."""
        return cls(**params)._open_pieces(pieces, n_features, n_labels, counts, n_dense)

    def _open_pieces(
        self, pieces: Pieces, n_features: int, n_labels: int, counts: Counts | None = None, n_dense: int = 0
    ) -> Self:
        """Set the fitted attributes from pieces, and return self.

        Without `counts`, labels without a training positive are unknown and may be ranked.
        """
        before = {name: value for name, value in vars(self).items() if name.endswith("_")}
        self.n_features_in_, self.n_dense_in_, self.n_labels_ = n_features, n_dense, n_labels
        self.untrained_ = None if self.ranks_untrained else untrained_mask(counts)
        for name in ("label_counts_", "n_samples_", "calibration_"):
            self.__dict__.pop(name, None)
        if counts is not None:
            self.label_counts_, self.n_samples_ = counts.labels, counts.n_samples
        used = RecordedPieces(pieces)
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

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; `propensity__a=0.6` replaces the propensity model, which is immutable."""
        fields = {name.partition("__")[2]: params.pop(name) for name in [*params] if name.startswith("propensity__")}
        super().set_params(**params)
        if fields:
            held: Any = as_propensity(getattr(self, "propensity", None))
            try:
                super().set_params(propensity=replace(held, **fields))
            except TypeError as error:
                raise InputError(f"{held!r} has no parameter {' or '.join(map(repr, fields))}") from error
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class, tags.classifier_tags.multi_label = False, True
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        tags.input_tags.sparse = True
        return tags

    def with_jobs(self, n_jobs: int | None) -> Self:
        """Set `n_jobs` if the model has this parameter and a number is given; return self."""
        if n_jobs is not None and "n_jobs" in self.get_params(deep=False):
            self.set_params(n_jobs=n_jobs)
        return self

    def _prepare(self) -> None:
        """Build what `_rank` builds on first use, in `Once` objects that `_open` creates; nothing by default."""

    @property
    def _seed(self) -> int:
        """The seed of training; `_fit` is called on a model whose `random_state` is an integer."""
        return int(getattr(self, "random_state", 0))

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        """Return the ranking of `_rank`; a family that takes dense features overrides this."""
        return self._rank(rows.csr, k)

    def _ready(self, work: Work) -> Work:
        """Check the parameters; return `work` with an executor."""
        check_parameters(self)
        if work.executor is None:
            work.executor = Threads(getattr(self, "n_jobs", None))
        return work

    def _reports(self, verbose: int, progress: Progress | None) -> list[Progress]:
        """Return the progress callbacks of a call of `fit`."""
        if verbose not in (0, 1):
            raise InputError(f"verbose must be 0 or 1; got {verbose!r}")
        printed = [print_progress(type(self).__name__, self.unit)] if verbose else []
        return printed if progress is None else [*printed, progress]

    @contextmanager
    def _logged(self, rows: TrainingData) -> Iterator[None]:
        """Log the sizes of the training data, and the time that training takes."""
        name, begin = type(self).__name__, time.monotonic()
        sizes = rows.n_labels, rows.n_samples, rows.n_features
        _logger.info("%s: training %d labels on %d rows with %d features", name, *sizes)
        conversion = self.dense_support.conversion(name, rows.X)
        if conversion is not None:
            _logger.info("%s", conversion)
        yield
        _logger.info("%s: trained %d labels in %.1f s", name, rows.n_labels, time.monotonic() - begin)

    def _check_fitted(self) -> None:
        if not hasattr(self, "pieces_"):  # scikit-learn's check takes longer than ranking some rows
            check_is_fitted(self, "pieces_")

    def _warn_of_missed(self, first: int) -> None:
        """Warn of problems above the tolerance, of labels from `first` on."""
        found = self.certificate()
        if found is not None:
            found.warn_of_missed(first)


def _runs() -> Any:
    """Return the package `runs`, imported late because it imports this one."""
    return import_module("unmissed.runs")
