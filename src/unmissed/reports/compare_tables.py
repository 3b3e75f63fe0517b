"""Tables of the results of `unmissed.runs.compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unmissed.reports.grids import NEAR, Grid, GridCell, number

Results = Mapping[str, Any]
HOLDS = {True: "yes", False: "no", None: "open"}


def measured(results: Results) -> list[Mapping[str, Any]]:
    """Return the methods that have figures."""
    return [one for one in results["methods"] if "figures" in one]


def names_at(results: Results, measure: str, *, after_first: bool = False) -> list[str]:
    """Return a metric's names at each cut-off, such as PSP@1, PSP@3; `after_first` omits nDCG@1, which equals P@1."""
    return [f"{measure}@{k}" for k in results["settings"]["k"][1 if after_first else 0 :]]


def main_table(results: Results) -> Grid:
    """Return the paper's main table: PSP and PSnDCG by method."""
    names = [*names_at(results, "PSP"), *names_at(results, "PSnDCG", after_first=True)]
    return _figures("main", f"{results['data']['name']}: propensity-scored metrics, percent", names, results)


def plain_table(results: Results) -> Grid:
    """Return P, nDCG and recall by method."""
    names = [*names_at(results, "P"), *names_at(results, "nDCG", after_first=True), names_at(results, "recall")[-1]]
    return _figures("plain", f"{results['data']['name']}: precision, nDCG and recall, percent", names, results)


def other_table(results: Results) -> Grid | None:
    """Return all other metrics at the largest cut-off by method: coverage, macro averages and registered ones."""
    shown = {name.rpartition("@")[0] for grid in (main_table(results), plain_table(results)) for name in grid.columns}
    computed = dict.fromkeys(name for one in measured(results) for name in one["figures"])
    depth = f"@{results['settings']['k'][-1]}"
    names = [name for name in computed if name.endswith(depth) and name.removesuffix(depth) not in shown]
    title = f"{results['data']['name']}: other metrics, percent"
    return _figures("other", title, names, results) if names else None


def _figures(name: str, title: str, names: Sequence[str], results: Results) -> Grid:
    level = results["settings"]["interval"]["level"]
    rows = [
        [_method(one), *(_figure(one, metric, results["best"].get(metric, {})) for metric in names)]
        for one in results["methods"]
    ]
    notes = [
        f"Bold: the best of the column. {NEAR}: not significantly worse, that is, the {100 * level:g} % interval of "
        "the paired difference includes 0."
    ]
    return Grid(name, title, ["method", *names], rows, notes)


def _method(one: Mapping[str, Any]) -> GridCell:
    return GridCell(one["title"], small="" if one["state"] == "finished" else one["state"])


def _figure(one: Mapping[str, Any], metric: str, best: Mapping[str, Any]) -> GridCell:
    entry = one.get("figures", {}).get(metric)
    if entry is None or entry["value"] is None:
        return GridCell("–")
    small = "" if entry.get("low") is None else f"{100 * entry['low']:.1f}–{100 * entry['high']:.1f}"
    is_best, near = best.get("key") == one["key"], one["key"] in best.get("near", ())
    return number(100 * entry["value"], best=is_best, near=near, small=small)


def gain_table(results: Results) -> Grid | None:
    """Return each method's paired difference to the baseline, in percentage points."""
    names = [*names_at(results, "PSP"), *names_at(results, "P")]
    baseline = _title(results, results["baseline"])
    rows = [
        [_method(one), *(_difference(one["against_baseline"].get(name)) for name in names)]
        for one in measured(results)
        if one["key"] != results["baseline"]
    ]
    title = f"Gain over {baseline}, percentage points"
    notes = ["Paired differences on the same test rows, with intervals."]
    return Grid("gain", title, ["method", *names], rows, notes) if rows else None


def _difference(entry: Mapping[str, Any] | None) -> GridCell:
    if entry is None or entry["value"] is None:
        return GridCell("–")
    small = f"{100 * entry['low']:+.2f} to {100 * entry['high']:+.2f}"
    return number(100 * entry["value"], "{:+.2f}", small=small)


def cost_table(results: Results) -> Grid:
    """Return training time, memory and model size by method, and the state of unfinished methods."""
    n_test = results["data"]["n_test"]
    rows = []
    for one in results["methods"]:
        seconds = one.get("seconds") or {}
        ranked = seconds.get("predict")
        ended = one["state"] if not one.get("reason") else f"{one['state']}: {one['reason']}"
        rows.append(
            [
                GridCell(one["title"]),
                number(seconds.get("train"), "{:,.1f}"),
                number(seconds.get("processor"), "{:,.1f}"),
                number(n_test / ranked if ranked else None, "{:,.0f}"),
                number(_scaled(one.get("peak_bytes"), 2**20), "{:,.0f}"),
                number(_scaled(one.get("disk_bytes"), 2**20), "{:,.2f}"),
                GridCell(ended),
            ]
        )
    columns = [
        "method",
        "training, s",
        "CPU, s",
        "predicted rows per s",
        "peak memory, MiB",
        "model on disk, MiB",
        "state",
    ]
    notes = [
        f"Training: wall time on {_threads(results)}, one process per method, without reading the "
        "data and compiling kernels. CPU: the time of all cores together, which depends less on other load. For an "
        "interrupted method, both are those of its last start. Peak memory: maximum resident set size in training."
    ]
    return Grid("cost", "Training time, memory and model size", columns, rows, notes)


