"""Text tables of the results of `unmissed evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class TextTable(NamedTuple):
    """A table of text: title, column names and rows."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def all_tables(result: Mapping[str, Any]) -> list[TextTable]:
    """Return the tables of a result: metrics, deciles, errors of probabilities and differences, if it has them."""
    by_frequency, probabilities = bool(result["deciles"]), result.get("probabilities") is not None
    return [
        figures_table(result),
        *([annif_table(result)] if "annif" in result else []),
        *([deciles_table(result)] if by_frequency else []),
        *([probabilities_table(result)] if probabilities else []),
        *([probability_deciles_table(result)] if probabilities and by_frequency else []),
        *([differences_table(result)] if "differences" in result else []),
    ]


def figures_table(result: Mapping[str, Any]) -> TextTable:
    """Return one row per metric and one column per cut-off: percent, with the interval in brackets."""
    names = list(dict.fromkeys(name.rpartition("@")[0] for name in result["figures"]))
    rows = []
    for name in names:
        entries = [result["figures"][f"{name}@{k}"] for k in result["k"]]
        rows.append([name, *map(_figure, entries)])
        if all("low_with_p" in entry for entry in entries):
            wider = [{**entry, "low": entry["low_with_p"], "high": entry["high_with_p"]} for entry in entries]
            rows.append([f"{name}, p uncertain", *map(_figure, wider)])
    title = f"Metrics on {result['n_samples']:,} rows, {result['n_labels']:,} labels; percent"
    if result["interval"]:
        title += f" [{100 * result['interval']['level']:g} % interval]"
    return TextTable(title, ["metric", *(f"@{k}" for k in result["k"])], rows)


def annif_table(result: Mapping[str, Any]) -> TextTable:
    """Return one row per figure of Annif, by its names and as fractions."""
    rows = [
        [name, f"{value:,}" if isinstance(value, int) else f"{value:.6f}"] for name, value in result["annif"].items()
    ]
    return TextTable(f"Figures of annif eval, limit {result['k'][-1]}", ["metric", "value"], rows)


def deciles_table(result: Mapping[str, Any]) -> TextTable:
    """Return one row per label-frequency group at the largest cut-off, rarest first.

    A group is named by the percentiles of the labels that it covers, because some deciles of a long tail are empty.
    """
    deepest = result["k"][-1]
    columns = ["percentile", "labels", "training positives", "true", "recall", "precision", "part of PSP"]
    rows = [
        [
            _percentiles(group),
            f"{group['n_labels']:,}",
            f"{group['fewest']:,} - {group['most']:,}",
            f"{group['true']:,}",
            *(_percent(group[name]) for name in ("recall", "precision", "psp_part")),
        ]
        for group in result["deciles"]
        if group["k"] == deepest
    ]
    return TextTable(f"Results @{deepest} by label frequency in training, rarest first; percent", columns, rows)


_ERRORS = {"ece": "ECE", "log_loss": "log loss", "brier": "Brier score"}


def probabilities_table(result: Mapping[str, Any]) -> TextTable:
    """Return one row per error of the probabilities and one column per cut-off, with the interval in brackets."""
    found = [one for one in result["probabilities"] if one["decile"] is None]
    rows = [[title, *(_error(one[name]) for one in found)] for name, title in _ERRORS.items()]
    rows.insert(1, ["ECE, noise floor", *(_error({"value": one["noise_floor"]}) for one in found)])
    rows.append(["suggestions", *(f"{one['n_cells']:,}" for one in found)])
    title = "Errors of the probabilities that suggested labels are observed"
    if result["interval"]:
        title += f" [{100 * result['interval']['level']:g} % interval]"
    return TextTable(title, ["error", *(f"@{one['k']}" for one in found)], rows)


