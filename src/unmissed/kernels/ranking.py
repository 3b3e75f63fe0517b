"""Scores of sparse rows under sparse linear classifiers, and the k best of them.

Two ways to the same bits: label by label over one dense row (no preparation, for a few rows), and feature by feature
for many rows. Both add a label's products in rising order of feature, starting from its bias, with nothing fused.
"""

import numpy as np

from unmissed._jit import kernel

_ZERO = np.float32(0)


@kernel()
def score_row(x, indptr, features, weights, bias, scores):
    """Set scores[l] = bias[l] + w_l.x for one dense row x."""
    for label in range(bias.shape[0]):
        score = bias[label]
        for at in range(indptr[label], indptr[label + 1]):
            value = x[features[at]]
            if value != _ZERO:
                score += value * weights[at]
        scores[label] = score


@kernel()
def insert_best(scores, first, labels, best):
    """Merge the scores of labels first, first + 1, ... into a row's k best; of equal scores the smaller label leads."""
    k = best.shape[0]
    worst = best[k - 1]
    for at in range(scores.shape[0]):
        score = scores[at]
        if score <= worst and labels[k - 1] >= 0:
            continue
        place = k - 1
        while place > 0 and (labels[place - 1] < 0 or best[place - 1] < score):
            labels[place] = labels[place - 1]
            best[place] = best[place - 1]
            place -= 1
        labels[place] = first + at
        best[place] = score
        worst = best[k - 1]


@kernel()
def count_by_feature(features, counts):
    """Count the weights of each feature."""
    for at in range(features.shape[0]):
        counts[features[at]] += 1


@kernel()
def turn_by_feature(indptr, features, weights, starts, dense_at, labels, values, dense):
    """Lay out weights feature by feature: a feature with dense_at >= 0 as a dense line, the others as a list."""
    filled = starts.copy()
    for label in range(indptr.shape[0] - 1):
        for at in range(indptr[label], indptr[label + 1]):
            feature = features[at]
            line = dense_at[feature]
            if line >= 0:
                dense[line, label] = weights[at]
            else:
                place = filled[feature]
                labels[place] = label
                values[place] = weights[at]
                filled[feature] = place + 1


@kernel()
def _score_sparse_row(indices, data, begin, end, starts, dense_at, labels, values, dense, bias, scores):
    """Set scores[l] = bias[l] + w_l.x for one sparse row; the shard is laid out by feature."""
    n_labels = bias.shape[0]
    for label in range(n_labels):
        scores[label] = bias[label]
    for at in range(begin, end):
        feature = indices[at]
        value = data[at]
        line = dense_at[feature]
        if line >= 0:
            weights = dense[line]
            for label in range(n_labels):
                scores[label] += value * weights[label]
        else:
            for place in range(starts[feature], starts[feature + 1]):
                scores[labels[place]] += value * values[place]


@kernel()
def rank_rows(indptr, indices, data, starts, dense_at, labels, values, dense, bias, first, best_labels, best_scores):
    """Merge the scores of a shard's labels into the k best of each row."""
    scores = np.empty(bias.shape[0], np.float32)
    for row in range(indptr.shape[0] - 1):
        _score_sparse_row(
            indices, data, indptr[row], indptr[row + 1], starts, dense_at, labels, values, dense, bias, scores
        )
        insert_best(scores, first, best_labels[row], best_scores[row])


@kernel()
def score_rows(indptr, indices, data, starts, dense_at, labels, values, dense, bias, scores):
    """Set scores[i, l] = bias[l] + w_l.x_i."""
    for row in range(indptr.shape[0] - 1):
        _score_sparse_row(
            indices, data, indptr[row], indptr[row + 1], starts, dense_at, labels, values, dense, bias, scores[row]
        )
