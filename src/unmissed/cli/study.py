"""`unmissed study`: the paper's tables and figures, regenerated, and what missing labels do to your data."""

from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show
from unmissed.cli.options import ReadingOptions, TextOptions, with_groups
from unmissed.errors import InputError

app = typer.Typer(
    no_args_is_help=True, help="Regenerate the paper's tables and figures; see what missing labels do to your own data."
)

OutOption = Annotated[Path, typer.Option("--out", help="The folder to write into.", file_okay=False)]


@app.command()
def losses(
    out: OutOption,
    propensity: Annotated[float, typer.Option(help="The chance that a true label was written down.")] = 0.5,
    as_json: show.JsonOption = False,
) -> None:
    """Draw the losses of a present label: plain, unbiased, and the convex bounds.

    Writes losses.png, losses.svg and losses.csv.

    Example: unmissed study losses --out sketch
    """
    from unmissed.studies.loss_sketch import study_losses

    _print_files(study_losses(out, propensity), as_json)


@app.command()
def mnist(
    out: OutOption,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the four idx files of MNIST, gzipped or not.", file_okay=False)
    ] = None,
    propensities: Annotated[
        str, typer.Option(help="Propensities, separated by commas.")
    ] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1",
    seeds: Annotated[int, typer.Option(help="Trainings per loss and propensity.")] = 3,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training rows: 10, or 100 over the small digits.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Units in the hidden layer.")] = 128,
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 32,
    rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 0.001,
    workers: Annotated[int | None, typer.Option(help="Processes; as many as there are cores if not given.")] = None,
    as_json: show.JsonOption = False,
) -> None:
    """Train a small network on MNIST whose labels are dropped, with six losses, and test it on complete labels.

    Test loss and accuracy against propensity: mnist.png, trainings.csv, summary.csv, study.json.

    From epoch to epoch at the lowest propensity: epochs.png.

    Each finished training is kept; the same call goes on where it stopped.

    Without --data, the small digits of scikit-learn are used, and the figure says so.

    Example: unmissed study mnist --data mnist/ --out study
    """
    from unmissed.studies.mnist import Settings
    from unmissed.studies.mnist_report import study_mnist

    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, not {workers}")
    if epochs is None:
        epochs = 10 if data is not None else 100  # the small digits are forty times fewer
    settings = Settings(_parse_numbers(propensities), seeds, epochs, hidden, batch, rate)
    kept = f"finished trainings are kept in {out}; the same command goes on where it stopped"
    with show.stoppable(lambda: kept), show.progress_bar("training") as progress:
        study, files = study_mnist(out, settings, data, workers=workers, progress=progress)
    if as_json:
        show.print_json({"files": [str(path) for path in files], "summary": study["summary"]})
        return
    rows = [
        [
            f"{row['family']}, {row['label']}",
            f"{row['propensity']:g}",
            _show(row["test_loss_mean"], row["test_loss_std"]),
            _show(row["accuracy_mean"], row["accuracy_std"]),
        ]
        for row in sorted(study["summary"], key=lambda row: (row["family"], row["label"], row["propensity"]))
    ]
    show.print_table(
        f"{study['settings']['data']}, complete test labels", ["loss", "propensity", "test loss", "accuracy"], rows
    )
    _print_files(files, as_json=False)


