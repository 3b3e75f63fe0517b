"""Tables and sentences about parameters or methods selected on held-out rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from unmissed.models.selection.choice import say_params
from unmissed.reports.metrics_tables import TextTable


def metrics_of(choice: Mapping[str, Any]) -> list[str]:
    """Return the metrics of a choice: those to maximize, then those to keep."""
    return list(dict.fromkeys([*choice["metric"], *choice["keep"]]))


def choice_table(choice: Mapping[str, Any]) -> TextTable:
    """Return one row per candidate: its rung, figures in percent, gains over the baseline in points, the verdict."""
    names = metrics_of(choice)
    timed = any("seconds" in one for one in choice["candidates"])
    several = len({one["rung"] for one in choice["candidates"]}) > 1
    columns = ["candidate", *(["rung"] if several else []), "rows"]
    columns += [part for name in names for part in (name, "gain")] + (["seconds"] if timed else []) + [""]
    rows = [
        [
            say_params(one["params"]),
            *([str(one["rung"])] if several else []),
            f"{one['rows_trained_on']:,}",
            *(cell for name in names for cell in (_percent(one["figures"][name]), _gain(one, name))),
            *([f"{one['seconds']:.1f}"] if timed else []),
            one["verdict"],
        ]
        for one in choice["candidates"]
    ]
    title = (
        f"Candidates, {choice['labels']:,} labels; percent on held-out rows, and gain over the baseline on the same "
        f"rows [{100 * choice['level']:g} % interval]"
    )
    return TextTable(title, columns, rows)


def choice_sentence(choice: Mapping[str, Any]) -> str:
    """Return a sentence with the selected parameters and their gains."""
    params = choice["params"]
    chosen = _chosen(choice)
    if chosen is None:
        return f"Selected: {say_params(params)}; there are too few rows to compare candidates."
    if not chosen["gains"]:
        metric = " or ".join(choice["metric"])
        return f"Selected: {say_params(params)}, the baseline; no candidate is likely to raise {metric} without a loss."
    gains = ", ".join(f"{name} {_gain(chosen, name)}" for name in metrics_of(choice))
    return f"Selected: {say_params(params)}; on {chosen['rows_held_out']:,} held-out rows {gains}."


def choice_csv(choice: Mapping[str, Any]) -> str:
    """Return the candidates with unrounded figures and gains, one column each."""
    params = list(choice["params"])
    stream = io.StringIO()
    names = metrics_of(choice)
    columns = [*params, "rung", "rows_trained_on", "rows_held_out"]
    columns += [f"{name}{part}" for name in names for part in ("", " gain", " gain low", " gain high")]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*columns, "seconds", "verdict"])
    for one in choice["candidates"]:
        row = [one["params"].get(name) for name in params]
        row += [one["rung"], one["rows_trained_on"], one["rows_held_out"]]
        for name in names:
            gain = one["gains"].get(name, {})
            row += [one["figures"][name], *(gain.get(part) for part in ("value", "low", "high"))]
        writer.writerow([*row, one.get("seconds"), one["verdict"]])
    return stream.getvalue()


def _chosen(choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((one for one in choice["candidates"] if one["params"] == choice["params"]), None)


def _gain(candidate: Mapping[str, Any], name: str) -> str:
    if not candidate["gains"]:
        return ""
    gain = candidate["gains"][name]
    return f"{_signed(gain['value'])} [{_signed(gain['low'])}, {_signed(gain['high'])}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.2f}"
