"""The paper's controlled experiment: MNIST as a multi-label problem whose labels are dropped, under six losses.

Every digit is a row with one true label of ten; a true label survives into training with probability p. A network of
one hidden layer is trained with each loss on what survived and tested on complete labels. Under one seed all losses and
all propensities share the start, the order of rows and the uniform numbers that decide which labels survive.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmissed._version import __version__
from unmissed.archive import write_json, write_text
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Piece, Processes, Work
from unmissed.losses import Loss, convex_bound, cross_entropy_from_logits, hinge, naive, unbiased
from unmissed.progress import Progress, silent
from unmissed.propensity import drop_labels
from unmissed.studies.idx import Digits, embedded_digits, read_mnist
from unmissed.studies.network import Network, train
from unmissed.studies.propensity_grid import TrainingCell, check_counts, check_grid, finite, summarize_seeds, to_csv
from unmissed.studies.study_folder import claim

N_LABELS = 10


@dataclass(frozen=True)
class MnistSettings:
    """Parameters of the study; a folder belongs to one set of parameters."""

    propensities: tuple[float, ...] = tuple(round(0.1 * tenth, 1) for tenth in range(1, 11))
    seeds: int = 3
    epochs: int = 10
    hidden: int = 128
    batch: int = 32
    rate: float = 0.001
    probability_clip: float = 1e-7

    def __post_init__(self) -> None:
        check_grid(self.propensities)
        check_counts(self, ("seeds", "epochs", "hidden", "batch"))
        if not self.rate > 0:
            raise InputError(f"rate must be positive, not {self.rate}")


class LossVariant(NamedTuple):
    """One curve of the figure: the training loss, a function of p and the clip, and the test loss."""

    family: str
    label: str
    trained: Callable[[float, float], Loss]
    tested: Callable[[float], Loss]


def _entropy(clip: float) -> Loss:
    """Return the cross-entropy of a clipped sigmoid, as in the paper."""
    return cross_entropy_from_logits(clip)


def _hinge(clip: float) -> Loss:
    return hinge()


VARIANTS = {
    "bce": LossVariant("cross-entropy", "standard", lambda p, clip: _entropy(clip), _entropy),
    "bce-unbiased": LossVariant("cross-entropy", "re-weighted", lambda p, clip: unbiased(_entropy(clip), p), _entropy),
    "bce-naive": LossVariant("cross-entropy", "naive", lambda p, clip: naive(_entropy(clip), p), _entropy),
    "hinge": LossVariant("hinge", "standard", lambda p, clip: hinge(), _hinge),
    "hinge-convex": LossVariant("hinge", "re-weighted (convex)", lambda p, clip: convex_bound(hinge(), p), _hinge),
    "hinge-unbiased": LossVariant("hinge", "non-convex", lambda p, clip: unbiased(hinge(), p), _hinge),
}


@dataclass(frozen=True)
class MnistState:
    """Shared state of the workers, made once per process: digits and settings."""

    settings: MnistSettings
    data: Path | None = None

    def __call__(self) -> tuple[Digits, MnistSettings]:
        """Load the digits."""
        return load_digits(self.data), self.settings


@dataclass(frozen=True)
class MnistTask(TrainingCell):
    """One training of the grid; the metadata of its piece are the losses and accuracies after each epoch."""

    def run(self, shared: tuple[Digits, MnistSettings]) -> Piece:
        """Train one network."""
        return Piece(self.key, metadata=run_cell(*shared, self))


def run_cell(digits: Digits, settings: MnistSettings, cell: MnistTask) -> dict[str, Any]:
    """Train one network and return losses and accuracy after each epoch; the last epoch is the result."""
    variant = VARIANTS[cell.variant]
    start, order, fate = (np.random.default_rng([cell.seed, stream]) for stream in range(3))
    loss = variant.trained(cell.propensity, settings.probability_clip)
    tested = variant.tested(settings.probability_clip)
    observed = drop_labels(_one_hot(digits.train_digits), cell.propensity, fate).toarray() > 0
    truth = _one_hot(digits.test_digits)
    present = truth.toarray() > 0
    network = Network(digits.train_images.shape[1], settings.hidden, N_LABELS, start)
    shape = {"epochs": settings.epochs, "batch": settings.batch, "rate": settings.rate}
    begin = time.perf_counter()
    epochs = []
    with np.errstate(over="ignore", invalid="ignore"):  # a loss unbounded below may diverge: that is a result
        for train_loss in train(network, digits.train_images, observed, loss, rng=order, **shape):  # type: ignore[arg-type]
            scores = network.score(digits.test_images)
            epochs.append(
                {
                    "train_loss": finite(train_loss),
                    "test_loss": finite(tested.total(scores, truth, "mean")),
                    "accuracy": float(((scores >= 0) == present).mean()),
                    "largest_score": finite(float(np.abs(scores).max())),
                }
            )
    return {
        "variant": cell.variant,
        "propensity": cell.propensity,
        "seed": cell.seed,
        "seconds": round(time.perf_counter() - begin, 2),
        "epochs": epochs,
    }


def run_study(
    out: Path,
    settings: MnistSettings,
    data: Path | None = None,
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run unfinished trainings, then write `trainings.csv`, `summary.csv` and `study.json`.

    Parameters
    ----------
    out
        The study's folder. Finished trainings are pieces in it and are kept; a folder of other settings is refused.
    settings
        What to train.
    data
        The folder with the four idx files of MNIST; None takes the digits that come with scikit-learn.
    workers
        Processes, each with one thread for linear algebra; None means one per core.
    progress
        Callback with the number of finished trainings.

    Returns
    -------
    The content of `study.json`.
    """
    digits = load_digits(data)
    metadata = {**asdict(settings), "propensities": list(settings.propensities), "data": digits.name}
    claim(out, {**metadata, "data_digest": digits.digest})
    grid = product(
        range(settings.seeds), settings.propensities, VARIANTS
    )  # seed by seed, so that complete curves come first
    cells = [MnistTask(variant, propensity, seed) for seed, propensity, variant in grid]
    pieces = OnDisk(out / "trainings")
    pieces.clean()
    begin = time.perf_counter()
    work = Work(pieces, Processes(workers), progress)
    found = {piece.key: piece.metadata for piece in work.map(cells, MnistState(settings, data))}
    results = [_checked(out, cell, found[cell.key]) for cell in cells]
    summary = summarize(results)
    study = {
        "settings": {**metadata, "data_digest": digits.digest},
        "n_train": len(digits.train_digits),
        "n_test": len(digits.test_digits),
        "made_with": {"unmissed": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "seconds_of_training": round(sum(result["seconds"] for result in results), 1),
        "seconds_of_this_call": round(time.perf_counter() - begin, 1),
        "summary": summary,
    }
    write_text(out / "trainings.csv", to_csv([_flat(result) for result in results]))
    write_text(out / "summary.csv", to_csv(summary))
    write_json(out / "study.json", study)
    return {**study, "trainings": results}


def summarize(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean, standard deviation, minimum and maximum of the last epoch over seeds, by loss and propensity."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["variant"], result["propensity"]), []).append(result["epochs"][-1])
    rows = []
    for (variant, propensity), ends in groups.items():
        row: dict[str, Any] = {
            "variant": variant,
            "family": VARIANTS[variant].family,
            "label": VARIANTS[variant].label,
            "propensity": propensity,
            **summarize_seeds(ends, ("test_loss", "accuracy", "largest_score")),
        }
        rows.append(row)
    return rows


def _checked(out: Path, cell: MnistTask, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `run_cell` from a piece; raise InputError if the piece is damaged."""
    own = {"variant": cell.variant, "propensity": cell.propensity, "seed": cell.seed}
    sound = metadata.keys() == {*own, "seconds", "epochs"} and isinstance(metadata["seconds"], int | float)
    sound = sound and all(metadata[name] == value for name, value in own.items())
    if not sound or not isinstance(metadata["epochs"], list) or not all(map(_is_epoch, metadata["epochs"] or [None])):
        raise InputError(f"{out / 'trainings' / cell.key}: damaged; remove it, and the same command trains it again")
    return dict(metadata)


def _is_epoch(epoch: Any) -> bool:
    names = {"train_loss", "test_loss", "accuracy", "largest_score"}
    return (
        isinstance(epoch, dict)
        and epoch.keys() == names
        and all(value is None or isinstance(value, int | float) for value in epoch.values())
    )


def load_digits(data: Path | None) -> Digits:
    """Return MNIST from the folder of its IDX files, or scikit-learn's digits if there is none."""
    return embedded_digits() if data is None else read_mnist(data)


def _one_hot(digits: Any) -> sp.csr_matrix:
    n = len(digits)
    return sp.csr_matrix((np.ones(n, np.float32), digits.astype(np.int32), np.arange(n + 1)), shape=(n, N_LABELS))


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in result.items() if name != "epochs"}, **result["epochs"][-1]}
