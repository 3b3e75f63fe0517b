"""Pointwise losses over a matrix of scores (rows, labels) with sparse labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.losses.half import UNKNOWN, Array, Coefficient, Curve, Function, Half, Metadata, Order, as_scores, known
from unmissed.matrices import canonical_csr, check_Y
from unmissed.settings import SETTINGS

Reduction = Literal["sum", "mean"]


@dataclass(frozen=True)
class Loss:
    """A pointwise loss: l+ of the score where the label is present, l- where it is not.

    Parameters
    ----------
    positive, negative
        The two halves l+ and l-.
    name
        Name in reports.
    shift
        A constant (or one per label) that l+ contains in addition to the intended loss. It does not change the
        minimizer, because the number of present labels does not depend on the scores.
    corrected
        The properties of the unbiased l+ (Theorem 1) for p < 1, if they were derived.
    bounds_zero_one
        Whether both halves are convex upper bounds of the 0-1 loss.
    domain
        The closed interval that scores must lie in.

    Notes
    -----
    `Y` is a sparse or dense 0/1 matrix with the shape of the scores; a sparse one is never converted to dense. Scores
    are a dense matrix, or a sparse one. The loss of sparse scores is taken over their *stored* entries only.
    """

    positive: Half
    negative: Half
    name: str = "loss"
    shift: Coefficient = 0.0
    corrected: Metadata = UNKNOWN
    bounds_zero_one: bool = False
    domain: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of_margin(cls, curve: Curve, **metadata: Any) -> Loss:
        """Return the loss with l+(s) = phi(s) and l-(s) = phi(-s)."""
        return cls(Half.of(curve), Half.of(curve.mirrored()), **metadata)

    @classmethod
    def of_functions(cls, positive: Curve | Function, negative: Curve | Function, name: str = "own") -> Loss:
        """Return a loss from two functions of the score. Pass a `Curve` for each to have derivatives too."""
        return cls(Half.of(positive), Half.of(negative), name)

    @property
    def convex(self) -> bool | None:
        """Whether both halves are convex in the score for every label; None if unknown."""
        return known([self.positive.convex, self.negative.convex])

    @property
    def bounded_below(self) -> bool | None:
        """Whether both halves are bounded below for every label; None if unknown."""
        return known([self.positive.bounded_below, self.negative.bounded_below])

    @property
    def n_labels(self) -> int | None:
        """The number of labels; None if the loss does not depend on the label."""
        return self.positive.n_labels or self.negative.n_labels

    def take(self, labels: npt.ArrayLike) -> Loss:
        """Return the loss of the selected labels: its k-th label is labels[k] of this one."""
        shift = np.asarray(self.shift)[np.asarray(labels)] if np.ndim(self.shift) else self.shift
        return replace(self, positive=self.positive.take(labels), negative=self.negative.take(labels), shift=shift)

    def value(self, scores: Any, Y: Any) -> Any:
        """Return the loss of each (row, label) pair, with the shape and sparsity pattern of the scores."""
        return self._each("value", scores, Y)

    def gradient(self, scores: Any, Y: Any) -> Any:
        """Return the gradient of the summed loss with respect to the scores, with their shape."""
        return self._each("derivative", scores, Y)

    def curvature(self, scores: Any, Y: Any) -> Any:
        """Return the diagonal of the Hessian with respect to the scores; its other entries are 0."""
        return self._each("curvature", scores, Y)

    def total(self, scores: Any, Y: Any, reduction: Reduction = "sum") -> float:
        """Return the sum or mean over all pairs, accumulated in float64 block by block."""
        if reduction not in ("sum", "mean"):
            raise InputError(f"reduction must be 'sum' or 'mean', not {reduction!r}")
        if sp.issparse(scores):
            values = self.value(scores, Y).data
            total, count = float(values.sum(dtype=np.float64)), values.size
        else:
            s = self._checked(scores)
            present = _Present(Y, s.shape)
            total = sum(float(self._dense("value", s[a:b], present, a).sum(dtype=np.float64)) for a, b in _blocks(s))
            count = s.size
        return total / max(count, 1) if reduction == "mean" else total

    def _each(self, order: Order, scores: Any, Y: Any) -> Any:
        if sp.issparse(scores):
            return self._stored(order, scores, Y)
        s = self._checked(scores)
        return self._dense(order, s, _Present(Y, s.shape), 0)

    def _dense(self, order: Order, s: Array, present: _Present, start: int) -> Array:
        """Return l- of each score of rows start, start + 1, ..., and l+ where the label is present."""
        out = self.negative.evaluate(order, s)
        rows, labels = present.within(start, start + len(s))
        out[rows, labels] = self.positive.take(labels).evaluate(order, s[rows, labels])
        return out

    def _stored(self, order: Order, scores: Any, Y: Any) -> sp.csr_array:
        """Return the loss of each stored entry of sparse scores, with their sparsity pattern."""
        stored = sp.csr_array(canonical_csr(scores, "scores"), copy=True)
        stored.data = self._checked(stored.data, stored.shape)
        labels = stored.indices
        values = self.negative.take(labels).evaluate(order, stored.data)
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
        positives = _Present(Y, stored.shape).among(rows, labels)
        values[positives] = self.positive.take(labels[positives]).evaluate(order, stored.data[positives])
        return sp.csr_array((values, labels, stored.indptr), shape=stored.shape)

    def _checked(self, scores: Any, shape: tuple[int, ...] | None = None) -> Array:
        s = as_scores(scores)
        shape = s.shape if shape is None else shape
        if len(shape) != 2:
            raise InputError(f"scores must be a matrix of rows and labels, not of shape {shape}")
        if self.n_labels not in (None, shape[1]):
            raise InputError(f"the loss was made for {self.n_labels} labels, but the scores have {shape[1]}")
        low, high = self.domain
        if s.size and (s.min() < low or s.max() > high):
            raise InputError(f"scores of {self.name} must lie in [{low:g}, {high:g}]; found {s.min():g} to {s.max():g}")
        return s


class _Present:
    """The (row, label) pairs of present labels, sorted by row."""

    def __init__(self, Y: Any, shape: tuple[int, ...]) -> None:
        if np.shape(Y) != tuple(shape):
            raise InputError(f"labels have shape {np.shape(Y)}, but scores have shape {tuple(shape)}")
        self._matrix = check_Y(Y)

    def within(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return rows (relative to `start`) and labels of the present pairs of rows start to stop - 1."""
        pointer = self._matrix.indptr[start : stop + 1]
        rows = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
        return rows, self._matrix.indices[pointer[0] : pointer[-1]]

    def among(self, rows: Array, labels: Array) -> Array:
        """Return a mask over pairs, which are sorted by row and label: True if the label is present."""
        present_rows, present_labels = self.within(0, self._matrix.shape[0])
        width = np.int64(self._matrix.shape[1])
        return np.isin(rows * width + labels, present_rows * width + present_labels, assume_unique=True)


def _blocks(s: Array) -> Iterator[tuple[int, int]]:
    height = max(1, SETTINGS.loss_scores // max(s.shape[1], 1))
    for start in range(0, len(s), height):
        yield start, min(start + height, len(s))
