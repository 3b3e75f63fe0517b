"""Losses for missing labels as `torch.nn` modules, with propensities as a buffer and dense or indexed targets.

    criterion = UnbiasedBCEWithLogitsLoss(p)
    criterion(logits, targets).backward()

Each module evaluates l- on all logits and adds l+ - l- where a label is present. Label indices are never converted to a
dense matrix of targets. An unbiased loss may diverge to -inf if the network can fit its training set (see
docs/derivations.md); use `max_inverse`, weight decay or early stopping.

Losses are computed and returned in float32 or float64, also for float16 and bfloat16 logits and under autocast, because
1/p and sums over many labels overflow 16 bits. Gradients have the dtype of the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError, UnmissedError
from unmissed.losses.inverse import bound_factor, inverse_propensities

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:
    raise UnmissedError("unmissed.losses.torch needs PyTorch: pip install 'unmissed[torch]'") from error

__all__ = [
    "ConvexHingeLoss",
    "ConvexSquaredHingeLoss",
    "NaiveBCEWithLogitsLoss",
    "PropensityLoss",
    "UnbiasedBCEWithLogitsLoss",
    "UnbiasedHingeLoss",
    "UnbiasedLoss",
    "UnbiasedSquaredHingeLoss",
]

Function = Callable[[Tensor], Tensor]
Reduction = Literal["mean", "sum", "none"]
Targets = Literal["dense", "indices"]
PADDING = -1


class PropensityLoss(nn.Module):
    """Base class of the losses. A subclass defines `negative` (l-) and `difference` (l+ - l-).

    Parameters
    ----------
    propensities
        The probability that a true label is observed: one number, or one per label. Stored as the buffer
        `propensities`, which moves with the module and is in its state_dict. A float32 or float64 tensor keeps its
        dtype, other values get torch's default dtype. `module.half()` does not convert the buffer to 16 bits. A call
        may give one per present label of each row instead (`forward`).
    reduction
        "mean" over rows and labels, "sum", or "none", as in `torch.nn`.
    max_inverse
        Upper limit of 1/p. Clipping adds bias and reduces variance.
    targets
        The form of the targets, for logits of shape (..., n_labels). "dense": 0/1 targets of the same shape and any
        dtype. "indices": integers of shape (..., width), the present labels, padded with -1; duplicates count once.
        Theorem 1 does not define a loss of soft targets, so a dense target other than 0 and 1 raises InputError. On an
        accelerator or in a compiled graph the targets are not read, and the loss is nan instead. Bool targets are not
        checked.
    """

    propensities: Tensor

    def __init__(
        self,
        propensities: npt.ArrayLike | Tensor = 1.0,
        *,
        reduction: Reduction = "mean",
        max_inverse: float | None = None,
        targets: Targets = "dense",
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise InputError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
        if targets not in ("dense", "indices"):
            raise InputError(f"targets must be 'dense' or 'indices', not {targets!r}")
        self.register_buffer("propensities", _checked_buffer(propensities, max_inverse))
        self.reduction = reduction
        self.max_inverse = max_inverse
        self.targets = targets

    def negative(self, logits: Tensor) -> Tensor:
        """Return l- of the logits."""
        raise NotImplementedError

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return l+ - l- of the logits; `inverse` is 1/p and broadcasts with them."""
        raise NotImplementedError

    def forward(self, logits: Tensor, target: Tensor, propensities: Tensor | None = None) -> Tensor:
        """Return the loss of the logits against dense targets or label indices.

        `propensities`, of the shape of the targets, has p of each present label of each row, in place of those of the
        module. Numbers where no label is present (0, or -1 of indices) do not matter; of an index that is listed twice,
        one p counts.
        """
        logits = logits.to(_at_least_float32(logits.dtype))
        p = self.propensities if propensities is None else self._check_cells(propensities, target)
        inverse = p.reciprocal()
        if self.max_inverse is not None:
            inverse = inverse.clamp(max=self.max_inverse)
        inverse = inverse.to(logits.dtype)  # last, to round 1/p only once
        if propensities is None and inverse.ndim and logits.shape[-1] != inverse.shape[0]:
            raise InputError(
                f"the logits have {logits.shape[-1]} labels, but there are {inverse.shape[0]} propensities"
            )
        absent = self.negative(logits)
        if self.targets == "dense":
            return self._dense(logits, target, inverse, absent)
        return self._indexed(logits, target, inverse, absent, per_cell=propensities is not None)

    def extra_repr(self) -> str:
        """Return the settings that `print(module)` shows."""
        clip = "" if self.max_inverse is None else f", max_inverse={self.max_inverse:g}"
        return f"reduction={self.reduction!r}, targets={self.targets!r}{clip}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PropensityLoss:
        """Move or convert the module, but keep the propensities in float32 or float64."""
        before = self.propensities
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        after = self.propensities
        if after.dtype != _at_least_float32(after.dtype):
            self.propensities = before.to(after.device)
        return self

    def _dense(self, logits: Tensor, target: Tensor, inverse: Tensor, absent: Tensor) -> Tensor:
        if target.shape != logits.shape:
            raise InputError(f"targets have shape {tuple(target.shape)}, but logits have shape {tuple(logits.shape)}")
        loss = absent + self._zero_one(target, logits.dtype) * self.difference(logits, inverse)
        if self.reduction == "none":
            return loss
        return loss.mean() if self.reduction == "mean" else loss.sum()

    def _indexed(self, logits: Tensor, target: Tensor, inverse: Tensor, absent: Tensor, *, per_cell: bool) -> Tensor:
        if target.is_floating_point() or target.shape[:-1] != logits.shape[:-1]:
            raise InputError(f"label indices must be integers of shape (rows, width), not {tuple(target.shape)}")
        if _can_read(target):  # otherwise gather checks them
            self._check_indices(target, logits.shape[-1])
        ordered, order = target.long().sort(dim=-1)  # duplicates become adjacent
        duplicate = torch.zeros_like(ordered, dtype=torch.bool)
        duplicate[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
        present = (ordered != PADDING) & ~duplicate
        labels = torch.where(ordered == PADDING, torch.zeros_like(ordered), ordered)
        chosen = logits.gather(-1, labels)
        if inverse.ndim:
            inverse = inverse.gather(-1, order) if per_cell else inverse[labels]
        added = self.difference(chosen, inverse)
        added = torch.where(present, added, torch.zeros_like(added))
        if self.reduction == "none":
            return absent.scatter_add(-1, labels, added)
        total = absent.sum() + added.sum()
        return total / logits.numel() if self.reduction == "mean" else total

    def _check_cells(self, propensities: Tensor, target: Tensor) -> Tensor:
        """Return p of the present labels, and 1 elsewhere; p outside of (0, 1] raises, or becomes nan if unreadable."""
        if propensities.shape != target.shape:
            shapes = tuple(propensities.shape), tuple(target.shape)
            raise InputError(f"propensities have shape {shapes[0]}; expected that of the targets, {shapes[1]}")
        p = propensities.detach().to(_at_least_float32(propensities.dtype))
        p = torch.where(target == PADDING if self.targets == "indices" else target == 0, torch.ones_like(p), p)
        valid = (p > 0) & (p <= 1)
        if _can_read(p) and not _all(valid):
            raise InputError(f"a present label has the propensity {float(p[~valid][0]):g}; it must lie in (0, 1]")
        return torch.where(valid, p, torch.full_like(p, torch.nan))

    @staticmethod
    def _zero_one(target: Tensor, dtype: torch.dtype) -> Tensor:
        """Return targets as floats. Values other than 0 and 1 raise InputError, or become nan if unreadable."""
        present = target.to(dtype)
        if target.dtype == torch.bool:
            return present
        valid = (target == 0) | (target == 1)
        if _can_read(target) and not _all(valid):
            wrong = float(target[~valid][0])
            raise InputError(f"a dense target is {wrong:g}; expected 0 or 1 (soft targets have no unbiased loss)")
        return torch.where(valid, present, torch.full_like(present, torch.nan))

    @staticmethod
    def _check_indices(target: Tensor, n_labels: int) -> None:
        valid = (target >= PADDING) & (target < n_labels)
        if not _all(valid):
            first = int(target[~valid][0])
            raise InputError(f"label index {first}; expected 0 to {n_labels - 1}, or {PADDING} for padding")


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _checked_buffer(propensities: npt.ArrayLike | Tensor, max_inverse: float | None) -> Tensor:
    """Return propensities as a float32 or float64 tensor; raise InputError if 1/p overflows float32."""
    tensor = propensities.detach() if isinstance(propensities, Tensor) else None
    values = propensities if tensor is None else tensor.cpu().double().numpy()
    inverse = inverse_propensities(values, max_inverse)
    if inverse.size and inverse.max() > 1 / np.finfo(np.float32).tiny:
        raise InputError(f"a propensity is {1 / inverse.max():g}, too small for float32; give max_inverse")
    if tensor is None or not tensor.is_floating_point():
        tensor = torch.as_tensor(propensities, dtype=_at_least_float32(torch.get_default_dtype()))
    return tensor.to(_at_least_float32(tensor.dtype)).clone()


def _can_read(tensor: Tensor) -> bool:
    """Return whether reading values neither synchronizes with a device nor breaks graph capture."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def _all(valid: Tensor) -> bool:
    """Return whether all are valid; True if values cannot be read, as inside `torch.func.vmap`."""
    try:
        return bool(valid.all())
    except RuntimeError:
        return True


class UnbiasedBCEWithLogitsLoss(PropensityLoss):
    """Unbiased cross-entropy: softplus(s) - s y/p. Convex; for p < 1 unbounded below."""

    def negative(self, logits: Tensor) -> Tensor:
        """Return softplus(s)."""
        return functional.softplus(logits)

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return -s/p."""
        return -logits * inverse


class NaiveBCEWithLogitsLoss(PropensityLoss):
    """Cross-entropy with l+ divided by p: convex and bounded below, but biased."""

    def negative(self, logits: Tensor) -> Tensor:
        """Return softplus(s)."""
        return functional.softplus(logits)

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return softplus(-s)/p - softplus(s)."""
        return functional.softplus(-logits) * inverse - functional.softplus(logits)


class UnbiasedLoss(PropensityLoss):
    """Unbiased loss (Theorem 1) of any pair of functions l+ and l- of the logits.

    Parameters
    ----------
    positive, negative
        The uncorrected loss of a present and of an absent label, elementwise.
    propensities, reduction, max_inverse, targets
        As in `PropensityLoss`.
    """

    def __init__(
        self,
        positive: Function,
        negative: Function,
        propensities: npt.ArrayLike | Tensor = 1.0,
        *,
        reduction: Reduction = "mean",
        max_inverse: float | None = None,
        targets: Targets = "dense",
    ) -> None:
        super().__init__(propensities, reduction=reduction, max_inverse=max_inverse, targets=targets)
        self._positive = positive
        self._negative = negative

    def negative(self, logits: Tensor) -> Tensor:
        """Return l- of the logits."""
        return self._negative(logits)

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return (l+ - l-)/p."""
        return (self._positive(logits) - self._negative(logits)) * inverse


class UnbiasedHingeLoss(PropensityLoss):
    """Unbiased hinge loss: for p < 1 neither convex nor bounded below."""

    def negative(self, logits: Tensor) -> Tensor:
        """Return max(0, 1 + s)."""
        return functional.relu(1 + logits)

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return (max(0, 1 - s) - max(0, 1 + s))/p."""
        return (functional.relu(1 - logits) - functional.relu(1 + logits)) * inverse


class UnbiasedSquaredHingeLoss(PropensityLoss):
    """Unbiased squared hinge loss: for p < 1 neither convex nor bounded below."""

    def negative(self, logits: Tensor) -> Tensor:
        """Return max(0, 1 + s)^2."""
        return functional.relu(1 + logits).square()

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return (max(0, 1 - s)^2 - max(0, 1 + s)^2)/p."""
        return (functional.relu(1 - logits).square() - functional.relu(1 + logits).square()) * inverse


class ConvexHingeLoss(PropensityLoss):
    """The paper's convex bound: the hinge loss with l+ multiplied by 2/p - 1."""

    def negative(self, logits: Tensor) -> Tensor:
        """Return max(0, 1 + s)."""
        return functional.relu(1 + logits)

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return (2/p - 1) max(0, 1 - s) - max(0, 1 + s)."""
        factor: Tensor = bound_factor(inverse)
        return factor * functional.relu(1 - logits) - functional.relu(1 + logits)


class ConvexSquaredHingeLoss(PropensityLoss):
    """The paper's convex bound: the squared hinge loss with l+ multiplied by 2/p - 1."""

    def negative(self, logits: Tensor) -> Tensor:
        """Return max(0, 1 + s)^2."""
        return functional.relu(1 + logits).square()

    def difference(self, logits: Tensor, inverse: Tensor) -> Tensor:
        """Return (2/p - 1) max(0, 1 - s)^2 - max(0, 1 + s)^2."""
        factor: Tensor = bound_factor(inverse)
        return factor * functional.relu(1 - logits).square() - functional.relu(1 + logits).square()
