"""Published results of the paper: its main table (PSP, PSnDCG) and its figure of P@k and nDCG@k, per data set.

Schultheis, Qaraei, Gupta and Babbar, "Unbiased Loss Functions for Extreme Classification With Missing Labels" (2020).
"""

from __future__ import annotations

from typing import NamedTuple

TABLE = "main table"
FIGURE = "figure of P@k and nDCG@k"

COLUMNS = ("PW-DiSMEC", "SLEEC", "LEML", "PfastXML", "Parabel", "(P)PD-Sparse", "DiSMEC", "ProXML")
_FIGURE_COLUMNS = ("PW-DiSMEC", "DiSMEC", "SLEEC", "PfastXML")

METHOD_SPECS = {
    "PW-DiSMEC": ("pw-dismec:weighting=tail",),
    "SLEEC": ("sleec",),
    "LEML": ("leml",),
    "PfastXML": ("pfastxml",),
    "Parabel": ("parabel",),
    "(P)PD-Sparse": ("pd-sparse", "ppd-sparse"),
    "DiSMEC": ("dismec",),
    "ProXML": ("proxml",),
}
"""Method specs for each column; the paper does not say whether (P)PD-Sparse is PD-Sparse or PPD-Sparse."""
OWN, UNWEIGHTED = "PW-DiSMEC", "DiSMEC"
"""The columns of the paper's own method and of its unweighted counterpart."""
UPPER_BOUND = "pw-dismec:weighting=surrogate"
"""The paper's own method with the convex upper bound of the unbiased loss."""

_TABLE_VALUES = """
EURLex-4K
PSP@1    44.9 35.4 24.1 39.9 37.7 38.2 41.2 45.2
PSP@3    49.2 39.8 27.2 43.0 44.7 42.7 45.4 48.2
PSP@5    52.2 42.7 29.1 44.5 48.8 44.8 49.3 51.0
PSnDCG@3 48.0 38.8 26.4 42.2 43.4 40.9 44.3 47.5
PSnDCG@5 50.1 40.3 27.7 43.2 46.1 42.8 46.9 49.1
AmazonCat-13K
PSP@1    67.1 46.8 - 68.0 50.9 49.6 51.4 52.3
PSP@3    71.3 58.5 - 72.3 64.0 61.6 61.0 62.0
PSP@5    73.2 65.0 - 74.6 72.1 68.2 65.9 66.2
PSnDCG@3 70.4 55.1 - 71.1 35.2 58.3 65.2 66.1
PSnDCG@5 72.4 60.1 - 72.6 38.1 62.7 68.8 69.5
Wikipedia-31K
PSP@1    15.6 11.1 9.4 9.4 11.7 - 13.4 13.6
PSP@3    16.2 11.9 10.1 9.9 12.7 - 12.9 13.0
PSP@5    17.3 12.4 10.6 10.4 13.7 - 13.6 13.2
PSnDCG@3 16.0 11.7 9.9 9.7 12.5 - 13.2 13.4
PSnDCG@5 16.8 12.1 10.2 10.1 13.1 - 13.6 13.7
WikiLSHTC-325K
PSP@1    35.3 20.5 3.4 25.4 28.7 28.3 29.1 34.8
PSP@3    38.4 23.3 3.7 26.8 35.0 33.5 35.6 37.7
PSP@5    41.7 25.2 4.2 28.3 38.6 36.6 39.4 41.0
PSnDCG@3 39.8 22.4 3.6 26.4 35.2 31.9 35.9 38.7
PSnDCG@5 42.6 23.5 3.9 27.2 38.1 33.6 39.4 41.5
Wikipedia-500K
PSP@1    33.9 21.1 3.2 22.2 28.8 - 31.2 33.1
PSP@3    36.7 21.0 3.4 21.3 31.9 - 33.4 35.0
PSP@5    39.9 20.8 3.5 21.6 34.6 - 37.0 39.4
PSnDCG@3 39.7 20.9 3.1 21.6 31.2 - 33.7 35.2
PSnDCG@5 42.7 23.1 3.3 21.8 35.5 - 37.1 39.0
Amazon-670K
PSP@1    30.9 20.6 2.0 27.1 27.6 26.6 27.8 30.8
PSP@3    33.1 23.3 2.2 28.2 31.0 30.7 30.6 32.8
PSP@5    35.2 26.0 2.4 29.3 34.1 34.7 34.2 35.1
PSnDCG@3 31.9 22.6 2.2 27.9 28.4 - 28.8 31.7
PSnDCG@5 32.9 24.4 2.3 28.6 29.9 - 30.7 32.6
"""
_FIGURE_VALUES = """
EURLex-4K
P@1    84.03 82.93 79.2 72.1
P@3    70.54 70.54 64.3 63.1
P@5    58.72 58.96 52.3 51.8
nDCG@1 84.03 82.4 79.2 72.1
nDCG@3 74.00 72.5 68.1 61.2
nDCG@5 68.00 66.7 61.6 52.3
WikiLSHTC-325K
P@1    65.46 64.9 54.8 54.8
P@3    42.90 42.7 33.4 35.8
P@5    31.66 31.5 23.8 25.8
nDCG@1 65.46 64.9 54.8 54.8
nDCG@3 59.07 58.5 47.2 48.7
nDCG@5 58.97 58.4 46.1 48.1
Wikipedia-500K
P@1    70.86 70.2 48.2 55.8
P@3    50.82 50.6 29.4 35.9
P@5    39.91 39.7 21.2 26.9
nDCG@1 70.86 70.2 48.2 55.8
nDCG@3 62.30 42.1 22.6 27.2
nDCG@5 60.62 40.5 21.4 25.1
Amazon-670K
P@1    43.80 44.7 34.7 36.3
P@3    39.11 39.7 31.2 32.4
P@5    35.81 36.1 28.5 31.0
nDCG@1 43.80 44.7 34.7 35.3
nDCG@3 41.47 42.1 32.7 33.6
nDCG@5 40.12 40.5 31.5 30.8
"""

NOTES = {
    "EURLex-4K": "The figure prints two values for DiSMEC at 1: P@1 82.93 and nDCG@1 82.4, which should be one number.",
    "Wikipedia-31K": "The table prints the first three rows as P@k; its caption, and PSnDCG beside them, say PSP@k.",
    "Wikipedia-500K": "The figure's nDCG@3 and nDCG@5 of DiSMEC are, to the digit, those of Amazon-670K.",
    "Amazon-670K": "The figure prints two values for PfastXML at 1: P@1 36.3 and nDCG@1 35.3.",
}
"""Inconsistencies in the published values."""


class PublishedFigure(NamedTuple):
    """A published value in percent: its metric, its column, and its position in the paper."""

    metric: str
    column: str
    value: float
    position: str


def published_figures(name: str) -> list[PublishedFigure]:
    """Return all published values for a data set of the catalog."""
    return [
        PublishedFigure(metric, column, float(value), position)
        for text, columns, position in ((_TABLE_VALUES, COLUMNS, TABLE), (_FIGURE_VALUES, _FIGURE_COLUMNS, FIGURE))
        for metric, values in _rows(text, name)
        for column, value in zip(columns, values, strict=True)
        if value != "-"
    ]


def _rows(text: str, name: str) -> list[tuple[str, list[str]]]:
    """Return the rows below a data set's name, up to the next name."""
    rows, inside = [], False
    for line in text.strip().splitlines():
        metric, *values = line.split()
        inside = metric == name if not values else inside
        if inside and values:
            rows.append((metric, values))
    return rows
