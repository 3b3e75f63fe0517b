"""The last layer and its loss in chunks of labels, so that the logits of all labels never exist at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from unmissed.errors import InputError
from unmissed.losses.torch.functional import check_indices
from unmissed.losses.torch.modules import PropensityLoss
from unmissed.losses.torch.tensors import PADDING


def chunked_loss(
    criterion: PropensityLoss,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    propensities: Tensor | None = None,
    *,
    chunk_size: int = 4096,
) -> Tensor:
    """Return criterion(linear(hidden, weight, bias), target), with memory for rows x chunk_size logits.

    The logits of a chunk of labels are computed, reduced to their loss and dropped; the backward pass computes them
    again. The gradient is that of the loss without chunks, up to the order of sums.

    Parameters
    ----------
    criterion : a loss with `targets="indices"` and the reduction "mean" or "sum"
    hidden : the input of the last layer, (rows, n_hidden)
    weight, bias : the last layer, (n_labels, n_hidden) and (n_labels,) or None, as in `torch.nn.Linear`
    target : label indices, (rows, width), padded with -1
    propensities : p of each present label of each row, of the shape of `target`
    chunk_size : labels per chunk
    """
    if criterion.targets != "indices" or criterion.reduction == "none":
        raise InputError("chunked_loss needs a criterion with targets='indices' and reduction 'mean' or 'sum'")
    if chunk_size < 1:
        raise InputError(f"chunk_size is {chunk_size}; expected at least 1")
    n_labels = weight.shape[0]
    biases = [None] * n_labels if bias is None else torch.split(bias, chunk_size)
    check_indices(target, n_labels)

    def of_chunk(rows: Tensor, part: Tensor, shift: Tensor | None, first: int) -> Tensor:
        labels = torch.arange(first, first + part.shape[0], device=target.device)
        inside = (target >= first) & (target < first + part.shape[0])
        own = torch.where(inside, target, torch.full_like(target, PADDING))
        return criterion.total(linear(rows, part, shift), own, propensities, labels=labels)

    total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
    for number, (part, shift) in enumerate(zip(torch.split(weight, chunk_size), biases, strict=False)):
        first = number * chunk_size
        total = total + checkpoint(of_chunk, hidden, part, shift, first, use_reentrant=False, preserve_rng_state=False)
    return total / (hidden.shape[:-1].numel() * n_labels) if criterion.reduction == "mean" else total
