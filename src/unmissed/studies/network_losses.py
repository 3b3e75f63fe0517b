"""The paper's controlled experiment with many labels: labels are dropped, and a network is trained under six losses.

The labels of a real data set are taken as complete. Each is observed with the same probability p, the propensity, and
`NeuralXMC` is trained with each loss on what is observed, and tested on complete labels. Under one seed all losses
share the initial weights, the order of rows and the dropped labels.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmissed.archive import write_json, write_text
from unmissed.data import open_store
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Piece, Processes, Work
from unmissed.losses import Loss, logistic, squared_hinge
from unmissed.metrics import compare, evaluate
from unmissed.models.method_registry import find_method, make_model
from unmissed.progress import Progress, silent
from unmissed.propensity import Constant, drop_labels
from unmissed.ranking import Ranking
from unmissed.runs.compare.comparison import PreparedData
from unmissed.runs.run_folder import versions
from unmissed.studies.estimates import over_seeds
from unmissed.studies.propensity_grid import TrainingCell, check_counts, check_grid, finite, summarize_seeds, to_csv
from unmissed.studies.study_folder import claim

METHOD = "neural"
STANDARD = "standard"
DEPTH = 5
VERSION = 1  # of the study's definition; folders of another version are not resumed
FIGURES = ("test_loss", "accuracy", "P@1", f"P@{DEPTH}")
_ROWS = 512  # test rows whose scores of all labels are in memory


class NetworkVariant(NamedTuple):
    """One curve: the family of the loss, its name in the figure, and the parameters of the network."""

    family: str
    label: str
    loss: str
    correction: str


VARIANTS = {
    "logistic": NetworkVariant("cross-entropy", STANDARD, "logistic", "none"),
    "logistic-unbiased": NetworkVariant("cross-entropy", "re-weighted", "logistic", "unbiased"),
    "logistic-naive": NetworkVariant("cross-entropy", "naive", "logistic", "naive"),
    "hinge": NetworkVariant("squared hinge", STANDARD, "squared-hinge", "none"),
    "hinge-convex": NetworkVariant("squared hinge", "re-weighted (convex)", "squared-hinge", "convex"),
    "hinge-unbiased": NetworkVariant("squared hinge", "non-convex", "squared-hinge", "unbiased"),
}
_TESTED: dict[str, Loss] = {"logistic": logistic(), "squared-hinge": squared_hinge()}


@dataclass(frozen=True)
class NetworkStudySettings:
    """Parameters of the study; a folder belongs to one set of parameters.

    Parameters
    ----------
    propensities : the probabilities that a true label is observed
    seeds : number of repetitions with other dropped labels and initial weights
    epochs, hidden, rate : passes over the training rows, units of the hidden layer, and learning rate
    rows, test_rows : random rows that are used; None for all
    """

    propensities: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 1.0)
    seeds: int = 1
    epochs: int = 15
    hidden: int = 128
    rate: float = 0.005
    rows: int | None = None
    test_rows: int | None = None

    def __post_init__(self) -> None:
        check_grid(self.propensities)
        given = [name for name in ("rows", "test_rows") if getattr(self, name) is not None]
        check_counts(self, ("seeds", "epochs", "hidden", *given))
        if not self.rate > 0:
            raise InputError(f"rate must be positive, not {self.rate}")


class NetworkRows(NamedTuple):
    """The rows that all trainings share."""

    X: Any
    Y: sp.csr_matrix
    X_test: Any
    Y_test: sp.csr_matrix
    settings: NetworkStudySettings


@dataclass(frozen=True)
class NetworkStudyState:
    """Shared state of the workers: opens the stores once per process and chooses rows."""

    settings: NetworkStudySettings
    data: Path

    def __call__(self) -> NetworkRows:
        """Open the stores."""
        parts: list[Any] = []
        for part, n_rows in (("train", self.settings.rows), ("test", self.settings.test_rows)):
            store = open_store(self.data / part)
            chosen = np.arange(store.n_samples)
            if n_rows is not None and n_rows < store.n_samples:
                chosen = np.sort(np.random.default_rng(0).choice(store.n_samples, n_rows, replace=False))
            parts += [store.features[chosen], sp.csr_matrix(store.Y[chosen])]
        X, Y, X_test, Y_test = parts
        return NetworkRows(X, Y, X_test, Y_test, self.settings)


@dataclass(frozen=True)
class NetworkTask(TrainingCell):
    """One training; its piece has the ranking of the test rows, test loss and accuracy."""

    def run(self, rows: NetworkRows) -> Piece:
        """Train on the observed labels and test on complete ones."""
        variant, settings = VARIANTS[self.variant], rows.settings
        observed = drop_labels(rows.Y, self.propensity, np.random.default_rng([self.seed, 2]))
        params = {"loss": variant.loss, "correction": variant.correction, "propensity": Constant(self.propensity)}
        params |= {"n_hidden": settings.hidden, "max_epochs": settings.epochs, "validation_fraction": 0.0}
        params["learning_rate"] = settings.rate
        begin = time.process_time()
        model: Any = make_model(METHOD, {**params, "n_jobs": 1, "random_state": self.seed}).fit(rows.X, observed)
        seconds = time.process_time() - begin
        ranking = model.rank(rows.X_test, DEPTH)
        arrays = {"labels": ranking.labels, "scores": ranking.scores}
        return Piece(self.key, arrays, {"seconds": round(seconds, 2), **_measure(model, rows, _TESTED[variant.loss])})


def _measure(model: Any, rows: NetworkRows, loss: Loss) -> dict[str, Any]:
    """Return the mean test loss and the accuracy over all rows and labels, and the precision of the ranking."""
    total, right, n = 0.0, 0, rows.Y_test.shape[0]
    for begin in range(0, n, _ROWS):
        part = np.arange(begin, min(begin + _ROWS, n))
        scores, truth = model.decision_function(rows.X_test[part]), rows.Y_test[part]
        total += loss.total(scores, truth)
        right += int(((scores >= 0) == (truth.toarray() > 0)).sum())
    cells = n * rows.Y_test.shape[1]
    return {"test_loss": finite(total / cells), "accuracy": right / cells}


def cells_of(settings: NetworkStudySettings) -> list[NetworkTask]:
    """Return all trainings, seed by seed; at p = 1 all losses of a family are the standard one."""
    return [
        NetworkTask(variant, p, seed)
        for seed in range(settings.seeds)
        for p in settings.propensities
        for variant in VARIANTS
        if p < 1 or VARIANTS[variant].label == STANDARD
    ]


def run_study(
    out: Path,
    data: PreparedData,
    settings: NetworkStudySettings,
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run unfinished trainings, then write `summary.csv` and `study.json`; refuse a folder of other settings."""
    if not find_method(METHOD).can_train:
        raise InputError("the study trains networks, which needs PyTorch: pip install 'unmissed[torch]'")
    plain = {**asdict(settings), "propensities": list(settings.propensities)}
    claim(out, {"version": VERSION, **plain, "data": [data.train.digest, data.test.digest]})
    pieces = OnDisk(out / "trainings")
    pieces.clean()
    state = NetworkStudyState(settings, data.folder)
    work = Work(pieces, Processes(workers), progress)
    found = {piece.key: piece for piece in work.map(cells_of(settings), state)}
    rows = state()
    results = _results(found, rows, settings)
    summary = [row["summary"] for row in results]
    study: dict[str, Any] = {
        "settings": plain,
        "made_with": versions(),
        "data": {
            "name": data.name,
            "n_train": rows.Y.shape[0],
            "n_test": rows.Y_test.shape[0],
            "n_labels": rows.Y.shape[1],
        },
        "seconds_of_training": round(sum(float(piece.metadata["seconds"]) for piece in found.values()), 1),
        "summary": summary,
        "gains": [row["gain"] for row in results if row["gain"]],
    }
    study["advice"] = advise(study)
    write_text(out / "summary.csv", to_csv(summary))
    write_json(out / "study.json", study)
    return study


