"""Losses for missing labels as functions of logits and targets.

`propensity_loss` is the general form; the other functions name a loss and its correction. All take the same options.

A loss is a pair of functions of the logit s, l+ for a present and l- for an absent label. Its correction replaces l+ by
a l+ + b l-, with factors of 1/p: (1/p, 1 - 1/p) is unbiased (Theorem 1), (2/p - 1, 0) the paper's convex bound,
(1/p, 0) the naive correction, (1, 0) none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

from unmissed.errors import InputError
from unmissed.losses.inverse import bound_factor, counter_factor
from unmissed.losses.torch.candidate_labels import check_candidates, find_positions
from unmissed.losses.torch.tensors import (
    PADDING,
    at_least_float32,
    check_cell_propensities,
    check_label_weights,
    check_propensity_tensor,
    is_known_false,
    zero_one,
)

__all__ = [
    "CORRECTIONS",
    "PAIRS",
    "Correction",
    "LossPair",
    "convex_hinge_loss",
    "convex_squared_hinge_loss",
    "naive_binary_cross_entropy_with_logits",
    "propensity_loss",
    "unbiased_binary_cross_entropy_with_logits",
    "unbiased_hinge_loss",
    "unbiased_squared_hinge_loss",
]

Function = Callable[[Tensor], Tensor]
Reduction = Literal["mean", "sum", "none"]
Targets = Literal["dense", "indices"]
Correction = Literal["none", "naive", "unbiased", "convex"]
CORRECTIONS: dict[Correction, Callable[[Any], tuple[Any, Any]]] = {
    "none": lambda inverse: (torch.ones_like(inverse), torch.zeros_like(inverse)),
    "naive": lambda inverse: (inverse, torch.zeros_like(inverse)),
    "unbiased": lambda inverse: (inverse, counter_factor(inverse)),
    "convex": lambda inverse: (bound_factor(inverse), torch.zeros_like(inverse)),
}
"""The factors of l+ and of l- for a present label, from 1/p."""


class LossPair(NamedTuple):
    """The uncorrected loss of a present and of an absent label, elementwise functions of the logits."""

    positive: Function
    negative: Function


PAIRS: dict[str, LossPair] = {
    "logistic": LossPair(lambda s: softplus(-s), softplus),
    "hinge": LossPair(lambda s: relu(1 - s), lambda s: relu(1 + s)),
    "squared-hinge": LossPair(lambda s: relu(1 - s).square(), lambda s: relu(1 + s).square()),
}
"""Losses by name; "logistic" is the cross-entropy of logits."""


class CellOptions(TypedDict, total=False):
    """What belongs to the rows of one call.

    Parameters
    ----------
    cell_propensities : p of each present label of each row, of the shape of the targets, in place of those of labels
    labels : the labels that the logits belong to, if these are candidates: integers, (n_candidates,) for all rows or of
        the shape of the logits, -1 for padding. Label indices in `target` stay those of all labels, and must be among
        the candidates
    negative_weight : weights of the loss of absent labels, which broadcast with the logits: 1/q for negatives that are
        candidates with probability q
    """

    cell_propensities: Tensor | None
    labels: Tensor | None
    negative_weight: Tensor | None


class LossSettings(TypedDict, total=False):
    """What belongs to a loss, and is the same in all calls.

    Parameters
    ----------
    weight : weights of the loss, which broadcast with the logits; one-dimensional ones are per label
    pos_weight : weights of l+, one per label
    reduction : "mean" over all logits, "sum", or "none"
    max_inverse : upper limit of 1/p
    non_negative : whether the part of the loss that estimates negatives is kept from falling below zero
    targets : "dense", 0/1 of the shape of the logits, or "indices", label indices padded with -1
    """

    weight: npt.ArrayLike | Tensor | None
    pos_weight: npt.ArrayLike | Tensor | None
    reduction: Reduction
    max_inverse: float | None
    non_negative: bool
    targets: Targets


class LossOptions(CellOptions, LossSettings, total=False):
    """The options of all functions: those of `CellOptions` and of `LossSettings`."""


class LabelParameters(NamedTuple):
    """Checked numbers per label that a loss is made of; each is one number, or one per label of all labels."""

    propensities: Tensor
    weight: Tensor | None = None
    pos_weight: Tensor | None = None
    max_inverse: float | None = None


def propensity_loss(
    logits: Tensor,
    target: Tensor,
    propensities: npt.ArrayLike | Tensor = 1.0,
    *,
    loss: str | LossPair = "logistic",
    correction: Correction = "unbiased",
    **options: Unpack[LossOptions],
) -> Tensor:
    """Return a loss of logits with missing labels.

    Parameters
    ----------
    logits : (..., n_labels), or (..., n_candidates) with the option `labels`
    target : dense targets or label indices
    propensities : the probability that a true label is observed: one number, or one per label
    loss : "logistic", "hinge", "squared-hinge", or your own pair of functions
    correction : "unbiased", "convex", "naive" or "none"
    options : see `CellOptions` and `LossSettings`
    """
    pair = find_pair(loss, correction)
    max_inverse = options.get("max_inverse")
    terms = LabelParameters(
        check_propensity_tensor(propensities, max_inverse).to(logits.device),
        _on(check_label_weights(options.get("weight"), "weight"), logits),
        _on(check_label_weights(options.get("pos_weight"), "pos_weight"), logits),
        max_inverse,
    )
    cells: CellOptions = {
        "cell_propensities": options.get("cell_propensities"),
        "labels": options.get("labels"),
        "negative_weight": options.get("negative_weight"),
    }
    parts = loss_parts(logits, target, pair, CORRECTIONS[correction], terms, options.get("targets", "dense"), cells)
    return reduce_parts(parts, options.get("reduction", "mean"), options.get("non_negative", False))


def find_pair(loss: str | LossPair, correction: str) -> LossPair:
    """Return the pair of functions of a loss; raise InputError for unknown names and for what has no convex bound."""
    if correction not in CORRECTIONS:
        raise InputError(f"unknown correction {correction!r}; known: {', '.join(CORRECTIONS)}")
    if isinstance(loss, LossPair):
        return loss
    if loss not in PAIRS:
        raise InputError(f"unknown loss {loss!r}; known: {', '.join(PAIRS)}, or a LossPair of your own functions")
    if loss == "logistic" and correction == "convex":
        raise InputError("the logistic loss is not a convex bound of the 0-1 loss; use hinge or squared-hinge")
    return PAIRS[loss]


class LossParts(NamedTuple):
    """The loss of cells in two parts: of present labels, factor times l+, and the rest, multiples of l-.

    `positive` and `rest` belong to the present labels at `position`, or to all logits if it is None. `negative` is the
    l- of all logits, times its weights. `shared` says whether all rows have the same labels.
    """

    positive: Tensor
    rest: Tensor
    negative: Tensor
    position: Tensor | None
    shared: bool


def loss_parts(
    logits: Tensor,
    target: Tensor,
    pair: LossPair,
    factors: Callable[[Tensor], tuple[Tensor, Tensor]],
    terms: LabelParameters,
    targets: Targets,
    cells: CellOptions,
) -> LossParts:
    """Return the parts of a loss, before any sum."""
    logits = logits.to(at_least_float32(logits.dtype))
    labels = cells.get("labels")
    labels = None if labels is None else check_candidates(labels, logits)
    if targets == "dense":
        present, position = _dense_target(target, logits, labels), None
    else:
        present, position = _indexed_target(target, logits, labels)
    chosen = logits if position is None else logits.gather(-1, position)

    def at_labels(values: Tensor, name: str) -> Tensor:
        """Return numbers per label for all logits, or for the present labels."""
        return _at_positions(_of_candidates(values, labels, logits, name), position, logits)

    cell_p = cells.get("cell_propensities")
    if cell_p is None:
        inverse = _clipped(terms.propensities, terms.max_inverse)
        inverse = at_labels(inverse.to(logits.dtype), "propensities")  # last, to round 1/p only once
    else:
        absent = target == 0 if targets == "dense" else target == PADDING
        inverse = _clipped(check_cell_propensities(cell_p, target, absent), terms.max_inverse).to(logits.dtype)
    positive_factor, counter = factors(inverse)
    if terms.pos_weight is not None:
        positive_factor = positive_factor * at_labels(terms.pos_weight.to(logits.dtype), "pos_weight")
    negative = pair.negative(logits)
    at_present = negative if position is None else pair.negative(chosen)
    rest = (counter - 1) * at_present
    positive = positive_factor * pair.positive(chosen)
    given = cells.get("negative_weight")
    if given is not None or labels is not None:
        scale = _negative_scale(given, labels, logits)
        negative = scale * negative
        rest = (counter - _at_positions(scale, position, logits)) * at_present
    if terms.weight is not None:
        weight = _of_candidates(terms.weight.to(logits.dtype), labels, logits, "weight")
        negative = weight * negative
        positive, rest = (_at_positions(weight, position, logits) * one for one in (positive, rest))
    if position is None:
        return LossParts(present * positive, present * rest, negative, None, labels is None or labels.ndim == 1)
    zero = torch.zeros_like(chosen)
    positive, rest = torch.where(present, positive, zero), torch.where(present, rest, zero)
    return LossParts(positive, rest, negative, position, labels is None or labels.ndim == 1)


def reduce_parts(parts: LossParts, reduction: Reduction, non_negative: bool) -> Tensor:
    """Return the sum or the mean of the parts over all logits, or the loss of each."""
    if non_negative:
        if reduction == "none":
            raise InputError("non_negative compares sums over rows; it needs the reduction 'mean' or 'sum'")
        if not parts.shared:
            raise InputError("non_negative compares sums per label; it needs candidates that all rows share")
        total = _non_negative_total(parts)
    elif reduction == "none":
        added = parts.positive + parts.rest
        return parts.negative + added if parts.position is None else _spread(parts, added, parts.negative)
    else:
        total = parts.negative.sum() + (parts.positive + parts.rest).sum()
    return total / parts.negative.numel() if reduction == "mean" else total


def _non_negative_total(parts: LossParts) -> Tensor:
    """Return the sum over labels of the non-negative estimate of Kiryo et al. (2017), equation 6 and algorithm 1.

    R+ is the sum over rows of the multiples of l+, R- that of l-. R- estimates a sum of losses, so it is not below zero
    but for chance or overfitting. Where it is, the label counts R+ with the gradient of -R-, which undoes the
    overfitting.
    """
    zeros = torch.zeros_like(parts.negative)
    positive = parts.positive if parts.position is None else _spread(parts, parts.positive, zeros)
    rest = parts.negative + parts.rest if parts.position is None else _spread(parts, parts.rest, parts.negative)
    n_labels = parts.negative.shape[-1]
    risk, negative_risk = (one.reshape(-1, n_labels).sum(dim=0) for one in (positive, rest))
    below = negative_risk < 0
    slope = torch.where(below, -negative_risk, risk + negative_risk)
    value = torch.where(below, risk, risk + negative_risk)
    total: Tensor = (slope + (value - slope).detach()).sum()
    return total


def _spread(parts: LossParts, added: Tensor, onto: Tensor) -> Tensor:
    """Add numbers of present labels to those of all logits."""
    assert parts.position is not None
    return onto.scatter_add(-1, parts.position, added)


def _on(tensor: Tensor | None, logits: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.to(logits.device)


def _clipped(p: Tensor, max_inverse: float | None) -> Tensor:
    inverse = p.reciprocal()
    return inverse if max_inverse is None else inverse.clamp(max=max_inverse)


def _of_candidates(values: Tensor, labels: Tensor | None, logits: Tensor, name: str) -> Tensor:
    """Return numbers per label for the labels that the logits belong to; other shapes broadcast as they are."""
    if values.ndim != 1:
        return values
    if labels is None:
        if values.shape[0] != logits.shape[-1]:
            raise InputError(f"the logits have {logits.shape[-1]} labels, but there are {values.shape[0]} {name}")
        return values
    if is_known_false(labels < values.shape[0]):
        raise InputError(f"a candidate label is {int(labels.max())}, but there are {values.shape[0]} {name}")
    return values[labels.clamp(min=0)]


def _at_positions(values: Tensor, position: Tensor | None, logits: Tensor) -> Tensor:
    """Return numbers that broadcast with the logits at the present labels; as they are for dense targets."""
    if position is None or not values.ndim:
        return values
    return values[position] if values.ndim == 1 else values.expand_as(logits).gather(-1, position)


def _negative_scale(given: Tensor | None, labels: Tensor | None, logits: Tensor) -> Tensor:
    """Return the weights of l-: those given, 0 for padded candidates."""
    scale = torch.ones((), dtype=logits.dtype, device=logits.device) if given is None else given.to(logits.dtype)
    if is_known_false((scale >= 0) & (scale < torch.inf)):
        raise InputError("negative_weight must be finite and at least 0")
    return scale if labels is None else torch.where(labels == PADDING, torch.zeros_like(scale), scale)


def _dense_target(target: Tensor, logits: Tensor, labels: Tensor | None) -> Tensor:
    if target.shape != logits.shape:
        raise InputError(f"targets have shape {tuple(target.shape)}, but logits have shape {tuple(logits.shape)}")
    present = zero_one(target, logits.dtype)
    return present if labels is None else present * (labels != PADDING)


def _indexed_target(target: Tensor, logits: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return which indices count (no padding, no repetition), and the logits that they belong to."""
    if target.is_floating_point() or target.shape[:-1] != logits.shape[:-1]:
        raise InputError(f"label indices must be integers of shape (rows, width), not {tuple(target.shape)}")
    if labels is None:
        check_indices(target, logits.shape[-1])
        position = target.long()
    else:
        position = find_positions(target, labels)
    ordered, order = position.sort(dim=-1, stable=True)  # duplicates become adjacent
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    present = torch.zeros_like(first).scatter(-1, order, first) & (position != PADDING)
    return present, torch.where(position == PADDING, torch.zeros_like(position), position)


