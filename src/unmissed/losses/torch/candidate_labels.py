"""Candidate labels: logits of some labels only, and negatives that are sampled so that the loss stays unbiased."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unmissed.errors import InputError
from unmissed.losses.torch.tensors import PADDING, is_known_false


def check_candidates(labels: Tensor, logits: Tensor) -> Tensor:
    """Return candidate labels as int64; raise InputError unless they belong to the logits and are distinct."""
    if labels.is_floating_point() or labels.shape not in (logits.shape, logits.shape[-1:]):
        raise InputError(
            f"labels have shape {tuple(labels.shape)}; expected integers, one per logit of all rows "
            f"({tuple(logits.shape[-1:])}) or of each row ({tuple(logits.shape)})"
        )
    labels = labels.long()
    ordered = labels.sort(dim=-1).values
    repeated = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] != PADDING)
    if is_known_false(~repeated):
        raise InputError(f"the candidate label {int(ordered[..., 1:][repeated][0])} is given twice; give each once")
    if is_known_false(labels >= PADDING):
        raise InputError(f"a candidate label is {int(labels.min())}; expected at least 0, or {PADDING} for padding")
    return labels


def find_positions(target: Tensor, labels: Tensor) -> Tensor:
    """Return the position of each present label among the candidates; padding stays -1.

    A label that is no candidate raises InputError; where it cannot be read, it gets a position at which gather fails.
    """
    ordered, order = labels.sort(dim=-1)
    target = target.long()
    wanted = target.clamp(min=0).contiguous()
    slot = torch.searchsorted(ordered.contiguous(), wanted).clamp(max=labels.shape[-1] - 1)
    if labels.ndim == 1:
        is_candidate, position = ordered[slot] == wanted, order[slot]
    else:
        is_candidate, position = ordered.gather(-1, slot) == wanted, order.gather(-1, slot)
    padding = target == PADDING
    is_candidate = is_candidate | padding
    if is_known_false(is_candidate):
        missing = int(target[~is_candidate][0])
        raise InputError(f"the present label {missing} is not among the candidates (labels); add it to them")
    position = torch.where(is_candidate, position, torch.full_like(position, labels.shape[-1]))
    return torch.where(padding, torch.full_like(position, PADDING), position)


def join_labels(target: Tensor) -> Tensor:
    """Return the labels that are present in some row of padded label indices, ascending: candidates of a batch."""
    found: Tensor = torch.unique(target)
    return found[found != PADDING].long()


class NegativeSampler:
    """Draws candidates: the labels of a batch, and negatives by frequency with the weights that keep a loss unbiased.

    `n_draws` labels are drawn with replacement, label l with probability r_l, proportional to (count + 1)^power. So l
    is a candidate with probability q_l = 1 - (1 - r_l)^n_draws. A drawn label that no row of the batch has gets the
    weight 1/q_l for its loss l-, a label of the batch 1. The expected sum over the candidates is then the sum over all
    labels, and so is its gradient.

    Parameters
    ----------
    label_counts : the number of training positives of each label
    n_draws : labels drawn per batch
    power : exponent of the counts; 0 draws uniformly
    """

    def __init__(self, label_counts: npt.ArrayLike, n_draws: int, *, power: float = 0.5) -> None:
        counts = np.asarray(label_counts, np.float64)
        if counts.ndim != 1 or not counts.size or not (counts >= 0).all():
            raise InputError("label counts must be numbers of at least 0, one per label")
        if n_draws < 1:
            raise InputError(f"n_draws is {n_draws}; expected at least 1")
        chances = (counts + 1) ** power
        chances /= chances.sum()
        self.n_draws = n_draws
        with np.errstate(divide="ignore"):  # a single label is always drawn
            self.inclusion: npt.NDArray[np.float64] = -np.expm1(n_draws * np.log1p(-chances))
        self._ends = np.cumsum(chances)

    def draw(self, present: Any, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return candidates, ascending, and the weights of their l-: what `labels` and `negative_weight` expect.

        Parameters
        ----------
        present : all labels of the batch, as a tensor or array of label indices; -1 is padding
        rng : source of the random numbers
        """
        own = np.unique(np.asarray(present))
        own = own[own != PADDING]
        if own.size and not 0 <= own[0] <= own[-1] < self._ends.size:
            raise InputError(f"a present label is not one of the {self._ends.size} labels of the sampler")
        drawn = np.searchsorted(self._ends, rng.random(self.n_draws) * self._ends[-1], side="right")
        drawn = np.setdiff1d(np.minimum(drawn, self._ends.size - 1), own)
        labels = np.concatenate([own, drawn]).astype(np.int64)
        weights = np.concatenate([np.ones(own.size), 1 / self.inclusion[drawn]]).astype(np.float32)
        order = np.argsort(labels)
        return torch.from_numpy(labels[order]), torch.from_numpy(weights[order])
