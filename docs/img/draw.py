"""Redraw the figures that need no data: `python docs/img/draw.py`, a few minutes.

They show the corpus of `unmissed demo`, whose complete labels are known, and functions of the library.
"""

import tempfile
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from unmissed import DiSMEC, Jain
from unmissed.data import open_store
from unmissed.metrics.calibration_error import probability_errors
from unmissed.models.linear.linear_model import LinearModel
from unmissed.propensity import Constant, FlattenedJain, Propensity, costs
from unmissed.reports.demo_page import draw_corrected, draw_frequencies, draw_gains
from unmissed.reports.drawing import INK, SOFT, dress, new_figure, styled, write_figure
from unmissed.reports.reliability_figures import COLORS, draw_reliability
from unmissed.runs import calibrate
from unmissed.studies.demo_study import run_demo
from unmissed.studies.loss_sketch import study_losses

HERE = Path(__file__).parent
TOLERANCES = (0.3, 0.1, 0.01, 0.001)
NEARLY_EXACT = 1e-6


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results, _ = run_demo(folder)
        save_svg(draw_gains(results), "gain-by-decile")
        save_svg(draw_frequencies(results), "missing-by-frequency")
        save_svg(draw_corrected(results), "corrected-precision")
        save_svg(draw_certificates(folder), "certificates")
        save_svg(draw_calibration(folder), "reliability")
        study_losses(folder / "losses")
        (HERE / "losses.svg").write_bytes((folder / "losses" / "losses.svg").read_bytes())
    save_svg(draw_propensities(), "propensities")


@styled
def draw_propensities(n_samples: int = 50_000) -> Figure:
    """Draw p against the label count, and below it the cost of a positive by weighting."""
    figure = new_figure(5.4)
    top, bottom = figure.subplots(2, 1, sharex=True)
    counts = np.unique(np.geomspace(1, n_samples, 200).astype(np.int64))
    shown: dict[str, Propensity] = {
        "Jain, A = 0.55, B = 1.5": Jain(),
        "Jain, A = 0.5, B = 0.4": Jain(0.5, 0.4),
        "flattened Jain": FlattenedJain(),
        "constant, 0.5": Constant(0.5),
    }
    for (title, model), color in zip(shown.items(), COLORS, strict=False):
        top.plot(counts, model.estimate(counts, n_samples), color=color, lw=1.8, label=title)
    p = Jain().estimate(counts, n_samples)
    for weighting, color in zip(("surrogate", "tail", "floored-tail", "balanced", "none"), COLORS, strict=False):
        positive = costs(weighting, p, counts).positive
        width = 3.6 if weighting == "tail" else 1.6
        bottom.plot(counts, positive, color=color, lw=width, alpha=0.4 if width > 2 else 1, label=weighting)
    top.set(xscale="log", ylim=(0, 1), ylabel="propensity p")
    bottom.set(
        yscale="log", xlabel=f"observed positives of the label, of {n_samples:,} rows", ylabel="cost of a positive"
    )
    bottom.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    for axes, columns in ((top, 2), (bottom, 3)):
        axes.minorticks_off()
        dress(axes, grid="both")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)
    return figure


@styled
def draw_certificates(demo: Path) -> Figure:
    """Draw each label's distance to the optimum against its certified gap, for several tolerances."""
    data = open_store(demo / "data" / "train")
    optimum = objectives(DiSMEC(tol=NEARLY_EXACT).fit(data.X, data.Y))
    figure = new_figure(4.6)
    axes = figure.add_subplot()
    for tol, color in zip(TOLERANCES, COLORS, strict=False):
        model = DiSMEC(tol=tol).fit(data.X, data.Y)
        found = objectives(model)
        distance = np.maximum((found - optimum) / found, NEARLY_EXACT)
        gap = model.certificate().gap
        axes.plot(gap, distance, ".", color=color, ms=3.5, alpha=0.6, label=f"tol = {tol:g}", rasterized=True)
    ends = np.array([NEARLY_EXACT, 1])
    axes.plot(ends, ends, color=SOFT, lw=1, ls=(0, (5, 3)))
    axes.annotate("distance = gap", (1.3e-5, 1.8e-5), color=INK, rotation=41)
    axes.set(xscale="log", yscale="log", xlim=(1e-5, 0.1), ylim=(3e-6, 0.1))
    axes.set(xlabel="certified relative duality gap", ylabel="relative distance to the optimum")
    dress(axes, grid="both")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, markerscale=3, handletextpad=0.1, columnspacing=0.8)
    return figure


def objectives(model: LinearModel) -> np.ndarray:
    """Return the objective value of each label."""
    return np.concatenate([shard.objective for shard in model.shards_])


def draw_calibration(demo: Path) -> Figure:
    """Draw the reliability diagram of DiSMEC's probabilities on the observed test labels."""
    train, test = (open_store(demo / "data" / part) for part in ("train", "test"))
    run = calibrate(demo / "runs" / "dismec", old_rows=[train])
    ranking = run.rank(test.X, 5)
    errors = probability_errors(ranking.labels, ranking.probabilities, test.Y)
    return draw_reliability({f"@{one.k}": one.curve._asdict() for one in errors if one.decile is None})


def save_svg(figure: Figure, name: str) -> None:
    with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "path"}):
        write_figure(figure, HERE / f"{name}.svg", metadata={"Date": None}, dpi=200)


if __name__ == "__main__":
    main()
