"""Losses for missing labels in PyTorch: `torch.nn` modules, functions, candidate labels, and batches of label indices.

    criterion = UnbiasedBCEWithLogitsLoss(p)
    criterion(logits, targets).backward()

`functional` has the same losses as functions. A loss evaluates l- on all logits and adds what a present label changes,
so label indices are never converted to a dense matrix of targets. With many labels, give the logits of candidates only
(`labels`, drawn by `NegativeSampler`), or let `chunked_loss` compute the last layer in chunks.

An unbiased loss may diverge to -inf if the network can fit its training set (see docs/derivations.md); use
`non_negative`, `max_inverse`, weight decay or early stopping.

Losses are computed and returned in float32 or float64, also for float16 and bfloat16 logits and under autocast, because
1/p and sums over many labels overflow 16 bits. Gradients have the dtype of the logits.
"""

from unmissed.errors import UnmissedError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise UnmissedError("unmissed.losses.torch needs PyTorch: pip install 'unmissed[torch]'") from error

from unmissed.losses.torch import functional
from unmissed.losses.torch.candidate_labels import NegativeSampler, join_labels
from unmissed.losses.torch.indices import packed_indices, padded_indices
from unmissed.losses.torch.label_chunks import chunked_loss
from unmissed.losses.torch.modules import (
    ConvexHingeLoss,
    ConvexSquaredHingeLoss,
    NaiveBCEWithLogitsLoss,
    PropensityLoss,
    UnbiasedBCEWithLogitsLoss,
    UnbiasedHingeLoss,
    UnbiasedLoss,
    UnbiasedSquaredHingeLoss,
)

__all__ = [
    "ConvexHingeLoss",
    "ConvexSquaredHingeLoss",
    "NaiveBCEWithLogitsLoss",
    "NegativeSampler",
    "PropensityLoss",
    "UnbiasedBCEWithLogitsLoss",
    "UnbiasedHingeLoss",
    "UnbiasedLoss",
    "UnbiasedSquaredHingeLoss",
    "chunked_loss",
    "functional",
    "join_labels",
    "packed_indices",
    "padded_indices",
]
