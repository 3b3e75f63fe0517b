"""Ranking by trees over rows: every row walks down every tree, and the leaves it ends in vote for labels."""

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.ascent import row_dot

_ZERO = np.float32(0)


@kernel()
def goes_first(features, weights, begin, end, constant, dense):
    """Return whether a node sends a row to its first child: w.x + b > 0, summed in float32 in a fixed order.

    Training splits rows by this function and prediction follows it. Two ways to sum would disagree about scores near 0.
    """
    return row_dot(features, weights, begin, end, dense) + constant > _ZERO


@kernel()
def find_leaf(children, starts, features, weights, constants, dense):
    """Return the leaf that a dense row reaches."""
    node = 0 if children.shape[0] else -1
    while node >= 0:
        first = goes_first(features, weights, starts[node], starts[node + 1], constants[node], dense)
        node = children[node, 0] if first else children[node, 1]
    return ~node


@kernel()
def walk(
    indptr, indices, values, children, starts, features, weights, constants, leaf_starts, leaf_labels, leaf_means,
    dense, counts, labels, means,
):  # fmt: skip
    """Send rows down one tree and put the labels and means of their leaves behind what earlier trees gave each row.

    dense is as long as there are features, all zeros, and left so.
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
def vote(n_trees, most, votes, counts, labels, means):
    """Add up the means of equal labels and divide by the trees, in place; keep the `most` best labels of a row.

    votes is as long as there are labels, all zeros, and left so. Among equals the smaller label stays.
    """
    for row in range(counts.shape[0]):
        line, found = labels[row], means[row]
        n_found = 0
        for at in range(counts[row]):
            label = line[at]
            if votes[label] == _ZERO:
                line[n_found] = label
                n_found += 1
            votes[label] += found[at]
        for at in range(n_found):
            found[at] = votes[line[at]] / n_trees
            votes[line[at]] = _ZERO
        if n_found > most:
            order = np.argsort(line[:n_found])
            order = order[np.argsort(-found[order], kind="mergesort")][:most]
            line[:most], found[:most] = line[order], found[order]
            n_found = most
        counts[row] = n_found


@kernel()
def temper(
    indptr, indices, values, feature_starts, mean_labels, mean_values, squares, gamma, alpha, dots,
    counts, labels, scores,
):  # fmt: skip
    """Turn each score s into s^alpha / (1 + exp(gamma |x - m_l|^2))^(1 - alpha), m_l the mean of label l's rows.

    Means are listed by feature; squares_l = |m_l|^2; dots is as long as there are labels.
    """
    for row in range(counts.shape[0]):
        dots[:] = _ZERO
        length = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            value = values[at]
            length += value * value
            for place in range(feature_starts[indices[at]], feature_starts[indices[at] + 1]):
                dots[mean_labels[place]] += value * mean_values[place]
        for at in range(counts[row]):
            label = labels[row, at]
            far = gamma * max(0.0, length - 2.0 * dots[label] + squares[label])
            tail = -far - np.log1p(np.exp(-far))
            scores[row, at] = np.exp(alpha * np.log(scores[row, at]) + (1.0 - alpha) * tail)


@kernel()
def pick(counts, labels, scores, best_labels, best_scores):
    """Put each row's best candidates in order: score falling, equal scores by rising label."""
    k = best_labels.shape[1]
    for row in range(counts.shape[0]):
        filled = 0
        for at in range(counts[row]):
            label, score = labels[row, at], scores[row, at]
            place = min(filled, k)
            while place > 0 and (
                best_scores[row, place - 1] < score
                or (best_scores[row, place - 1] == score and best_labels[row, place - 1] > label)
            ):
                place -= 1
            if place == k:
                continue
            filled = min(filled + 1, k)
            for other in range(filled - 1, place, -1):
                best_labels[row, other] = best_labels[row, other - 1]
                best_scores[row, other] = best_scores[row, other - 1]
            best_labels[row, place], best_scores[row, place] = label, score
