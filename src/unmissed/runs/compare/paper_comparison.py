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
        _claim(f"{OWN} (1/p - 1) is above {UNWEIGHTED} in PSP at every k", gains, _PSP, above=0.0),
        _claim(f"while its P@k is not more than {_ABOUT:g} point lower", gains, _P, above=-_ABOUT),
    ]
    others = {UPPER_BOUND: "the weighting 1/p - 1 is better than 2/p - 1 in PSP"} if UPPER_BOUND in measured else {}
    others |= {
        key: f"{OWN} is above the embeddings of {one['title']} in PSP"
        for key, one in measured.items()
        if one["family"] == EMBEDDINGS
    }
    return claims + [_claim(text, difference(own, key), _PSP, above=0.0) for key, text in others.items()]


def _claim(text: str, gains: Mapping[str, Any], names: tuple[str, ...], above: float) -> dict[str, Any]:
    """Check the claim that the named differences, in points, are all above a number."""
    differences = [gains[name] for name in names if name in gains]
    holds = None
    if all(100 * one["low"] > above for one in differences):
        holds = True
    elif any(100 * one["high"] < above for one in differences):
        holds = False
    evidence = ", ".join(
        f"{name} {100 * gains[name]['value']:+.2f} [{100 * gains[name]['low']:+.2f}, {100 * gains[name]['high']:+.2f}]"
        for name in names
        if name in gains
    )
    return {"claim": text, "holds": holds, "evidence": evidence}


def _percent(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name, {}).get("value")
    return None if value is None else 100 * float(value)
