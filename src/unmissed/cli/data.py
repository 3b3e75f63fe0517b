"""`unmissed data`: look at data sets, convert them, verify them, make one up."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import ReadingOptions, TextOptions, with_groups
from unmissed.errors import InputError

if TYPE_CHECKING:
    from unmissed.data.documents import Reading
    from unmissed.data.statistics import Statistics
    from unmissed.data.survey import Survey

FORMS = ".jsonl, .csv, .tsv, .parquet, a folder of texts, .txt (XMC), a store, X.npz,Y.npz"

app = typer.Typer(no_args_is_help=True, help="Look at data sets, convert them, verify them, make one up.")


@app.command()
@with_groups
def stats(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help=f"The training set: {FORMS}."),
    ],
    reading: ReadingOptions,
    text: TextOptions,
    test: Annotated[list[str] | None, typer.Option(help="A test set; may be given more than once.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the label frequencies to this .png, .pdf or .svg.")] = None,
    labels_only: Annotated[bool, typer.Option("--labels-only", help="Do not count the terms of texts.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Print sizes, points per label, labels per point and the power law of labels.

    APpL is the average number of points per label (of the labels that occur),
    ALpP the average number of labels per point, both of the training set. The
    exponent b of the power law n_r ~ r^-b, where n_r rows have the label of rank
    r, is the slope of a line through ln n_r over ln r, fitted by least squares.
    Rank r weighs 1/r, so that head and tail count alike.

    Example: unmissed data stats train.txt.gz --test test.txt.gz
    """
    from unmissed.data.survey import survey

    with show.progress_bar("reading") as progress:
        found = survey(
            data,
            test or [],
            text=text.features(data, reading.columns),
            count_features=not labels_only,
            progress=progress,
            **reading.words(),
        )
    for line in found.warnings:
        show.warn(line)
    if figure is not None:
        from unmissed.reports.data_figures import draw_label_frequencies

        draw_label_frequencies(found.label_counts, found.train.power_law, figure, title=show.plain(_short(data)))
    if json:
        show.print_json(_as_json(data, test or [], found))
    else:
        _print_stats(data, test or [], found)


