"""`unmissed demo`: weighted and unweighted methods on synthetic data with missing labels."""

from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show


def demo(
    out: Annotated[Path, typer.Option(help="The output folder.", file_okay=False)] = Path("unmissed-demo"),
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Use a tenth of the data, for a first look.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Threads. Default: all cores.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Train on synthetic data with missing labels and evaluate on the observed and on the complete labels.

    Trains DiSMEC and PW-DiSMEC (surrogate and tail), with the most frequent labels as the baseline. Prints a table and
    writes a page with figures, and lists labels that are probably missing in the training rows. Takes about a minute.

    Example: unmissed demo --out demo
    """
    from unmissed.reports.demo_page import missing_rows, table_rows
    from unmissed.studies.demo_study import QUICK, as_json, run_demo

    with show.progress_bar("training labels") as progress:
        results, page = run_demo(out, seed=seed, sizes=QUICK if quick else None, n_jobs=jobs, progress=progress)
    if json:
        show.print_json({**as_json(results), "page": str(page)})
        return
    sizes = results.sizes
    title = (
        f"{sizes['n_train']:,} training rows, {sizes['n_labels']:,} labels, "
        f"{100 * sizes['kept']:.0f} % of the true labels observed; percent, ± half of the 95 % interval"
    )
    show.print_table(title, ["metric (labels)", *results.methods], table_rows(results))
    for sentence in results.verdicts:
        show.say(sentence)
    columns = ["training row", "label", "missing_probability", "words", "was dropped"]
    show.print_table(f"{results.missing.verdict} The best row of each label:", columns, missing_rows(results))
    show.say(f"Report: {page}")
