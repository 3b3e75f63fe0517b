"""Reliability diagrams: the observed fraction of suggested labels against their probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

from unmissed.errors import InputError
from unmissed.reports.drawing import SOFT, dress, new_figure, styled, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#2f6db3", "#e09f1f", "#c0392b", "#5a9e6f", "#8a6fb8", "#8a8f98")
FORMATS = (".svg", ".png", ".pdf")
_LEVEL = 0.95


@styled
def draw_reliability(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw reliability curves by their titles, each with exact 95 % binomial intervals of its bins.

    A curve has the mean `probability`, the `observed` fraction and `n_cells` of each bin.
    """
    figure = new_figure(4.6)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=SOFT, lw=1, ls=(0, (5, 3)))
    for position, (title, curve) in enumerate(curves.items()):
        color = COLORS[position % len(COLORS)]
        p, share, n = (np.asarray(curve[name], np.float64) for name in ("probability", "observed", "n_cells"))
        low, high = _interval(share * n, n)
        axes.vlines(p, low, high, color=color, lw=3, alpha=0.3)
        axes.plot(p, share, "o-", color=color, ms=4, lw=1, label=title)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="observed fraction", aspect="equal")
    dress(axes, "both")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.1, handletextpad=0.3)
    return figure


def curves_by_cut(errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the reliability curve of all labels at each cut-off."""
    return {f"@{one['k']}": one["curve"] for one in errors if one["decile"] is None}


def check_figure_name(path: Path) -> None:
    """Raise InputError unless the suffix of a figure's name is one of `FORMATS`."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unknown kind of picture; expected a name that ends in {', '.join(FORMATS)}")


def write_reliability(errors: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the reliability diagram of a ranking, with one curve per cut-off; the suffix is the format."""
    import matplotlib

    check_figure_name(path)
    figure = draw_reliability(curves_by_cut(errors))
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "unmissed", "svg.fonttype": "path"}):
        write_figure(figure, path, **({"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {"dpi": 160}))


def _interval(hits: Any, n: Any) -> tuple[Any, Any]:
    """Return the interval of Clopper and Pearson of each fraction."""
    tail = (1 - _LEVEL) / 2
    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1e-9), n - hits + 1), 0.0)
    return low, np.where(hits < n, beta.ppf(1 - tail, hits + 1, np.maximum(n - hits, 1e-9)), 1.0)
