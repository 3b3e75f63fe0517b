"""HeldOut: trains candidates on part of the rows and evaluates them on rows that they did not see."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from unmissed.metrics import Evaluation, evaluate, merge
from unmissed.models.base import Model
from unmissed.models.parameters import DENSE_WEIGHT
from unmissed.models.selection.goal import Goal
from unmissed.models.training_data import TrainingData
from unmissed.propensity import FromTable, PropensityLike, as_propensity
from unmissed.ranking import Ranking

Indices = npt.NDArray[np.int64]
_FEWEST = 200  # rows that a candidate is trained on, if there are as many
_MOST_BUDGET = 100.0  # trainings that small data gets; all folds of the last candidates take less


@dataclass(frozen=True)
class Sampling:
    """How much data and time a search takes.

    Parameters
    ----------
    budget : cost of the search, in trainings on all rows
    least_work : values of X times labels that may be trained in any case: small data gets more than `budget`, up to
        100 trainings
    n_folds : folds of the rows; one is held out at a time
    most_held, most_fit, most_labels : largest numbers of held-out rows per fold, of training rows of a candidate and
        of labels; larger data is sampled. Sampling labels is worse than sampling rows: the top 5 of a quarter of the
        labels corresponds to the top 20 of all labels, where weightings hardly differ
    seed : seed of the folds and of the samples
    """

    budget: float = 1.8
    least_work: float = 1.2e9
    n_folds: int = 5
    most_held: int = 5_000
    most_fit: int = 50_000
    most_labels: int = 50_000
    seed: int = 0


class Part(NamedTuple):
    """The size of a comparison: the number of training rows, and the number of folds that are held out in turn."""

    n_fit: int
    n_folds: int


class Measured(NamedTuple):
    """The evaluation of a candidate on held-out rows, and the seconds that its training took."""

    evaluation: Evaluation
    seconds: float


@dataclass
class HeldOut:
    """Folds of the rows; candidates train on rows of the other folds.

    Propensities come from the label counts of all rows, so that sampling does not change costs and metrics. On n of N
    rows, C is multiplied by sqrt(N / n), because its best value falls with the number of rows (`Model.row_exponents`).
    The training rows of a small part are among those of every larger one.
    """

    rows: TrainingData
    goal: Goal
    propensity: PropensityLike | None = None
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        rows, chosen = self.rows, self.sampling
        rng = np.random.default_rng(chosen.seed)
        self.labels: Indices = _sample(np.arange(rows.n_labels), chosen.most_labels, rng)
        has_all = len(self.labels) == rows.n_labels
        self.Y = rows.Y if has_all else rows.Y[:, self.labels]
        self.p: Any = rows.cell_propensity
        if self.p is None:
            self.p = as_propensity(self.propensity).estimate(rows.label_counts, rows.total_weight)[self.labels]
        elif not has_all:
            self.p = self.p[:, self.labels]
        self._order = rng.permutation(rows.n_samples)
        self._fold = np.empty(rows.n_samples, np.int64)
        self._fold[self._order] = np.arange(rows.n_samples) % chosen.n_folds
        self._training: dict[tuple[int, int, bool, float], TrainingData] = {}

    @property
    def budget(self) -> float:
        """The budget of a search, in trainings on all rows."""
        X = self.rows.X
        n_values = (0 if X.sparse is None else X.sparse.nnz) + (0 if X.dense is None else X.dense.size)
        work = float(n_values) * len(self.labels)
        return max(self.sampling.budget, min(self.sampling.least_work / max(work, 1.0), _MOST_BUDGET))

    def part(self, cost: float) -> Part:
        """Return the part that a candidate takes for a cost in trainings on all rows.

        Up to a training on all other folds it holds out one fold; from there on it holds out several in turn.
        """
        n_rows = int(cost * self.rows.n_samples)
        others = self.rows.n_samples - -(-self.rows.n_samples // self.sampling.n_folds)
        n_folds = min(max(n_rows // others, 1), self.sampling.n_folds)
        return Part(min(max(n_rows, _FEWEST), self.sampling.most_fit, others), n_folds)

    def n_held(self, n_folds: int) -> int:
        """Return the number of held-out rows of the first folds."""
        return sum(len(self._held(fold)) for fold in range(n_folds))

    def begin(self) -> None:
        """Forget the training rows of earlier parts."""
        self._training.clear()

    def measure(self, model: Model, part: Part) -> Measured:
        """Train an unfitted model on a part, and return its evaluation on the held-out rows of all folds."""
        return join_folds([self.measure_fold(model, part.n_fit, fold) for fold in range(part.n_folds)])

    def measure_fold(self, model: Model, n_fit: int, fold: int) -> Measured:
        """Train an unfitted model outside of a fold, and return its evaluation on the fold."""
        fitted, seconds = self.fit_fold(model, n_fit, fold)
        ranking = self.rank_fold(fitted, fold, self.goal.cuts[-1])
        return Measured(self.evaluate(ranking, self.truth(fold), self._inverse(fold)), seconds)

    def fit_fold(self, model: Model, n_fit: int, fold: int) -> tuple[Model, float]:
        """Train a copy of an unfitted model outside of a fold; return it and the seconds that this took."""
        known = model.get_params(deep=False)
        model = clone(model).set_params(**{name: one for name, one in model.fast_params.items() if name in known})
        if "propensity" in known and self.rows.cell_propensity is None:
            p = as_propensity(known["propensity"]).estimate(self.rows.label_counts, self.rows.total_weight)
            model.set_params(propensity=FromTable(p[self.labels]))
        for name, exponent in model.row_exponents.items():
            model.set_params(**{name: known[name] * (self.rows.n_samples / n_fit) ** exponent})
        scaling = bool(known.get("normalize", False)), float(known.get(DENSE_WEIGHT, 1.0))
        training = self._rows(fold, n_fit, *scaling)
        begin = time.perf_counter()
        return model.fit_rows(training), time.perf_counter() - begin

    def rank_fold(self, fitted: Model, fold: int, k: int) -> Ranking:
        """Return the k highest-scoring labels of the held-out rows of a fold."""
        return fitted.rank(self.rows.X[self._held(fold)], k)

    def truth(self, fold: int) -> sp.csr_matrix:
        """Return the labels of the held-out rows of a fold."""
        return self.Y[self._held(fold)]

    def evaluate(self, ranking: Ranking, truth: sp.csr_matrix, inverse: Any = None) -> Evaluation:
        """Return the evaluation of a ranking of held-out rows by the goal's metrics; 1/p is that of labels if None."""
        goal, counts = self.goal, self.rows.label_counts[self.labels]
        inverse = 1 / self.p if inverse is None else inverse
        return evaluate(ranking, truth, inverse, goal.cuts, metrics=goal.metrics, train_counts=counts)

    def _inverse(self, fold: int) -> Any:
        """Return 1/p of the labels, or of the observed positives of the held-out rows of a fold."""
        return self.p[self._held(fold)].power(-1) if sp.issparse(self.p) else 1 / self.p

    def _rows(self, fold: int, n_fit: int, normalize: bool, dense_weight: float) -> TrainingData:
        """Return training rows outside a fold; all candidates share them and what they cache."""
        key = fold, n_fit, normalize, dense_weight
        if key not in self._training:
            chosen = np.sort(self._order[self._fold[self._order] != fold][:n_fit])
            scaling: dict[str, Any] = {"normalize": normalize, DENSE_WEIGHT: dense_weight}
            self._training[key] = self.rows.take(chosen, self.labels, **scaling)
        return self._training[key]

    def _held(self, fold: int) -> Indices:
        """Return the held-out rows of a fold; rows without any of the sampled labels are left out."""
        rng = np.random.default_rng([self.sampling.seed, fold])
        return _sample(
            np.flatnonzero((self._fold == fold) & (np.diff(self.Y.indptr) > 0)), self.sampling.most_held, rng
        )


def join_folds(measured: Sequence[Measured]) -> Measured:
    """Return the evaluation of all folds together, and the sum of the seconds."""
    return Measured(merge([one.evaluation for one in measured]), sum(one.seconds for one in measured))


def _sample(values: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Return at most `most` of the values, sampled without replacement, in their order."""
    return values if len(values) <= most else np.sort(rng.choice(values, most, replace=False))
