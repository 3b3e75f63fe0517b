"""Figures that other programs print for one small case: pyxclib's xc_metrics, and napkinXC 0.7.2.

The case was given to both; the numbers below are what they printed. It has a row without labels, rows with fewer and
with more labels than k, and a label that training has never seen.
"""

from itertools import product

import numpy as np
import pytest

from unmissed.metrics import Conventions, evaluate
from unmissed.propensity import Jain
from unmissed.ranking import Ranking

TRAIN = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1], [0, 2, 4], [1, 5], [0], [0, 1, 2], [0, 6], [1, 0], [3, 0]]
TRUE = [[0, 1, 3], [2], [], [0, 1, 2, 4, 5, 6], [6], [0, 3], [1, 5], [7, 0]]
LISTED = [
    [0, 3, 4, 1, 2],
    [0, 1, 2, 5, 3],
    [0, 1, 2, 3, 4],
    [6, 0, 3, 2, 7],
    [0, 6, 1, 4, 2],
    [3, 0, 5, 1, 2],
    [0, 2, 4, 3, 6],
    [0, 2, 1, 7, 5],
]
INVERSE = [
    1.6127250695,
    1.8114886727,
    2.0747297584,
    2.2340385663,
    2.4849066498,
    2.4849066498,
    2.4849066498,
    2.9665996812,
]
PYXCLIB = {
    "P": [0.5, 0.5, 0.375, 0.375, 0.3],
    "nDCG": [0.5, 0.53050959, 0.5343498, 0.5975529, 0.58435351],
    "PSP": [0.46830559, 0.60419487, 0.59100069, 0.76428933, 0.72390285],
    "PSnDCG": [0.46830562, 0.54201829, 0.55203193, 0.6328063, 0.6215325],
    "recall": [0.1875, 0.4375, 0.5625, 0.6875, 0.6875],
}
NAPKINXC = {
    "P": [0.5, 0.5, 0.375, 0.375, 0.3],
    "nDCG": [0.5, 0.53050962, 0.53434978, 0.59755288, 0.58435348],
    "PSP": [0.46830559, 0.60419487, 0.59100069, 0.76428933, 0.72390285],
    "PSnDCG": [0.46830559, 0.54201835, 0.55203196, 0.6328063, 0.62153245],
    "recall": [0.1875, 0.4375, 0.5625, 0.6875, 0.6875],
    "coverage": [0.375, 0.375, 0.5, 0.75, 0.75],
    "macro precision": [0.29166667, 0.3125, 0.30208333, 0.43333333, 0.30208333],
    "macro recall": [0.1875, 0.375, 0.4375, 0.66666667, 0.66666667],
    "macro F1": [0.21666667, 0.33333333, 0.35, 0.50396825, 0.40694444],
}
RAW = {  # napkinXC with normalize=False
    "PSP": [0.99304942, 0.99304942, 0.74848002, 0.77551058, 0.62040846],
    "PSnDCG": [0.99304942, 1.06886297, 1.08119681, 1.23394459, 1.20579954],
}


def marks(rows):
    Y = np.zeros((len(rows), 8))
    for row, labels in enumerate(rows):
        Y[row, labels] = 1
    return Y


def evaluated(variant):
    inverse = 1 / Jain(0.55, 1.5).estimate(marks(TRAIN).sum(axis=0), len(TRAIN))
    ranking = Ranking(np.array(LISTED), np.tile(np.arange(5, 0, -1), (len(LISTED), 1)))
    return evaluate(ranking, marks(TRUE), inverse, range(1, 6), conventions=Conventions(variant))


def test_inverse_propensities_are_those_that_both_programs_print():
    np.testing.assert_allclose(1 / Jain().estimate(marks(TRAIN).sum(axis=0), len(TRAIN)), INVERSE, atol=1e-10)


@pytest.mark.parametrize(
    ("variant", "printed", "rounding"),
    [("pyxclib", PYXCLIB, 1e-7), ("pyxclib", NAPKINXC, 6e-9), ("raw", RAW, 6e-9)],
    ids=["pyxclib", "napkinXC", "napkinXC, not normalized"],
)
def test_figures_are_those_that_the_program_prints(variant, printed, rounding):
    found = evaluated(variant)
    for name, values in printed.items():
        for k, value in enumerate(values, start=1):
            assert found[f"{name}@{k}"] == pytest.approx(value, abs=rounding), f"{name}@{k}"


def test_the_raw_psp_of_observed_labels_averages_to_the_precision_on_complete_labels():
    # over all ways in which the labels of two rows can go missing, each with its probability
    Y = np.array([[1, 1, 0, 1], [0, 1, 1, 0]])
    p = np.array([0.9, 0.5, 0.2, 0.7])
    ranking = Ranking(np.array([[1, 2, 3], [1, 0, 2]]), np.tile([3.0, 2, 1], (2, 1)))
    rows, labels = np.nonzero(Y)
    mean = np.zeros(3)
    for kept in product([0, 1], repeat=rows.size):
        observed = np.zeros_like(Y)
        observed[rows, labels] = kept
        chance = np.prod(np.where(kept, p[labels], 1 - p[labels]))
        found = evaluate(ranking, observed, 1 / p, (1, 2, 3), conventions=Conventions("raw"))
        mean += chance * np.array([found[f"PSP@{k}"] for k in (1, 2, 3)])
    complete = evaluate(ranking, Y, k=(1, 2, 3))
    np.testing.assert_allclose(mean, [complete[f"P@{k}"] for k in (1, 2, 3)], rtol=1e-12)