@app.command()
@with_groups
def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="What to read: any form that `data stats` reads.")],
    target: Annotated[
        str, typer.Argument(metavar="DST", help="What to write: a folder, .txt or .jsonl[.gz|.xz], X.npz,Y.npz.")
    ],
    reading: ReadingOptions,
    text: TextOptions,
    like: Annotated[str | None, typer.Option(help="The training set, to give a test set its columns.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes, for text into a store. No effect on the result.", min=1)] = 1,
    json: show.JsonOption = False,
) -> None:
    """Convert a data set into another form; texts become TF-IDF features.

    A target without suffix becomes a store: a folder that opens at once, without
    reading, and remembers how its features were made from text. Name it with --like
    to give a test set the same features and labels. For a store, texts are read twice,
    in blocks, and never held in memory at once, so there may be any number of them.
    A .jsonl target keeps texts, labels and ids as they are.

    Example: unmissed data convert train.jsonl.xz train --min-df 3

    Example: unmissed data convert test.jsonl.xz test --like train

    Example: unmissed data convert posts.csv posts.jsonl --text-column body --labels-column tags
    """
    from unmissed.data import load, open_store, save
    from unmissed.data.documents import Reading
    from unmissed.data.large_text import convert_text
    from unmissed.data.sources import holds_text, target_form

    form = target_form(target)  # before the reading, which may take long
    if Path(target).exists() and Path(source).exists() and Path(target).samefile(source):
        raise InputError(f"{target}: exists already, it is the source; choose another name")
    how = Reading(reading.columns, not reading.no_header)
    if form == "json":
        text.refuse(f"{target}: JSON lines keep texts as they are")
        if like is not None:
            raise InputError(f"{target}: JSON lines keep texts and labels as they are; leave out --like")
        _convert_to_lines(source, target, how, json)
        return
    if like is not None:
        text.refuse(f"{like}: its features are used (--like)")
    features = text.features(source, reading.columns)
    with show.stoppable(lambda: show.not_written(target)):
        with show.progress_bar("reading") as progress:
            training = None if like is None else load(like)
            if form == "store" and holds_text(source):
                convert_text(source, target, text=features, like=training, reading=how, n_jobs=jobs, progress=progress)
                dataset = open_store(target)
            else:
                dataset = load(source, like=training, text=features, progress=progress, **reading.words())
        if form != "store" or not holds_text(source):
            with show.progress_bar("writing") as progress:
                save(dataset, target, progress=progress)
    facts = {
        "path": target,
        "n_samples": dataset.n_samples,
        "n_features": dataset.n_features,
        "n_labels": dataset.n_labels,
        "n_unknown_labels": dataset.n_unknown_labels,
        "digest": dataset.digest,
    }
    if json:
        show.print_json(facts)
        return
    unknown = f"; {dataset.n_unknown_labels:,} marks of unknown labels left out" if dataset.n_unknown_labels else ""
    show.say(
        f"{target}: {dataset.n_samples:,} rows, {dataset.n_features:,} features, {dataset.n_labels:,} labels{unknown}"
    )


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The new folder.")],
    train: Annotated[int, typer.Option(help="Training rows.", min=1)] = 10_000,
    test: Annotated[int, typer.Option(help="Test rows.", min=0)] = 2_500,
    labels: Annotated[int, typer.Option(help="Labels.", min=1)] = 500,
    features: Annotated[int, typer.Option(help="Words in the vocabulary.", min=1)] = 5_000,
    labels_per_row: Annotated[float, typer.Option(help="Labels drawn per row, on average.", min=1)] = 3.0,
    exponent: Annotated[float, typer.Option(help="Exponent of the power law of label frequencies.", min=0)] = 1.0,
    propensity: Annotated[
        str, typer.Option(help="How likely labels are kept: jain, jain:A,B, constant:P, table:FILE.")
    ] = "jain",
    seed: Annotated[int, typer.Option(help="The seed of the corpus.", min=0)] = 0,
    xmc: Annotated[bool, typer.Option("--xmc", help="Write XMC text instead of stores.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Make up a long-tailed corpus and drop some of its labels at random.

    The folder gets train and test as annotators would have left them, with label
    l kept with probability p_l; train-complete and test-complete with all true
    labels; and propensities.txt with p of each label, as --propensity table:FILE
    takes it. p is computed from the complete training labels.

    Example: unmissed data make corpus --labels 1000 --propensity jain:0.55,1.5
    """
    from dataclasses import replace

    import numpy as np

    from unmissed.data import make_corpus, write_store, write_xmc
    from unmissed.propensity import drop_labels, parse
    from unmissed.writing import written_aside

    if folder.exists() and not (folder / "propensities.txt").is_file():
        raise InputError(f"{folder}: exists already; remove it or choose another name")
    model = parse(propensity)
    rng = np.random.default_rng(seed)
    corpus = make_corpus(train, test, labels, features, labels_per_row=labels_per_row, exponent=exponent, rng=rng)
    p = model.fit(corpus.train.label_counts, train)
    kept = {}
    with written_aside(folder, keep_same=True) as aside:
        for name, complete in (("train", corpus.train), ("test", corpus.test)):
            observed = replace(complete, Y=drop_labels(complete.Y, p, rng))
            kept[name] = observed.Y.nnz / max(complete.Y.nnz, 1)
            for suffix, dataset in (("", observed), ("-complete", complete)):
                if xmc:
                    write_xmc(dataset, aside / f"{name}{suffix}.txt")
                else:
                    write_store(dataset, aside / f"{name}{suffix}")
        (aside / "propensities.txt").write_text("".join(f"{value!r}\n" for value in p.tolist()), encoding="utf-8")
    if json:
        show.print_json({"path": str(folder), "train": train, "test": test, "labels": labels, "kept": kept})
        return
    show.say(
        f"{folder}: {train:,} training and {test:,} test rows, {labels:,} labels; {kept['train']:.0%} of labels kept"
    )


@app.command()
def verify(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The folder of a data set that `data convert` made.")],
    json: show.JsonOption = False,
) -> None:
    """Compare every file of a store with its checksum, its manifest included, and every index with the sizes.

    Example: unmissed data verify train
    """
    from unmissed.data import open_store

    dataset = open_store(store, verify=True)
    if json:
        show.print_json({"path": str(store), "verified": True, "digest": dataset.digest})
        return
    show.say(
        f"{store}: every file matches its checksum "
        f"({dataset.n_samples:,} rows, {dataset.n_features:,} features, {dataset.n_labels:,} labels)"
    )


def _convert_to_lines(source: str, target: str, reading: "Reading", json: bool) -> None:
    """Write documents as JSON lines."""
    from unmissed.data.forms import holds_text

    if not holds_text(source):
        raise InputError(f"{source}: holds features, whose texts are not known; JSON lines are written from texts")
    with show.stoppable(lambda: show.not_written(target)), show.progress_bar("writing") as progress:
        n_samples, n_labels = reading.write_lines(source, target, progress)
    if json:
        show.print_json({"path": target, "n_samples": n_samples, "n_labels": n_labels})
    else:
        show.say(f"{target}: {n_samples:,} rows with their texts, {n_labels:,} labels")


def _short(path: str) -> str:
    """Return the last two parts of a path, enough to know a file by."""
    return "/".join(Path(path).parts[-2:])


def _as_json(data: str, tests: list[str], found: "Survey") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "train": {"path": data, **asdict(found.train)},
        "tests": [{"path": path, **asdict(one)} for path, one in zip(tests, found.tests, strict=True)],
        "together": asdict(found.together),
        "n_features": found.n_features,
        "n_new_labels": found.n_new_labels,
        "warnings": found.warnings,
    }


def _print_stats(data: str, tests: list[str], found: "Survey") -> None:
    train = found.train
    show.print_table(
        _short(data),
        ["Training", "Test", "Labels", "Features", "APpL", "ALpP"],
        [
            [
                f"{train.n_samples:,}",
                f"{sum(one.n_samples for one in found.tests):,}" if found.tests else "-",
                f"{train.n_labels:,}",
                "-" if found.n_features is None else f"{found.n_features:,}",
                f"{train.points_per_label:.2f}",
                f"{train.labels_per_point:.2f}",
            ]
        ],
    )
    if found.tests:
        rows = [("training", train), *((_short(p), one) for p, one in zip(tests, found.tests, strict=True))]
        show.print_table(
            "by file",
            ["", "Rows", "Labels used", "Marks", "APpL", "ALpP", "Rows without labels"],
            [_row(name, one) for name, one in [*rows, ("together", found.together)]],
        )
    if train.power_law is not None:
        law = train.power_law
        show.say(f"power law of label frequencies: exponent {law.exponent:.2f} (R2 {law.r_squared:.2f})")
    show.say(f"labels without positives in training: {train.n_labels - train.n_used_labels:,}")
    show.say(f"labels with one positive in training: {train.n_labels_seen_once:,}")
    if found.tests:
        show.say(f"labels that only the test has: {found.n_new_labels:,}")
    show.say(f"training rows without labels: {train.n_rows_without_labels:,}")


def _row(name: str, one: "Statistics") -> list[str]:
    return [
        name,
        f"{one.n_samples:,}",
        f"{one.n_used_labels:,}",
        f"{one.n_marks:,}",
        f"{one.points_per_label:.2f}",
        f"{one.labels_per_point:.2f}",
        f"{one.n_rows_without_labels:,}",
    ]
