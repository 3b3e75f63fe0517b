"""Comparison with the paper: its published figures, and its claims checked by paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unmissed.data.catalog import Recognized
from unmissed.data.published import METHOD_SPECS, NOTES, OWN, UNWEIGHTED, UPPER_BOUND, published_figures
from unmissed.models.method_registry import EMBEDDINGS

_PSP = ("PSP@1", "PSP@3", "PSP@5")
_P = ("P@1", "P@3", "P@5")
_ABOUT = 1.0  # points; the largest loss of P@k by weighting in the paper's plot is 1.1
_INSTANCE_TREES, _POINTS = METHOD_SPECS["PfastXML"][0], 10.0
_LABEL_TREES, _RELATIVE = METHOD_SPECS["Parabel"][0], 0.2


def compare_with_published(results: Mapping[str, Any], recognized: Recognized | None) -> dict[str, Any] | None:
    """Return the published figures with ours, with and without re-ranking; None if the data set is unknown."""
    if recognized is None:
        return None
    own = {one["key"]: one for one in results["methods"] if "figures" in one}
    rows = []
    for printed in published_figures(recognized.entry.name):
        for key in METHOD_SPECS[printed.column]:
            if key in own:
                ours = _percent(own[key]["figures"], printed.metric)
                reranked = _percent(own[key]["reranked"], printed.metric)
                rows.append(
                    {
                        **printed._asdict(),
                        "key": key,
                        "title": own[key]["title"],
                        "ours": ours,
                        "difference": None if ours is None else ours - printed.value,
                        "reranked": reranked,
                        "difference_reranked": None if reranked is None else reranked - printed.value,
                    }
                )
    return {
        "name": recognized.entry.name,
        "by": recognized.by,
        "note": NOTES.get(recognized.entry.name, ""),
        "figures": rows,
    }


def check_claims(
    results: Mapping[str, Any], difference: Callable[[str, str], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return for each claim of the paper whether it holds on this data; `holds` is None if the intervals are too wide.

    `difference` returns the paired differences of two methods, given by their keys.
    """
    measured = {one["key"]: one for one in results["methods"] if "figures" in one}
    own, plain = METHOD_SPECS[OWN][0], METHOD_SPECS[UNWEIGHTED][0]
    if own not in measured or results["baseline"] != plain or "PSP@1" not in measured[own]["figures"]:
        return []
    gains = measured[own]["against_baseline"]
    claims = [
        _claim(f"{OWN} (1/p - 1) is above {UNWEIGHTED} in PSP at every k", gains, _PSP),
        _claim(f"while its P@k is not more than {_ABOUT:g} point lower", gains, _P, lambda _: -_ABOUT),
    ]
    if UPPER_BOUND in measured:
        claims.append(_claim("the weighting 1/p - 1 is better than 2/p - 1 in PSP", difference(own, UPPER_BOUND), _PSP))
    for key in _others(measured):
        title, figures, gains = measured[key]["title"], measured[key]["figures"], difference(own, key)
        claims.append(_claim(f"{OWN} is above {title} in PSP", gains, _PSP))
        if key == _INSTANCE_TREES:
            text = f"by about {_POINTS:g} points (in the paper on two data sets)"
            claims.append(_claim(text, gains, _PSP, lambda _: _POINTS))
        if key == _LABEL_TREES:
            text = f"by at least {_RELATIVE:.0%} of its figures (in the paper on most data sets)".replace("%", " %")
            least = {name: _RELATIVE * (_percent(figures, name) or 0.0) for name in _PSP}
            claims.append(_claim(text, gains, _PSP, least.__getitem__))
    return claims


def _others(measured: Mapping[str, Any]) -> list[str]:
    """Return the keys of the measured methods that the paper compares its own with, and of further embeddings."""
    named = [key for column, keys in METHOD_SPECS.items() if column not in (OWN, UNWEIGHTED) for key in keys]
    embeddings = [key for key, one in measured.items() if one["family"] == EMBEDDINGS]
    return [key for key in dict.fromkeys([*named, *embeddings]) if key in measured]


def _claim(
    text: str, gains: Mapping[str, Any], names: tuple[str, ...], above: Callable[[str], float] = lambda _: 0.0
) -> dict[str, Any]:
    """Check the claim that the named differences, in points, are all above a number, which may depend on the metric."""
    measured = {name: gains[name] for name in names if name in gains}
    holds = None
    if all(100 * one["low"] > above(name) for name, one in measured.items()):
        holds = True
    elif any(100 * one["high"] < above(name) for name, one in measured.items()):
        holds = False
    evidence = ", ".join(
        f"{name} {100 * one['value']:+.2f} [{100 * one['low']:+.2f}, {100 * one['high']:+.2f}]"
        for name, one in measured.items()
    )
    return {"claim": text, "holds": holds, "evidence": evidence}


def _percent(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name, {}).get("value")
    return None if value is None else 100 * float(value)
