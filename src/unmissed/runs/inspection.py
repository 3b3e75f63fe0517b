"""Inspection: a summary of a run, its certificate, and the features with the largest weights for a label."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from unmissed.errors import InputError
from unmissed.models.evidence import Certificate
from unmissed.runs.run import Run

WORST = 5  # number of problems listed with the largest gaps


class Feature(NamedTuple):
    """A feature and its weight for a label."""

    number: int
    name: str | None
    weight: float


def summarize(run: Run, *, worst: int = WORST) -> dict[str, Any]:
    """Return method, sizes, certificates and disk space of a run, ready for JSON."""
    counts, choice = run.label_counts, run.model.choice()
    return {
        "run": str(run.folder),
        "format": run.manifest.version,
        "recipe": run.recipe.to_json(),
        "chosen": {} if choice is None else choice["params"],
        "n_labels": run.n_labels,
        "n_features": run.n_features,
        "n_dense": run.n_dense,
        "labels_without_positives": None if counts is None else int(np.count_nonzero(counts == 0)),
        "vocabulary": None
        if run.vocabulary is None
        else {"n_concepts": len(run.vocabulary), "language": run.vocabulary.language},
        "model": run.model.metadata(),
        "n_pieces": len(run.model.pieces_.listed()),
        "bytes": run.folder.n_bytes(),
        "parts": [
            {
                "first": part.first,
                "n_labels": part.n_labels,
                "n_samples": part.n_samples,
                "digest": part.digest,
                "status": part.status,
                "versions": part.versions,
            }
            for part in run.manifest.parts
        ],
        "certificate": certificate(run, worst=worst),
        "calibration": describe_calibration(run),
    }


def describe_calibration(run: Run) -> dict[str, Any] | None:
    """Return how the probabilities of a run were made, and how many labels it does not cover; None if it has none."""
    entry = run.calibration
    if entry is None:
        return None
    added = run.n_labels - entry.n_labels
    return {**asdict(entry), "probability": "observed", "labels_added_since": added}


def certificate(run: Run, *, worst: int = WORST) -> dict[str, Any] | None:
    """Return how many problems met the tolerance, and those that did not; None without a certificate."""
    found = run.model.certificate()
    if found is None:
        return None
    missed = found.missed
    order = np.argsort(-found.gap, kind="stable")[:worst]
    return {
        "tol": found.tol,
        "unit": found.unit,
        "met": int(found.gap.size - missed.size),
        "missed": int(missed.size),
        "missed_names": [_name(run, found, int(position)) for position in missed],
        "median_gap": float(np.median(found.gap)) if found.gap.size else 0.0,
        "worst": [
            {
                "number": int(position),
                "name": _name(run, found, int(position)),
                "gap": float(found.gap[position]),
                **{title: np.asarray(values)[position].item() for title, values in found.columns.items()},
            }
            for position in order
        ],
        "objective": found.objective,
    }


def draw(run: Run) -> str:
    """Return a text drawing of the run's model, with label and feature names."""

    def feature_name(feature: int) -> str:
        return run.feature_name(feature) or f"feature {feature}"

    _check_ability(run, "draw", "be drawn; only label trees can")
    return str(run.model.draw(run.name_of, feature_name))


def strongest_features(run: Run, label: int, top: int = 20) -> list[Feature]:
    """Return the `top` features of largest absolute weight, in falling order; ties by feature index."""
    _check_ability(run, "explain", "list the features that contribute to a label")
    found = run.model.explain(label).strongest(top)
    return [
        Feature(int(feature), run.feature_name(int(feature)), float(weight))
        for feature, weight in zip(found.features, found.weights, strict=True)
    ]


def _check_ability(run: Run, method: str, what: str) -> None:
    """Raise unless the run's model has a method."""
    if not hasattr(run.model, method):
        raise InputError(f"{type(run.model).__name__} cannot {what}")


def describe_label(run: Run, label: int, top: int = 20) -> dict[str, Any]:
    """Return a label's name, count, certificate and strongest features, ready for JSON."""
    counts, found = run.label_counts, run.model.certificate()
    return {
        "label": label,
        "name": run.name_of(label),
        "count": None if counts is None else int(counts[label]),
        "features": [feature._asdict() for feature in strongest_features(run, label, top)],
        "constant": run.model.explain(label).constant,
        "gap": float(found.gap[label]) if found is not None and found.unit == "labels" else None,
    }


def verify(run: Run) -> int:
    """Check all checksums and index ranges of a run; return the number of pieces."""
    checked = Run(run.folder.path, verify=True)
    names = checked.label_names, checked.label_titles, checked.label_counts, checked.feature_names, checked.text
    concepts = checked.vocabulary
    del names, concepts  # reading them verified them
    return len(checked.model.pieces_.listed())


def _name(run: Run, found: Certificate, position: int) -> str:
    return run.name_of(position) if found.unit == "labels" else str(position)
