"""Beam search in label trees, for a batch of rows at a time.

A node scores its columns (children or labels) by sparse weights stored by feature. A column with score s has the log
probability -max(0, 1 - s)^2 given the node; log probabilities add up along a path. Below the first levels
(`first_levels`) the rows of a batch descend one level at a time, and the rows at one node are scored together: many
rows over a dense tile of features and columns, few rows directly from the sparse weights. Both add the same numbers in
the same order; the zeros of a dense tile change no bit.

Rows are (indptr, indices, data) of the sparse features, and `dense`, a tuple (values, n) of all rows' n dense features
one after another. Dense features have dense weights. Their products are computed for a few rows at a time, which stay
in the cache while two columns after two are read.
"""

from typing import Any, NamedTuple

import numpy as np

from unmissed._jit import kernel
from unmissed.numerics.dense_rows import dense_dot, dense_pair_dot
from unmissed.numerics.prefetch import prefetch
from unmissed.numerics.simd import add_16, add_32, add_64, add_72, add_80
from unmissed.numerics.topk import put, put_number

_ZERO = np.float32(0)
_ONE = np.float32(1)
_TILE_GAIN = 64  # saving per entry of a row by a dense tile, in elements that filling the tile writes

DENSE_ROWS = 16  # rows whose dense products are computed together; they fit into the cache


class TreeArrays(NamedTuple):
    """The arrays of a label tree; nodes are numbered in breadth-first order, siblings consecutively.

    Node v has the labels labels[begins[v]:ends[v]]. Its columns are its children, the first of which is children[v], or
    its labels if it is a leaf (children[v] is -1). They start at column_starts[v] in `scale` and `bias`. Its features
    are features[feature_starts[v]:feature_starts[v + 1]], ascending. Feature j has the weights weight_starts[j] to
    weight_starts[j + 1], each for a column of its node, in units of the column's scale. `buckets`, `bucket_starts` and
    `shifts` index features by their leading bits. `dense` has the weights of dense features, one line per column,
    in the same units.
    """

    labels: Any
    begins: Any
    ends: Any
    children: Any
    column_starts: Any
    feature_starts: Any
    features: Any
    weight_starts: Any
    columns: Any
    weights: Any
    scale: Any
    bias: Any
    bucket_starts: Any
    shifts: Any
    buckets: Any
    dense: Any


@kernel()
def fill_buckets(feature_starts, features, bucket_starts, shifts, buckets):
    """Index each node's features: buckets[bucket_starts[v] + p] is the first with leading bits of at least p."""
    for node in range(feature_starts.shape[0] - 1):
        bucket, stop = bucket_starts[node], bucket_starts[node + 1]
        for at in range(feature_starts[node], feature_starts[node + 1]):
            mine = bucket_starts[node] + (np.int64(features[at]) >> shifts[node])
            while bucket <= mine:
                buckets[bucket] = at
                bucket += 1
        while bucket < stop:
            buckets[bucket] = feature_starts[node + 1]
            bucket += 1


# 11 arguments: the rows are four, and the buffers of a batch are five.
@kernel()
def descend(tree, indptr, indices, data, dense, nodes, scores, table, tile, dense_tile, dense_scores):
    """Advance the beam of every row to leaves; all inner nodes in a beam are on one level.

    `nodes` and `scores` (n_rows, beam) hold each row's nodes, best first, and their log probabilities; they are
    replaced by its leaves. Empty slots are -1. `table` (n_sparse) holds zeros before and after. `tile` is workspace for
    one line of zeros and one line per feature of any node, `dense_tile` (columns, n_dense) and `dense_scores` (at least
    as many rows as `DENSE_ROWS`, columns) for the dense weights and products of any node.
    """
    next_nodes, next_scores = np.empty_like(nodes), np.empty_like(scores)
    counts = np.zeros(tree.children.shape[0], np.int64)
    rows, slots = np.empty(nodes.size, np.int64), np.empty(nodes.size, np.int64)
    inner, starts = np.empty(nodes.size, np.int64), np.empty(nodes.size + 1, np.int64)
    line = np.empty(_widest(tree), np.float32)
    hits, values = _row_buffers(indptr)
    while True:
        n_inner = _group_by_node(nodes, tree.children, False, counts, inner, starts, rows, slots)
        if n_inner == 0:
            return
        next_nodes[:] = -1
        next_scores[:] = -np.inf
        for row in range(nodes.shape[0]):
            for slot in range(nodes.shape[1]):
                node = nodes[row, slot]
                if node >= 0 and tree.children[node] < 0:
                    put(next_nodes[row], next_scores[row], node, scores[row, slot])
        for group in range(n_inner):
            node = inner[group]
            mine = rows[starts[group] : starts[group + 1]]
            is_tiled = _fill_tile(tree, node, mine, indptr, table, tile)
            _load_dense_weights(tree, node, dense_tile)
            for at in range(mine.shape[0]):
                row, part = mine[at], dense_scores[at % DENSE_ROWS]
                if at % DENSE_ROWS == 0:
                    _multiply_dense(tree, node, dense, mine[at : at + DENSE_ROWS], dense_tile, dense_scores)
                n_columns = _score(
                    tree, node, is_tiled, table, tile, indptr, indices, data, row, part, hits, values, line
                )
                above = scores[row, slots[starts[group] + at]]
                for column in range(n_columns):
                    put(next_nodes[row], next_scores[row], tree.children[node] + column, above + line[column])
            if is_tiled:
                _clear_table(tree, node, table)
        nodes[:] = next_nodes
        scores[:] = next_scores


