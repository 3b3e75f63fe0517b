"""Exact float32 scores of sparse rows under sparse linear models.

Two kernels give the same bits: `score_sparse` reads a shard directly (few rows), `score_tile` reads dense tiles of
LANES labels (many rows). Both start from the bias and add products sequentially in ascending order of feature, without
fused multiply-add. The zeros of a dense tile change no bit.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.simd import LANES, add_in_order


@kernel()
def score_sparse(indptr, indices, data, features, starts, labels, weights, bias, scores):
    """Set scores[i, l] = bias[l] + w_l.x_i directly from a shard; features are found by binary search."""
    for row in range(indptr.shape[0] - 1):
        line = scores[row]
        for label in range(bias.shape[0]):
            line[label] = bias[label]
        low = 0
        for at in range(indptr[row], indptr[row + 1]):
            feature = indices[at]
            high = features.shape[0]
            while low < high:
                middle = (low + high) >> 1
                if features[middle] < feature:
                    low = middle + 1
                else:
                    high = middle
            if low < features.shape[0] and features[low] == feature:
                value = data[at]
                for position in range(starts[low], starts[low + 1]):
                    line[labels[position]] += value * weights[position]


@kernel()
def fill_tile(features, starts, labels, weights, left, position_of_feature, tile):
    """Write the weights of labels left, left + 1, ... of a shard into a dense (n_features, LANES) tile of zeros."""
    for at in range(features.shape[0]):
        line = tile[position_of_feature[features[at]]]
        for position in range(starts[at], starts[at + 1]):
            lane = np.int64(labels[position]) - left
            if lane >= LANES:
                break
            if lane >= 0:
                line[lane] = weights[position]


@kernel()
def score_tile(indptr, indices, data, tile, bias, scores):
    """Set scores[i, l] = bias[l] + w_l.x_i for the LANES labels of a tile."""
    flat = tile.reshape(-1)
    for row in range(indptr.shape[0] - 1):
        scores[row] = bias
        add_in_order(indices, data, indptr[row], indptr[row + 1], flat, scores[row])


@kernel()
def rescore_candidates(indptr, indices, data, starts, features, weights, bias, candidates, dense, scores):
    """Set scores[i, c] = bias[l] + w_l.x_i for the label l = candidates[i, c], -inf where that is -1.

    Label l has weights[starts[l]:starts[l + 1]], in ascending order of feature. `dense` (n_features) is workspace that
    holds zeros before and after.
    """
    for row in range(indptr.shape[0] - 1):
        for at in range(indptr[row], indptr[row + 1]):
            dense[indices[at]] = data[at]
        for position in range(candidates.shape[1]):
            label = candidates[row, position]
            if label < 0:
                scores[row, position] = -np.inf
                continue
            score = bias[label]
            for at in range(starts[label], starts[label + 1]):
                score += dense[features[at]] * weights[at]
            scores[row, position] = score
        for at in range(indptr[row], indptr[row + 1]):
            dense[indices[at]] = 0