def probability_deciles_table(result: Mapping[str, Any]) -> TextTable:
    """Return the errors of the probabilities of each label-frequency group at the largest cut-off, rarest first."""
    groups = {(group["k"], group["decile"]): group for group in result["deciles"]}
    found = [one for one in result["probabilities"] if one["decile"] is not None]
    rows = [
        [
            _percentiles(groups[one["k"], one["decile"]]),
            f"{one['n_cells']:,}",
            _error(one["ece"]),
            _error({"value": one["noise_floor"]}),
            *(_error(one[name]) for name in ("log_loss", "brier")),
        ]
        for one in found
    ]
    title = f"Errors of the probabilities @{result['k'][-1]} by label frequency in training, rarest first"
    columns = ["percentile", "suggestions", "ECE", "noise floor", "log loss", "Brier score"]
    return TextTable(title, columns, rows)


def differences_table(result: Mapping[str, Any]) -> TextTable:
    """Return one row per metric and one column per cut-off: first ranking minus second, with the interval."""
    found = result["differences"]
    names = list(dict.fromkeys(name.rpartition("@")[0] for name in found))
    rows = [[name, *(_figure(found[f"{name}@{k}"], signed=True) for k in result["k"])] for name in names]
    first, second = _apart(result["ranking"], result["against"])
    title = f"{first} minus {second}, paired on the same rows; percentage points"
    return TextTable(title, ["metric", *(f"@{k}" for k in result["k"])], rows)


def notes(result: Mapping[str, Any]) -> list[str]:
    """Return notes on the tables: propensities, conventions, unseen labels, effective sample sizes and warnings."""
    if any("low_with_p" in entry for entry in result["figures"].values()):
        widths = 'Intervals of "p uncertain" draw propensities as well as rows; the others draw rows only.'
    else:
        widths = ""
    lines = [
        f"Propensities: {say_propensity(result['propensity'])}; inverse propensities from the "
        f"{result['inverse_propensities_from']}.",
        f"Conventions: {say_conventions(result['conventions'])}.",
        *([widths] if widths else []),
    ]
    unseen = result["unseen"]
    if unseen and unseen["policy"] == "keep" and unseen["assignments"]:
        lines.append(
            f"Unseen labels: {unseen['assignments']:,} true assignments in {unseen['rows']:,} rows "
            f"are of {unseen['labels']:,} "
            f"labels without a positive in training; {unseen['rows_without_others']:,} rows have no others."
        )
    deepest = result["k"][-1]
    words = {"hits": "numerator", "best": "denominator"}
    for part, meaning in words.items():
        support = result["support"].get(f"PSP@{deepest} {part}")
        if support:
            lines.append(
                f"PSP@{deepest}, {meaning}: {support['assignments']:,} assignments, effective sample size "
                f"{support['effective']:,.0f}; labels that make up half of it: {support['labels_of_half']:,}."
            )
    return lines + [f"Warning: {warning}." for warning in result["warnings"]]


def say_propensity(model: Mapping[str, Any]) -> str:
    """Return the name and the parameters of a propensity model."""
    return str(model["model"]) + "".join(f" {name}={value:g}" for name, value in model.items() if name != "model")


def say_conventions(conventions: Mapping[str, Any]) -> str:
    """Return the conventions of the metrics as text."""
    return ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in conventions.items())


def _apart(first: str, second: str) -> tuple[str, str]:
    """Return the shortest suffixes of two paths that differ."""
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


def _percentiles(group: Mapping[str, Any]) -> str:
    """Return the percentiles of the labels that a label-frequency group covers."""
    return "unseen" if group["decile"] == 0 else f"{100 * group['begin']:.0f} - {100 * group['end']:.0f} %"


def _error(entry: Mapping[str, float | None]) -> str:
    if entry["value"] is None:
        return "-"
    interval = "" if entry.get("low") is None else f" [{entry['low']:.4f}, {entry['high']:.4f}]"
    return f"{entry['value']:.4f}{interval}"


def _percent(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.2f}" if signed else f"{100 * value:.2f}"
