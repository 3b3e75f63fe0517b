"""Simulation of missing labels: the labels of a real data set are dropped with known propensities.

Models are trained on the observed labels without weighting, and with weighting under right and wrong assumed
propensities. They are evaluated on the observed and on the complete labels. The labels of the data set are taken as
complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.archive import write_json
from unmissed.data import open_store
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Piece, Processes, Work
from unmissed.metrics import Conventions, Evaluation, compare, decile_of, evaluate
from unmissed.models.method_registry import make_model
from unmissed.progress import Progress, silent
from unmissed.propensity import Constant, FromTable, Jain, Propensity, drop_labels
from unmissed.ranking import Ranking
from unmissed.runs.compare.comparison import PreparedData
from unmissed.runs.run_folder import versions
from unmissed.studies.estimates import measure_estimates, over_seeds, sensitivity
from unmissed.studies.study_folder import claim

METHOD = "pw-dismec"
PLAIN = "none"
RIGHT = "right"
DEPTH = 5
VERSION = 2  # of the study's definition; folders of another version are not resumed
MEASURES = (f"P@{DEPTH}", f"recall@{DEPTH} of tail labels")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MissingLabelSettings:
    """Parameters of the study.

    Parameters
    ----------
    a, b : float
        Parameters of the propensity model that drops labels, with the complete training counts.
    seeds : int
        Number of repetitions with different dropped labels.
    weightings : tuple of str
        Weightings that are trained with each belief, in addition to the unweighted model.
    factors : tuple of float
        Factors of A and B in wrong beliefs.
    n_resamples : int
        Bootstrap resamples, and samples of missing test labels.
    """

    a: float = 0.55
    b: float = 1.5
    seeds: int = 3
    weightings: tuple[str, ...] = ("surrogate", "tail")
    factors: tuple[float, ...] = (0.5, 2.0)
    n_resamples: int = 400

    def __post_init__(self) -> None:
        Jain(self.a, self.b)
        if self.seeds < 1 or self.n_resamples < 1:
            raise InputError("a study needs at least 1 seed and 1 resample")
        if not self.weightings:
            raise InputError("a study of weighting needs at least one weighting")


def beliefs(settings: MissingLabelSettings) -> list[str]:
    """Return the names of the assumed propensity models, the right one first."""
    off = [f"{name} x {factor:g}" for name in ("A", "B") for factor in settings.factors]
    return [RIGHT, "fitted to what is left", *off, "one for all", "shuffled"]


def believe(name: str, settings: MissingLabelSettings, counts: Any, left: Any, n_samples: int) -> Propensity:
    """Return the assumed propensity model of a name; `left` are the observed label counts."""
    true = Jain(settings.a, settings.b).estimate(counts, n_samples)
    if name == RIGHT:
        return FromTable(true)
    if name == "fitted to what is left":
        return FromTable(Jain(settings.a, settings.b).estimate(left, n_samples))
    if name == "one for all":
        return Constant(share_kept(counts, true))
    if name == "shuffled":
        return FromTable(np.random.default_rng(0).permutation(true))
    which, _, factor = name.partition(" x ")
    scale = {"A": (float(factor), 1.0), "B": (1.0, float(factor))}[which]
    return FromTable(Jain(settings.a * scale[0], settings.b * scale[1]).estimate(counts, n_samples))


def share_kept(counts: npt.ArrayLike, p: npt.ArrayLike) -> float:
    """Return the expected fraction of true labels that are observed: sum n p / sum n, with true label counts n.

    It is also the constant propensity that makes the total of the corrected counts unbiased: n p labels are observed in
    expectation, and sum n p / p_all = sum n for p_all = sum n p / sum n. Equivalently, 1/p_all is the mean of 1/p over
    *observed* labels. The mean of 1/p over true labels, sum (n/p) / sum n, would give rare labels too much weight.
    """
    n = np.asarray(counts, dtype=np.float64)
    return float(np.sum(n * np.asarray(p)) / np.sum(n)) if n.any() else 1.0


class DroppedRows(NamedTuple):
    """The data that all trainings share."""

    X: Any
    Y: sparse.csr_matrix
    X_test: Any
    settings: MissingLabelSettings

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The true number of rows of each label."""
        return np.bincount(self.Y.indices, minlength=self.Y.shape[1]).astype(np.int64)

    def left(self, seed: int) -> sparse.csr_matrix:
        """Return the observed training labels."""
        p = Jain(self.settings.a, self.settings.b).estimate(self.counts, self.Y.shape[0])
        return drop_labels(self.Y, p, np.random.default_rng([seed, 0]))


@dataclass(frozen=True)
class MissingLabelState:
    """Shared state of the workers: opens the stores once per process."""

    settings: MissingLabelSettings
    data: Path

    def __call__(self) -> DroppedRows:
        """Open the stores."""
        train, test = open_store(self.data / "train"), open_store(self.data / "test")
        return DroppedRows(train.X, train.Y, test.X, self.settings)


