"""The first levels of a label tree, scored in one pass.

A row reaches nearly all nodes of the first levels. Their columns are therefore one block, with weights stored by
feature. `beam_kernels` searches the levels below and defines scores and probabilities. Trees with dense weights have no
such block.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.models.label_trees.beam_kernels import descend, score_leaves, to_log_probabilities
from unmissed.numerics.topk import put


class TopArrays(NamedTuple):
    """The inner nodes of the first levels as one block of columns.

    Node v is in the block if v < len(positions) and positions[v] >= 0; its columns start at positions[v]. `bias` has
    one value per column. A feature f with weights for many columns has a dense line, dense[lines[f]]. Other features
    have lines[f] = -1 and the sparse weights starts[f] to starts[f + 1], each for a column of the block.
    """

    positions: Any
    bias: Any
    lines: Any
    dense: Any
    starts: Any
    columns: Any
    weights: Any


@kernel()
def count_top(tree, positions, counts):
    """Count the weights of each feature in the nodes of the block."""
    for node in range(positions.shape[0]):
        if positions[node] >= 0:
            for at in range(tree.feature_starts[node], tree.feature_starts[node + 1]):
                counts[tree.features[at]] += tree.weight_starts[at + 1] - tree.weight_starts[at]


@kernel()
def fill_top(tree, positions, lines, dense, ends, columns, weights):
    """Write the weights of the block by feature, in the layout of TopArrays.

    `dense` holds zeros before. ends[f] is the start of the list of feature f before and its end after.
    """
    for node in range(positions.shape[0]):
        if positions[node] < 0:
            continue
        first = tree.column_starts[node]
        for at in range(tree.feature_starts[node], tree.feature_starts[node + 1]):
            feature = tree.features[at]
            for weight in range(tree.weight_starts[at], tree.weight_starts[at + 1]):
                column = tree.columns[weight]
                value = np.float32(tree.weights[weight]) * tree.scale[first + column]
                if lines[feature] >= 0:
                    dense[lines[feature], positions[node] + column] = value
                else:
                    columns[ends[feature]] = positions[node] + column
                    weights[ends[feature]] = value
                    ends[feature] += 1


# 15 arguments: the rows are four, and the buffers of a batch are eight.
@kernel()
def search_tree(
    tree, top, indptr, indices, data, dense, nodes, scores, table, tile, dense_tile, dense_scores, begins, sizes,
    leaf_scores
):  # fmt: skip
    """Run the beam search from the root to the leaves and score their labels, as in `score_leaves`.

    One call, because passing this many arrays costs more than some levels.
    """
    descend_top(tree, top, indptr, indices, data, nodes, scores)
    rows, tiles = (indptr, indices, data, dense), (table, tile, dense_tile, dense_scores)
    descend(tree, *rows, nodes, scores, *tiles)
    score_leaves(tree, *rows, nodes, scores, *tiles, begins, sizes, leaf_scores)


@kernel()
def descend_top(tree, top, indptr, indices, data, nodes, scores):
    """Advance the beam of every row from the root to leaves and to nodes outside the block.

    `nodes` and `scores` (n_rows, beam) are set to each row's nodes, best first, and their log probabilities; empty
    slots are -1.
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
                if node >= top.positions.shape[0] or top.positions[node] < 0:
                    put(next_nodes, next_scores, node, score)
                    continue
                moving = True
                for column in range(tree.column_starts[node + 1] - tree.column_starts[node]):
                    child = tree.children[node] + column
                    put(next_nodes, next_scores, child, score + line[top.positions[node] + column])
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
