"""`unmissed evaluate`: ranking metrics with confidence intervals."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import PROPENSITIES, Policy, ReadingOptions, UnseenOption, list_metrics, with_groups
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.data.readers.reader import ReadOptions
    from unmissed.metrics import Conventions


class VariantName(StrEnum):
    """How PSP and PSnDCG are normalized."""

    PYXCLIB = "pyxclib"
    DISMECPP = "dismecpp"
    ROW_RATIOS = "row-ratios"
    FASTXML = "fastxml"
    RAW = "raw"


class Preset(StrEnum):
    """Conventions of a program, by name."""

    PYXCLIB = "pyxclib"
    AUTHORS = "authors"
    DISMECPP = "dismecpp"
    ANNIF = "annif"


class Filtered(StrEnum):
    """Where filtered pairs are removed."""

    RANKING = "ranking"
    BOTH = "both"


class Averaged(StrEnum):
    """The labels of macro averages."""

    TRUE = "true"
    ALL = "all"


class MissingRows(StrEnum):
    """How rows of the truth that are missing from the ranking are handled."""

    REFUSE = "refuse"
    MISS = "miss"
    SKIP = "skip"


@with_groups
def evaluate(
    ranking: Annotated[
        Path,
        typer.Argument(
            metavar="RANKING",
            help="A ranking of `unmissed predict` (.npz, .tsv, .csv, .jsonl), or scores of another system: a matrix "
            "(scipy's .npz, .npy) or XMC score text (.txt).",
        ),
    ],
    truth: Annotated[str, typer.Option(metavar="DATA", help="The data set with the true labels of the ranked rows.")],
    reading: ReadingOptions,
    ctx: typer.Context,
    train: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="The training set or a run, whose label counts give the propensities; not needed for constant:P and "
            "table:FILE.",
        ),
    ] = None,
    propensity: Annotated[str, typer.Option(help=f"{PROPENSITIES}.")] = "jain:0.55,1.5",
    k: Annotated[str, typer.Option("-k", help="Cut-offs, separated by commas.")] = "1,3,5",
    convention: Annotated[
        Preset,
        typer.Option(
            help="Conventions of a program; other options replace single ones. annif: the figures of `annif eval` by "
            "its names, at 1, 3, 5 and 10."
        ),
    ] = Preset.PYXCLIB,
    n_subjects: Annotated[
        int | None,
        typer.Option(
            help="Number of subjects of the vocabulary, over which Annif averages; for --convention annif. Default: "
            "the labels of the training set and of the truth.",
            min=1,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Metrics, separated by commas, such as P,PSP,MRR; an unknown one lists all.",
            autocompletion=list_metrics,
        ),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="A second ranking of the same rows, for a paired comparison.")
    ] = None,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap resamples; 0 for no intervals.", min=0)] = 1000,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.", min=0)] = 0,
    variant: Annotated[VariantName, typer.Option(help="How PSP and PSnDCG are normalized.")] = VariantName.PYXCLIB,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Compute PSP on the re-ranked list of PW-DiSMEC's authors.")
    ] = False,
    missing_rows: Annotated[
        MissingRows,
        typer.Option(
            help="Rows of the truth that are not in RANKING: fail (refuse), score them 0 (miss) or ignore them (skip)."
        ),
    ] = MissingRows.REFUSE,
    empty_rows: Annotated[Policy, typer.Option(help="Rows without true labels: keep or drop them.")] = Policy.KEEP,
    unseen_labels: UnseenOption = Policy.KEEP,
    pairs: Annotated[
        Path | None, typer.Option("--filter", help="A file with a row and a label per line: pairs to ignore.")
    ] = None,
    filtered: Annotated[Filtered, typer.Option(help="Where --filter removes pairs.")] = Filtered.RANKING,
    macro: Annotated[
        Averaged, typer.Option(help="Macro-average over the labels with a true row, or over all.")
    ] = Averaged.TRUE,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the reliability diagram of the ranking's probabilities to this .svg, .png or .pdf."),
    ] = None,
    json: show.JsonOption = False,
) -> None:
    """Print metrics of a ranking, with bootstrap intervals.

    Propensities and label-frequency deciles are computed from the label counts of the training set. The defaults give
    the figures of pyxclib, `--variant dismecpp --empty-rows drop` those of DiSMEC++, and `--rerank` those of the
    published code of PW-DiSMEC. The output states the conventions.

    If the ranking has probabilities, their errors are printed, too: the expected calibration error (ECE) with the noise
    floor that correct probabilities have, log loss and Brier score.

    Example: unmissed evaluate ranking.npz --truth test.txt --train train.txt

    Example: unmissed evaluate scores.npz --truth test.txt --propensity table:p.txt

    Example: unmissed evaluate ranking.npz --truth test.txt --train train.txt --figure reliability.svg

    Example: unmissed evaluate new.npz --truth test.jsonl --train train.jsonl --against old.npz --json

    Example: unmissed evaluate best.npz --truth test.tsv --train run --convention annif
    """
    from unmissed.metrics import ANNIF, ANNIF_CUT_OFFS, ANNIF_METRICS
    from unmissed.propensity import parse
    from unmissed.runs.measurement import Measuring, evaluate_ranking

    if against is not None and not bootstrap:
        raise InputError("--against needs bootstrap resamples; set --bootstrap above 0")
    if figure is not None:
        from unmissed.reports.reliability_figures import check_figure_name, write_reliability

        check_figure_name(figure)
    choices = {"variant": variant, "rerank": rerank, "empty_rows": empty_rows, "unseen_labels": unseen_labels}
    conventions = _conventions(ctx, convention, {**choices, "filtered": filtered, "macro": macro})
    cuts, names = _cut_offs(k), None if metrics is None else [name.strip() for name in metrics.split(",")]
    if convention is Preset.ANNIF:
        if names is not None or conventions != ANNIF:
            raise InputError("--convention annif chooses metrics and conventions; leave out the options for them")
        names, cuts = list(ANNIF_METRICS), cuts if _was_given(ctx, "k") else ANNIF_CUT_OFFS
    elif n_subjects is not None:
        raise InputError("--n-subjects needs --convention annif")
    model = parse(propensity)
    measuring = Measuring(
        cuts, model, conventions, pairs, bootstrap, level, seed, missing_rows.value, names, n_subjects
    )
    with show.progress_bar("evaluating") as progress:
        result = evaluate_ranking(
            ranking,
            truth,
            train,
            measuring,
            against=against,
            progress=progress,
            **reading.words(_known_reading(train)),
        )
    if figure is not None:
        if result["probabilities"] is None:
            raise InputError(f"{ranking}: has no probabilities to draw; `unmissed calibrate` gives them to a run")
        write_reliability(result["probabilities"], figure)
    if json:
        show.print_json(result)
        return
    from unmissed.reports.metrics_tables import all_tables, notes

    for table in all_tables(result):
        show.print_table(*table)
    for line in notes(result):
        show.say(line)


def _was_given(ctx: typer.Context, name: str) -> bool:
    """Return whether an option was set on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _conventions(ctx: typer.Context, preset: Preset, choices: dict[str, Any]) -> "Conventions":
    """Return the conventions of a program, with the choices that were set on the command line."""
    from unmissed.metrics.conventions import PRESETS

    given = {name: getattr(one, "value", one) for name, one in choices.items() if _was_given(ctx, name)}
    return replace(PRESETS[preset.value], **given)


def _known_reading(train: str | None) -> "ReadOptions | None":
    """Return the columns that a run was trained on; None if the labels' counts do not come from a run."""
    from unmissed.runs import open_run
    from unmissed.runs.run import is_run
    from unmissed.runs.training_sources import reading_of

    return reading_of(open_run(train)) if train is not None and is_run(train) else None


def _cut_offs(words: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError as error:
        raise InputError(f"-k must be integers separated by commas, such as 1,3,5; got {words!r}") from error
