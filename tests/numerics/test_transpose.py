"""Quantized, transposed weights: compiled code and the reference loop give the same bits."""

import numpy as np
import pytest

from unmissed.numerics.simd import LANES, lane_slot
from unmissed.numerics.transpose import MAX_QUANTIZED, quantize_weights

pytestmark = pytest.mark.kernel


def draw(n_features):
    rng = np.random.default_rng(n_features)
    return (10.0 ** rng.uniform(-3, 3, (LANES, 1)) * rng.standard_normal((LANES, n_features))).astype(np.float32)


@pytest.mark.parametrize("n_features", [0, 1, 7, 8, 37, 520])
def test_weights_are_rounded_to_steps_and_clipped(n_features):
    weights, steps = draw(n_features), np.full(LANES, 1e-3)
    steps[5] = 0
    quantized = np.full((n_features, LANES), 77, np.int16)
    quantize_weights(weights, steps, quantized)
    expected = np.rint(np.clip(weights * np.float32(1e3), -MAX_QUANTIZED, MAX_QUANTIZED)).astype(np.int16)
    expected[5] = 0
    assert n_features < 37 or np.abs(expected).max() == MAX_QUANTIZED
    assert np.array_equal(quantized[:, [lane_slot(lane) for lane in range(LANES)]], expected.T)
