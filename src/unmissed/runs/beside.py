"""Beside the paper: its printed figures next to ours, and its claims checked against paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unmissed.data.catalog import Recognised
from unmissed.data.published import CONTENDERS, NOTES, printed_for
from unmissed.models.registry import EMBEDDINGS

PAPERS_OWN = CONTENDERS["PW-DiSMEC"][0]
BOUND = "pw-dismec:weighting=surrogate"
PLAIN = CONTENDERS["DiSMEC"][0]
_PSP = ("PSP@1", "PSP@3", "PSP@5")
_P = ("P@1", "P@3", "P@5")
_ABOUT = 1.0  # points; the largest gap between PW-DiSMEC and DiSMEC in the paper's figure of P@k is 1.1


def beside_published(results: Mapping[str, Any], recognised: Recognised | None) -> dict[str, Any] | None:
    """Return every printed figure with ours, plain and re-ranked, and the differences; None for other data sets."""
    if recognised is None:
        return None
    own = {one["key"]: one for one in results["methods"] if "figures" in one}
    rows = []
    for printed in printed_for(recognised.entry.name):
        for key in CONTENDERS[printed.column]:
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
        "name": recognised.entry.name,
        "by": recognised.by,
        "note": NOTES.get(recognised.entry.name, ""),
        "figures": rows,
    }


def check_claims(
    results: Mapping[str, Any], difference: Callable[[str, str], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Say of each claim of the paper whether it holds here; `holds` is None where the intervals leave it open.

    `difference` gives the paired differences of two methods by their keys.
    """
    own = {one["key"]: one for one in results["methods"] if "figures" in one}
    if PAPERS_OWN not in own or results["baseline"] != PLAIN or "PSP@1" not in own[PAPERS_OWN]["figures"]:
        return []
    gains = own[PAPERS_OWN]["against_baseline"]
    claims = [
        _claim("PW-DiSMEC (1/p - 1) is above DiSMEC in PSP at every k", gains, _PSP, above=0.0),
        _claim(f"while its P@k is not more than {_ABOUT:g} point lower", gains, _P, above=-_ABOUT),
    ]
    rivals = {BOUND: "the weighting 1/p - 1 is better than 2/p - 1 in PSP"} if BOUND in own else {}
    rivals |= {
        key: f"PW-DiSMEC is above the embeddings of {one['title']} in PSP"
        for key, one in own.items()
        if one["family"] == EMBEDDINGS
    }
    return claims + [_claim(text, difference(PAPERS_OWN, key), _PSP, above=0.0) for key, text in rivals.items()]


def _claim(text: str, gains: Mapping[str, Any], names: tuple[str, ...], above: float) -> dict[str, Any]:
    """Hold a claim that all of some differences, in points, are above a number."""
    held = [gains[name] for name in names if name in gains]
    holds = None
    if all(100 * one["low"] > above for one in held):
        holds = True
    elif any(100 * one["high"] < above for one in held):
        holds = False
    told = ", ".join(
        f"{name} {100 * gains[name]['value']:+.2f} [{100 * gains[name]['low']:+.2f}, {100 * gains[name]['high']:+.2f}]"
        for name in names
        if name in gains
    )
    return {"claim": text, "holds": holds, "evidence": told}


def _percent(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name, {}).get("value")
    return None if value is None else 100 * float(value)
