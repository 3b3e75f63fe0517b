"""`unmissed study`: the paper's own figures, computed anew."""

from pathlib import Path
from typing import Annotated

import typer

from unmissed.cli import show
from unmissed.errors import InputError

app = typer.Typer(no_args_is_help=True, help="Compute the paper's own figures anew.")

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

    Without --data the small digits of scikit-learn serve, and the figure says so.

    Example: unmissed study mnist --data mnist/ --out study
    """
    from unmissed.studies.mnist import Settings
    from unmissed.studies.mnist_report import study_mnist

    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, not {workers}")
    if epochs is None:
        epochs = 10 if data is not None else 100  # the small digits are forty times fewer
    settings = Settings(_parse_numbers(propensities), seeds, epochs, hidden, batch, rate)
    with show.progress_bar("training") as progress:
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
