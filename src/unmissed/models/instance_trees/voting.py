"""Kernels of prediction with instance trees: find the leaf of each row, average leaf labels, select the best."""

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.packed_rows import row_dot

_ZERO = np.float32(0)


@kernel()
def goes_first(features, weights, begin, end, constant, dense):
    """Return whether a node sends a row to its first child: w.x + b > 0, summed in float32 in a fixed order.

    Training and prediction both use this function, because another order of summation may change the sign near 0.
    """
    return row_dot(features, weights, begin, end, dense) + constant > _ZERO


@kernel()
def find_leaf(children, starts, features, weights, constants, dense):
    """Return the leaf that a row, given as a dense vector, reaches."""
    node = 0 if children.shape[0] else -1
    while node >= 0:
        first = goes_first(features, weights, starts[node], starts[node + 1], constants[node], dense)
        node = children[node, 0] if first else children[node, 1]
    return ~node


# 15 arguments: the rows are three arrays, the tree is eight, the votes are three.
@kernel()
def traverse(
    indptr, indices, values, children, starts, features, weights, constants, leaf_starts, leaf_labels, leaf_means,
    dense, counts, labels, means,
):  # fmt: skip
    """Append the labels and means of the leaf that each row reaches in one tree to the candidates of earlier trees.

    dense is a workspace of zeros, one per feature; it is zero again afterwards.
    """
    for row in range(indptr.shape[0] - 1):
        begin, end = indptr[row], indptr[row + 1]
        for at in range(begin, end):
            dense[indices[at]] = values[at]
        leaf = find_leaf(children, starts, features, weights, constants, dense)
        for at in range(begin, end):
            dense[indices[at]] = _ZERO
        filled = counts[row]
        for at in range(leaf_starts[leaf], leaf_starts[leaf + 1]):
            labels[row, filled] = leaf_labels[at]
            means[row, filled] = leaf_means[at]
            filled += 1
        counts[row] = filled


@kernel()
def average_votes(n_trees, max_candidates, votes, counts, labels, means):
    """Average the means of each label over the trees, in place; keep the `max_candidates` best labels of each row.

    votes is a workspace of zeros, one per label; it is zero again afterwards. Ties go to the smaller label.
    """
    for row in range(counts.shape[0]):
        row_labels, row_means = labels[row], means[row]
        n_distinct = 0
        for at in range(counts[row]):
            label = row_labels[at]
            if votes[label] == _ZERO:
                row_labels[n_distinct] = label
                n_distinct += 1
            votes[label] += row_means[at]
        for at in range(n_distinct):
            row_means[at] = votes[row_labels[at]] / n_trees
            votes[row_labels[at]] = _ZERO
        if n_distinct > max_candidates:
            order = np.argsort(row_labels[:n_distinct])
            order = order[np.argsort(-row_means[order], kind="mergesort")][:max_candidates]
            row_labels[:max_candidates], row_means[:max_candidates] = row_labels[order], row_means[order]
            n_distinct = max_candidates
        counts[row] = n_distinct


# 13 arguments: the rows are three arrays, the centroids are four, the votes are three.
@kernel()
def rerank_by_centroids(
    indptr, indices, values, feature_starts, centroid_labels, centroid_values, squares, gamma, alpha, dots,
    counts, labels, scores,
):  # fmt: skip
    """Replace each score s by s^alpha / (1 + exp(gamma |x - m_l|^2))^(1 - alpha), where m_l is the centroid of label l.

    Centroids are stored by feature; squares_l = |m_l|^2; dots is a workspace with one entry per label.
    """
    for row in range(counts.shape[0]):
        dots[:] = _ZERO
        squared_norm = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            value = values[at]
            squared_norm += value * value
            for position in range(feature_starts[indices[at]], feature_starts[indices[at] + 1]):
                dots[centroid_labels[position]] += value * centroid_values[position]
        for at in range(counts[row]):
            label = labels[row, at]
            distance = gamma * max(0.0, squared_norm - 2.0 * dots[label] + squares[label])
            log_tail = -distance - np.log1p(np.exp(-distance))
            scores[row, at] = np.exp(alpha * np.log(scores[row, at]) + (1.0 - alpha) * log_tail)


@kernel()
def select_best(counts, labels, scores, best_labels, best_scores):
    """Select the k best candidates of each row, sorted by decreasing score; ties by increasing label."""
    k = best_labels.shape[1]
    for row in range(counts.shape[0]):
        filled = 0
        for at in range(counts[row]):
            label, score = labels[row, at], scores[row, at]
            position = min(filled, k)
            while position > 0 and (
                best_scores[row, position - 1] < score
                or (best_scores[row, position - 1] == score and best_labels[row, position - 1] > label)
            ):
                position -= 1
            if position == k:
                continue
            filled = min(filled + 1, k)
            for other in range(filled - 1, position, -1):
                best_labels[row, other] = best_labels[row, other - 1]
                best_scores[row, other] = best_scores[row, other - 1]
            best_labels[row, position], best_scores[row, position] = label, score
