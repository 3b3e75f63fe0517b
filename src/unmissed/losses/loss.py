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
from unmissed.losses.inverse import cell_keys
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
    cells
        The cells, entries of a canonical CSR matrix, that the coefficients of l+ belong to, one each; None if they
        belong to labels. Such a loss takes any Y whose present labels are among the cells.

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
    cells: sp.csr_matrix | None = None

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
        if self.cells is not None:
            return int(self.cells.shape[1])
        return self.positive.n_labels or self.negative.n_labels

    def take(self, labels: npt.ArrayLike) -> Loss:
        """Return the loss of the selected labels: its k-th label is labels[k] of this one."""
        chosen, cells = np.asarray(labels), self.cells
        if cells is not None:
            numbers = sp.csr_matrix((np.arange(cells.nnz), cells.indices, cells.indptr), cells.shape)[:, chosen]
            numbers.sort_indices()
            cells, chosen = numbers, numbers.data
        shift = np.asarray(self.shift)[chosen] if np.ndim(self.shift) else self.shift
        positive, negative = self.positive.take(chosen), self.negative.take(labels)
        return replace(self, positive=positive, negative=negative, shift=shift, cells=cells)

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
            present = _Present(Y, s.shape, self.cells)
            total = sum(float(self._dense("value", s[a:b], present, a).sum(dtype=np.float64)) for a, b in _blocks(s))
            count = s.size
        return total / max(count, 1) if reduction == "mean" else total

    def _each(self, order: Order, scores: Any, Y: Any) -> Any:
        if sp.issparse(scores):
            return self._stored(order, scores, Y)
        s = self._checked(scores)
        return self._dense(order, s, _Present(Y, s.shape, self.cells), 0)

    def _dense(self, order: Order, s: Array, present: _Present, start: int) -> Array:
        """Return l- of each score of rows start, start + 1, ..., and l+ where the label is present."""
        out = self.negative.evaluate(order, s)
        rows, labels, coefficients = present.within(start, start + len(s))
        out[rows, labels] = self.positive.take(coefficients).evaluate(order, s[rows, labels])
        return out

    def _stored(self, order: Order, scores: Any, Y: Any) -> sp.csr_array:
        """Return the loss of each stored entry of sparse scores, with their sparsity pattern."""
        stored = sp.csr_array(canonical_csr(scores, "scores"), copy=True)
        stored.data = self._checked(stored.data, stored.shape)
        labels = stored.indices
        values = self.negative.take(labels).evaluate(order, stored.data)
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
        positives, coefficients = _Present(Y, stored.shape, self.cells).among(rows, labels)
        values[positives] = self.positive.take(coefficients).evaluate(order, stored.data[positives])
        return sp.csr_array((values, labels, stored.indptr), shape=stored.shape)

    def _checked(self, scores: Any, shape: tuple[int, ...] | None = None) -> Array:
        s = as_scores(scores)
        shape = s.shape if shape is None else shape
        if len(shape) != 2:
            raise InputError(f"scores must be a matrix of rows and labels, not of shape {shape}")
        if self.cells is not None and self.cells.shape != shape:
            raise InputError(f"the loss was made for cells of shape {self.cells.shape}, but the scores have {shape}")
        if self.n_labels not in (None, shape[1]):
            raise InputError(f"the loss was made for {self.n_labels} labels, but the scores have {shape[1]}")
        low, high = self.domain
        if s.size and (s.min() < low or s.max() > high):
            raise InputError(f"scores of {self.name} must lie in [{low:g}, {high:g}]; found {s.min():g} to {s.max():g}")
        return s


class _Present:
    """The (row, label) pairs of present labels, sorted by row, and the coefficient of l+ that each of them takes.

    The number of a coefficient is that of the label, or of the cell if the loss has coefficients of `cells`.
    """

    def __init__(self, Y: Any, shape: tuple[int, ...], cells: sp.csr_matrix | None) -> None:
        if np.shape(Y) != tuple(shape):
            raise InputError(f"labels have shape {np.shape(Y)}, but scores have shape {tuple(shape)}")
        self._matrix = check_Y(Y)
        self._coefficients = self._matrix.indices if cells is None else _find_cells(self._matrix, cells)

    def within(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        """Return rows (relative to `start`), labels and coefficients of the present pairs of rows start to stop - 1."""
        pointer = self._matrix.indptr[start : stop + 1]
        rows = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
        inside = slice(pointer[0], pointer[-1])
        return rows, self._matrix.indices[inside], self._coefficients[inside]

    def among(self, rows: Array, labels: Array) -> tuple[Array, Array]:
        """Return which of the pairs, sorted by row and label, are present, and the coefficients of these."""
        keys, present = rows * np.int64(self._matrix.shape[1]) + labels, cell_keys(self._matrix)
        mask = np.isin(keys, present, assume_unique=True)
        return mask, self._coefficients[np.isin(present, keys, assume_unique=True)]


def _find_cells(Y: sp.csr_matrix, cells: sp.csr_matrix) -> Array:
    """Return the position of each entry of Y among the entries of `cells`; raise InputError if one is missing."""
    wanted, known = cell_keys(Y), cell_keys(cells)
    at = np.searchsorted(known, wanted)
    missing = np.append(known, -1)[at] != wanted
    if missing.any():
        row, label = divmod(int(wanted[np.argmax(missing)]), Y.shape[1])
        raise InputError(f"there is no propensity for label {label} of row {row}, which is present")
    return at


def _blocks(s: Array) -> Iterator[tuple[int, int]]:
    height = max(1, SETTINGS.loss_scores // max(s.shape[1], 1))
    for start in range(0, len(s), height):
        yield start, min(start + height, len(s))
