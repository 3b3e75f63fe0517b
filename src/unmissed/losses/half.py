"""One half of a loss, l+ or l-: a linear combination of functions of the score, with coefficients per label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError

Array = npt.NDArray[Any]
Function = Callable[[Any], Any]
Coefficient = float | Array
Order = Literal["value", "derivative", "curvature"]


class Metadata(NamedTuple):
    """Known properties of a function of the score: True, False, or None if unknown."""

    convex: bool | None = None
    bounded_below: bool | None = None


UNKNOWN = Metadata()


@dataclass(frozen=True)
class Curve:
    """A function of the score with its first derivative, its second derivative (curvature) and known properties."""

    value: Function
    derivative: Function | None = None
    curvature: Function | None = None
    metadata: Metadata = UNKNOWN

    def mirrored(self) -> Curve:
        """Return s -> f(-s). It maps the positive half of a margin loss to its negative half."""
        derivative, curvature = self.derivative, self.curvature
        return Curve(
            lambda s: self.value(-s),
            None if derivative is None else lambda s: -derivative(-s),
            None if curvature is None else lambda s: curvature(-s),
            self.metadata,
        )

    def clamped(self, bound: float) -> Curve:
        """Return s -> f(clip(s, -bound, bound)). Beyond the bound both derivatives are 0."""

        def inside(function: Function | None) -> Function | None:
            return None if function is None else lambda s: np.where(np.abs(s) < bound, function(s), s.dtype.type(0))

        return Curve(
            lambda s: self.value(np.clip(s, -bound, bound)),
            inside(self.derivative),
            inside(self.curvature),
            Metadata(convex=False, bounded_below=True),
        )


@dataclass(frozen=True)
class Half:
    """One half of a loss as a function of the score: constant + sum of coefficient * curve.

    Parameters
    ----------
    terms
        Pairs of a coefficient and a curve. A coefficient is a number, or an array with one entry per label.
    constant
        A number, or an array with one entry per label, that is added to the value.
    mixed
        The properties if some coefficient is negative; then the terms do not imply them.
    """

    terms: tuple[tuple[Coefficient, Curve], ...]
    constant: Coefficient = 0.0
    mixed: Metadata = UNKNOWN
    __array_ufunc__: ClassVar[None] = None  # array * half is a half, not an array of halves

    @classmethod
    def of(cls, curve: Curve | Function) -> Half:
        """Return the half that consists of one curve, or of one function of the score."""
        return cls(((1.0, curve if isinstance(curve, Curve) else Curve(curve)),))

    def value(self, scores: npt.ArrayLike) -> Array:
        """Return the loss at the scores; with coefficients per label, the last axis of scores is the label axis."""
        return self.evaluate("value", scores)

    def derivative(self, scores: npt.ArrayLike) -> Array:
        """Return the derivative with respect to the score; at a kink, the subgradient that the curve defines."""
        return self.evaluate("derivative", scores)

    def curvature(self, scores: npt.ArrayLike) -> Array:
        """Return the second derivative with respect to the score; 0 at a kink."""
        return self.evaluate("curvature", scores)

    def evaluate(self, order: Order, scores: npt.ArrayLike) -> Array:
        """Return value, derivative or curvature in the precision of the scores; integer scores become float64."""
        s = as_scores(scores)
        total = np.zeros_like(s)
        for coefficient, curve in self._nonzero_terms():
            function = getattr(curve, order)
            if function is None:
                raise InputError(f"this loss has no {order}; construct its Curve with one")
            total += _scaled(coefficient, np.asarray(function(s), dtype=s.dtype))
        if order == "value":
            total += np.asarray(self.constant, dtype=s.dtype)
        return total

    def take(self, labels: npt.ArrayLike) -> Half:
        """Return the half of the selected labels: its k-th label is labels[k] of this one."""
        return replace(
            self,
            terms=tuple((_select(coefficient, labels), curve) for coefficient, curve in self.terms),
            constant=_select(self.constant, labels),
        )

    def __add__(self, other: Half) -> Half:
        return Half(self.terms + other.terms, _as_coefficient(np.add(self.constant, other.constant)))

    def __rmul__(self, factor: Coefficient) -> Half:
        """Return the half with every coefficient multiplied by a number or an array over labels."""
        return Half(
            tuple((_as_coefficient(np.multiply(factor, coefficient)), curve) for coefficient, curve in self.terms),
            _as_coefficient(np.multiply(factor, self.constant)),
        )

    @property
    def convex(self) -> bool | None:
        """Whether the half is convex in the score for every label; None if unknown."""
        return self._properties().convex

    @property
    def bounded_below(self) -> bool | None:
        """Whether the half is bounded below for every label; None if unknown."""
        return self._properties().bounded_below

    @property
    def n_labels(self) -> int | None:
        """The number of labels; None if no coefficient depends on the label."""
        arrays = [c for c in (*(c for c, _ in self.terms), self.constant) if np.ndim(c) == 1]
        return len(np.asarray(arrays[0])) if arrays else None

    def _nonzero_terms(self) -> list[tuple[Coefficient, Curve]]:
        return [(coefficient, curve) for coefficient, curve in self.terms if np.any(coefficient)]

    def _properties(self) -> Metadata:
        terms = [(c, curve.metadata) for c, curve in self._nonzero_terms()]
        if any(np.any(np.less(c, 0)) for c, _ in terms):
            return self.mixed
        if len(terms) == 1:
            return terms[0][1]
        # a sum of convex functions is convex, and likewise for bounded below; other sums are unknown
        return Metadata(
            convex=all(metadata.convex for _, metadata in terms) or None,
            bounded_below=all(metadata.bounded_below for _, metadata in terms) or None,
        )


def as_scores(scores: npt.ArrayLike) -> Array:
    """Return scores as a floating-point array; float32 stays float32, integers become float64."""
    s = np.asarray(scores)
    return s if np.issubdtype(s.dtype, np.floating) else s.astype(np.float64)


def known(values: Sequence[bool | None]) -> bool | None:
    """Return the three-valued AND: False if any is False, else None if any is None, else True."""
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def _scaled(coefficient: Coefficient, values: Array) -> Array:
    """Return coefficient * values, with 0 * inf = 0."""
    factor = np.asarray(coefficient, dtype=values.dtype)
    if factor.all():
        return factor * values
    return np.where(factor == 0, values.dtype.type(0), factor * np.where(factor == 0, values.dtype.type(0), values))


def _select(coefficient: Coefficient, labels: npt.ArrayLike) -> Coefficient:
    return np.asarray(coefficient)[np.asarray(labels)] if np.ndim(coefficient) else coefficient


def _as_coefficient(coefficient: Any) -> Coefficient:
    return coefficient if np.ndim(coefficient) else float(coefficient)
