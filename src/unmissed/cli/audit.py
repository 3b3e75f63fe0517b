"""`unmissed audit`: propensities from answers of people to a sample, or from rows with the same text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmissed.cli import show
from unmissed.cli.options import PROPENSITIES, ReadingOptions, with_groups
from unmissed.cli.train import OldRows, RunPath
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.audit.accepted_shares import AcceptedShare
    from unmissed.audit.audit_estimates import Agreement, AuditResult

app = typer.Typer(
    no_args_is_help=True, help="Estimate how many labels are missing: plan checks by people, read their answers."
)
_SHARE_COLUMNS = ["decided", "accepted", "share accepted", "stated probability"]


@app.command()
def plan(
    run: RunPath,
    out: Annotated[Path, typer.Option(metavar="SHEET.csv", help="The sheet for people to fill in.")],
    checks: Annotated[int, typer.Option(help="Number of questions at most.", min=1)] = 2000,
    bands: Annotated[
        int | None, typer.Option(help="Number of frequency bands. Default: one per 650 checks, 2 to 8.", min=1)
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            help=f"Assumed propensities, which distribute the checks: {PROPENSITIES}. Default: those of the run."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    old_rows: OldRows = None,
    json: show.JsonOption = False,
) -> None:
    """Draw a sample of (row, label) pairs without the label, for people to answer: does the row have this label?

    The run must be calibrated. The sheet is a CSV file whose column "answer" people fill in: yes, no or unsure. Its
    order is random, so the first part of it is a sample, too. SHEET.csv.plan.json beside it has what `unmissed audit
    read` needs; keep both.

    Example: unmissed audit plan tags --checks 2000 --out sheet.csv
    """
    from unmissed.audit.sheets import plan_audit, plan_path
    from unmissed.runs import open_run

    with show.progress_bar("reading training rows") as progress:
        sheet = plan_audit(
            open_run(run),
            out,
            checks,
            propensity=propensity,
            n_bands=bands,
            seed=seed,
            old_rows=old_rows or [],
            progress=progress,
        )
    strata = [one._asdict() for one in sheet.sample.strata]
    if json:
        show.print_json({"sheet": str(out), "plan": str(plan_path(out)), "checks": len(sheet.sample), "strata": strata})
        return
    show.say(
        f"{out}: {len(sheet.sample):,} questions in {len(strata)} strata of {len(sheet.sample.bands)} frequency bands; "
        f"fill in the column answer, then: unmissed audit read {out} --run {run}"
    )


@app.command()
def read(
    sheets: Annotated[
        list[Path],
        typer.Argument(
            metavar="ANSWERS...",
            help="Filled-in sheets, also several copies, exports of annotation tools, or folders of such files.",
        ),
    ],
    run: Annotated[Path, typer.Option(metavar="DIR", help="The run that the audit was planned for.")],
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", help="The plan. Default: the first sheet's name with .plan.json, if there is one."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Write propensities by frequency, for --propensity audit:FILE.csv."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the Monte Carlo draws.")] = 0,
    json: show.JsonOption = False,
) -> None:
    """Print missing labels and propensities by label frequency, from the answers to a sheet.

    Several files may answer the same questions; their agreement is printed. "unsure" does not count as "no": these
    questions count as not asked, and the propensities with each of them as no, or as yes, are printed as well.

    Answers without a plan, such as those of the service's page, may be to any documents. The share of accepted labels
    is printed, by stated probability and by label frequency; propensities cannot be estimated from them.

    Example: unmissed audit read sheet.csv --run tags --out propensities.csv

    Example: unmissed audit read anna.csv bert.csv --plan sheet.csv.plan.json --run tags

    Example: unmissed audit read answers.csv --run tags
    """
    from unmissed.audit.answer_files import read_answers
    from unmissed.audit.audit_estimates import estimate
    from unmissed.audit.curves import curve_of
    from unmissed.audit.sheets import plan_path, read_plan
    from unmissed.runs import open_run

    plan_of = plan_path(sheets[0]) if plan_file is None else plan_file
    if plan_file is None and not plan_of.exists():
        _read_without_plan(sheets, run, out, json)
        return
    planned, opened = read_plan(plan_of), open_run(run)
    if opened.calibration is None or opened.calibration.name != planned.calibration:
        raise InputError(f"{plan_of}: was not made for {run}, or the run was calibrated again since")
    answers, n_others = planned.match([answer for sheet in sheets for answer in read_answers(sheet)])
    result = estimate(planned.sample, answers, seed)
    warnings = [*result.warnings, *([f"{n_others} answers are to questions not in the plan"] if n_others else [])]
    if out is not None:
        curve_of(result).write(out)
    if json:
        show.print_json({**result.to_json(), "warnings": warnings})
        return
    _print_result(result)
    for line in warnings:
        show.say(f"Warning: {line}.")
    if out is not None:
        show.say(f"{out}: propensities by label frequency; use them by --propensity audit:{out}")


@app.command()
@with_groups
def duplicates(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set with labels, some of whose texts repeat.")],
    reading: ReadingOptions,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Write propensities by frequency, for --propensity audit:FILE.csv."),
    ] = None,
    json: show.JsonOption = False,
) -> None:
    """Print propensities by label frequency, from rows with the same text: how often do both have a label?

    Pairs with exactly the same labels are left out, because many of them are copies.

    Example: unmissed audit duplicates train.jsonl --out propensities.csv
    """
    from unmissed.audit.duplicates import estimate_duplicates

    with show.progress_bar("reading") as progress:
        found = estimate_duplicates(data, reading.options, progress=progress)
    if out is not None:
        found.curve().write(out)
    if json:
        bands = [one._asdict() for one in found.bands]
        counts = {"texts": found.n_texts, "repeated": found.n_groups, "same_labels": found.n_equal}
        show.print_json({**counts, "bands": bands, "warnings": [found.warning]})
        return
    rows = [
        [
            f"{one.fewest:,}-{one.most:,}",
            f"{one.n_assignments:,}",
            f"{one.p:.3f} [{one.low:.3f}, {one.high:.3f}]",
            f"{one.p_all:.3f}",
        ]
        for one in found.bands
    ]
    columns = ["texts with the label", "labels of pairs that differ", "propensity", "with equal pairs"]
    show.print_table(f"{found.n_groups:,} of {found.n_texts:,} texts have several rows [95 % interval]", columns, rows)
    show.say(f"Warning: {found.warning}.")


def _print_result(result: "AuditResult") -> None:
    from unmissed.audit.audit_estimates import say_band

    rows = [
        [
            say_band(one.band),
            f"{one.band.n_labels:,}",
            f"{one.n_checked:,}",
            f"{one.n_yes:g}",
            f"{one.band.n_observed:,}",
            f"{one.missing:,.0f} [{one.missing_low:,.0f}, {one.missing_high:,.0f}]",
            f"{one.p:.3f} [{one.low:.3f}, {one.high:.3f}]",
            f"{one.p_unsure_yes:.3f} - {one.p_unsure_no:.3f}" if result.n_unsure else "-",
        ]
        for one in result.bands
    ]
    columns = ["labels with", "labels", "checked", "yes", "observed", "missing", "propensity", "unsure as yes - no"]
    show.print_table(f"{result.n_decided:,} of {result.n_cells:,} questions answered [95 % interval]", columns, rows)
    finder = _share_rows("{low:g} - {high:g}", result.finder)
    show.print_table("Probability that a label is missing: predicted and answered", ["bin", *_SHARE_COLUMNS], finder)
    _print_agreement(result.agreement)


def _share_rows(name: str, shares: "Sequence[AcceptedShare]") -> list[list[str]]:
    """Return the rows of a table of accepted shares."""
    return [
        [
            name.format(low=one.low, high=one.high),
            f"{one.n_decided:,}",
            f"{one.n_accepted:,g}",
            f"{one.share:.3f} [{one.share_low:.3f}, {one.share_high:.3f}]",
            "-" if one.predicted is None else f"{one.predicted:.3f}",
        ]
        for one in shares
    ]


def _print_agreement(agreement: "Agreement | None") -> None:
    if agreement is not None:
        kappa = "undefined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
        show.say(
            f"Agreement on {agreement.n_cells:,} questions with several answers: "
            f"{agreement.agreeing:.1%}, Fleiss' kappa {kappa}."
        )


def _read_without_plan(files: Sequence[Path], run: Path, out: Path | None, json: bool) -> None:
    """Print what answers say that belong to no plan."""
    from unmissed.audit.answer_files import read_answers
    from unmissed.audit.unplanned_answers import summarize_answers
    from unmissed.runs import open_run

    plans = sorted(files[0].absolute().parent.glob("*.plan.json"))
    near = f" {plans[0].name}" if len(plans) == 1 else ""
    if out is not None:
        raise InputError(
            f"{files[0]}: has no plan beside it, so --out has no propensities; give the plan by --plan{near}"
        )
    found = summarize_answers(open_run(run), [answer for one in files for answer in read_answers(one)])
    if json:
        show.print_json(found.to_json())
        return
    title = f"{found.n_answers:,} answers to {found.n_questions:,} questions [95 % interval]"
    rows = _share_rows("all", [] if found.overall is None else [found.overall])
    rows += _share_rows("probability {low:g} - {high:g}", found.by_probability)
    rows += _share_rows("{low:,.0f}-{high:,.0f} positives", found.by_frequency)
    show.print_table(title, ["questions", *_SHARE_COLUMNS], rows)
    _print_agreement(found.agreement)
    for line in found.warnings:
        show.say(f"Warning: {line}.")
    if near:
        show.say(f"If these are answers to the sheet of{near}, read them with --plan{near}.")
