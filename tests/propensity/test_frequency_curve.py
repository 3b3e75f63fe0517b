"""Propensities by frequency, with their uncertainty."""

import json

import numpy as np
import pytest
from scipy.special import expit, logit

from unmissed.errors import InputError
from unmissed.propensity import FrequencyCurve, as_propensity, describe, drop_labels, from_description, parse

CURVE = FrequencyCurve([2, 20, 200], [0.3, 0.6, 0.5], [0.2, 0.5, 0.45], [0.45, 0.7, 0.55], 1000)


def test_points_are_met_and_values_between_are_interpolated_over_log_positives():
    p = CURVE.estimate([0, 2, 20, 200, 1000], 1000)
    np.testing.assert_allclose(p, [0.3, 0.3, 0.6, 0.5, 0.5])
    middle = CURVE.estimate([63], 1000)[0]
    at = (np.log(63) - np.log(20)) / np.log(10)
    assert middle == pytest.approx(expit((1 - at) * logit(0.6) + at * logit(0.5)))


def test_positives_are_relative_to_the_number_of_rows():
    np.testing.assert_allclose(CURVE.estimate([4, 40, 70], 2000), CURVE.estimate([2, 20, 35], 1000))


def test_draws_have_the_interval():
    rng = np.random.default_rng(0)
    draws = np.array([CURVE.draw([2, 20, 200], 1000, rng) for _ in range(4000)])
    low, middle, high = np.quantile(draws, [0.025, 0.5, 0.975], axis=0)
    for found, expected in ((low, CURVE.low), (middle, CURVE.p), (high, CURVE.high)):
        np.testing.assert_allclose(found, expected, atol=0.015)


def test_files_and_descriptions_give_the_same_curve(tmp_path):
    CURVE.write(tmp_path / "p.csv")
    assert parse(f"audit:{tmp_path / 'p.csv'}") == as_propensity(f"audit:{tmp_path / 'p.csv'}") == CURVE
    assert from_description(json.loads(json.dumps(describe(CURVE)))) == CURVE


def test_labels_are_dropped_by_a_curve():
    Y = np.ones((1000, 2))
    assert drop_labels(Y, CURVE, 0).sum() == pytest.approx(1000, abs=80)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,p\n1,0.5\n", "has no column 'positives'; expected positives, of_rows, p, low, high"),
        ("positives,of_rows,p,low,high\n1,9,x,0.1,0.2\n", "line 2: expected a number as p, found 'x'"),
        ("positives,of_rows,p,low,high\n1,9,0.5\n", "line 2: expected a number as low"),
        ("positives,of_rows,p,low,high\n1,9,0.5,0.6,0.7\n", "expected 0 < low <= p <= high <= 1"),
        ("positives,of_rows,p,low,high\n2,9,.5,.4,.6\n1,9,.5,.4,.6\n", "positives must be above 0 and increase"),
        ("positives,of_rows,p,low,high\n2,9,.5,.4,.6\n3,8,.5,.4,.6\n", "one number of rows"),
        ("positives,of_rows,p,low,high\n", "one number of rows"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name(text, message, tmp_path):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InputError) as error:
        parse(f"audit:{tmp_path / 'p.csv'}")
    assert message in str(error.value)
    assert "p.csv" in str(error.value)


def test_values_that_do_not_fit_together_are_refused():
    with pytest.raises(InputError, match="same number of values"):
        FrequencyCurve([1], [0.5], [0.4], [], 10)
    with pytest.raises(InputError, match="propensities by frequency"):
        FrequencyCurve(["a"], [0.5], [0.4], [0.6], 10)
