"""Reference implementations of label clustering and beam search."""

import numpy as np


def naive_representations(X, Y):
    """Return the L2-normalized sum of each label's rows, dense."""
    sums = np.asarray((Y.T @ X).todense(), float)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0)


def naive_halves(D, first, second, tolerance=1e-4):
    """Return the two halves of balanced spherical 2-means over dense representations, and the mean cosine."""
    means, fit = D[[first, second]], -np.inf
    half = (len(D) + 1) // 2
    while True:
        order = np.argsort(D @ means[1] - D @ means[0], kind="stable")
        sides = order[:half], order[half:]
        means = np.array([D[side].sum(axis=0) / max(np.linalg.norm(D[side].sum(axis=0)), 1e-300) for side in sides])
        reached = np.mean([*(D[sides[0]] @ means[0]), *(D[sides[1]] @ means[1])])
        if reached - fit < tolerance:
            return sides, max(reached, fit)
        fit = reached


def naive_beam(tree, x, beam):
    """Return the probabilities of the labels that a beam search reaches; x is a dense row."""
    clusters = tree.clusters

    def columns(node):
        for column in range(int(clusters.n_columns[node])):
            features, weights, bias = tree.weights_of(node, column)
            score = float(bias) + float(weights.astype(float) @ x[features])
            yield column, -(max(0.0, 1 - score) ** 2)

    front = [(0.0, 0)]
    while any(clusters.children[node] >= 0 for _, node in front):
        nodes = [(score, node) for score, node in front if clusters.children[node] < 0]
        for score, node in front:
            if clusters.children[node] >= 0:
                nodes += [(score + more, int(clusters.children[node]) + column) for column, more in columns(node)]
        front = sorted(nodes, key=lambda one: (-one[0], one[1]))[:beam]
    return {
        int(clusters.below(node)[column]): np.exp(score + more)
        for score, node in front
        for column, more in columns(node)
    }


def naive_rank(trees, x, beam, k):
    """Return the k labels with the highest mean probability over trees, and those means."""
    total = {}
    for tree in trees:
        for label, p in naive_beam(tree, x, beam).items():
            total[label] = total.get(label, 0.0) + p / len(trees)
    best = sorted(total, key=lambda label: (-total[label], label))[:k]
    return best, [total[label] for label in best]
