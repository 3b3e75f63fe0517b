"""Tables of a comparison, made from what `unmissed.runs.compare` computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unmissed.reports.grids import NEAR, Cell, Grid, number

Results = Mapping[str, Any]
_HOLDS = {True: "yes", False: "no", None: "open"}


def measured(results: Results) -> list[Mapping[str, Any]]:
    """Return the methods that have figures."""
    return [one for one in results["methods"] if "figures" in one]


def names_at(results: Results, measure: str, *, after_first: bool = False) -> list[str]:
    """Return a measure's names at every cut-off, such as PSP@1, PSP@3; nDCG at the first is P."""
    return [f"{measure}@{k}" for k in results["settings"]["k"][1 if after_first else 0 :]]


def main_table(results: Results) -> Grid:
    """Return the paper's main table: PSP and PSnDCG by method."""
    names = [*names_at(results, "PSP"), *names_at(results, "PSnDCG", after_first=True)]
    return _figures("main", f"{results['data']['name']}: propensity-scored metrics, percent", names, results)


def plain_table(results: Results) -> Grid:
    """Return P, nDCG and recall by method."""
    names = [*names_at(results, "P"), *names_at(results, "nDCG", after_first=True), names_at(results, "recall")[-1]]
    return _figures("plain", f"{results['data']['name']}: plain metrics, percent", names, results)


def _figures(name: str, title: str, names: Sequence[str], results: Results) -> Grid:
    level = results["settings"]["interval"]["level"]
    rows = [
        [_method(one), *(_figure(one, metric, results["best"].get(metric, {})) for metric in names)]
        for one in results["methods"]
    ]
    notes = [
        f"Bold: the best of the column. {NEAR}: not clearly behind it, that is, the {100 * level:g} % interval of the "
        "paired difference reaches 0."
    ]
    return Grid(name, title, ["method", *names], rows, notes)


def _method(one: Mapping[str, Any]) -> Cell:
    return Cell(one["title"], small="" if one["state"] == "finished" else one["state"])


def _figure(one: Mapping[str, Any], metric: str, best: Mapping[str, Any]) -> Cell:
    entry = one.get("figures", {}).get(metric)
    if entry is None or entry["value"] is None:
        return Cell("–")
    small = "" if entry.get("low") is None else f"{100 * entry['low']:.1f}–{100 * entry['high']:.1f}"
    is_best, near = best.get("key") == one["key"], one["key"] in best.get("near", ())
    return number(100 * entry["value"], best=is_best, near=near, small=small)


def gain_table(results: Results) -> Grid | None:
    """Return every method's paired difference to the baseline, in points."""
    names = [*names_at(results, "PSP"), *names_at(results, "P")]
    baseline = _title(results, results["baseline"])
    rows = [
        [_method(one), *(_difference(one["against_baseline"].get(name)) for name in names)]
        for one in measured(results)
        if one["key"] != results["baseline"]
    ]
    title = f"Gain over {baseline}, points"
    return Grid("gain", title, ["method", *names], rows, ["Paired: on the same test rows."]) if rows else None


def _difference(entry: Mapping[str, Any] | None) -> Cell:
    if entry is None or entry["value"] is None:
        return Cell("–")
    small = f"{100 * entry['low']:+.2f} to {100 * entry['high']:+.2f}"
    return number(100 * entry["value"], "{:+.2f}", small=small)


def cost_table(results: Results) -> Grid:
    """Return seconds, memory and bytes by method, and how those ended that did not finish."""
    n_test = results["data"]["n_test"]
    rows = []
    for one in results["methods"]:
        seconds = one.get("seconds") or {}
        ranked = seconds.get("predict")
        ended = one["state"] if not one.get("reason") else f"{one['state']}: {one['reason']}"
        rows.append(
            [
                Cell(one["title"]),
                number(seconds.get("train"), "{:,.1f}"),
                number(seconds.get("processor"), "{:,.1f}"),
                number(n_test / ranked if ranked else None, "{:,.0f}"),
                number(_scaled(one.get("peak_bytes"), 2**20), "{:,.0f}"),
                number(_scaled(one.get("disk_bytes"), 2**20), "{:,.2f}"),
                Cell(ended),
            ]
        )
    columns = [
        "method",
        "training, s",
        "processor, s",
        "rows ranked per s",
        "peak memory, MiB",
        "model on disk, MiB",
        "ended",
    ]
    notes = [
        f"Wall seconds on {results['made_with']['cores']} cores, one process per method, data read and kernels "
        "compiled beforehand, and the seconds of all cores together, which other work on the machine changes less; of "
        "a method that was interrupted, those of its last start. Peak memory is the most that the process had resident "
        "while it trained."
    ]
    return Grid("cost", "Time, memory and size", columns, rows, notes)


