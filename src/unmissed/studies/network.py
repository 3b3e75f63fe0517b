"""A network with one hidden ReLU layer, trained with Adam in numpy, for the MNIST study."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from unmissed.losses import Loss

Floats = npt.NDArray[np.float32]


class Network:
    """A network with scores W2' max(0, W1' x + b1) + b2; all weights are in one flat array, which Adam updates."""

    def __init__(self, n_inputs: int, hidden: int, n_labels: int, rng: np.random.Generator) -> None:
        shapes = [(n_inputs, hidden), (hidden,), (hidden, n_labels), (n_labels,)]
        self.weights = np.zeros(sum(int(np.prod(shape)) for shape in shapes), dtype=np.float32)
        self.gradient = np.zeros_like(self.weights)
        self._parts = _views(self.weights, shapes)
        self._slopes = _views(self.gradient, shapes)
        for part in (self._parts[0], self._parts[2]):  # Glorot uniform initialization; biases are zero
            bound = np.sqrt(6 / sum(part.shape))
            part[...] = rng.uniform(-bound, bound, part.shape)

    def score(self, X: Floats) -> Floats:
        """Return the scores, one per row and label."""
        return self._hidden(X) @ self._parts[2] + self._parts[3]

    def descend(self, X: Floats, present: npt.NDArray[np.bool_], loss: Loss) -> float:
        """Fill `gradient` with the gradient of the mean loss over a batch, and return the mean loss."""
        hidden = self._hidden(X)
        scores = hidden @ self._parts[2] + self._parts[3]
        value = np.where(present, loss.positive.value(scores), loss.negative.value(scores)).mean()
        slope = np.where(present, loss.positive.derivative(scores), loss.negative.derivative(scores))
        slope /= np.float32(slope.size)
        back = slope @ self._parts[2].T
        back *= hidden > 0
        np.matmul(X.T, back, out=self._slopes[0])
        np.sum(back, axis=0, out=self._slopes[1])
        np.matmul(hidden.T, slope, out=self._slopes[2])
        np.sum(slope, axis=0, out=self._slopes[3])
        return float(value)

    def _hidden(self, X: Floats) -> Floats:
        hidden: Floats = X @ self._parts[0]
        hidden += self._parts[1]
        return np.maximum(hidden, np.float32(0), out=hidden)


class Adam:
    """Adam with the default constants, in place."""

    def __init__(self, size: int, rate: float) -> None:
        self._mean, self._square, self._scratch = (np.zeros(size, dtype=np.float32) for _ in range(3))
        self._rate = rate
        self._steps = 0

    def step(self, weights: Floats, gradient: Floats) -> None:
        """Update the weights by one step."""
        self._steps += 1
        mean, square, t = self._mean, self._square, self._scratch
        np.subtract(gradient, mean, out=t)
        t *= np.float32(1 - 0.9)
        mean += t
        np.multiply(gradient, gradient, out=t)
        t -= square
        t *= np.float32(1 - 0.999)
        square += t
        np.sqrt(square, out=t)
        t += np.float32(1e-7)
        np.divide(mean, t, out=t)
        t *= np.float32(self._rate * np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps))
        weights -= t


def train(
    network: Network,
    X: Floats,
    present: npt.NDArray[np.bool_],
    loss: Loss,
    *,
    epochs: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
) -> Iterator[float]:
    """Train epoch by epoch over shuffled rows; after each epoch, yield its mean training loss."""
    adam = Adam(network.weights.size, rate)
    for _ in range(epochs):
        order = rng.permutation(len(X))
        total = 0.0
        for begin in range(0, len(X), batch):
            rows = order[begin : begin + batch]
            total += network.descend(X[rows], present[rows], loss) * len(rows)
            adam.step(network.weights, network.gradient)
        yield total / len(X)


def _views(flat: Floats, shapes: list[tuple[int, ...]]) -> list[Floats]:
    sizes = [int(np.prod(shape)) for shape in shapes]
    pieces = np.split(flat, np.cumsum(sizes)[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