def _results(found: Mapping[str, Piece], rows: NetworkRows, settings: NetworkStudySettings) -> list[dict[str, Any]]:
    """Return figures over seeds of each loss and propensity, and gains over the standard loss of the same family."""
    results = []
    for name, variant in VARIANTS.items():
        standard = next(one for one, other in VARIANTS.items() if other[:2] == (variant.family, STANDARD))
        for p in settings.propensities:
            ends, gains = [], []
            for seed in range(settings.seeds):
                key, base = (NetworkTask(one if p < 1 else standard, p, seed).key for one in (name, standard))
                own, plain = (_evaluate(found[one], rows) for one in (key, base))
                ends.append({**found[key].numbers("test_loss", "accuracy"), **{m: own[m] for m in FIGURES[2:]}})
                gains.append(compare(own, plain))
            cell = {"variant": name, "family": variant.family, "label": variant.label, "propensity": p}
            differences = {m: over_seeds([one[m] for one in gains]) for m in FIGURES[2:]}
            gain = {**cell, **differences} if p < 1 and name != standard else None
            results.append({"summary": {**cell, **summarize_seeds(ends, FIGURES)}, "gain": gain})
    return results


def _evaluate(piece: Piece, rows: NetworkRows) -> Any:
    ranking = Ranking(np.array(piece.arrays["labels"]), np.array(piece.arrays["scores"]))
    return evaluate(ranking, rows.Y_test, None, (1, DEPTH))


def advise(study: Mapping[str, Any]) -> list[str]:
    """Return what is found at the lowest propensity: the best losses, and gains over the standard ones."""
    lowest = min(study["settings"]["propensities"])
    own = [row for row in study["summary"] if row["propensity"] == lowest]
    best = max(own, key=lambda row: row["P@1_mean"])
    rest = ", ".join(f"{_name(row)} {100 * row['P@1_mean']:.1f}" for row in own if row is not best)
    sentences = [
        f"At propensity {lowest:g}, {_name(best)} has the highest P@1 on complete labels: "
        f"{100 * best['P@1_mean']:.1f} % ({rest})."
    ]
    for family in dict.fromkeys(row["family"] for row in own):
        losses = [(row["test_loss_mean"], row["label"]) for row in own if row["family"] == family]
        shown = ", ".join(f"{label} {'diverged' if loss is None else f'{loss:.5f}'}" for loss, label in losses)
        sentences.append(f"Test loss of {family} at propensity {lowest:g}: {shown}.")
    for row in study["gains"]:
        if row["propensity"] == lowest:
            shown = ", ".join(
                "{} {:+.2f} [{:+.2f}, {:+.2f}]".format(m, *(100 * row[m][part] for part in ("value", "low", "high")))
                for m in FIGURES[2:]
            )
            sentences.append(f"{_name(row)} against the standard loss at propensity {lowest:g}, points: {shown}.")
    return sentences


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['family']}, {row['label']}"
