"""`unmissed study`: reproduce the paper's tables and figures, and simulate missing labels on a data set."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from unmissed.cli import show
from unmissed.cli.options import (
    MemoryLimitOption,
    Policy,
    ReadingOptions,
    TextOptions,
    TimeLimitOption,
    UnseenOption,
    with_groups,
)
from unmissed.errors import InputError

app = typer.Typer(
    no_args_is_help=True, help="Reproduce the paper's tables and figures; simulate missing labels on your own data."
)

OutOption = Annotated[Path, typer.Option("--out", help="The output folder.", file_okay=False)]
WorkersOption = Annotated[int | None, typer.Option(help="Processes. Default: one per core.", min=1)]


@dataclass(frozen=True)
class StudyOptions:
    """What studies on a data set share: the data, its name, the output folder and the number of processes."""

    train: Annotated[str, typer.Argument(metavar="TRAIN", help="The training set; its labels are taken as complete.")]
    test: Annotated[str, typer.Argument(metavar="TEST", help="The test set; its labels are taken as complete.")]
    out: OutOption
    workers: WorkersOption = None
    name: Annotated[str | None, typer.Option(help="The name of the data set. Default: its folder's name.")] = None
    as_json: show.JsonOption = False

    def run(self, study: Callable[..., Any], settings: Any, reading: ReadingOptions, text: TextOptions) -> None:
        """Run a study with progress, and print its results or where its report is."""
        features = text.features(self.train, reading.columns)
        with show.stoppable(lambda: _kept(self.out)), show.progress_bar("training") as progress:
            found, files = study(
                self.train,
                self.test,
                self.out,
                settings,
                text=features,
                reading=reading.words(),
                name=self.name,
                workers=self.workers,
                progress=progress,
            )
        if self.as_json:
            show.print_json({**found, "files": [str(path) for path in files]})
            return
        for sentence in found["advice"]:
            show.say(sentence)
        show.say(f"Report: {files[0]}")


def _kept(out: Path) -> str:
    return f"finished trainings are kept in {out}; the same command resumes"


@app.command()
def losses(
    out: OutOption,
    propensity: Annotated[
        float, typer.Option(help="The propensity: the probability that a true label is observed.")
    ] = 0.5,
    as_json: show.JsonOption = False,
) -> None:
    """Plot the losses of a positive label: standard, unbiased, and the convex upper bounds.

    Writes losses.png, losses.svg and losses.csv.

    Example: unmissed study losses --out sketch
    """
    from unmissed.studies.loss_sketch import study_losses

    _print_files(study_losses(out, propensity), as_json)


@app.command()
def mnist(
    out: OutOption,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the four IDX files of MNIST, gzipped or not.", file_okay=False)
    ] = None,
    propensities: Annotated[
        str, typer.Option(help="Propensities, separated by commas.")
    ] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1",
    seeds: Annotated[int, typer.Option(help="Number of seeds per loss and propensity.")] = 3,
    epochs: Annotated[
        int | None, typer.Option(help="Training epochs. Default: 10, or 100 for the small digits.")
    ] = None,
    hidden: Annotated[int, typer.Option(help="Hidden units.")] = 128,
    batch: Annotated[int, typer.Option(help="Batch size.")] = 32,
    rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 0.001,
    workers: WorkersOption = None,
    as_json: show.JsonOption = False,
) -> None:
    """Train a small network on MNIST with missing labels under six losses, and test it on complete labels.

    Writes test loss and accuracy by propensity (mnist.png, trainings.csv, summary.csv, study.json) and by epoch at the
    lowest propensity (epochs.png).

    The same command resumes an interrupted study.

    Without --data, the small digits of scikit-learn are used; the figure says so.

    Example: unmissed study mnist --data mnist/ --out study
    """
    from unmissed.studies.mnist import MnistSettings
    from unmissed.studies.mnist_report import study_mnist

    if epochs is None:
        epochs = 10 if data is not None else 100  # the small digits have 40 times fewer rows
    settings = MnistSettings(_parse_numbers(propensities), seeds, epochs, hidden, batch, rate)
    with show.stoppable(lambda: _kept(out)), show.progress_bar("training") as progress:
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
        f"{study['settings']['data']}: test loss and accuracy on complete labels",
        ["loss", "propensity", "test loss", "accuracy"],
        rows,
    )
    _print_files(files, as_json=False)


@app.command()
@with_groups
def missing(
    options: StudyOptions,
    reading: ReadingOptions,
    text: TextOptions,
    a: Annotated[float, typer.Option("--a", help="A of the propensity model that drops labels.")] = 0.55,
    b: Annotated[float, typer.Option("--b", help="B of the propensity model that drops labels.")] = 1.5,
    seeds: Annotated[int, typer.Option(help="Number of repetitions with different dropped labels.")] = 3,
) -> None:
    """Simulate missing labels with known propensities, and compare results on observed and on complete labels.

    Answers three questions on your data: does PSP on observed labels track the true precision, how accurate must
    propensities be, and does weighting help? Writes index.html, figures/, tables/ and study.json.

    The same command resumes an interrupted study.

    Example: unmissed study missing train.txt.gz test.txt.gz --out missing
    """
    from unmissed.studies.missing_labels import MissingLabelSettings
    from unmissed.studies.missing_report import study_missing

    options.run(study_missing, MissingLabelSettings(a, b, seeds), reading, text)


@app.command()
@with_groups
def network(
    options: StudyOptions,
    reading: ReadingOptions,
    text: TextOptions,
    propensities: Annotated[str, typer.Option(help="Propensities, separated by commas.")] = "0.1,0.3,0.5,0.7,1",
    seeds: Annotated[int, typer.Option(help="Number of seeds per loss and propensity.")] = 1,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 15,
    hidden: Annotated[int, typer.Option(help="Hidden units.")] = 128,
    rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 0.005,
    rows: Annotated[int | None, typer.Option(help="Random training rows to use. Default: all.")] = None,
    test_rows: Annotated[int | None, typer.Option(help="Random test rows to use. Default: all.")] = None,
) -> None:
    """Train networks on a data set with missing labels under six losses, and test them on complete labels.

    Each training label is observed with the same probability, the propensity. Writes index.html, figures/, tables/,
    summary.csv and study.json. Needs PyTorch (extra torch).

    The same command resumes an interrupted study.

    Example: unmissed study network train.txt.gz test.txt.gz --out network --rows 10000
    """
    from unmissed.studies.network_losses import NetworkStudySettings
    from unmissed.studies.network_report import study_network

    settings = NetworkStudySettings(_parse_numbers(propensities), seeds, epochs, hidden, rate, rows, test_rows)
    options.run(study_network, settings, reading, text)


@app.command()
@with_groups
def paper(
    out: OutOption,
    data: Annotated[
        Path, typer.Option(help="A folder with one folder per data set (train, test), and mnist.", file_okay=False)
    ],
    text: TextOptions,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", help="Methods, as for compare. Default: all.")
    ] = None,
    parts: Annotated[str, typer.Option(help="The parts to produce, separated by commas.")] = "losses,mnist,compare",
    time_limit: TimeLimitOption = None,
    memory_limit: MemoryLimitOption = None,
    unseen_labels: UnseenOption = Policy.KEEP,
    seeds: Annotated[int, typer.Option(help="Number of seeds per loss and propensity of the MNIST study.", min=1)] = 3,
    jobs: Annotated[int | None, typer.Option(help="Threads per method; processes of the MNIST study.")] = None,
    as_json: show.JsonOption = False,
) -> None:
    """Reproduce every table and figure of the paper from the data sets in a folder, with an index page.

    Runs `unmissed compare` on each data set, `unmissed study losses` and `unmissed study mnist`. The same command
    resumes interrupted work. By default, texts use the 100,000 most frequent terms with a document frequency of at
    least 3.

    Example: unmissed study paper --data data/ --out paper --time-limit 2h
    """
    from dataclasses import replace

    from unmissed.cli.compare import read_limits
    from unmissed.data import TextFeatures
    from unmissed.runs.compare.comparison import Comparison
    from unmissed.runs.compare.method_specs import read_method_specs
    from unmissed.studies.mnist import MnistSettings
    from unmissed.studies.paper import study_paper

    limits = read_limits(time_limit, memory_limit)
    has_digits = (data / "mnist").is_dir()
    results, pages = study_paper(
        data,
        out,
        Comparison(read_method_specs(methods or ()), limits=limits, n_jobs=jobs, unseen_labels=unseen_labels.value),
        parts=[part for part in parts.split(",") if part],
        digits=replace(MnistSettings(), seeds=seeds, epochs=10 if has_digits else 100),
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
        return "diverged"
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
