"""`unmissed inspect`: method, parameters, labels and duality gaps of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show

if TYPE_CHECKING:
    from unmissed.runs import Run


def label_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of a run's labels that start with `incomplete`, for shell completion."""
    from unmissed.errors import UnmissedError
    from unmissed.runs import open_run

    try:
        run = open_run(ctx.params.get("run") or ctx.args[0])  # with an incomplete option, the run is still in args
        names = [*(run.label_names or ()), *(run.label_titles or ())]
    except (UnmissedError, OSError, IndexError):  # no run to complete from
        return []
    return [name for name in dict.fromkeys(names) if name.lower().startswith(incomplete.lower())]


def inspect(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    label: Annotated[
        str | None,
        typer.Option(
            help="Show the features with the largest weights of this label (name or index).", autocompletion=label_names
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Number of features to show.", min=1)] = 20,
    tree: Annotated[
        bool, typer.Option("--tree", help="Print the top levels of a label tree with label names.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check every file against its checksum.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Show a run's method, parameters, labels, duality gaps and size, or the most important features of a label.

    The relative duality gap of a label bounds the distance of its solution, before pruning, from the optimal objective.
    Labels that did not reach the tolerance are listed.

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
            show.say(f"{run}: every file matches its checksum ({n_pieces:,} pieces checked)")
    if label is not None:
        _show_label(opened, label, top, json)
        return
    if tree:
        drawn = draw(opened)
        show.print_json({"tree": drawn.splitlines()}) if json else typer.echo(drawn)
        return
    metadata = summarize(opened)
    if json:
        show.print_json({**metadata, "verified": verify})
    else:
        show.print_table(str(run), ["", ""], [[name, value] for name, value in _rows(metadata)])
        _show_worst(metadata["certificate"])


def _rows(metadata: dict[str, Any]) -> list[tuple[str, str]]:
    recipe, solved, chosen = metadata["recipe"], metadata["certificate"], metadata["chosen"]
    rows = [("method", recipe["method"])]
    for name, value in recipe["params"].items():
        if name in chosen:
            rows.append((f"  {name}", f"{_short(chosen[name])} (chosen on held-out rows)"))
        else:
            rows.append((f"  {name}", _short(value)))
    if recipe["text"] is not None:
        words = {name: value for name, value in recipe["text"].items() if name != "encoder"}
        rows.append(("text", _short(words)))
        if "encoder" in recipe["text"]:
            rows.append(("encoder", _encoder(recipe["text"]["encoder"])))
    rows += [
        ("labels", f"{metadata['n_labels']:,}"),
        ("features", show.features(metadata["n_features"], metadata["n_dense"], unit="")),
    ]
    if metadata["labels_without_positives"]:
        rows.append(("labels without positives", f"{metadata['labels_without_positives']:,}"))
    if metadata["vocabulary"]:
        language = metadata["vocabulary"]["language"] or "all languages"
        rows.append(("vocabulary", f"{metadata['vocabulary']['n_concepts']:,} concepts, {language}"))
    for part in metadata["parts"]:
        what = "trained on" if part["first"] == 0 else f"labels from {part['first']:,} on"
        digest = f", digest {part['digest'][:12]}" if part["digest"] else ""
        state = "" if part["status"] == "complete" else " (not finished)"
        rows.append((what, f"{part['n_samples']:,} rows{digest}{state}"))
    rows += [
        (title, f"{value:,}" if isinstance(value, int | float) else str(value))
        for title, value in metadata["model"].items()
    ]
    rows.append(("on disk", f"{-(-metadata['bytes'] // 1000):,} kB in {show.counted(metadata['n_pieces'], 'piece')}"))
    if solved is not None:
        n_problems = solved["met"] + solved["missed"]
        converged = f"{solved['met']:,} of {n_problems:,} {solved['unit']}"
        rows.append((f"converged (duality gap {solved['tol']:g})", converged))
        rows.append(("median duality gap", f"{solved['median_gap']:.2g}"))
    rows.append(("probabilities", _calibrated(metadata["calibration"])))
    made = metadata["parts"][0]["versions"]
    if made:
        rows.append(("made with", ", ".join(f"{name} {version}" for name, version in made[-1].items())))
    return rows


def _calibrated(calibration: dict[str, Any] | None) -> str:
    """Return how the probabilities of a run were made, in words."""
    if calibration is None:
        return "none (`unmissed calibrate` makes them)"
    added = calibration["labels_added_since"]
    later = f"; {added:,} labels were added later: theirs are approximate" if added else ""
    return f"that labels are observed; {calibration['n_samples']:,} rows, {calibration['groups']} held out{later}"


def _show_worst(solved: dict[str, Any] | None) -> None:
    if solved is None or not solved["worst"]:
        return
    titles = [title for title in solved["worst"][0] if title not in ("number", "name", "gap")]
    rows = [
        [str(one["name"]), f"{one['gap']:.2g}", *(f"{one[title]:g}" for title in titles)] for one in solved["worst"]
    ]
    show.print_table("Largest duality gaps", [solved["unit"], "gap", *titles], rows)
    if solved["missed"]:
        show.say(f"{solved['missed']:,} {solved['unit']} did not converge: {', '.join(solved['missed_names'])}")


def _show_label(run: "Run", label: str, top: int, json: bool) -> None:
    from unmissed.runs.inspection import describe_label

    metadata = describe_label(run, run.label(label), top)
    if json:
        show.print_json(metadata)
        return
    rows = [
        [feature["name"] or str(feature["number"]), f"{feature['weight']:+.3f}"] for feature in metadata["features"]
    ]
    rows.append(["(bias)", f"{metadata['constant']:+.3f}"])
    seen = "" if metadata["count"] is None else f", {metadata['count']:,} training rows"
    show.print_table(f"{metadata['name']} (label {metadata['label']}{seen})", ["feature", "weight"], rows)


def _encoder(identity: dict[str, Any]) -> str:
    """Return the identity of an encoder in words."""
    return (
        f"{identity['name']} (digest {identity['digest'][:12]}): {identity['n_dense']:,} numbers of at most "
        f"{identity['max_tokens']:,} tokens, {identity['pooling']} pooling"
    )


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, dict) and "method" in one for one in value):
        value = ", ".join(one["method"] for one in value)  # the members of an ensemble
    shown = ", ".join(f"{key} {one}" for key, one in value.items()) if isinstance(value, dict) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
