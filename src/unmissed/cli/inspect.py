"""`unmissed inspect`: what is in a run's folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show

if TYPE_CHECKING:
    from unmissed.runs import Run


def label_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of a run's labels that begin with what was typed, for the shell to complete."""
    from unmissed.errors import UnmissedError
    from unmissed.runs import open_run

    try:
        run = open_run(ctx.params.get("run") or ctx.args[0])  # unfinished options leave it among the words
        names = [*(run.label_names or ()), *(run.label_titles or ())]
    except (UnmissedError, OSError, IndexError):  # no run yet: nothing to offer
        return []
    return [name for name in dict.fromkeys(names) if name.lower().startswith(incomplete.lower())]


def inspect(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    label: Annotated[
        str | None,
        typer.Option(help="Show the strongest features of this label (name or number).", autocompletion=label_names),
    ] = None,
    top: Annotated[int, typer.Option(help="How many features to show.", min=1)] = 20,
    tree: Annotated[bool, typer.Option("--tree", help="Draw the top of a label tree with its labels' names.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every file with its checksum.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Show a run's method, labels, certificates and size, or the features that count most for a label.

    The certificate is each label's relative duality gap: how far at most its solution, before pruning, is from the
    optimum. Labels that missed the tolerance are named.

    Example: unmissed inspect laws

    Example: unmissed inspect laws --label "fishing quota" --top 10

    Example: unmissed inspect laws --tree
    """
    from unmissed.runs import open_run
    from unmissed.runs.inspection import draw, summarize
    from unmissed.runs.inspection import verify as verify_run

    opened = open_run(run)
    if verify:
        n_pieces = verify_run(opened)
        if not json:
            show.say(f"{run}: every file matches its checksum ({n_pieces:,} pieces read)")
    if label is not None:
        _show_label(opened, label, top, json)
        return
    if tree:
        drawn = draw(opened)
        show.print_json({"tree": drawn.splitlines()}) if json else typer.echo(drawn)
        return
    facts = summarize(opened)
    if json:
        show.print_json({**facts, "verified": verify})
    else:
        show.print_table(str(run), ["", ""], [[name, value] for name, value in _rows(facts)])
        _show_worst(facts["certificate"])


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    recipe, solved = facts["recipe"], facts["certificate"]
    rows = [("method", recipe["method"])]
    rows += [(f"  {name}", _short(value)) for name, value in recipe["params"].items()]
    if recipe["text"] is not None:
        rows.append(("text", _short(recipe["text"])))
    rows += [("labels", f"{facts['n_labels']:,}"), ("features", f"{facts['n_features']:,}")]
    if facts["labels_without_positives"]:
        rows.append(("labels without positives", f"{facts['labels_without_positives']:,}"))
    for part in facts["parts"]:
        what = "trained on" if part["first"] == 0 else f"labels from {part['first']:,} on"
        digest = f", digest {part['digest'][:12]}" if part["digest"] else ""
        state = "" if part["status"] == "complete" else " (not finished)"
        rows.append((what, f"{part['n_samples']:,} rows{digest}{state}"))
    rows += [
        (title, f"{value:,}" if isinstance(value, int | float) else str(value))
        for title, value in facts["model"].items()
    ]
    rows.append(("on disk", f"{facts['bytes'] / 1e6:,.1f} MB in {facts['n_pieces']:,} pieces"))
    if solved is not None:
        n_problems = solved["met"] + solved["missed"]
        rows.append((f"solved to a gap of {solved['tol']:g}", f"{solved['met']:,} of {n_problems:,} {solved['unit']}"))
        rows.append(("median gap", f"{solved['median_gap']:.2g}"))
    made = facts["parts"][0]["versions"]
    if made:
        rows.append(("made with", ", ".join(f"{name} {version}" for name, version in made[-1].items())))
    return rows


def _show_worst(solved: dict[str, Any] | None) -> None:
    if solved is None or not solved["worst"]:
        return
    titles = [title for title in solved["worst"][0] if title not in ("number", "name", "gap")]
    rows = [
        [str(one["name"]), f"{one['gap']:.2g}", *(f"{one[title]:g}" for title in titles)] for one in solved["worst"]
    ]
    show.print_table("largest gaps", [solved["unit"], "gap", *titles], rows)
    if solved["missed"]:
        show.say(f"{solved['missed']:,} {solved['unit']} missed the tolerance: {', '.join(solved['missed_names'])}")


def _show_label(run: "Run", label: str, top: int, json: bool) -> None:
    from unmissed.runs.inspection import describe_label

    facts = describe_label(run, run.label(label), top)
    if json:
        show.print_json(facts)
        return
    rows = [[feature["name"] or str(feature["number"]), f"{feature['weight']:+.3f}"] for feature in facts["features"]]
    rows.append(["(constant)", f"{facts['constant']:+.3f}"])
    seen = "" if facts["count"] is None else f", {facts['count']:,} training rows"
    show.print_table(f"{facts['name']} (label {facts['label']}{seen})", ["feature", "weight"], rows)


def _short(value: Any) -> str:
    shown = ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