@dataclass(frozen=True)
class MissingLabelTask:
    """One training; its piece is the ranking of the test rows."""

    weighting: str
    belief: str
    seed: int
    size: int = 1

    @property
    def key(self) -> str:
        """The key of its piece."""
        return f"{self.weighting}/{self.belief.lower().replace(' ', '-')}/seed{self.seed}"

    def run(self, rows: DroppedRows) -> Piece:
        """Train on the observed labels and rank the test rows."""
        Y = rows.left(self.seed)
        left = np.bincount(Y.indices, minlength=Y.shape[1])
        params: dict[str, Any] = {"weighting": self.weighting, "n_jobs": 1}
        if self.weighting != PLAIN:
            params["propensity"] = believe(self.belief, rows.settings, rows.counts, left, Y.shape[0])
        ranking = make_model(METHOD, params).fit(rows.X, Y).rank(rows.X_test, DEPTH)
        return Piece(self.key, {"labels": ranking.labels, "scores": ranking.scores})


def cells_of(settings: MissingLabelSettings) -> list[MissingLabelTask]:
    """Return all trainings, seed by seed: the unweighted model, and every weighting with every belief."""
    pairs = [(PLAIN, RIGHT), *((w, belief) for w in settings.weightings for belief in beliefs(settings))]
    return [MissingLabelTask(*pair, seed) for seed in range(settings.seeds) for pair in pairs]


