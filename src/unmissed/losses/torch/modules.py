"""Losses for missing labels as `torch.nn` modules, with propensities as a buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import numpy.typing as npt
from torch import Tensor, nn

from unmissed.errors import InputError
from unmissed.losses.torch.functional import (
    CORRECTIONS,
    PAIRS,
    CellOptions,
    Correction,
    Function,
    LabelParameters,
    LossPair,
    LossParts,
    LossSettings,
    Reduction,
    Targets,
    loss_parts,
    reduce_parts,
)
from unmissed.losses.torch.tensors import at_least_float32, check_label_weights, check_propensity_tensor


class PropensityLoss(nn.Module):
    """Base class of the losses: a subclass defines `pair` (l+ and l-) and `correction`.

    Parameters
    ----------
    propensities
        The probability that a true label is observed: one number, or one per label. Stored as the buffer
        `propensities`, which moves with the module and is in its state_dict. A float32 or float64 tensor keeps its
        dtype, other values get torch's default dtype. `module.half()` does not convert the buffer to 16 bits. A call
        may give one per present label of each row instead (`forward`).
    weight
        Weights of the loss, which broadcast with the logits; one-dimensional ones are per label. A buffer.
    pos_weight
        Weights of l+, one per label, as in `torch.nn.BCEWithLogitsLoss`: for positives that are worth more, not for
        those that are missing. A buffer.
    reduction
        "mean" over rows and labels, "sum", or "none", as in `torch.nn`. With candidates, "mean" is over the candidates;
        "sum" is the unbiased estimate of the sum over all labels.
    max_inverse
        Upper limit of 1/p. Clipping adds bias and reduces variance.
    non_negative
        The non-negative estimate of Kiryo et al. (2017) of each label: the multiples of l- are summed over rows, and
        where the sum falls below zero, a step raises it again. Keeps unbiased losses from diverging; adds bias. It
        needs the reduction "mean" or "sum", and candidates that all rows share.
    targets
        The form of the targets, for logits of shape (..., n_labels). "dense": 0/1 targets of the same shape and any
        dtype. "indices": integers of shape (..., width), the present labels, padded with -1; duplicates count once.
        Theorem 1 does not define a loss of soft targets, so a dense target other than 0 and 1 raises InputError. On an
        accelerator or in a compiled graph the targets are not read, and the loss is nan instead. Bool targets are not
        checked.
    """

    pair: LossPair
    correction: Correction = "unbiased"
    propensities: Tensor
    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        propensities: npt.ArrayLike | Tensor = 1.0,
        *,
        weight: npt.ArrayLike | Tensor | None = None,
        pos_weight: npt.ArrayLike | Tensor | None = None,
        reduction: Reduction = "mean",
        max_inverse: float | None = None,
        non_negative: bool = False,
        targets: Targets = "dense",
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise InputError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
        if targets not in ("dense", "indices"):
            raise InputError(f"targets must be 'dense' or 'indices', not {targets!r}")
        self.register_buffer("propensities", check_propensity_tensor(propensities, max_inverse))
        self.register_buffer("weight", check_label_weights(weight, "weight"))
        self.register_buffer("pos_weight", check_label_weights(pos_weight, "pos_weight"))
        self.reduction = reduction
        self.max_inverse = max_inverse
        self.non_negative = non_negative
        self.targets = targets

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        propensities: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        negative_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of the logits against dense targets or label indices.

        Parameters
        ----------
        logits : (..., n_labels), or (..., n_candidates) with `labels`
        target : dense targets or label indices; indices are those of all labels, also with `labels`
        propensities : of the shape of the targets: p of each present label of each row, in place of those of the
            module. Numbers where no label is present (0, or -1 of indices) do not matter; of an index that is listed
            twice, one p counts
        labels : the labels that the logits belong to, if these are candidates: integers, (n_candidates,) for all rows
            or of the shape of the logits, -1 for padding. The candidates of a row include its present labels
        negative_weight : weights of the loss of absent labels, which broadcast with the logits. With 1/q for negatives
            that are candidates with probability q, the sum over candidates is an unbiased estimate of that over all
            labels (`NegativeSampler`)
        """
        parts = self._parts(logits, target, propensities, labels, negative_weight)
        return reduce_parts(parts, self.reduction, self.non_negative)

    def total(
        self, logits: Tensor, target: Tensor, propensities: Tensor | None = None, *, labels: Tensor | None = None
    ) -> Tensor:
        """Return the sum of the loss, whatever the reduction of the module."""
        return reduce_parts(self._parts(logits, target, propensities, labels, None), "sum", self.non_negative)

    def extra_repr(self) -> str:
        """Return the settings that `print(module)` shows."""
        clip = "" if self.max_inverse is None else f", max_inverse={self.max_inverse:g}"
        kept = ", non_negative=True" if self.non_negative else ""
        return f"reduction={self.reduction!r}, targets={self.targets!r}{clip}{kept}"

    def _parts(
        self,
        logits: Tensor,
        target: Tensor,
        propensities: Tensor | None,
        labels: Tensor | None,
        negative_weight: Tensor | None,
    ) -> LossParts:
        terms = LabelParameters(self.propensities, self.weight, self.pos_weight, self.max_inverse)
        cells: CellOptions = {
            "cell_propensities": propensities,
            "labels": labels,
            "negative_weight": negative_weight,
        }
        return loss_parts(logits, target, self.pair, CORRECTIONS[self.correction], terms, self.targets, cells)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PropensityLoss:
        """Move or convert the module, but keep the propensities in float32 or float64."""
        before = self.propensities
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        after = self.propensities
        if after.dtype != at_least_float32(after.dtype):
            self.propensities = before.to(after.device)
        return self


class UnbiasedBCEWithLogitsLoss(PropensityLoss):
    """Unbiased cross-entropy: softplus(s) - s y/p. Convex; for p < 1 unbounded below."""

    pair = PAIRS["logistic"]


class NaiveBCEWithLogitsLoss(PropensityLoss):
    """Cross-entropy with l+ divided by p: convex and bounded below, but biased."""

    pair = PAIRS["logistic"]
    correction = "naive"


class UnbiasedHingeLoss(PropensityLoss):
    """Unbiased hinge loss: for p < 1 neither convex nor bounded below."""

    pair = PAIRS["hinge"]


class UnbiasedSquaredHingeLoss(PropensityLoss):
    """Unbiased squared hinge loss: for p < 1 neither convex nor bounded below."""

    pair = PAIRS["squared-hinge"]


class ConvexHingeLoss(PropensityLoss):
    """The paper's convex bound: the hinge loss with l+ multiplied by 2/p - 1."""

    pair = PAIRS["hinge"]
    correction = "convex"


class ConvexSquaredHingeLoss(PropensityLoss):
    """The paper's convex bound: the squared hinge loss with l+ multiplied by 2/p - 1."""

    pair = PAIRS["squared-hinge"]
    correction = "convex"


class UnbiasedLoss(PropensityLoss):
    """Unbiased loss (Theorem 1) of any pair of functions l+ and l- of the logits.

    Parameters
    ----------
    positive, negative
        The uncorrected loss of a present and of an absent label, elementwise.
    propensities, options
        As in `PropensityLoss`.
    """

    def __init__(
        self,
        positive: Function,
        negative: Function,
        propensities: npt.ArrayLike | Tensor = 1.0,
        **options: Unpack[LossSettings],
    ) -> None:
        super().__init__(propensities, **options)
        self.pair = LossPair(positive, negative)
