"""Inspection: what a run is made of, how well it was solved, and which features speak for a label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unmissed.models.base import Certificate
from unmissed.runs.run import Run

WORST = 5  # problems named as those with the largest gaps


class Feature(NamedTuple):
    """A feature and its weight for a label."""

    number: int
    name: str | None
    weight: float


def summarize(run: Run, *, worst: int = WORST) -> dict[str, Any]:
    """Return method, sizes, certificates and disk space of a run, ready for JSON."""
    counts = run.label_counts
    return {
        "run": str(run.folder),
        "format": run.manifest.version,
        "recipe": run.recipe.to_json(),
        "n_labels": run.n_labels,
        "n_features": run.n_features,
        "labels_without_positives": None if counts is None else int(np.count_nonzero(counts == 0)),
        "model": run.model.facts(),
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
    }


def certificate(run: Run, *, worst: int = WORST) -> dict[str, Any] | None:
    """Tell how many problems met the tolerance and name those that did not; None where nothing is certified."""
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
        "missed_names": [_name(run, found, int(place)) for place in missed],
        "median_gap": float(np.median(found.gap)) if found.gap.size else 0.0,
        "worst": [
            {
                "number": int(place),
                "name": _name(run, found, int(place)),
                "gap": float(found.gap[place]),
                **{title: np.asarray(values)[place].item() for title, values in found.columns.items()},
            }
            for place in order
        ],
        "objective": found.objective,
    }


def draw(run: Run) -> str:
    """Return a picture of the run's model in lines of text, with the names that the run knows."""
    features = run.feature_names

    def feature_name(feature: int) -> str:
        return features[feature] if features else f"feature {feature}"

    return run.model.draw(run.name_of, feature_name)


def strongest_features(run: Run, label: int, top: int = 20) -> list[Feature]:
    """Return the `top` features with the largest weights in size, largest first; ties by number."""
    found = run.model.explain(label).strongest(top)
    names = run.feature_names
    return [
        Feature(int(feature), names[int(feature)] if names else None, float(weight))
        for feature, weight in zip(found.features, found.weights, strict=True)
    ]


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
    """Compare every file with its checksum and every index with the sizes; returns the number of pieces read."""
    checked = Run(run.folder.path, verify=True)
    names = (checked.label_names, checked.label_titles, checked.label_counts, checked.feature_names, checked.text)
    del names  # opened, and with it verified
    return len(checked.model.pieces_.listed())


def _name(run: Run, found: Certificate, place: int) -> str:
    return run.name_of(place) if found.unit == "labels" else str(place)
