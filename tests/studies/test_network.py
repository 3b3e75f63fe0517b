"""The network of the study: its gradient and its optimizer."""

import numpy as np
import pytest

from unmissed.losses import cross_entropy_from_logits, logistic, squared_error, unbiased
from unmissed.studies.network import Adam, Network, train


def test_the_gradient_is_the_derivative_of_the_mean_loss():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 5)).astype(np.float32)
    present = rng.random((6, 3)) < 0.5
    network = Network(5, 4, 3, rng)
    loss = unbiased(logistic(), 0.4)
    network.descend(X, present, loss)
    gradient = network.gradient.copy()
    assert np.abs(gradient).max() > 0.01
    for position in range(network.weights.size):
        before = network.weights[position]
        ends = []
        for step in (np.float32(1e-2), np.float32(-1e-2)):
            network.weights[position] = before + step
            ends.append(loss.total(network.score(X).astype(np.float64), present, "mean"))
        network.weights[position] = before
        assert gradient[position] == pytest.approx((ends[0] - ends[1]) / 2e-2, abs=5e-3)


def test_the_returned_loss_is_the_mean_over_rows_and_labels():
    rng = np.random.default_rng(1)
    X, present = rng.normal(size=(8, 3)).astype(np.float32), rng.random((8, 2)) < 0.5
    network = Network(3, 5, 2, rng)
    loss = cross_entropy_from_logits()
    expected = loss.total(network.score(X), present, "mean")
    assert network.descend(X, present, loss) == pytest.approx(expected, rel=1e-5)


def test_adam_moves_as_its_formula_says():
    rng = np.random.default_rng(2)
    weights = np.zeros(4, np.float32)
    adam = Adam(4, 0.01)
    mean, square, expected = np.zeros(4), np.zeros(4), np.zeros(4)
    for step in range(1, 6):
        gradient = rng.normal(size=4)
        adam.step(weights, gradient.astype(np.float32))
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        expected -= 0.01 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-7)
    np.testing.assert_allclose(weights, expected, rtol=1e-3)


def test_training_lowers_the_loss_and_sees_every_row_once_an_epoch():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(101, 4)).astype(np.float32)
    present = X[:, :1] > 0
    network = Network(4, 8, 1, rng)
    losses = list(train(network, X, present, squared_error(), epochs=30, batch=10, rate=0.01, rng=rng))
    assert len(losses) == 30
    assert losses[-1] < 0.3 * losses[0]
