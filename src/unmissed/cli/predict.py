"""`unmissed predict`: the best labels of each row."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import ClusterOptions, Jobs, ReadingOptions, with_groups
from unmissed.cli.starting import defer_unused
from unmissed.cli.train import RunPath
from unmissed.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unmissed.ranking import Ranking
    from unmissed.runs import Run


@with_groups
def predict(
    run: RunPath,
    reading: ReadingOptions,
    cluster: ClusterOptions,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="Rows to rank, labelled or not: any form that train takes; - or a .txt file: one text per line.",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="Rank this one text.")] = None,
    top: Annotated[int, typer.Option("--top", "-k", help="How many labels to give per row.", min=1)] = 5,
    threshold: Annotated[float | None, typer.Option(help="Leave out labels with a lower score.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The file to write: .npz, .tsv, .csv or .jsonl; without a suffix, .npz and .tsv."
        ),
    ] = None,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Rank labels for each row: .npz for programs (evaluate reads it), tables with names and scores for people.

    A run that was trained on text takes text: a table or JSON lines, lines of standard input, or one text (--text).
    Where rows have an id (the column "id", or --id-column), the output names them by it. Texts and the rows of a store
    are read in parts: they may be larger than memory. Lines of standard input are ranked as they come, and their table
    is printed meanwhile.

    Example: unmissed predict laws test.jsonl.xz --top 5 --out laws-test

    Example: unmissed predict laws --text "Fishing quotas for cod in the North Sea"

    Example: cat titles.txt | unmissed predict laws - --out best.csv
    """
    if text is not None:
        defer_unused()

    from unmissed.runs import open_run
    from unmissed.runs.answers import WRITERS, cut, label_entry, table_lines
    from unmissed.runs.lines import TextLines
    from unmissed.runs.parts import predict_parts
    from unmissed.runs.prediction import predict as predict_rows
    from unmissed.runs.prediction import predict_lines, ranking_files, read_rows, write_ranking

    if (data is None) == (text is None):
        raise InputError("predict takes rows to rank or --text, one of them")
    files = [] if out is None else ranking_files(out)  # before the ranking, which may take long
    opened = open_run(run)
    opened.model.with_jobs(jobs)
    rows: Any = [text]
    ids: list[str] = []
    kept = show.stoppable(lambda: _kept(files, cluster.cluster is not None))
    with kept, show.progress_bar("ranking") as progress, cluster.executor() as executor:
        if executor is None:
            if data is not None:
                rows, ids = read_rows(opened, data, progress=progress, **reading.words())
            if isinstance(rows, TextLines) and not json and (out is None or out.suffix.lower() in WRITERS):
                _answer_lines(opened, predict_lines(opened, rows, top, threshold), out)
                return
            ranking = predict_rows(opened, rows, top, progress=progress)
        else:
            if data is None or out is None:
                raise InputError("--cluster ranks the rows of a store, DATA, into a file, --out")
            ranking = predict_parts(opened, data, top, out, executor=executor, progress=progress)
        ranking = cut(ranking, threshold).of_rows(ids or None)
    if out is not None:
        written = write_ranking(opened, ranking, out, ids=ids or None)
        if json:
            show.print_json(
                {"n_samples": ranking.n_samples, "k": ranking.k, **{one.suffix[1:]: str(one) for one in written}}
            )
        else:
            _tell(ranking.n_samples, ranking.k, written)
    elif json:
        show.print_json(
            [
                [label_entry(opened, label, score) for label, score in zip(*pair, strict=True) if label >= 0]
                for pair in zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)
            ]
        )
    else:
        for line in table_lines(opened, ranking, ids or None):
            show.say(line)


def _answer_lines(run: "Run", parts: "Iterator[Ranking]", out: Path | None) -> None:
    """Print or write what was ranked batch by batch; what is printed appears before all is read."""
    from unmissed.runs.answers import table_lines
    from unmissed.runs.prediction import write_ranking

    if out is None:
        for line in table_lines(run, parts):
            show.say(line)
        return
    sizes = []

    def noted() -> "Iterator[Ranking]":
        for part in parts:
            sizes.append((part.n_samples, part.k))
            yield part

    written = write_ranking(run, noted(), out)
    _tell(sum(n for n, _ in sizes), max((k for _, k in sizes), default=0), written)


def _kept(files: "list[Path]", in_parts: bool) -> str:
    """Say what a stopped prediction leaves."""
    if in_parts:
        return f"parts that are ranked are kept beside {files[0]}; the same command goes on where it stopped"
    return show.not_written(*files) if files else show.AGAIN


def _tell(n_samples: int, k: int, written: "list[Path]") -> None:
    each = f"{k} label{'' if k == 1 else 's'} each"
    show.say(f"{n_samples:,} row{'' if n_samples == 1 else 's'}, {each}: {' and '.join(map(str, written))}")