# 14 arguments: the rows are four, and the buffers of a batch are seven.
@kernel()
def score_leaves(
    tree, indptr, indices, data, dense, nodes, scores, table, tile, dense_tile, dense_scores, begins, sizes, leaf_scores
):
    """Set leaf_scores[i, s, c] to the log probability of label c of the leaf in slot s of row i's beam.

    The labels are tree.labels from begins[i, s] on; sizes[i, s] is their number, 0 for an empty slot. `leaf_scores` is
    as wide as the widest tile of a leaf.
    """
    counts = np.zeros(tree.children.shape[0], np.int64)
    rows, slots = np.empty(nodes.size, np.int64), np.empty(nodes.size, np.int64)
    leaves, starts = np.empty(nodes.size, np.int64), np.empty(nodes.size + 1, np.int64)
    n_leaves = _group_by_node(nodes, tree.children, True, counts, leaves, starts, rows, slots)
    hits, values = _row_buffers(indptr)
    sizes[:] = 0
    for group in range(n_leaves):
        node = leaves[group]
        mine = rows[starts[group] : starts[group + 1]]
        is_tiled = _fill_tile(tree, node, mine, indptr, table, tile)
        _load_dense_weights(tree, node, dense_tile)
        for at in range(mine.shape[0]):
            row, slot, part = mine[at], slots[starts[group] + at], dense_scores[at % DENSE_ROWS]
            if at % DENSE_ROWS == 0:
                _multiply_dense(tree, node, dense, mine[at : at + DENSE_ROWS], dense_tile, dense_scores)
            line = leaf_scores[row, slot]
            n_columns = _score(tree, node, is_tiled, table, tile, indptr, indices, data, row, part, hits, values, line)
            for column in range(n_columns):
                line[column] += scores[row, slot]
            begins[row, slot] = tree.begins[node]
            sizes[row, slot] = n_columns
        if is_tiled:
            _clear_table(tree, node, table)


@kernel()
def add_trees(tree_labels, begins, sizes, leaf_scores, totals, labels, scores):
    """Write each row's k labels with the highest mean probability over trees; a tree that misses a label counts as 0.

    Arrays are those of `score_leaves` with a first axis of trees; tree_labels is (n_trees, n_labels). Only labels that
    can be among the k best are summed: in some tree their probability is at least 1/n_trees of the k-th best there.
    `totals` (n_labels) holds -1 before and after; labels and scores (n_rows, k) hold -1 and -inf before.
    """
    n_trees = tree_labels.shape[0]
    best = np.empty(labels.shape[1], np.float32)
    chosen = np.empty(totals.shape[0], np.int64)
    for row in range(labels.shape[0]):
        bound = np.float32(-np.inf)
        for tree in range(n_trees):
            bound = max(bound, _kth_best(sizes[tree, row], leaf_scores[tree, row], best))
        bound -= np.float32(np.log(n_trees) + 1e-3)  # slightly lower, for rounding errors of ties
        n_chosen = 0
        for tree in range(n_trees):
            names = tree_labels[tree]
            for slot in range(sizes.shape[2]):
                for column in range(sizes[tree, row, slot]):
                    if leaf_scores[tree, row, slot, column] >= bound:
                        label = names[begins[tree, row, slot] + column]
                        if totals[label] < 0:
                            totals[label] = 0
                            chosen[n_chosen] = label
                            n_chosen += 1
        for tree in range(n_trees):
            names = tree_labels[tree]
            for slot in range(sizes.shape[2]):
                for column in range(sizes[tree, row, slot]):
                    label = names[begins[tree, row, slot] + column]
                    if totals[label] >= 0:
                        totals[label] += np.exp(np.float64(leaf_scores[tree, row, slot, column]))
        for at in range(n_chosen):
            label = chosen[at]
            put(labels[row], scores[row], label, np.float32(totals[label] / n_trees))
            totals[label] = -1


