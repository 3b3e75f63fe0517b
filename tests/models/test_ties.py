"""Equal scores stand in rising order of label, whatever the cut into blocks."""

import numpy as np
import pytest

from unmissed.models import DiSMEC


@pytest.mark.parametrize("block_size", [1, 2, 3, 256])
def test_labels_of_equal_score_are_ranked_in_rising_order(block_size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    model = DiSMEC(block_size=block_size, fit_bias=False).fit(X, rng.random((40, 7)) < 0.4)
    nothing = np.zeros((3, 5))  # without a bias every label scores 0
    for k in (1, 2, 4, 7):
        ranking = model.rank(nothing, k)
        assert ranking.labels.tolist() == [list(range(k))] * 3
        assert not ranking.scores.any()
