"""Scores of sparse rows under sparse linear classifiers, and the k best of them.

Two ways to the same bits: straight from a shard, for a few rows, and over dense tiles of LANES labels, for many. Both
start from a label's bias and add its products in rising order of feature, one by one, nothing fused; the zeros that a
dense tile adds change no bit.
"""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.best import put
from unmissed.kernels.vectors import LANES, add_in_order


@kernel()
def score_sparse(indptr, indices, data, features, starts, labels, weights, bias, scores):
    """Set scores[i, l] = bias[l] + w_l.x_i straight from a shard; each feature is looked up by bisection."""
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
                for place in range(starts[low], starts[low + 1]):
                    line[labels[place]] += value * weights[place]


@kernel()
def fill_tile(features, starts, labels, weights, left, place_of_feature, tile):
    """Write the weights of labels left, left + 1, ... of a shard into a dense (n_features, LANES) tile of zeros."""
    for at in range(features.shape[0]):
        line = tile[place_of_feature[features[at]]]
        for place in range(starts[at], starts[at + 1]):
            lane = np.int64(labels[place]) - left
            if lane >= LANES:
                break
            if lane >= 0:
                line[lane] = weights[place]


@kernel()
def score_tile(indptr, indices, data, tile, bias, scores):
    """Set scores[i, l] = bias[l] + w_l.x_i for the LANES labels of a tile."""
    flat = tile.reshape(-1)
    for row in range(indptr.shape[0] - 1):
        scores[row] = bias
        add_in_order(indices, data, indptr[row], indptr[row + 1], flat, scores[row])


@kernel()
def score_candidates(indptr, indices, data, starts, features, weights, bias, candidates, dense, scores):
    """Set scores[i, c] = bias[l] + w_l.x_i for the label l = candidates[i, c], -inf where that is -1.

    Label l has the weights starts[l] to starts[l + 1], in rising order of feature; `dense` (n_features) holds zeros
    before and after.
    """
    for row in range(indptr.shape[0] - 1):
        for at in range(indptr[row], indptr[row + 1]):
            dense[indices[at]] = data[at]
        for place in range(candidates.shape[1]):
            label = candidates[row, place]
            if label < 0:
                scores[row, place] = -np.inf
                continue
            score = bias[label]
            for at in range(starts[label], starts[label + 1]):
                score += dense[features[at]] * weights[at]
            scores[row, place] = score
        for at in range(indptr[row], indptr[row + 1]):
            dense[indices[at]] = 0


@kernel()
def merge_best(scores, first, labels, best):
    """Merge the scores of labels first, first + 1, ... into each row's k best; among equals the smaller label leads."""
    k = best.shape[1]
    for row in range(scores.shape[0]):
        line, row_labels, row_best = scores[row], labels[row], best[row]
        for at in range(line.shape[0]):
            score = line[at]
            if score <= row_best[k - 1] and row_labels[k - 1] >= 0:
                continue
            put(row_labels, row_best, first + at, score)