def _threads(results: Results) -> str:
    cores, n_jobs = results["made_with"]["cores"], results["settings"]["n_jobs"]
    return f"{n_jobs} of {cores} cores" if n_jobs and 0 < n_jobs < cores else f"{cores} cores"


def data_table(results: Results) -> Grid:
    """Return the statistics of the data set, and the published ones if the paper has it."""
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
            GridCell(data["name"]),
            *(number(data[name], "{:,}") for name in sizes),
            *(number(data[name]) for name in ("points_per_label", "labels_per_point")),
            *(number(model.get(name), "{:g}") for name in ("a", "b")),
        ]
    ]
    notes = ["A and B are the parameters of the propensity model."]
    if data["recognized"]:
        entry = data["recognized"]["entry"]
        rows.append(
            [
                GridCell(f"{entry['name']}, published"),
                *(number(entry[name], "{:,}") for name in sizes),
                *(number(entry[name]) for name in ("points_per_label", "labels_per_point")),
                *(number(entry[name], "{:g}") for name in ("a", "b")),
            ]
        )
        notes.append(f"Recognized by its {data['recognized']['by']}.")
    if data["unknown_assignments"]:
        fate = "count, and no method can find them" if data.get("unknown_policy") == "keep" else "were left out"
        notes.append(f"{data['unknown_assignments']:,} test assignments of labels that training does not have {fate}.")
    return Grid("data", "The data set", columns, rows, notes)


def decile_table(results: Results) -> Grid | None:
    """Return recall by label frequency in training, at the largest cut-off, rarest labels left."""
    depth = results["settings"]["k"][-1]
    rows, columns, groups = [], ["method"], []
    for one in measured(results):
        groups = [group for group in one["deciles"] if group["k"] == depth and group["true"]]
        columns = ["method", *map(span, groups)]
        rows.append([_method(one), *(number(_scaled(group["recall"], 0.01), "{:.1f}") for group in groups)])
    title = f"Recall@{depth} by training rows of the label, percent"
    return Grid("deciles", title, columns, rows, [_say_groups(groups)]) if rows else None


def _say_groups(groups: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence with the number and sizes of the label-frequency groups."""
    seen = [group for group in groups if group["decile"]]
    shares = ", ".join(f"{100 * (group['end'] - group['begin']):.0f}" for group in seen)
    text = (
        f"{len(seen)} group{'' if len(seen) == 1 else 's'} of labels by training count, with {shares} % of the labels "
    )
    text += "seen in training. Labels of equal count are in one group."
    return text if len(seen) == len(groups) else f"{text} None: labels without a training row."


def span(group: Mapping[str, Any]) -> str:
    """Return the training counts of a group of labels, as `12–19`."""
    if not group["decile"]:
        return "none"
    return f"{group['fewest']}" if group["fewest"] == group["most"] else f"{group['fewest']}–{group['most']}"


def convention_table(results: Results) -> Grid:
    """Return PSP by two conventions: on the method's ranking, and on the re-ranked list of PW-DiSMEC's authors."""
    names = names_at(results, "PSP")
    rows = []
    for one in measured(results):
        pairs = [(one["figures"].get(name), one["reranked"].get(name)) for name in names]
        cells = [number(_scaled(entry and entry["value"], 0.01)) for pair in pairs for entry in pair]
        rows.append([_method(one), *cells])
    columns = ["method", *(f"{name}, {how}" for name in names for how in ("plain", "re-ranked"))]
    notes = [
        "Plain: the method's ranking, as in pyxclib and all tables above. Re-ranked: as in the published code of "
        "PW-DiSMEC; among the first five labels, those with a positive score are sorted by 1/p."
    ]
    return Grid("conventions", "PSP on the plain and on the re-ranked list, percent", columns, rows, notes)


def published_table(results: Results) -> Grid | None:
    """Return the published figures and ours, if the paper has this data set."""
    published = results["published"]
    if not published:
        return None
    rows = [
        [
            GridCell(f"{one['column']}, {one['metric']}"),
            GridCell(one["title"]),
            number(one["value"], "{:.1f}"),
            number(one["ours"], "{:.1f}"),
            number(one["difference"], "{:+.1f}"),
            number(one["reranked"], "{:.1f}"),
            number(one["difference_reranked"], "{:+.1f}"),
        ]
        for one in published["figures"]
    ]
    columns = ["published as", "method", "published", "plain", "difference", "re-ranked", "difference, re-ranked"]
    notes = [note for note in (published["note"],) if note]
    return Grid("published", f"{published['name']}: published and reproduced figures, percent", columns, rows, notes)


def claim_table(results: Results) -> Grid | None:
    """Return the paper's claims, whether each holds on this data set, and the paired differences as evidence."""
    if not results["claims"]:
        return None
    rows = [
        [GridCell(one["claim"]), GridCell(HOLDS[one["holds"]]), GridCell(one["evidence"])] for one in results["claims"]
    ]
    cheap = results["data"]["low_cost_fraction"]
    notes = [
        "Open: the intervals allow both.",
        f"For {100 * cheap:.0f} % of the training positives 1/p - 1 is below 1: a positive costs less than a negative.",
    ]
    return Grid(
        "claims",
        "The paper's claims on this data set",
        ["claim", "holds", "percentage points, with intervals"],
        rows,
        notes,
    )


def all_tables(results: Results) -> dict[str, Grid]:
    """Return every table by its name."""
    found = [
        main_table(results),
        plain_table(results),
        other_table(results),
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
