"""Storage of trained label trees: nodes to pieces, and pieces to trees that the kernels search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.execution import Piece
from unmissed.models.label_trees.beam_kernels import TreeArrays, fill_buckets, tile_width
from unmissed.models.label_trees.first_levels import TopArrays, count_top, fill_top
from unmissed.models.label_trees.label_clusters import LabelClusters
from unmissed.models.label_trees.node_problem import NodeWeights
from unmissed.numerics.csr import read_only
from unmissed.settings import SETTINGS

Array = npt.NDArray[Any]
_CLUSTERS = dict.fromkeys(("labels", "begins", "ends", "children", "n_children"), (np.int32, 1))
_NODES = {
    "n_rows": (np.int32, 1),
    "n_features": (np.int32, 1),
    "counts": (np.uint8, 1),
    "columns": (np.uint8, 1),
    "weights": (np.int16, 1),
    "scale": (np.float32, 1),
    "bias": (np.float32, 1),
    "objective": (np.float64, 1),
    "gap": (np.float64, 1),
    "sweeps": (np.int32, 1),
}
_PER_BUCKET = 4  # mean number of a node's features in a bucket


def feature_dtype(n_features: int) -> Any:
    """Return the smallest unsigned integer type that holds feature indices."""
    return np.uint16 if n_features <= 2**16 else np.uint32


def clusters_piece(key: str, clusters: LabelClusters) -> Piece:
    """Return clusters as a piece."""
    return Piece(key, {field.name: getattr(clusters, field.name) for field in fields(clusters)})


def open_clusters(piece: Piece) -> LabelClusters:
    """Return the clusters stored in a piece."""
    return LabelClusters(**piece.expect(_CLUSTERS))


def nodes_arrays(nodes: Sequence[NodeWeights], n_rows: Sequence[int], n_sparse: int) -> dict[str, Array]:
    """Return the concatenated arrays of consecutive nodes; `n_sparse` is the number of sparse features."""
    joined: dict[str, Array] = {
        name: np.concatenate([getattr(node, name) for node in nodes])
        for name in ("counts", "columns", "weights", "scale", "bias", "objective", "gap", "sweeps")
    }
    joined["features"] = np.concatenate([node.features for node in nodes]).astype(feature_dtype(n_sparse))
    if nodes[0].dense.shape[1]:
        joined["dense"] = np.concatenate([node.dense for node in nodes])
    joined["n_features"] = np.array([len(node.features) for node in nodes], np.int32)
    joined["n_rows"] = np.array(n_rows, np.int32)
    return joined


def tree_piece(key: str, clusters: LabelClusters, parts: Sequence[Mapping[str, Array]]) -> Piece:
    """Return a complete tree as a piece: its clusters, and the arrays of all its nodes in order."""
    arrays = dict(clusters_piece(key, clusters).arrays)
    for name in parts[0]:
        arrays[name] = np.concatenate([part[name] for part in parts])
    return Piece(key, arrays, {"n_nodes": clusters.n_nodes, **_dense_metadata(arrays)})


def _dense_metadata(arrays: Mapping[str, Array]) -> dict[str, int]:
    return {"n_dense": int(arrays["dense"].shape[1])} if "dense" in arrays else {}


@dataclass(frozen=True)
class SearchTree:
    """A trained tree: its shape, stored arrays, arrays of the beam search, and number of sparse features."""

    clusters: LabelClusters
    saved: Mapping[str, Array]
    search: TreeArrays
    n_sparse: int

    @property
    def n_dense(self) -> int:
        """The number of dense features; their weights are dense."""
        return int(self.search.dense.shape[1])

    @property
    def widest(self) -> int:
        """The largest tile width of any leaf."""
        sizes = (self.clusters.ends - self.clusters.begins)[self.clusters.children < 0]
        return int(max(tile_width(size) for size in np.unique(sizes)))

    @property
    def tile(self) -> int:
        """The number of elements of the largest dense tile: a line of zeros and a line per feature."""
        lines = self.saved["n_features"].astype(np.int64) + 1
        return int((lines * np.array([tile_width(size) for size in self.clusters.n_columns])).max())

    @property
    def top(self) -> TopArrays:
        """The inner nodes of the first levels, stored by feature; computed on access.

        There are none with dense features: scoring columns that a row does not reach would cost more than it saves.
        """
        tree, clusters = self.search, self.clusters
        inner = (clusters.children >= 0) & (self.n_dense == 0)
        wide = np.where(inner, clusters.n_columns, 0)
        positions, n_columns, begin, end = np.full(0, -1, np.int64), 0, 0, 1
        while inner[begin:end].any() and n_columns + int(wide[begin:end].sum()) <= SETTINGS.top_columns:
            mine = n_columns + np.cumsum(wide[begin:end]) - wide[begin:end]
            positions = np.append(positions, np.where(inner[begin:end], mine, -1))
            n_columns += int(wide[begin:end].sum())
            begin, end = end, end + int(wide[begin:end].sum())
        bias = np.empty(n_columns, np.float32)
        for node in np.flatnonzero(positions >= 0):
            first = int(tree.column_starts[node])
            bias[positions[node] : positions[node] + wide[node]] = tree.bias[first : first + wide[node]]
        counts = np.zeros(self.n_sparse, np.int64)
        count_top(tree, positions, counts)
        is_dense = SETTINGS.dense_columns * counts > n_columns
        lines = np.where(is_dense, np.cumsum(is_dense) - 1, -1).astype(np.int32)
        dense = np.zeros((int(is_dense.sum()), n_columns), np.float32)
        starts = _starts(np.where(is_dense, 0, counts))
        columns, weights = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
        fill_top(tree, positions, lines, dense, starts[:-1].copy(), columns, weights)
        return TopArrays(positions, bias, lines, dense, starts, columns, weights)

    @classmethod
    def open(cls, piece: Piece, n_features: int, n_dense: int, n_labels: int) -> SearchTree:
        """Validate a piece and return its tree; large arrays are not copied.

        Trees of older runs have no dense weights: their dense features were converted to sparse ones.
        """
        has_dense = bool(piece.metadata.get("n_dense"))
        n_sparse = n_features - n_dense if has_dense else n_features
        dense: dict[str, tuple[Any, int]] = {"dense": (np.int16, 2)} if has_dense else {}
        saved = piece.expect({**_CLUSTERS, **_NODES, **dense, "features": (feature_dtype(n_sparse), 1)})
        clusters = LabelClusters(**{name: saved[name] for name in _CLUSTERS})
        _check_clusters(piece, clusters, n_labels)
        _check_nodes(piece, clusters, saved, n_sparse)
        if has_dense and saved["dense"].shape != (int(clusters.n_columns.sum()), n_dense):
            raise piece.damaged("its dense weights do not fit its classifiers and features")
        return cls(clusters, saved, _search_arrays(clusters, saved, n_sparse), n_sparse)

    def weights_of(self, node: int, column: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], float]:
        """Return features, weights and bias of one classifier."""
        tree = self.search
        begin, end = tree.feature_starts[node], tree.feature_starts[node + 1]
        positions = slice(tree.weight_starts[begin], tree.weight_starts[end])
        mine = np.flatnonzero(tree.columns[positions] == column)
        features = np.repeat(tree.features[begin:end], np.diff(tree.weight_starts[begin : end + 1]))[mine]
        at = int(tree.column_starts[node]) + column
        kept = np.flatnonzero(tree.dense[at])
        features = np.concatenate([features.astype(np.int32), kept.astype(np.int32) + np.int32(self.n_sparse)])
        weights = np.concatenate([tree.weights[positions][mine], tree.dense[at][kept]]) * tree.scale[at]
        return features, weights.astype(np.float32), float(tree.bias[at])


def _check_clusters(piece: Piece, clusters: LabelClusters, n_labels: int) -> None:
    n = clusters.n_nodes
    if n == 0 or any(len(getattr(clusters, name)) != n for name in ("ends", "children", "n_children")):
        raise piece.damaged("its arrays of nodes have different lengths")
    if len(clusters.labels) != n_labels or not np.array_equal(np.sort(clusters.labels), np.arange(n_labels)):
        raise piece.damaged(f"its leaves do not partition the {n_labels} labels")
    if clusters.begins[0] != 0 or clusters.ends[0] != n_labels:
        raise piece.damaged("its root does not contain all labels")
    inner = np.flatnonzero(clusters.children >= 0)
    expected = 1 + np.cumsum([0, *clusters.n_children[inner]])
    if not np.array_equal(clusters.children[inner], expected[:-1]) or expected[-1] != n:
        raise piece.damaged("its nodes are not in breadth-first order")
    if (clusters.children[inner] <= inner).any() or (clusters.n_children[inner] < 1).any():
        raise piece.damaged("its nodes are not in breadth-first order")
    for node, first, size in zip(inner, clusters.children[inner], clusters.n_children[inner], strict=True):
        bounds = np.append(clusters.begins[first : first + size], clusters.ends[node])
        if bounds[0] != clusters.begins[node] or not np.array_equal(clusters.ends[first : first + size], bounds[1:]):
            raise piece.damaged(f"the children of node {node} do not partition its labels")
    if (clusters.ends <= clusters.begins).any() and n_labels:
        raise piece.damaged("it contains a node without labels")


def _check_nodes(piece: Piece, clusters: LabelClusters, saved: Mapping[str, Array], n_sparse: int) -> None:
    n_columns = clusters.n_columns
    total = int(n_columns.sum())
    if any(len(saved[name]) != total for name in ("scale", "bias", "objective", "gap", "sweeps")):
        raise piece.damaged("the number of classifiers does not match its nodes")
    if len(saved["n_rows"]) != clusters.n_nodes or len(saved["n_features"]) != clusters.n_nodes:
        raise piece.damaged("its arrays of nodes have different lengths")
    counts, features = saved["counts"], saved["features"]
    n_node_features = saved["n_features"].astype(np.int64)
    if (n_node_features < 0).any() or not n_node_features.sum() == len(features) == len(counts):
        raise piece.damaged("the number of features does not match its nodes")
    n_weights = int(counts.astype(np.int64).sum()) + len(counts)
    if not n_weights == len(saved["columns"]) == len(saved["weights"]):
        raise piece.damaged("the number of weights does not match its features")
    if len(features) and int(features.max()) >= n_sparse:
        raise piece.damaged(f"it contains a feature index of at least {n_sparse}")
    per_node = np.repeat(np.repeat(n_columns, n_node_features), counts.astype(np.int64) + 1)
    if len(per_node) and (saved["columns"] >= per_node).any():
        raise piece.damaged("it contains a weight for a column that its node does not have")


def _search_arrays(clusters: LabelClusters, saved: Mapping[str, Array], n_sparse: int) -> TreeArrays:
    """Return the offsets of nodes, features and weights, and an index of each node's features."""
    n_node_features = saved["n_features"].astype(np.int64)
    weight_starts = np.zeros(len(saved["counts"]) + 1, np.int64)
    np.cumsum(saved["counts"].astype(np.int64) + 1, out=weight_starts[1:])
    feature_starts = _starts(n_node_features)
    bits = max(int(n_sparse - 1).bit_length(), 1)
    leading_bits = np.ceil(np.log2(np.maximum(n_node_features / _PER_BUCKET, 1))).astype(np.int64)
    shifts = np.maximum(bits - leading_bits, 0)
    bucket_starts = _starts((max(n_sparse - 1, 0) >> shifts) + 1)
    buckets = np.full(bucket_starts[-1] + 1, feature_starts[-1], np.int64)
    fill_buckets(feature_starts, read_only(saved["features"]), bucket_starts, shifts, buckets)
    arrays = (
        clusters.labels,
        clusters.begins,
        clusters.ends,
        clusters.children,
        _starts(clusters.n_columns),
        feature_starts,
        saved["features"],
        weight_starts,
        saved["columns"],
        saved["weights"],
        saved["scale"],
        saved["bias"],
        bucket_starts,
        shifts,
        buckets,
        saved.get("dense", np.empty((len(saved["bias"]), 0), np.int16)),
    )
    return TreeArrays(*(read_only(array) for array in arrays))


def _starts(lengths: Array) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
