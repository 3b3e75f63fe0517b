"""`unmissed evaluate`: how good is a ranking, and how sure is that."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show
from unmissed.cli.options import Policy, ReadingOptions, with_groups
from unmissed.errors import InputError


class Variant(StrEnum):
    """How PSP and PSnDCG are normalised."""

    PYXCLIB = "pyxclib"
    DISMECPP = "dismecpp"
    ROW_RATIOS = "row-ratios"
    FASTXML = "fastxml"
    RAW = "raw"


class Sides(StrEnum):
    """Where filtered pairs are taken out."""

    RANKING = "ranking"
    BOTH = "both"


class Averaged(StrEnum):
    """Which labels a macro average goes over."""

    TRUE = "true"
    ALL = "all"


class MissingRows(StrEnum):
    """What becomes of rows of the truth that a ranking does not have."""

    REFUSE = "refuse"
    MISS = "miss"
    SKIP = "skip"


@with_groups
def evaluate(
    ranking: Annotated[
        Path,
        typer.Argument(
            metavar="RANKING",
            help="What `unmissed predict` wrote (.npz, .tsv, .csv, .jsonl), or scores of another system: a matrix "
            "(scipy's .npz, .npy) or XMC score text (.txt).",
        ),
    ],
    truth: Annotated[str, typer.Option(metavar="DATA", help="The data set whose rows were ranked, with its labels.")],
    reading: ReadingOptions,
    train: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="The training set, or a run: its label counts give propensities. constant:P and table:FILE need none.",
        ),
    ] = None,
    propensity: Annotated[str, typer.Option(help="jain, jain:A,B, constant:P or table:FILE.")] = "jain:0.55,1.5",
    k: Annotated[str, typer.Option("-k", help="Cut-offs, separated by commas.")] = "1,3,5",
    against: Annotated[Path | None, typer.Option(help="A second ranking of the same rows, to compare with.")] = None,
    bootstrap: Annotated[int, typer.Option(help="Resamples for intervals; 0 for none.", min=0)] = 1000,
    level: Annotated[float, typer.Option(help="The level of intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="The seed of resampling.", min=0)] = 0,
    variant: Annotated[Variant, typer.Option(help="How PSP and PSnDCG are normalised.")] = Variant.PYXCLIB,
    rerank: Annotated[bool, typer.Option("--rerank", help="PSP on the PW-DiSMEC authors' re-ranked list.")] = False,
    missing_rows: Annotated[
        MissingRows,
        typer.Option(
            help="Rows of the truth that RANKING does not have: refuse it, count them as rows without a suggestion "
            "(miss), or leave them out (skip)."
        ),
    ] = MissingRows.REFUSE,
    empty_rows: Annotated[Policy, typer.Option(help="Rows without a true label.")] = Policy.KEEP,
    unseen_labels: Annotated[Policy, typer.Option(help="True labels without a training positive.")] = Policy.KEEP,
    pairs: Annotated[
        Path | None, typer.Option("--filter", help="A file with a row and a label per line: pairs that do not count.")
    ] = None,
    filtered: Annotated[Sides, typer.Option(help="Where --filter takes pairs out.")] = Sides.RANKING,
    macro: Annotated[Averaged, typer.Option(help="Labels that macro averages go over.")] = Averaged.TRUE,
    json: show.JsonOption = False,
) -> None:
    """Print P, nDCG, PSP, PSnDCG, recall, coverage and macro averages of a ranking, with bootstrap intervals.

    Propensities and label-frequency deciles come from the label counts of the training set. The defaults give the
    figures of pyxclib, `--variant dismecpp --empty-rows drop` those of DiSMEC++, and `--rerank` those that the authors
    of PW-DiSMEC print. The result names the conventions it follows.

    Example: unmissed evaluate ranking.npz --truth test.txt --train train.txt

    Example: unmissed evaluate scores.npz --truth test.txt --propensity table:p.txt

    Example: unmissed evaluate new.npz --truth test.jsonl --train train.jsonl --against old.npz --json
    """
    from unmissed.metrics import Conventions
    from unmissed.propensity import parse
    from unmissed.runs.evaluate import Measuring, evaluate_ranking

    if against is not None and not bootstrap:
        raise InputError("--against compares by resampling; --bootstrap must be above 0")
    conventions = Conventions(variant.value, rerank, empty_rows.value, unseen_labels.value, filtered.value, macro.value)
    model = parse(propensity)
    measuring = Measuring(_cut_offs(k), model, conventions, pairs, bootstrap, level, seed, missing_rows.value)
    with show.progress_bar("evaluating") as progress:
        result = evaluate_ranking(
            ranking,
            truth,
            train,
            measuring,
            against=against,
            progress=progress,
            **reading.words(),
        )
    if json:
        show.print_json(result)
        return
    from unmissed.reports.metrics_tables import deciles_table, differences_table, figures_table, notes

    tables = [figures_table(result), *([deciles_table(result)] if result["deciles"] else [])]
    if against is not None:
        tables.append(differences_table(result))
    for table in tables:
        show.print_table(*table)
    for line in notes(result):
        show.say(line)


def _cut_offs(words: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError as error:
        raise InputError(f"-k {words}: whole numbers separated by commas were expected, such as 1,3,5") from error