@kernel()
def _kth_best(sizes, leaf_scores, best):
    """Return the k-th largest log probability of a row in one tree, -inf if it has fewer."""
    last = best.shape[0] - 1
    best[:] = -np.inf
    for slot in range(sizes.shape[0]):
        for column in range(sizes[slot]):
            score = leaf_scores[slot, column]
            if score > best[last]:
                put_number(best, score)
    return best[last]


@kernel()
def _widest(tree):
    """Return the largest tile width of any node."""
    most = 0
    for node in range(tree.children.shape[0]):
        most = max(most, tile_width(tree.column_starts[node + 1] - tree.column_starts[node]))
    return most


@kernel()
def _row_buffers(indptr):
    """Return buffers with the capacity of the longest row."""
    most = 0
    for row in range(indptr.shape[0] - 1):
        most = max(most, indptr[row + 1] - indptr[row])
    return np.empty(most + 1, np.int64), np.empty(most + 1, np.float32)


@kernel()
def _fill_tile(tree, node, rows, indptr, table, tile):
    """Write a node's weights to a dense tile if the rows have enough entries to repay it; return whether it was done.

    Feature f has the line table[f] of the tile.
    """
    begin, end = tree.feature_starts[node], tree.feature_starts[node + 1]
    first = tree.column_starts[node]
    width = tile_width(tree.column_starts[node + 1] - first)
    n_entries = 0
    for at in range(rows.shape[0]):
        n_entries += indptr[rows[at] + 1] - indptr[rows[at]]
    n_weights = tree.weight_starts[end] - tree.weight_starts[begin]
    if _TILE_GAIN * n_entries <= (end - begin) * width + 8 * n_weights:
        return False
    for at in range((end - begin + 1) * width):
        tile[at] = _ZERO
    for position in range(begin, end):
        line = position - begin + 1
        table[tree.features[position]] = line
        for weight in range(tree.weight_starts[position], tree.weight_starts[position + 1]):
            column = tree.columns[weight]
            tile[line * width + column] = np.float32(tree.weights[weight]) * tree.scale[first + column]
    return True


@kernel()
def _clear_table(tree, node, table):
    """Remove a node's features from the table."""
    for at in range(tree.feature_starts[node], tree.feature_starts[node + 1]):
        table[tree.features[at]] = 0


@kernel()
def _load_dense_weights(tree, node, dense_tile):
    """Convert a node's weights of dense features to float32, in units of the columns' scales."""
    n_dense = tree.dense.shape[1]
    for column in range(tree.column_starts[node + 1] - tree.column_starts[node] if n_dense > 0 else 0):
        weights, line = tree.dense[tree.column_starts[node] + column], dense_tile[column * n_dense :]
        for feature in range(n_dense):
            line[feature] = weights[feature]


@kernel()
def _multiply_dense(tree, node, dense, rows, dense_tile, products):
    """Set products[t, c] to the dense part of the score of the row rows[t] for column c of a node.

    Two columns are computed at a time, the last of an odd number alone, so that the bits do not depend on the rows.
    """
    values, n_dense = dense
    first = tree.column_starts[node]
    n_columns = tree.column_starts[node + 1] - first
    if n_dense == 0:
        return
    for column in range(0, n_columns - 1, 2):
        weights = dense_tile[column * n_dense :]
        for at in range(rows.shape[0]):
            one, other = dense_pair_dot(values, np.int64(rows[at]) * n_dense, weights, n_dense)
            products[at, column] = one * tree.scale[first + column]
            products[at, column + 1] = other * tree.scale[first + column + 1]
    if n_columns % 2 == 1:
        last = n_columns - 1
        for at in range(rows.shape[0]):
            one = dense_dot(values, np.int64(rows[at]) * n_dense, dense_tile, last * n_dense, n_dense)
            products[at, last] = one * tree.scale[first + last]


# 13 arguments: the rows are three arrays, and the buffers of a batch are six.
@kernel()
def _score(tree, node, is_tiled, table, tile, indptr, indices, data, row, part, hits, values, line):
    """Set the log probabilities of a node's columns, given the node, for one row; return the number of columns.

    `part` has the scores of the dense features.
    """
    first = tree.column_starts[node]
    n_columns = tree.column_starts[node + 1] - first
    width = tile_width(n_columns)
    line[:width] = _ZERO
    for column in range(n_columns):
        line[column] = tree.bias[first + column]
    if is_tiled:
        n_hits = 0
        for entry in range(indptr[row], indptr[row + 1]):  # no branch: it could not be predicted
            position = table[indices[entry]]
            hits[n_hits] = position * width
            values[n_hits] = data[entry]
            n_hits += position > 0
        if n_columns == 2:
            _add_pairs(tile, hits, values, n_hits, line)
        else:
            _add_lines(tile, hits, values, n_hits, width, line)
    else:
        _add_sparse(tree, node, indptr, indices, data, row, hits, values, line)
    for column in range(n_columns if tree.dense.shape[1] > 0 else 0):
        line[column] += part[column]
    to_log_probabilities(line[:n_columns])
    return n_columns