def check_indices(target: Tensor, n_labels: int) -> None:
    """Raise InputError for an index that is neither a label nor padding; in a compiled graph, gather checks them."""
    valid = (target >= PADDING) & (target < n_labels)
    if is_known_false(valid):
        first = int(target[~valid][0])
        raise InputError(f"label index {first}; expected 0 to {n_labels - 1}, or {PADDING} for padding")


def unbiased_binary_cross_entropy_with_logits(
    logits: Tensor, target: Tensor, propensities: npt.ArrayLike | Tensor = 1.0, **options: Unpack[LossOptions]
) -> Tensor:
    """Return the unbiased cross-entropy, softplus(s) - s y/p."""
    return propensity_loss(logits, target, propensities, **options)


def naive_binary_cross_entropy_with_logits(
    logits: Tensor, target: Tensor, propensities: npt.ArrayLike | Tensor = 1.0, **options: Unpack[LossOptions]
) -> Tensor:
    """Return the cross-entropy with l+ divided by p."""
    return propensity_loss(logits, target, propensities, correction="naive", **options)


def unbiased_hinge_loss(
    logits: Tensor, target: Tensor, propensities: npt.ArrayLike | Tensor = 1.0, **options: Unpack[LossOptions]
) -> Tensor:
    """Return the unbiased hinge loss."""
    return propensity_loss(logits, target, propensities, loss="hinge", **options)


def unbiased_squared_hinge_loss(
    logits: Tensor, target: Tensor, propensities: npt.ArrayLike | Tensor = 1.0, **options: Unpack[LossOptions]
) -> Tensor:
    """Return the unbiased squared hinge loss."""
    return propensity_loss(logits, target, propensities, loss="squared-hinge", **options)


def convex_hinge_loss(
    logits: Tensor, target: Tensor, propensities: npt.ArrayLike | Tensor = 1.0, **options: Unpack[LossOptions]
) -> Tensor:
    """Return the hinge loss with l+ multiplied by 2/p - 1."""
    return propensity_loss(logits, target, propensities, loss="hinge", correction="convex", **options)


def convex_squared_hinge_loss(
    logits: Tensor, target: Tensor, propensities: npt.ArrayLike | Tensor = 1.0, **options: Unpack[LossOptions]
) -> Tensor:
    """Return the squared hinge loss with l+ multiplied by 2/p - 1."""
    return propensity_loss(logits, target, propensities, loss="squared-hinge", correction="convex", **options)
