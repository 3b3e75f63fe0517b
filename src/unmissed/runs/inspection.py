"""Inspection: what a run is made of, how well its labels were solved, and which features speak for a label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.runs.run import Run

WORST = 5  # labels named as those with the largest gaps


class Feature(NamedTuple):
    """A feature and its weight for a label."""

    number: int
    name: str | None
    weight: float


def summarize(run: Run, *, worst: int = WORST) -> dict[str, Any]:
    """Return method, sizes, certificates and disk space of a run, ready for JSON."""
    shards = run.model.shards_
    counts = run.label_counts
    n_weights = sum(len(shard.weights) for shard in shards)
    return {
        "run": str(run.folder),
        "recipe": run.recipe.to_json(),
        "n_labels": run.n_labels,
        "n_features": run.n_features,
        "labels_without_positives": None if counts is None else int(np.count_nonzero(counts == 0)),
        "n_weights": n_weights,
        "weights_per_label": n_weights / run.n_labels if run.n_labels else 0.0,
        "n_shards": len(shards),
        "bytes": run.folder.n_bytes(),
        "parts": [
            {
                "first": part.first,
                "n_labels": part.n_labels,
                "n_samples": part.n_samples,
                "digest": part.digest,
                "status": part.status,
                "finished": part.n_labels if part.is_complete else run.folder.n_finished(part),
                "versions": part.versions,
            }
            for part in run.manifest.parts
        ],
        "certificate": certificate(run, worst=worst),
    }


def certificate(run: Run, *, worst: int = WORST) -> dict[str, Any] | None:
    """Tell how many labels met the tolerance and name those that did not; None where nothing was solved."""
    tol = run.recipe.params.get("tol")
    if tol is None:
        return None
    shards = run.model.shards_
    gap = relative_gaps(run)
    epochs = np.concatenate([shard.epochs for shard in shards])
    missed = np.flatnonzero(~(gap <= tol))
    order = np.argsort(-gap, kind="stable")[:worst]
    return {
        "tol": tol,
        "met": int(gap.size - missed.size),
        "missed": int(missed.size),
        "missed_labels": [run.name_of(int(label)) for label in missed],
        "median_gap": float(np.median(gap)),
        "worst": [
            {
                "label": int(label),
                "name": run.name_of(int(label)),
                "gap": float(gap[label]),
                "epochs": int(epochs[label]),
            }
            for label in order
        ],
        "objective": float(sum(shard.objective.sum() for shard in shards)),
    }


def relative_gaps(run: Run) -> npt.NDArray[np.float64]:
    """Return each label's certificate, the relative duality gap of its solution before pruning."""
    return np.concatenate([shard.gap for shard in run.model.shards_])


def strongest_features(run: Run, label: int, top: int = 20) -> list[Feature]:
    """Return the `top` features with the largest weights in size, largest first; ties by number."""
    if top < 1:
        raise InputError(f"top is {top}; expected at least 1")
    for shard in run.model.shards_:
        place = label - shard.first
        if 0 <= place < shard.n_labels:
            features, weights = shard.of_label(place)
            order = np.lexsort((features, -np.abs(weights)))[:top]
            names = run.feature_names
            return [
                Feature(int(features[i]), names[int(features[i])] if names else None, float(weights[i])) for i in order
            ]
    raise InputError(f"{run.folder}: has no label {label}")


def bias_of(run: Run, label: int) -> float:
    """Return the constant of a label."""
    shard = next(shard for shard in run.model.shards_ if 0 <= label - shard.first < shard.n_labels)
    return float(shard.bias[label - shard.first])


def verify(run: Run) -> int:
    """Compare every file with its checksum and every index with the sizes; returns the number of weights read."""
    checked = Run(run.folder.path, verify=True)
    names = (checked.label_names, checked.label_titles, checked.label_counts, checked.feature_names, checked.text)
    del names  # opened, and with it verified
    n_weights = 0
    for shard in checked.model.shards_:
        sound = (
            shard.starts[0] == 0
            and (np.diff(shard.starts) >= 0).all()
            and (np.diff(shard.features) > 0).all()
            and (not shard.labels.size or int(shard.labels.max()) < shard.n_labels)
            and (not shard.features.size or (shard.features.min() >= 0 and shard.features.max() < run.n_features))
            and np.isfinite(shard.weights).all()
        )
        if not sound:
            raise InputError(f"{run.folder.shard(shard.first)}: holds weights out of range; the run is damaged")
        n_weights += shard.weights.size
    return n_weights
