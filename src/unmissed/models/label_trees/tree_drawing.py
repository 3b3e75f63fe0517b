"""Descriptions of label trees: statistics, and a text drawing of the top of a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unmissed.models.label_trees.tree_file import SearchTree

_LEVELS = 3  # below the root
_CHILDREN = 8  # shown per node
_NAMES = 3  # features and labels shown per node

Name = Callable[[int], str]


def describe(trees: Sequence[SearchTree], n_labels: int) -> dict[str, Any]:
    """Return the statistics that `inspect` shows: depth, sizes of nodes and leaves, balance, weights."""
    leaves = [tree.clusters.children < 0 for tree in trees]
    depths = np.concatenate([tree.clusters.depths()[is_leaf] for tree, is_leaf in zip(trees, leaves, strict=True)])
    pairs = list(zip(trees, leaves, strict=True))
    sizes = np.concatenate([(tree.clusters.ends - tree.clusters.begins)[is_leaf] for tree, is_leaf in pairs])
    rows = np.concatenate([tree.saved["n_rows"][is_leaf] for tree, is_leaf in pairs])
    n_weights = sum(tree.saved["weights"].size + np.count_nonzero(tree.search.dense) for tree in trees)
    return {
        "trees": len(trees),
        "nodes": sum(tree.clusters.n_nodes for tree in trees),
        "leaves": int(sizes.size),
        "depth": _range(depths),
        "labels per leaf": _range(sizes),
        "largest leaf over the mean": round(float(sizes.max() / sizes.mean()), 2),
        "rows per leaf": _range(rows),
        "leaves per row": round(float(rows.sum() / max(sum(int(tree.saved["n_rows"][0]) for tree in trees), 1)), 2),
        "weights": n_weights,
        "weights per label": round(n_weights / max(n_labels, 1), 1),
    }


def draw(tree: SearchTree, label_name: Name, feature_name: Name) -> str:
    """Return the top of a tree, one line per node: number of labels and rows, typical features, example labels.

    The features are those with the largest weights of the classifier that leads to the node. The labels are those whose
    classifiers have the largest objectives, since these have many rows.
    """
    lines = [f"{_node(tree, 0)}{_examples(tree, 0, label_name)}"]

    def below(node: int, indent: str, level: int) -> None:
        first, n = int(tree.clusters.children[node]), int(tree.clusters.n_children[node])
        if first < 0 or level == _LEVELS:
            return
        shown = min(n, _CHILDREN)
        for column in range(shown):
            last = column == n - 1
            child = first + column
            common = _common(tree, node, column, feature_name)
            lines.append(
                f"{indent}{'└─ ' if last else '├─ '}{_node(tree, child)}{common}{_examples(tree, child, label_name)}"
            )
            below(child, indent + ("   " if last else "│  "), level + 1)
        if n > shown:
            lines.append(f"{indent}└─ {n - shown} more")

    below(0, "", 0)
    return "\n".join(lines)


def _range(values: Any) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _node(tree: SearchTree, node: int) -> str:
    size = int(tree.clusters.ends[node] - tree.clusters.begins[node])
    return f"{size:,} labels, {int(tree.saved['n_rows'][node]):,} rows"


def _common(tree: SearchTree, node: int, column: int, feature_name: Name) -> str:
    features, weights, _ = tree.weights_of(node, column)
    best = np.lexsort((features, -weights))[:_NAMES]
    names = [feature_name(int(features[at])) for at in best if weights[at] > 0]
    return f"; {', '.join(names)}" if names else ""


def _examples(tree: SearchTree, node: int, label_name: Name) -> str:
    clusters, starts = tree.clusters, tree.search.column_starts
    begin, end = int(clusters.begins[node]), int(clusters.ends[node])
    leaves = np.flatnonzero((clusters.children < 0) & (clusters.begins >= begin) & (clusters.ends <= end))
    objective = np.concatenate([tree.saved["objective"][starts[leaf] : starts[leaf + 1]] for leaf in leaves])
    labels = np.concatenate([clusters.below(int(leaf)) for leaf in leaves])
    best = np.lexsort((labels, -objective))[:_NAMES]
    more = ", ..." if end - begin > _NAMES else ""
    return f" ({', '.join(label_name(int(labels[at])) for at in best)}{more})"