def data_table(results: Results) -> Grid:
    """Return the data-set table, with the paper's row beside ours where it has one."""
    data = results["data"]
    columns = [
        "data set",
        "training rows",
        "test rows",
        "labels",
        "features",
        "rows per label",
        "labels per row",
        "A",
        "B",
    ]
    model = results["settings"]["propensity"]
    sizes = ("n_train", "n_test", "n_labels", "n_features")
    rows = [
        [
            Cell(data["name"]),
            *(number(data[name], "{:,}") for name in sizes),
            *(number(data[name]) for name in ("points_per_label", "labels_per_point")),
            *(number(model.get(name), "{:g}") for name in ("a", "b")),
        ]
    ]
    notes = ["A and B are the constants of the propensity model."]
    if data["recognised"]:
        entry = data["recognised"]["entry"]
        rows.append(
            [
                Cell(f"{entry['name']}, as printed"),
                *(number(entry[name], "{:,}") for name in sizes),
                *(number(entry[name]) for name in ("points_per_label", "labels_per_point")),
                *(number(entry[name], "{:g}") for name in ("a", "b")),
            ]
        )
        notes.append(f"Recognised by its {data['recognised']['by']}.")
    if data["unknown_marks"]:
        fate = "count, and no method can find them" if data.get("unknown_policy") == "keep" else "were left out"
        notes.append(f"{data['unknown_marks']:,} test marks of labels that training does not have {fate}.")
    return Grid("data", "The data set", columns, rows, notes)


def decile_table(results: Results) -> Grid | None:
    """Return the recall of labels by their frequency in training, at the deepest cut-off, rarest to the left."""
    depth = results["settings"]["k"][-1]
    rows, columns, groups = [], ["method"], []
    for one in measured(results):
        groups = [group for group in one["deciles"] if group["k"] == depth and group["true"]]
        columns = ["method", *map(span, groups)]
        rows.append([_method(one), *(number(_scaled(group["recall"], 0.01), "{:.1f}") for group in groups)])
    title = f"Recall@{depth} by how many training rows a label has, percent"
    return Grid("deciles", title, columns, rows, [_say_groups(groups)]) if rows else None


def _say_groups(groups: Sequence[Mapping[str, Any]]) -> str:
    """Say how many groups of labels there are, and how large each is."""
    seen = [group for group in groups if group["decile"]]
    shares = ", ".join(f"{100 * (group['end'] - group['begin']):.0f}" for group in seen)
    text = (
        f"{len(seen)} group{'' if len(seen) == 1 else 's'} of labels by training count, with {shares} % of the labels "
    )
    text += "seen in training. Labels of equal count stay together."
    return text if len(seen) == len(groups) else f"{text} None: labels without a training row."


def span(group: Mapping[str, Any]) -> str:
    """Return the training counts of a group of labels, as `12–19`."""
    if not group["decile"]:
        return "none"
    return f"{group['fewest']}" if group["fewest"] == group["most"] else f"{group['fewest']}–{group['most']}"


def convention_table(results: Results) -> Grid:
    """Return PSP by both conventions: on the list as it is ranked, and on the authors' re-ranked list."""
    names = names_at(results, "PSP")
    rows = []
    for one in measured(results):
        pairs = [(one["figures"].get(name), one["reranked"].get(name)) for name in names]
        cells = [number(_scaled(entry and entry["value"], 0.01)) for pair in pairs for entry in pair]
        rows.append([_method(one), *cells])
    columns = ["method", *(f"{name}, {how}" for name in names for how in ("plain", "re-ranked"))]
    notes = [
        "Plain: the list as the method ranks it (pyxclib and all tables above). Re-ranked: what the published code of "
        "PW-DiSMEC scores; among the first five labels those with a score above 0 are put in order of 1/p."
    ]
    return Grid(
        "conventions", "One name, two conventions: PSP on the plain and on the re-ranked list", columns, rows, notes
    )


def published_table(results: Results) -> Grid | None:
    """Return the paper's printed figures beside ours, where it has this data set."""
    published = results["published"]
    if not published:
        return None
    rows = [
        [
            Cell(f"{one['column']}, {one['metric']}"),
            Cell(one["title"]),
            number(one["value"], "{:.1f}"),
            number(one["ours"], "{:.1f}"),
            number(one["difference"], "{:+.1f}"),
            number(one["reranked"], "{:.1f}"),
            number(one["difference_reranked"], "{:+.1f}"),
        ]
        for one in published["figures"]
    ]
    columns = ["printed as", "ours", "paper", "plain", "difference", "re-ranked", "difference, re-ranked"]
    notes = [note for note in (published["note"],) if note]
    return Grid("published", f"{published['name']}: the paper's figures and ours, percent", columns, rows, notes)


def claim_table(results: Results) -> Grid | None:
    """Return the paper's claims, whether each holds on this data set, and the paired differences that say so."""
    if not results["claims"]:
        return None
    rows = [[Cell(one["claim"]), Cell(_HOLDS[one["holds"]]), Cell(one["evidence"])] for one in results["claims"]]
    cheap = results["data"]["cheap_marks"]
    notes = [
        "Open: the intervals allow both.",
        f"For {100 * cheap:.0f} % of the training marks 1/p - 1 is below 1: a positive costs less than a negative.",
    ]
    return Grid(
        "claims", "The paper's claims on this data set", ["claim", "holds", "points, with intervals"], rows, notes
    )


def all_tables(results: Results) -> dict[str, Grid]:
    """Return every table by its name."""
    found = [
        main_table(results),
        plain_table(results),
        gain_table(results),
        cost_table(results),
        data_table(results),
        decile_table(results),
        convention_table(results),
        published_table(results),
        claim_table(results),
    ]
    return {grid.name: grid for grid in found if grid is not None}


def _title(results: Results, key: str | None) -> str:
    return next((str(one["title"]) for one in results["methods"] if one["key"] == key), "nothing")


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