@app.command()
@with_groups
def missing(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Rows to train on; their labels count as complete.")],
    test: Annotated[str, typer.Argument(metavar="TEST", help="Rows to test on; their labels count as complete.")],
    out: OutOption,
    reading: ReadingOptions,
    text: TextOptions,
    a: Annotated[float, typer.Option("--a", help="A of the propensities by which labels are dropped.")] = 0.55,
    b: Annotated[float, typer.Option("--b", help="B of the same propensities.")] = 1.5,
    seeds: Annotated[int, typer.Option(help="How often labels are dropped and models trained.")] = 3,
    workers: Annotated[int | None, typer.Option(help="Processes; as many as there are cores if not given.")] = None,
    name: Annotated[str | None, typer.Option(help="The name of the data set; by default that of its folder.")] = None,
    as_json: show.JsonOption = False,
) -> None:
    """Drop labels by known propensities, train on what is left, and compare every figure with the complete labels.

    Answers three questions on your data: does PSP on the labels that are left track the true precision, how wrong may
    propensities be, and does weighting help? Writes index.html, figures/, tables/ and study.json.

    Each finished training is kept; the same call goes on where it stopped.

    Example: unmissed study missing train.txt.gz test.txt.gz --out missing
    """
    from unmissed.studies.missing import Settings
    from unmissed.studies.missing_report import study_missing

    features = text.features(train, reading.columns)
    with show.progress_bar("training") as progress:
        study, files = study_missing(
            train,
            test,
            out,
            Settings(a, b, seeds),
            text=features,
            reading=reading.words(),
            name=name,
            workers=workers,
            progress=progress,
        )
    if as_json:
        show.print_json({**study, "files": [str(path) for path in files]})
        return
    for sentence in study["advice"]:
        show.say(sentence)
    show.say(f"The page with figures: {files[0]}")


@app.command()
@with_groups
def paper(
    out: OutOption,
    data: Annotated[
        Path, typer.Option(help="A folder with a folder per data set (train, test), and mnist.", file_okay=False)
    ],
    text: TextOptions,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help="Methods, as for compare; all if not given.")
    ] = None,
    parts: Annotated[str, typer.Option(help="What to make, separated by commas.")] = "losses,mnist,compare",
    time_limit: Annotated[str | None, typer.Option(help="The most time for one method: 90s, 50m, 2h.")] = None,
    memory_limit: Annotated[str | None, typer.Option(help="The most memory for one method: 800M, 4G.")] = None,
    seeds: Annotated[int, typer.Option(help="Trainings per loss and propensity on digits.", min=1)] = 3,
    jobs: Annotated[int | None, typer.Option(help="Threads of one method, processes for digits.")] = None,
    as_json: show.JsonOption = False,
) -> None:
    """Make every table and figure of the paper from the data sets in a folder, with a page that lists them.

    Each data set is compared as by `unmissed compare`, into a folder of its own; the losses and digits studies are
    those of `unmissed study losses` and `unmissed study mnist`. Finished work is kept; the same call goes on. Of texts,
    the 100,000 most frequent terms that at least 3 documents have are kept, if not told otherwise.

    Example: unmissed study paper --data data/ --out paper --time-limit 2h
    """
    from dataclasses import replace

    from unmissed.cli.compare import read_limits
    from unmissed.data import TextFeatures
    from unmissed.runs.compare import Comparison
    from unmissed.runs.contenders import read_contenders
    from unmissed.studies.mnist import Settings
    from unmissed.studies.paper import study_paper

    limits = read_limits(time_limit, memory_limit)
    has_digits = (data / "mnist").is_dir()
    results, pages = study_paper(
        data,
        out,
        Comparison(read_contenders(methods or ()), limits=limits, n_jobs=jobs),
        parts=[part for part in parts.split(",") if part],
        digits=replace(Settings(), seeds=seeds, epochs=10 if has_digits else 100),
        text=TextFeatures(**{"min_df": 3, "max_features": 100_000, **text.given()}),
        workers=jobs,
        stage=show.progress_bar,
    )
    if as_json:
        show.print_json({"pages": [str(page) for page in pages], "results": results})
        return
    for page in pages:
        show.say(page)


def _show(mean: float | None, spread: float | None) -> str:
    if mean is None:
        return "ran away"
    return f"{mean:.4f}" if spread is None else f"{mean:.4f} ± {spread:.4f}"


def _print_files(files: list[Path], as_json: bool) -> None:
    if as_json:
        show.print_json({"files": [str(path) for path in files]})
    else:
        for path in files:
            show.say(path)


def _parse_numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise InputError(f"--propensities must be numbers separated by commas, not {text!r}") from error
