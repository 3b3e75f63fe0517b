"""`unmissed plan`: estimate the time, memory and disk space of a training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import RowOptions, TextOptions, list_methods, with_groups
from unmissed.cli.train import load_training_set
from unmissed.errors import InputError
from unmissed.models.method_registry import DEFAULT, method_with_role

if TYPE_CHECKING:
    from unmissed.data import Dataset
    from unmissed.runs.planning import Estimate, Plan


@with_groups
def plan(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="The training set, as for train, or the name of a data set in the catalog."
        ),
    ],
    reading: RowOptions,
    text: TextOptions,
    method: Annotated[
        str, typer.Option(help="A method that trains labels one by one.", autocompletion=list_methods)
    ] = method_with_role(DEFAULT),
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME", help="Compare the training times of methods with their defaults instead; any methods."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Workers, or partitions that run at once.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Threads of each worker.", min=1)] = 1,
    block_size: Annotated[int, typer.Option(help="Labels per task.", min=1)] = 256,
    sample: Annotated[int, typer.Option(help="Number of labels to train for the estimate.", min=4)] = 1024,
    values_per_row: Annotated[
        float | None,
        typer.Option(help="For a data set of the catalog: mean number of non-zero features per row.", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample of labels.", min=0)] = 0,
    json: show.JsonOption = False,
) -> None:
    """Train a sample of labels on this machine and estimate the time, memory and disk space for all labels.

    For a data set of the catalog, such as Amazon-670K, the sample is trained on smaller synthetic data of the same
    shape, and the estimate is less accurate. CPU time refers to this machine's cores.

    --methods estimates the training time of several methods. Those that do not train labels one by one are trained on
    parts of the rows. It says nothing about their quality: see tune --methods.

    Example: unmissed plan train --workers 64

    Example: unmissed plan train.jsonl --methods pw-dismec,parabel,fastxml

    Example: unmissed plan Amazon-670K --values-per-row 76 --workers 1000
    """
    from unmissed.data.catalog import find
    from unmissed.models.method_registry import make_model
    from unmissed.runs.planning import make_plan, plan_entry

    if methods is not None:
        _compare(data, load_training_set(data, text, reading), methods.split(","), sample, seed, json)
        return
    model = make_model(method, {"block_size": block_size})
    common: dict[str, Any] = {"n_workers": workers, "n_threads": threads, "n_sampled": sample, "seed": seed}
    if Path(data).exists() or "," in data:
        found = make_plan(model, load_training_set(data, text, reading), **common)
    else:
        entry = find(data)
        if values_per_row is None:
            raise InputError(f"{entry.name}: the estimate needs the features per row; set --values-per-row")
        found = plan_entry(model, entry, values_per_row, **common)
    if json:
        show.print_json({"data": data, "method": method, **found.to_json()})
    else:
        _print(data, method, found)


def _print(data: str, method: str, plan: "Plan") -> None:
    sizes = plan.sizes
    typer.echo(
        f"{data}: {sizes.n_samples:,} rows, {sizes.n_features:,} features, "
        f"{sizes.n_values / sizes.n_samples:.1f} values per row, {sizes.n_labels:,} labels; "
        f"{method}, {plan.n_sampled:,} labels sampled"
    )
    rows = [
        ["core-hours", *_three(plan.core_seconds, 1 / 3600, "{:,.2f}")],
        [f"wall hours, {plan.n_workers} x {plan.n_threads} threads", *_three(plan.wall_seconds, 1 / 3600, "{:,.2f}")],
        ["GiB on disk", *_three(plan.disk_bytes, 2**-30, "{:,.2f}")],
        ["GiB of memory per worker", f"{plan.worker_bytes / 2**30:,.2f}", ""],
        ["seconds before a worker's first task", f"{plan.layout_seconds:,.1f}", ""],
        ["tasks", f"{plan.n_tasks:,}", ""],
    ]
    show.print_table("Estimated cost", ["", "estimate", "range"], rows)


def _compare(data: str, dataset: "Dataset", methods: list[str], sample: int, seed: int, json: bool) -> None:
    """Estimate the training times of methods and print them."""
    from unmissed.runs.training_times import estimate_times

    found = estimate_times(methods, dataset, n_sampled=sample, seed=seed)
    if json:
        show.print_json({"data": data, "methods": [one.to_json() for one in found]})
        return
    fastest = max(found[0].seconds.value, 1e-9)
    rows = [
        [one.method, *_three(one.seconds, 1.0, "{:,.1f}"), f"{one.seconds.value / fastest:,.1f}", one.sample]
        for one in found
    ]
    columns = ["method", "processor seconds", "range", "times the fastest", "trained for it"]
    show.print_table("Estimated training time, one thread", columns, rows)


def _three(value: "Estimate", unit: float, form: str) -> list[str]:
    low, middle, high = (form.format(unit * one) for one in value)
    return [middle, f"{low} to {high}"]
