"""Tables of metrics: what `unmissed evaluate` computed, as rows of text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Table(NamedTuple):
    """A title, the names of the columns, and rows of text."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def figures_table(result: Mapping[str, Any]) -> Table:
    """Return one row per metric and one column per cut-off: percent, with the interval in brackets."""
    names = list(dict.fromkeys(name.rpartition("@")[0] for name in result["figures"]))
    rows = [[name, *(_figure(result["figures"][f"{name}@{k}"]) for k in result["k"])] for name in names]
    title = f"{result['n_samples']:,} rows, {result['n_labels']:,} labels; percent"
    if result["interval"]:
        title += f" [{100 * result['interval']['level']:g} % interval]"
    return Table(title, ["metric", *(f"@{k}" for k in result["k"])], rows)


def deciles_table(result: Mapping[str, Any]) -> Table:
    """Return one row per group of labels of like frequency at the deepest cut-off, rarest first.

    A group is named by the share of the labels that it covers, because the deciles of a long tail leave out numbers.
    """
    deepest = result["k"][-1]
    columns = ["rarest first", "labels", "positives in training", "true", "recall", "precision", "part of PSP"]
    rows = [
        [
            "unseen" if group["decile"] == 0 else f"{100 * group['begin']:.0f} - {100 * group['end']:.0f} %",
            f"{group['n_labels']:,}",
            f"{group['fewest']:,} - {group['most']:,}",
            f"{group['true']:,}",
            *(_percent(group[name]) for name in ("recall", "precision", "psp_part")),
        ]
        for group in result["deciles"]
        if group["k"] == deepest
    ]
    return Table(f"labels by their frequency in training, at {deepest}; percent", columns, rows)


def differences_table(result: Mapping[str, Any]) -> Table:
    """Return one row per metric and one column per cut-off: first ranking minus second, with the interval."""
    found = result["differences"]
    names = list(dict.fromkeys(name.rpartition("@")[0] for name in found))
    rows = [[name, *(_figure(found[f"{name}@{k}"], signed=True) for k in result["k"])] for name in names]
    first, second = _apart(result["ranking"], result["against"])
    title = f"{first} minus {second}, on the same rows; points"
    return Table(title, ["metric", *(f"@{k}" for k in result["k"])], rows)


def notes(result: Mapping[str, Any]) -> list[str]:
    """Return what a reader of the tables has to know: conventions, where propensities come from, support, warnings."""
    lines = [
        f"Propensities: {say_propensity(result['propensity'])}; inverse propensities from the "
        f"{result['inverse_propensities_from']}.",
        f"Conventions: {say_conventions(result['conventions'])}.",
    ]
    unseen = result["unseen"]
    if unseen and unseen["policy"] == "keep" and unseen["marks"]:
        lines.append(
            f"Unseen labels: {unseen['marks']:,} true marks in {unseen['rows']:,} rows are of {unseen['labels']:,} "
            f"labels without a positive in training; {unseen['rows_without_others']:,} rows have no others."
        )
    deepest = result["k"][-1]
    words = {"hits": "numerator", "best": "denominator"}
    for part, meaning in words.items():
        rests = result["support"].get(f"PSP@{deepest} {part}")
        if rests:
            lines.append(
                f"PSP@{deepest}, {meaning}: {rests['marks']:,} marks, effective sample size {rests['effective']:,.0f}; "
                f"labels that make half of it: {rests['labels_of_half']:,}."
            )
    return lines + [f"Warning: {warning}." for warning in result["warnings"]]


def say_propensity(model: Mapping[str, Any]) -> str:
    """Return the name and the parameters of a propensity model."""
    return str(model["model"]) + "".join(f" {name}={value:g}" for name, value in model.items() if name != "model")


def say_conventions(conventions: Mapping[str, Any]) -> str:
    """Return the choices behind the metrics by name."""
    return ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in conventions.items())


def _apart(first: str, second: str) -> tuple[str, str]:
    """Return two paths' last parts, as many of them as it takes to tell the paths apart."""
    one, two = Path(first).parts, Path(second).parts
    n_parts = 1
    while one[-n_parts:] == two[-n_parts:] and n_parts < max(len(one), len(two)):
        n_parts += 1
    return str(Path(*one[-n_parts:])), str(Path(*two[-n_parts:]))


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _figure(entry: Mapping[str, float | None], signed: bool = False) -> str:
    text = _percent(entry["value"], signed)
    if entry.get("low") is None:
        return text
    return f"{text} [{_percent(entry['low'], signed)}, {_percent(entry['high'], signed)}]"


def _percent(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.2f}" if signed else f"{100 * value:.2f}"
