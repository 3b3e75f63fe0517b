"""`unmissed predict`: the best labels of each row."""

from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show
from unmissed.cli.data import NoHeader, OneBased


def predict(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    data: Annotated[str, typer.Argument(help="Rows to rank, with or without labels: any form that train takes.")],
    top: Annotated[int, typer.Option("--top", "-k", help="How many labels a row gets.", min=1)] = 5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write FILE.npz and FILE.tsv; without it the table is printed.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if not given. No effect on the result.")] = None,
    no_header: NoHeader = False,
    one_based: OneBased = False,
    json: show.JsonOption = False,
) -> None:
    """Rank labels for each row: FILE.npz for programs (evaluate reads it), FILE.tsv with names and scores for people.

    A run that was trained on text takes text: JSON lines with a "text" each; labels need not be there.

    Example: unmissed predict laws test.jsonl.xz --top 5 --out laws-test

    Example: echo '{"text": "Fishing quotas for cod in the North Sea"}' > one.jsonl; unmissed predict laws one.jsonl
    """
    from unmissed.runs import open_run
    from unmissed.runs.prediction import predict as predict_rows
    from unmissed.runs.prediction import ranking_lines, read_rows, write_ranking

    opened = open_run(run)
    opened.model.with_jobs(jobs)
    with show.progress_bar("reading") as progress:
        rows = read_rows(opened, data, header=not no_header, one_based=one_based, progress=progress)
    with show.progress_bar("ranking rows") as progress:
        ranking = predict_rows(opened, rows, top, progress=progress)
    if out is not None:
        npz, tsv = write_ranking(opened, ranking, out)
        if json:
            show.print_json({"n_samples": ranking.n_samples, "k": ranking.k, "npz": str(npz), "tsv": str(tsv)})
        else:
            typer.echo(f"{ranking.n_samples:,} rows, {ranking.k} labels each: {npz} and {tsv}")
    elif json:
        names = opened.label_names
        show.print_json(
            [
                [
                    {"label": names[label] if names else label, "name": opened.name_of(label), "score": score}
                    for label, score in zip(labels, scores, strict=True)
                    if label >= 0
                ]
                for labels, scores in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
            ]
        )
    else:
        for line in ranking_lines(opened, ranking):
            typer.echo(line)
