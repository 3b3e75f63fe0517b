"""Checks of tensors that work eagerly, in compiled graphs, under `vmap` and on accelerators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unmissed.errors import InputError
from unmissed.losses.inverse import inverse_propensities

PADDING = -1


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for narrower floating-point types, else the type itself."""
    return torch.promote_types(dtype, torch.float32)


def can_read(tensor: Tensor) -> bool:
    """Return whether reading values neither synchronizes with a device nor breaks graph capture."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def is_known_false(valid: Tensor) -> bool:
    """Return whether some value is False; False if values cannot be read, as inside `torch.func.vmap`."""
    if not can_read(valid):
        return False
    try:
        return not bool(valid.all())
    except RuntimeError:
        return False


def check_propensity_tensor(propensities: npt.ArrayLike | Tensor, max_inverse: float | None) -> Tensor:
    """Return propensities as a float32 or float64 tensor; raise InputError if 1/p overflows float32."""
    tensor = propensities.detach() if isinstance(propensities, Tensor) else None
    if not torch.compiler.is_compiling():
        values = propensities if tensor is None else tensor.cpu().double().numpy()
        inverse = inverse_propensities(values, max_inverse)
        if inverse.size and inverse.max() > 1 / np.finfo(np.float32).tiny:
            raise InputError(f"a propensity is {1 / inverse.max():g}, too small for float32; give max_inverse")
    if tensor is None or not tensor.is_floating_point():
        tensor = torch.as_tensor(propensities, dtype=at_least_float32(torch.get_default_dtype()))
    return tensor.to(at_least_float32(tensor.dtype)).clone()


def check_label_weights(weights: npt.ArrayLike | Tensor | None, name: str) -> Tensor | None:
    """Return weights as a floating-point tensor; raise InputError unless all are finite and at least 0."""
    if weights is None:
        return None
    dtype = at_least_float32(weights.dtype if isinstance(weights, Tensor) else torch.get_default_dtype())
    tensor = torch.as_tensor(weights, dtype=dtype).detach().clone()
    if is_known_false((tensor >= 0) & (tensor < torch.inf)):
        raise InputError(f"{name} must be finite and at least 0")
    return tensor


def check_cell_propensities(propensities: Tensor, target: Tensor, absent: Tensor) -> Tensor:
    """Return p of the present labels, and 1 elsewhere; p outside of (0, 1] raises, or becomes nan if unreadable."""
    if propensities.shape != target.shape:
        shapes = tuple(propensities.shape), tuple(target.shape)
        raise InputError(f"propensities have shape {shapes[0]}; expected that of the targets, {shapes[1]}")
    p = propensities.detach().to(at_least_float32(propensities.dtype))
    p = torch.where(absent, torch.ones_like(p), p)
    valid = (p > 0) & (p <= 1)
    if is_known_false(valid):
        raise InputError(f"a present label has the propensity {float(p[~valid][0]):g}; it must lie in (0, 1]")
    return torch.where(valid, p, torch.full_like(p, torch.nan))


def zero_one(target: Tensor, dtype: torch.dtype) -> Tensor:
    """Return dense targets as floats. Values other than 0 and 1 raise InputError, or become nan if unreadable."""
    present = target.to(dtype)
    if target.dtype == torch.bool:
        return present
    valid = (target == 0) | (target == 1)
    if is_known_false(valid):
        wrong = float(target[~valid][0])
        raise InputError(f"a dense target is {wrong:g}; expected 0 or 1 (soft targets have no unbiased loss)")
    return torch.where(valid, present, torch.full_like(present, torch.nan))
