"""The first levels of a label tree, scored at once.

A row meets nearly all nodes of the first levels, so these are one block of columns, with weights kept feature by
feature for all of them. `kernels.beam` goes on below, and says what scores and probabilities are.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.kernels.beam import descend, score_leaves, to_log_probabilities
from unmissed.kernels.best import put


class TopArrays(NamedTuple):
    """The inner nodes of the first levels, as one block of columns.

    Node v, where it is below len(places) and places[v] is not -1, has its columns from places[v] on; `bias` holds one
    number per column. A feature f with weights for many columns has all of them, with zeros, in dense[lines[f]]; any
    other, where lines[f] is -1, has the weights starts[f] to starts[f + 1], each for a column of the block.
    """

    places: Any
    bias: Any
    lines: Any
    dense: Any
    starts: Any
    columns: Any
    weights: Any


@kernel()
def count_top(tree, places, counts):
    """Count the weights that each feature has in the nodes whose place is not -1."""
    for node in range(places.shape[0]):
        if places[node] >= 0:
            for at in range(tree.feature_starts[node], tree.feature_starts[node + 1]):
                counts[tree.features[at]] += tree.weight_starts[at + 1] - tree.weight_starts[at]


@kernel()
def lay_top(tree, places, lines, dense, ends, columns, weights):
    """Write those weights feature by feature, as TopArrays has them.

    `dense` holds zeros before; `ends` holds where the list of each feature begins, and afterwards where it ends.
    """
    for node in range(places.shape[0]):
        if places[node] < 0:
            continue
        first = tree.column_starts[node]
        for at in range(tree.feature_starts[node], tree.feature_starts[node + 1]):
            feature = tree.features[at]
            for weight in range(tree.weight_starts[at], tree.weight_starts[at + 1]):
                column = tree.columns[weight]
                value = np.float32(tree.weights[weight]) * tree.scale[first + column]
                if lines[feature] >= 0:
                    dense[lines[feature], places[node] + column] = value
                else:
                    columns[ends[feature]] = places[node] + column
                    weights[ends[feature]] = value
                    ends[feature] += 1


@kernel()
def search_tree(tree, top, indptr, indices, data, nodes, scores, table, tile, begins, sizes, found):
    """Go from the root to the leaves of every row's beam and score their labels, as `score_leaves` tells.

    One call: handing over so many arrays takes longer than a row spends on some levels.
    """
    descend_top(tree, top, indptr, indices, data, nodes, scores)
    descend(tree, indptr, indices, data, nodes, scores, table, tile)
    score_leaves(tree, indptr, indices, data, nodes, scores, table, tile, begins, sizes, found)


@kernel()
def descend_top(tree, top, indptr, indices, data, nodes, scores):
    """Bring the beam of every row from the root down to leaves and to the nodes that `top` does not hold.

    `nodes` and `scores` (n_rows, beam) get each row's nodes, best first, and their log probabilities; places without a
    node are -1.
    """
    line = np.empty(top.bias.shape[0], np.float32)
    next_nodes, next_scores = np.empty_like(nodes[0]), np.empty_like(scores[0])
    nodes[:] = -1
    scores[:] = -np.inf
    for row in range(nodes.shape[0]):
        line[:] = top.bias
        _add_top(top, indices[indptr[row] : indptr[row + 1]], data[indptr[row] : indptr[row + 1]], line)
        to_log_probabilities(line)
        nodes[row, 0] = 0
        scores[row, 0] = 0
        moving = True
        while moving:
            moving = False
            next_nodes[:] = -1
            next_scores[:] = -np.inf
            for slot in range(nodes.shape[1]):
                node, score = nodes[row, slot], scores[row, slot]
                if node < 0:
                    break
                if node >= top.places.shape[0] or top.places[node] < 0:
                    put(next_nodes, next_scores, node, score)
                    continue
                moving = True
                for column in range(tree.column_starts[node + 1] - tree.column_starts[node]):
                    child = tree.children[node] + column
                    put(next_nodes, next_scores, child, score + line[top.places[node] + column])
            nodes[row] = next_nodes
            scores[row] = next_scores


@kernel()
def _add_top(top, indices, data, line):
    """Add value times weight over the entries of a row, for all columns of the block."""
    for entry in range(indices.shape[0]):
        feature, value = indices[entry], data[entry]
        if top.lines[feature] >= 0:
            dense = top.dense[top.lines[feature]]
            for column in range(line.shape[0]):
                line[column] += value * dense[column]
        else:
            for at in range(top.starts[feature], top.starts[feature + 1]):
                line[top.columns[at]] += value * top.weights[at]
