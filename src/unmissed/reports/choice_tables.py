"""Tables and sentences about parameters selected on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmissed.reports.metrics_tables import TextTable


def choice_table(choice: Mapping[str, Any]) -> TextTable:
    """Return one row per candidate: figures in percent, gains over the baseline in points, and the verdict."""
    names = (choice["metric"], choice["keep"])
    title = (
        f"Candidates on {choice['rows_trained_on']:,} training rows, {choice['rows_held_out']:,} held-out rows, "
        f"{choice['labels']:,} labels; percent, and gain over the baseline [{100 * choice['level']:g} % interval]"
    )
    rows = [
        [
            say_params(trial["params"]),
            *(cell for name in names for cell in (_percent(trial["figures"][name]), _gain(trial, name))),
            trial["verdict"],
        ]
        for trial in choice["trials"]
    ]
    return TextTable(title, ["candidate", names[0], "gain", names[1], "gain", ""], rows)


def choice_sentence(choice: Mapping[str, Any]) -> str:
    """Return a sentence with the selected parameters and their gain and loss."""
    metric, keep, params = choice["metric"], choice["keep"], choice["params"]
    chosen = next((trial for trial in choice["trials"] if trial["params"] == params), None)
    if chosen is None:
        return f"Selected: {say_params(params)}; there are too few rows to compare candidates."
    if not chosen["gains"]:
        return f"Selected: {say_params(params)}; no candidate is likely to raise {metric} without a drop in {keep}."
    gain, cost = (_gain(chosen, name) for name in (metric, keep))
    return f"Selected: {say_params(params)}; {metric} {gain}, {keep} {cost}."


def warning_sentence(choice: Mapping[str, Any]) -> str | None:
    """Return a warning if the candidate is significantly worse than the baseline in the kept metric, else None."""
    baseline, trial = choice["trials"][:2] if len(choice["trials"]) > 1 else (None, None)
    if baseline is None or trial is None or not (trial["gains"][choice["keep"]]["high"] or 0) < 0:
        return None
    figures = ", ".join(
        f"{name} {_percent(trial['figures'][name])} vs. {_percent(baseline['figures'][name])} ({_gain(trial, name)})"
        for name in (choice["keep"], choice["metric"])
    )
    return (
        f"{say_params(trial['params'])} is worse than {say_params(baseline['params'])} on {choice['rows_held_out']:,} "
        f"held-out rows: {figures}"
    )


def say_params(params: Mapping[str, Any]) -> str:
    """Return parameters as text: `weighting tail, C 1`."""
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
