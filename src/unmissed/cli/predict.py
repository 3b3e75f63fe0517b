"""`unmissed predict`: the top-k labels of each row."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import PROPENSITIES, ClusterOptions, Jobs, RowOptions, with_groups
from unmissed.cli.train import RunPath
from unmissed.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unmissed.ranking import Ranking
    from unmissed.runs import Run
    from unmissed.runs.expansion import BroaderLabels
    from unmissed.runs.prediction import Shown


class RankBy(StrEnum):
    """What labels are ranked by."""

    SCORE = "score"
    PROBABILITY = "probability"


@with_groups
def predict(
    run: RunPath,
    reading: RowOptions,
    cluster: ClusterOptions,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="The rows, labeled or not: any format that train reads; - or a .txt file has one text per line.",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="Predict the labels of this text.")] = None,
    one_document: Annotated[
        bool,
        typer.Option(
            "--one-document", help="DATA is a file of plain text (or -) with one document, not one text per line."
        ),
    ] = False,
    top: Annotated[
        int | None, typer.Option("--top", "-k", help="Number of labels per row. Default: 5.", min=1, show_default=False)
    ] = None,
    decide: Annotated[
        str | None,
        typer.Option(
            "--decide",
            metavar="RULE",
            help="Choose the labels of each row by their probabilities: 'top 5', 'p>=0.5', f1 (highest expected F1 of "
            "each row), macro-f1@5 or coverage@5 (5 labels per row, best for all rows together), 'precision>=0.8' "
            "(the threshold that keeps this precision on held-out rows). For runs that `unmissed calibrate` gave "
            "probabilities.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Omit labels with a lower score. Scores are not probabilities (for linear methods they are margins), "
            "unless labels are ranked by probability."
        ),
    ] = None,
    rank_by: Annotated[
        RankBy,
        typer.Option(
            "--rank-by",
            help="What labels are ranked by. probability: the most probable of the 50 highest-scoring labels; the "
            "score is then the probability. For runs that `unmissed calibrate` gave probabilities.",
        ),
    ] = RankBy.SCORE,
    true_probability: Annotated[
        bool,
        typer.Option(
            "--true-probability",
            help="Add the probability that a label is true, observed or not: its probability divided by its "
            "propensity.",
        ),
    ] = False,
    propensity: Annotated[
        str | None,
        typer.Option(
            help=f"The propensities of --true-probability: {PROPENSITIES}. Default: those of the training, else jain."
        ),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another value of a prediction parameter, such as beam=20 for label trees; repeatable. The run does "
            "not change.",
        ),
    ] = None,
    expand: Annotated[
        str | None,
        typer.Option(
            metavar="broader",
            help="Add the broader concepts of the labels, one step up in the run's vocabulary, as far as they are "
            "labels of the run; each has the highest score of its narrower ones.",
            autocompletion=lambda: ["broader"],
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The output file: .npz, .tsv, .csv or .jsonl; without a suffix, .npz and .tsv."
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Write names unchanged. By default, names in .csv and .tsv files that a spreadsheet would run as a "
            "formula get a leading apostrophe.",
        ),
    ] = False,
    jobs: Jobs = None,
    json: show.JsonOption = False,
) -> None:
    """Predict the top-k labels of each row and print them or write them to a file.

    .npz files are for `unmissed evaluate`; .tsv, .csv and .jsonl files have label names and scores. A run that
    `unmissed calibrate` gave probabilities adds the column `probability`: that of the label being observed.

    A run trained on text takes text: a table, JSON lines, lines of standard input, or one text (--text). If rows have
    an id (the column "id", or --id-column), the output contains it. Texts and stores are read in batches and can be
    larger than memory; lines of standard input are answered as they arrive. Texts without known words get no labels;
    their number is printed on standard error.

    Example: unmissed predict laws test.jsonl.xz --top 5 --out laws-test

    Example: unmissed predict laws --text "Fishing quotas for cod in the North Sea"

    Example: unmissed predict laws test.jsonl.xz --dense test.npy --out laws-test

    Example: unmissed predict laws test.jsonl.xz --set beam=50 --out wide

    Example: unmissed predict laws test.jsonl.xz --rank-by probability --threshold 0.5 --out sure.csv

    Example: unmissed predict laws test.jsonl.xz --decide "precision>=0.8" --out sure.csv

    Example: cat titles.txt | unmissed predict laws - --out best.csv

    Example: unmissed predict laws report.txt --one-document
    """
    from unmissed.runs import open_run
    from unmissed.runs.lines import TextLines
    from unmissed.runs.parts import predict_parts
    from unmissed.runs.prediction import predict as predict_rows
    from unmissed.runs.prediction import (
        predict_lines,
        ranking_files,
        read_document,
        read_params,
        read_rows,
        write_ranking,
    )
    from unmissed.runs.ranking_writers import WRITERS
    from unmissed.runs.training_sources import reading_of

    if (data is None) == (text is None):
        raise InputError("predict needs either DATA or --text")
    if one_document and (data is None or cluster.cluster is not None):
        raise InputError("--one-document needs a file of plain text as DATA, and no --cluster")
    if decide is not None and (top is not None or threshold is not None):
        raise InputError("--decide chooses the labels of each row; leave out --top and --threshold")
    files = [] if out is None else ranking_files(out)  # before the ranking, which may take long
    opened = open_run(run)
    opened.model.with_jobs(jobs)
    chosen = read_params(opened, params or [])
    if rank_by is RankBy.PROBABILITY:
        chosen["rank_by"] = rank_by.value
    shown = _shown(opened, threshold, decide, true_probability, propensity, rank_by)
    if expand is not None:
        shown = replace(shown, broader=_broader(opened, expand))
    top = shown.n_candidates(opened) if decide is not None else 5 if top is None else top
    rows: Any = None
    ids: list[str] = []
    kept = show.stoppable(lambda: _kept(files, cluster.cluster is not None))
    with kept, show.progress_bar("ranking") as progress, cluster.executor() as executor:
        if executor is None:
            if one_document and data is not None:
                text, ids = read_document(opened, data, reading.columns.encoding), [Path(data).stem]
            if text is not None:
                rows = _one_text(opened, text, reading.dense)
            elif data is not None:
                rows, ids = read_rows(opened, data, progress=progress, **reading.words(reading_of(opened)))
                note = rows.advice() if isinstance(rows, TextLines) else None
                if note is not None:
                    show.say(note, err=True)
            in_parts = shown.by_row and not json and all(WRITERS.find(one.suffix).in_parts for one in files)
            if isinstance(rows, TextLines) and in_parts:
                _answer_lines(opened, predict_lines(opened, rows, top, shown, chosen), out, raw)
                return
            ranking = predict_rows(opened, rows, top, params=chosen, progress=progress)
        else:
            if data is None or out is None:
                raise InputError("--cluster needs a store as DATA and an output file, --out")
            if reading.dense is not None:
                raise InputError(
                    "--cluster needs a store with its dense part: `unmissed data convert --dense` writes it"
                )
            ranking = predict_parts(opened, data, top, out, params=chosen, executor=executor, progress=progress)
        ranking = shown.of(opened, ranking).of_rows(ids or None)
    if out is None:
        _print_ranking(opened, ranking, ids, json)
    else:
        written = write_ranking(opened, ranking, out, ids=ids or None, raw=raw)
        size = _RankingSize()
        size.add(ranking)
        if json:
            show.print_json({**size.to_json(), **{one.suffix[1:]: str(one) for one in written}})
        else:
            size.report(written)
    _note_unknown(ranking.n_no_known_words, ranking.n_samples)
    if ranking.true_probabilities is not None:
        show.say(f"true_probability: clipped at 1 for {ranking.clipped_fraction:.1%} of the labels", err=True)


def _shown(
    run: "Run",
    threshold: float | None,
    decide: str | None,
    true_probability: bool,
    propensity: str | None,
    rank_by: RankBy,
) -> "Shown":
    """Return what is shown of a ranking; raise InputError if it needs probabilities that the run does not have."""
    from unmissed.propensity import parse
    from unmissed.runs.prediction import Shown, read_decision

    with_true = true_probability or propensity is not None
    if run.calibration is None and (rank_by is RankBy.PROBABILITY or with_true):
        raise run.not_calibrated()
    rule, note = (None, None) if decide is None else read_decision(run, decide)
    if note is not None:
        show.say(note, err=True)
    return Shown(threshold, with_true, None if propensity is None else parse(propensity), rule)


def _broader(run: "Run", expand: str) -> "BroaderLabels":
    """Return the broader labels of --expand."""
    from unmissed.runs.expansion import BroaderLabels

    if expand != "broader":
        raise InputError(f"--expand is broader; got {expand[:40]!r}")
    return BroaderLabels(run)


def _one_text(run: "Run", text: str, dense: str | None) -> Any:
    """Return the text of --text as rows, with its dense features if they are given."""
    from unmissed.runs.prediction import TextsWithDense, read_dense_of

    return [text] if dense is None else TextsWithDense(iter([text]), read_dense_of(run, dense), (dense, "--text"))


def _print_ranking(run: "Run", ranking: "Ranking", ids: list[str], json: bool) -> None:
    """Print the labels of each row, as JSON or as lines of a table."""
    from unmissed.runs.ranking_writers import row_entries, table_lines

    if json:
        show.print_json(list(row_entries(run, ranking, ids or None)))
        return
    for line in table_lines(run, ranking, ids or None):
        show.say(line)


def _answer_lines(run: "Run", parts: "Iterator[Ranking]", out: Path | None, raw: bool) -> None:
    """Print or write rankings batch by batch; printed batches appear before all input is read."""
    from unmissed.runs.prediction import write_ranking
    from unmissed.runs.ranking_writers import table_lines

    size = _RankingSize()

    def counted() -> "Iterator[Ranking]":
        for part in parts:
            size.add(part)
            yield part

    if out is None:
        for line in table_lines(run, counted()):
            show.say(line)
    else:
        size.report(write_ranking(run, counted(), out, raw=raw))
    _note_unknown(size.n_no_known_words, size.n_samples)


def _note_unknown(n_without: int, n_samples: int) -> None:
    """Print the number of texts without known words on standard error."""
    from unmissed.runs.ranking_writers import known_words_note

    note = known_words_note(n_without, n_samples)
    if note is not None:
        show.say(note, err=True)


def _kept(files: "list[Path]", in_parts: bool) -> str:
    """Return what an interrupted prediction keeps."""
    if in_parts:
        return f"finished parts are kept next to {files[0]}; the same command resumes"
    return show.not_written(*files) if files else show.AGAIN


@dataclass
class _RankingSize:
    """Number of rows and labels in the output; a threshold can leave fewer than k labels per row."""

    n_samples: int = 0
    k: int = 0
    n_labels: int = 0
    n_empty: int = 0
    n_no_known_words: int = 0
    most: int = 0

    def add(self, part: "Ranking") -> None:
        """Add the rows and labels of a ranking."""
        listed = (part.labels >= 0).sum(axis=1)
        self.n_samples += part.n_samples
        self.k = max(self.k, part.k)
        self.n_labels += int(listed.sum())
        self.most = max(self.most, int(listed.max(initial=0)))
        self.n_empty += int((listed == 0).sum())
        self.n_no_known_words += part.n_no_known_words

    def to_json(self) -> dict[str, int]:
        """Return the counts for JSON output."""
        return {
            "n_samples": self.n_samples,
            "k": self.k,
            "n_suggestions": self.n_labels,
            "n_rows_without_suggestion": self.n_empty,
            "n_no_known_words": self.n_no_known_words,
        }

    def report(self, written: "list[Path]") -> None:
        """Print what the files contain."""
        each = f"{show.counted(self.k, 'label')} each"
        if self.n_labels < self.n_samples * self.k:
            without = f"; {show.counted(self.n_empty, 'row')} without any" if self.n_empty else ""
            each = f"{show.counted(self.n_labels, 'label')}, at most {self.most} each{without}"
        show.say(f"{show.counted(self.n_samples, 'row')}, {each}: {' and '.join(map(str, written))}")
