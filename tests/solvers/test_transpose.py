"""Weights as whole numbers, feature by feature: the compiled way and the plain loop give the same bits."""

import numpy as np
import pytest

from unmissed.kernels.transpose import LARGEST, round_weights
from unmissed.kernels.vectors import LANES, whole_place

pytestmark = pytest.mark.kernel


def draw(n_features):
    rng = np.random.default_rng(n_features)
    return (10.0 ** rng.uniform(-3, 3, (LANES, 1)) * rng.standard_normal((LANES, n_features))).astype(np.float32)


@pytest.mark.parametrize("n_features", [0, 1, 7, 8, 37, 520])
def test_weights_are_rounded_to_steps_and_stop_at_the_largest(n_features):
    weights, steps = draw(n_features), np.full(LANES, 1e-3)
    steps[5] = 0
    rounded = np.full((n_features, LANES), 77, np.int16)
    round_weights(weights, steps, rounded)
    expected = np.rint(np.clip(weights * np.float32(1e3), -LARGEST, LARGEST)).astype(np.int16)
    expected[5] = 0
    assert n_features < 37 or np.abs(expected).max() == LARGEST
    assert np.array_equal(rounded[:, [whole_place(lane) for lane in range(LANES)]], expected.T)