def run_study(
    out: Path,
    data: PreparedData,
    settings: MissingLabelSettings,
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run unfinished trainings, evaluate, and write `study.json`; refuse a folder with other settings or data."""
    claim(out, {"version": VERSION, **_plain(asdict(settings)), "data": [data.train.digest, data.test.digest]})
    pieces = OnDisk(out / "trainings")
    pieces.clean()
    cells = cells_of(settings)
    work = Work(pieces, Processes(workers), progress)
    found = {piece.key: piece.arrays for piece in work.map(cells, MissingLabelState(settings, data.folder))}
    rankings = {
        cell: Ranking(np.array(found[cell.key]["labels"]), np.array(found[cell.key]["scores"])) for cell in cells
    }
    counts, n = data.train.label_counts, data.train.n_samples
    p = Jain(settings.a, settings.b).estimate(counts, n)
    assumed = {}
    rows = DroppedRows(data.train.X, data.train.Y, data.test.X, settings)
    left = np.bincount(rows.left(0).indices, minlength=counts.size)
    for name in beliefs(settings):
        assumed[name] = believe(name, settings, counts, left, n).estimate(counts, n)
    best = settings.weightings[-1]
    shown = {PLAIN: rankings[MissingLabelTask(PLAIN, RIGHT, 0)]}
    shown |= {weighting: rankings[MissingLabelTask(weighting, RIGHT, 0)] for weighting in settings.weightings}
    study = {
        "settings": _plain(asdict(settings)),
        "made_with": versions(),
        "data": {"name": data.name, "n_train": n, "n_test": data.test.n_samples, "n_labels": counts.size},
        "kept": share_kept(counts, p),
        "training": _training(rankings, data, settings),
        "estimates": measure_estimates(shown, data.test.Y, p, assumed, settings.n_resamples),
        "tracking": _tracking(rankings, data, p, settings),
        "sensitivity": sensitivity(
            shown, drop_labels(data.test.Y, p, np.random.default_rng([0, 1])), left, n, settings.a
        ),
        "focus": best,
    }
    study["advice"] = advise(study)
    write_json(out / "study.json", study)
    return study


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in metadata.items()}


def _training(
    rankings: Mapping[MissingLabelTask, Ranking], data: PreparedData, settings: MissingLabelSettings
) -> list[dict[str, Any]]:
    """Return the gain of each weighting and belief over the unweighted model on the complete labels, over seeds."""
    counts = data.train.label_counts
    decile = decile_of(counts)
    tail = _columns(data.test.Y, (decile >= 1) & (decile <= 5))

    def judge(cell: MissingLabelTask) -> list[tuple[Evaluation, str]]:
        own = evaluate(rankings[cell], data.test.Y, None, (DEPTH,))
        rare = evaluate(rankings[cell], tail, None, (DEPTH,), conventions=Conventions(empty_rows="drop"))
        return [(own, f"P@{DEPTH}"), (rare, f"recall@{DEPTH}")]

    plain = {seed: judge(MissingLabelTask(PLAIN, RIGHT, seed)) for seed in range(settings.seeds)}
    rows = []
    for weighting in settings.weightings:
        for belief in beliefs(settings):
            found: dict[str, list[Any]] = {name: [] for name in MEASURES}
            for seed in range(settings.seeds):
                for name, (own, metric), (base, _) in zip(
                    MEASURES, judge(MissingLabelTask(weighting, belief, seed)), plain[seed], strict=True
                ):
                    found[name].append(compare(own, base, settings.n_resamples)[metric])
            gains = {name: over_seeds(differences) for name, differences in found.items()}
            rows.append({"weighting": weighting, "belief": belief, "gain": gains})
    return rows


def _tracking(
    rankings: Mapping[MissingLabelTask, Ranking], data: PreparedData, p: Floats, settings: MissingLabelSettings
) -> dict[str, dict[str, float]]:
    """Return Kendall's tau between metrics on the observed labels and the true P, over all models."""
    from scipy.stats import kendalltau

    found: dict[str, list[float]] = {"P on what is left": [], "PSP on what is left": []}
    for seed in range(settings.seeds):
        observed = drop_labels(data.test.Y, p, np.random.default_rng([seed, 1]))
        own = [one for cell, one in rankings.items() if cell.seed == seed]
        truth = [evaluate(one, data.test.Y, None, (DEPTH,))[f"P@{DEPTH}"] for one in own]
        seen = [evaluate(one, observed, 1 / p, (DEPTH,)) for one in own]
        for name, metric in zip(found, (f"P@{DEPTH}", f"PSP@{DEPTH}"), strict=True):
            tau = float(kendalltau([one[metric] for one in seen], truth).statistic)
            found[name].append(tau if np.isfinite(tau) else 0.0)
    return {
        name: {"value": float(np.mean(values)), "low": float(min(values)), "high": float(max(values))}
        for name, values in found.items()
    }


def _columns(Y: sparse.csr_matrix, kept: npt.NDArray[np.bool_]) -> sparse.csr_matrix:
    """Return Y with the entries of some labels only, in its original shape."""
    thinned = Y.copy()
    thinned.data = thinned.data * kept[thinned.indices]
    thinned.eliminate_zeros()
    return thinned


def advise(study: Mapping[str, Any]) -> list[str]:
    """Return three recommendations: on evaluation, on training, and on wrong propensities."""
    return [_advise_measuring(study), _advise_training(study), _advise_beliefs(study)]


def _advise_measuring(study: Mapping[str, Any]) -> str:
    errors = {row["belief"]: row for row in study["estimates"] if row["model"] == study["focus"]}
    plain, right = errors.pop("uncorrected"), errors[RIGHT]
    evidence = (
        f"the estimate of P@{DEPTH} corrected by the right 1/p is off by {_pt(right['error'])} points (spread "
        f"{_pt(right['spread'])}), the uncorrected one by {_pt(plain['error'])}"
    )
    better = [name for name, row in errors.items() if name != RIGHT and row["error"] < plain["error"]]
    wrong = f"; wrong propensities that still beat no correction: {', '.join(better) or 'none'}"
    rows = f"on {study['data']['n_test']:,} test rows"
    if right["error"] < plain["error"]:
        return f"Correct by 1/p when you measure: {rows} {evidence}{wrong}."
    return f"Do not correct by 1/p on so few rows, its spread costs more than it gains: {rows} {evidence}{wrong}."


def _advise_training(study: Mapping[str, Any]) -> str:
    right = [row for row in study["training"] if row["belief"] == RIGHT]
    best = max(right, key=lambda row: row["gain"][MEASURES[0]]["value"])
    gain = best["gain"][MEASURES[0]]
    changes = "; ".join(f"{name} {_gain(best['gain'][name])}" for name in MEASURES)
    if gain["low"] > 0:
        return f"Weight positives by {best['weighting']} when you train: on the complete labels that changes {changes}."
    if gain["high"] < 0:
        best_one = best["weighting"]
        return f"Train without weighting: even the best one ({best_one}) changes {changes} on the complete labels."
    rare = best["gain"][MEASURES[1]]["low"] > 0
    then = "weight if rare labels matter to you" if rare else "nothing is gained on rare labels either, so leave it"
    return f"P@{DEPTH} does not decide on weighting: {best['weighting']}, the best one, changes {changes}; {then}."


def _advise_beliefs(study: Mapping[str, Any]) -> str:
    rows = {row["belief"]: row["gain"][MEASURES[1]] for row in study["training"] if row["weighting"] == study["focus"]}
    right = rows.pop(RIGHT)
    keep = [name for name, gain in rows.items() if right["value"] > 0 and gain["value"] >= right["value"] / 2]
    lose = [name for name in rows if name not in keep]
    if right["value"] <= 0:
        return (
            f"Better propensities are not worth the trouble here: with the right ones {study['focus']} changes "
            f"{MEASURES[1]} by {_gain(right)}."
        )
    return (
        f"Propensities may be wrong as follows and at least half of the gain in {MEASURES[1]} ({_gain(right)} with the "
        f"right ones) stays: {', '.join(keep) or 'none of those tried'}; it is lost with: {', '.join(lose) or 'none'}."
    )


def _gain(gain: Mapping[str, float]) -> str:
    return f"{100 * gain['value']:+.2f} [{100 * gain['low']:+.2f}, {100 * gain['high']:+.2f}] points"


def _pt(value: float) -> str:
    return f"{100 * value:.2f}"