@kernel()
def to_log_probabilities(line):
    """Replace scores s by log probabilities -max(0, 1 - s)^2."""
    for column in range(line.shape[0]):
        under = max(_ONE - line[column], _ZERO)
        line[column] = -under * under


@kernel()
def _add_pairs(tile, hits, values, n_hits, line):
    """Add value times weight over the matched features of a row, for two columns."""
    one, other = line[0], line[1]
    for at in range(n_hits):
        one += values[at] * tile[hits[at]]
        other += values[at] * tile[hits[at] + 1]
    line[0] = one
    line[1] = other


@kernel()
def _add_lines(tile, hits, values, n_hits, width, line):
    """Add value times weight over the matched features of a row, for any width of `tile_width`."""
    left = 0
    while width - left > 80:
        add_64(hits, values, 0, n_hits, tile[left:], line[left : left + 64])
        left += 64
    last, rest = tile[left:], line[left:width]
    if rest.shape[0] == 16:
        add_16(hits, values, 0, n_hits, last, rest)
    elif rest.shape[0] == 32:
        add_32(hits, values, 0, n_hits, last, rest)
    elif rest.shape[0] == 64:
        add_64(hits, values, 0, n_hits, last, rest)
    elif rest.shape[0] == 72:
        add_72(hits, values, 0, n_hits, last, rest)
    else:
        add_80(hits, values, 0, n_hits, last, rest)


@kernel()
def tile_width(n_columns):
    """Return the width of a tile's lines: 2, or the number of columns rounded up to a multiple that SIMD sums take."""
    if n_columns == 2:
        return 2
    full = max(0, -(-(n_columns - 80) // 64)) * 64
    for width in (16, 32, 64, 72):
        if n_columns - full <= width:
            return full + width
    return full + 80


@kernel()
def _add_sparse(tree, node, indptr, indices, data, row, hits, values, line):
    """Add value times weight over the features that a row and a node share, found by the node's buckets.

    Each of the three steps prefetches what the next one reads, because a large tree does not fit into the cache.
    """
    first = tree.column_starts[node]
    base, shift = tree.bucket_starts[node], tree.shifts[node]
    begin, end = indptr[row], indptr[row + 1]
    for entry in range(begin, end):
        position = tree.buckets[base + (np.int64(indices[entry]) >> shift)]
        prefetch(tree.features, position)
        prefetch(tree.weight_starts, position)
        hits[entry - begin] = position
    n_hits = 0
    for entry in range(begin, end):
        feature = indices[entry]
        position, stop = hits[entry - begin], tree.buckets[base + (np.int64(feature) >> shift) + 1]
        while position < stop and tree.features[position] < feature:
            position += 1
        if position < stop and tree.features[position] == feature:
            prefetch(tree.columns, tree.weight_starts[position])
            prefetch(tree.weights, tree.weight_starts[position])
            hits[n_hits] = position
            values[n_hits] = data[entry]
            n_hits += 1
    for at in range(n_hits):
        position, value = hits[at], values[at]
        for weight in range(tree.weight_starts[position], tree.weight_starts[position + 1]):
            column = tree.columns[weight]
            line[column] += value * (np.float32(tree.weights[weight]) * tree.scale[first + column])


@kernel()
def _group_by_node(nodes, children, leaves, counts, groups, starts, rows, slots):
    """Group the slots of beams by node, either those at leaves or the others; return the number of nodes.

    `groups` lists the nodes. rows and slots list the beam slots of node groups[g] from starts[g] on. `counts` (n_nodes)
    holds zeros before and after.
    """
    n_groups = 0
    for row in range(nodes.shape[0]):
        for slot in range(nodes.shape[1]):
            node = nodes[row, slot]
            if node >= 0 and (children[node] < 0) == leaves:
                if counts[node] == 0:
                    groups[n_groups] = node
                    n_groups += 1
                counts[node] += 1
    starts[0] = 0
    for group in range(n_groups):
        starts[group + 1] = starts[group] + counts[groups[group]]
        counts[groups[group]] = starts[group]
    for row in range(nodes.shape[0]):
        for slot in range(nodes.shape[1]):
            node = nodes[row, slot]
            if node >= 0 and (children[node] < 0) == leaves:
                rows[counts[node]] = row
                slots[counts[node]] = slot
                counts[node] += 1
    for group in range(n_groups):
        counts[groups[group]] = 0
    return n_groups
