"""Halves of a loss: sums of curves in the score, with coefficients that may differ from label to label."""

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
Order = Literal["value", "slope", "curvature"]


class Facts(NamedTuple):
    """What is known of a function of the score: True, False, or None where nobody has said."""

    convex: bool | None = None
    bounded_below: bool | None = None


UNKNOWN = Facts()


@dataclass(frozen=True)
class Curve:
    """A function of the score with its first and second derivative and what is known of it."""

    value: Function
    slope: Function | None = None
    curvature: Function | None = None
    facts: Facts = UNKNOWN

    def mirrored(self) -> Curve:
        """Return s -> f(-s), which makes the negative half of a margin loss from its positive half."""
        slope, curvature = self.slope, self.curvature
        return Curve(
            lambda s: self.value(-s),
            None if slope is None else lambda s: -slope(-s),
            None if curvature is None else lambda s: curvature(-s),
            self.facts,
        )

    def clamped(self, bound: float) -> Curve:
        """Return s -> f(min(max(s, -bound), bound)): constant, hence without slope, beyond the bound."""

        def inside(derivative: Function | None) -> Function | None:
            return None if derivative is None else lambda s: np.where(np.abs(s) < bound, derivative(s), s.dtype.type(0))

        return Curve(
            lambda s: self.value(np.clip(s, -bound, bound)),
            inside(self.slope),
            inside(self.curvature),
            Facts(convex=False, bounded_below=True),
        )


@dataclass(frozen=True)
class Half:
    """The loss of one outcome as a function of the score: constant + sum of coefficient * curve.

    Parameters
    ----------
    terms
        Pairs of a coefficient and a curve. A coefficient is a number, or an array with one entry per label.
    constant
        A number or an array over labels that is added; it moves the value and no derivative.
    mixed
        The facts that hold when some coefficient is negative, where they cannot be read off the terms.
    """

    terms: tuple[tuple[Coefficient, Curve], ...]
    constant: Coefficient = 0.0
    mixed: Facts = UNKNOWN
    __array_ufunc__: ClassVar[None] = None  # array * half is a half, not an array of halves

    @classmethod
    def of(cls, curve: Curve | Function) -> Half:
        """Return the half that is this one curve, or this one function of the score."""
        return cls(((1.0, curve if isinstance(curve, Curve) else Curve(curve)),))

    def value(self, scores: npt.ArrayLike) -> Array:
        """Return the loss at the scores; the last axis runs over labels where coefficients differ by label."""
        return self.evaluate("value", scores)

    def slope(self, scores: npt.ArrayLike) -> Array:
        """Return the derivative by the score; at a kink the subgradient that the curve names."""
        return self.evaluate("slope", scores)

    def curvature(self, scores: npt.ArrayLike) -> Array:
        """Return the second derivative by the score, zero at a kink."""
        return self.evaluate("curvature", scores)

    def evaluate(self, order: Order, scores: npt.ArrayLike) -> Array:
        """Return value, slope or curvature in the scores' own precision (integers count as float64)."""
        s = as_scores(scores)
        total = np.zeros_like(s)
        for coefficient, curve in self._alive():
            function = getattr(curve, order)
            if function is None:
                raise InputError(f"this loss was made without its {order}; give one to use it")
            total += _scaled(coefficient, np.asarray(function(s), dtype=s.dtype))
        if order == "value":
            total += np.asarray(self.constant, dtype=s.dtype)
        return total

    def take(self, labels: npt.ArrayLike) -> Half:
        """Return the half whose k-th label is labels[k] of this one."""
        return replace(
            self,
            terms=tuple((_taken(coefficient, labels), curve) for coefficient, curve in self.terms),
            constant=_taken(self.constant, labels),
        )

    def __add__(self, other: Half) -> Half:
        return Half(self.terms + other.terms, _plain(np.add(self.constant, other.constant)))

    def __rmul__(self, factor: Coefficient) -> Half:
        """Return the half with every coefficient multiplied by a number or an array over labels."""
        return Half(
            tuple((_plain(np.multiply(factor, coefficient)), curve) for coefficient, curve in self.terms),
            _plain(np.multiply(factor, self.constant)),
        )

    @property
    def convex(self) -> bool | None:
        """Whether the half is convex in the score for every label, None where unknown."""
        return self._facts().convex

    @property
    def bounded_below(self) -> bool | None:
        """Whether the half is bounded below for every label, None where unknown."""
        return self._facts().bounded_below

    @property
    def n_labels(self) -> int | None:
        """The number of labels that the coefficients are for, None where they are the same for all."""
        arrays = [c for c in (*(c for c, _ in self.terms), self.constant) if np.ndim(c) == 1]
        return len(np.asarray(arrays[0])) if arrays else None

    def _alive(self) -> list[tuple[Coefficient, Curve]]:
        return [(coefficient, curve) for coefficient, curve in self.terms if np.any(coefficient)]

    def _facts(self) -> Facts:
        alive = [(c, curve.facts) for c, curve in self._alive()]
        if any(np.any(np.less(c, 0)) for c, _ in alive):
            return self.mixed
        if len(alive) == 1:
            return alive[0][1]
        # a sum of what is convex (bounded below) is so too; of a sum of others nothing follows
        return Facts(
            convex=all(facts.convex for _, facts in alive) or None,
            bounded_below=all(facts.bounded_below for _, facts in alive) or None,
        )


def as_scores(scores: npt.ArrayLike) -> Array:
    """Return scores as an array of floats, float32 staying float32."""
    s = np.asarray(scores)
    return s if np.issubdtype(s.dtype, np.floating) else s.astype(np.float64)


def known(answers: Sequence[bool | None]) -> bool | None:
    """Return whether all answers are yes: False as soon as one is no, None when one is missing."""
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def _scaled(coefficient: Coefficient, values: Array) -> Array:
    """Return coefficient * values where a coefficient of zero silences even an infinite value."""
    factor = np.asarray(coefficient, dtype=values.dtype)
    if factor.all():
        return factor * values
    return np.where(factor == 0, values.dtype.type(0), factor * np.where(factor == 0, values.dtype.type(0), values))


def _taken(coefficient: Coefficient, labels: npt.ArrayLike) -> Coefficient:
    return np.asarray(coefficient)[np.asarray(labels)] if np.ndim(coefficient) else coefficient


def _plain(coefficient: Any) -> Coefficient:
    return coefficient if np.ndim(coefficient) else float(coefficient)
