"""What was chosen on held-out rows, beside what it was chosen from: a table and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmissed.reports.metrics_tables import Table


def choice_table(choice: Mapping[str, Any]) -> Table:
    """Return one row per candidate: figures in percent, gains over the plain one in points, and what became of it."""
    names = (choice["metric"], choice["keep"])
    title = (
        f"{choice['rows_trained_on']:,} rows to learn from, {choice['rows_held_out']:,} held out, "
        f"{choice['labels']:,} labels; percent, and gain over plain [{100 * choice['level']:g} % interval]"
    )
    rows = [
        [
            say_params(trial["params"]),
            *(cell for name in names for cell in (_percent(trial["figures"][name]), _gain(trial, name))),
            trial["verdict"],
        ]
        for trial in choice["trials"]
    ]
    return Table(title, ["candidate", names[0], "gain", names[1], "gain", ""], rows)


def choice_sentence(choice: Mapping[str, Any]) -> str:
    """Say what was chosen, why, and what it costs."""
    metric, keep, params = choice["metric"], choice["keep"], choice["params"]
    chosen = next((trial for trial in choice["trials"] if trial["params"] == params), None)
    if chosen is None:
        return f"Chosen: {say_params(params)}; there are too few rows to compare anything."
    if not chosen["gains"]:
        return f"Chosen: {say_params(params)}; nothing that was tried likely raises {metric} and keeps {keep}."
    gain, cost = (_gain(chosen, name) for name in (metric, keep))
    return f"Chosen: {say_params(params)}; {metric} {gain} at {keep} {cost}."


def warning_sentence(choice: Mapping[str, Any]) -> str | None:
    """Say that what was looked at loses against the plain parameters in the kept metric; None where it does not."""
    plain, trial = choice["trials"][:2] if len(choice["trials"]) > 1 else (None, None)
    if plain is None or trial is None or not (trial["gains"][choice["keep"]]["high"] or 0) < 0:
        return None
    figures = ", ".join(
        f"{name} {_percent(trial['figures'][name])}, against {_percent(plain['figures'][name])} ({_gain(trial, name)})"
        for name in (choice["keep"], choice["metric"])
    )
    return (
        f"{say_params(trial['params'])} loses against {say_params(plain['params'])} on {choice['rows_held_out']:,} "
        f"held-out rows: {figures}"
    )


def say_params(params: Mapping[str, Any]) -> str:
    """Return parameters as words: `weighting tail, C 1`."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in params.items()
    )


def _gain(trial: Mapping[str, Any], name: str) -> str:
    if not trial["gains"]:
        return ""
    gain = trial["gains"][name]
    return f"{_signed(gain['value'])} [{_signed(gain['low'])}, {_signed(gain['high'])}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.2f}"
