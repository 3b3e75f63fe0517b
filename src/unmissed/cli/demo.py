"""`unmissed demo`: the main job on a corpus whose truth is known."""

from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write into.", file_okay=False)] = Path("unmissed-demo"),
    seed: Annotated[int, typer.Option(help="The seed of the corpus.", min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the corpus: a look, not a measurement.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if not given.")] = None,
    json: show.JsonOption = False,
) -> None:
    """Drop labels from a corpus whose truth is known, train on what is left, and see which method finds the truth.

    Trains DiSMEC and PW-DiSMEC (surrogate and tail), with the most frequent labels as a floor. The table shows
    results on the observed labels beside those on the complete truth; the page adds figures. Takes less than a minute.

    Example: unmissed demo --out demo
    """
    from unmissed.reports.demo_page import table_rows
    from unmissed.studies.demo import QUICK, as_json, run_demo

    with show.progress_bar("training labels") as progress:
        results, page = run_demo(out, seed=seed, sizes=QUICK if quick else None, n_jobs=jobs, progress=progress)
    if json:
        show.print_json({**as_json(results), "page": str(page)})
        return
    sizes = results.sizes
    title = (
        f"{sizes['n_train']:,} training rows, {sizes['n_labels']:,} labels, "
        f"{100 * sizes['kept']:.0f} % of the true labels written down; percent, ± half a 95 % interval"
    )
    show.print_table(title, ["measured on", *results.methods], table_rows(results))
    for sentence in results.verdicts:
        show.say(sentence)
    show.say(f"The page with figures: {page}")
