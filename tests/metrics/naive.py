"""Reference implementations of the metrics: sets, lists and loops over the rows."""

from math import log2


def rerank(labels, scores, inverse, depth=5):
    """Selection sort of the first `depth` labels by 1/p; only labels with a positive score move up."""
    left = list(zip(labels, scores, strict=True))[:depth]
    rest = list(labels[depth:])
    done = []
    while left:
        chosen = 0
        for position in range(1, len(left)):
            label, score = left[position]
            if label >= 0 and score > 0 and inverse[label] > inverse[left[chosen][0]]:
                chosen = position
        done.append(left.pop(chosen)[0])
    return done + rest


def dcg(gains):
    return sum(gain / log2(position + 2) for position, gain in enumerate(gains))


def n_listed(labels, k):
    return sum(label >= 0 for label in labels[:k])


def f1(hits, listed, true):
    """Harmonic mean of precision and recall, 0 if there are no hits."""
    return 2 / (listed / hits + true / hits) if hits else 0.0


def row_metrics(labels, true, k, empty_ndcg="zero"):
    hits = [1 if label in true else 0 for label in labels[:k]]
    ideal = dcg([1] * min(k, len(true)))
    return {
        "P": sum(hits) / k,
        "nDCG": dcg(hits) / ideal if true else float(empty_ndcg == "one"),
        "sample precision": sum(hits) / n_listed(labels, k) if n_listed(labels, k) else 0.0,
        "recall": sum(hits) / len(true) if true else 0.0,
        "sample F1": f1(sum(hits), n_listed(labels, k), len(true)),
        "MRR": max((hit / rank for rank, hit in enumerate(hits, start=1)), default=0.0),
    }


def scored_terms(labels, true, inverse, k):
    """Return gain and best of PSP, gain and best of the weighted DCG, the ideal DCG, and the DCG of k hits."""
    gains = [inverse[label] if label in true else 0.0 for label in labels[:k]]
    best = sorted((inverse[label] for label in true), reverse=True)[:k]
    return sum(gains), sum(best), dcg(gains), dcg(best), dcg([1] * min(k, len(true))), dcg([1] * k)


def ratio(above, below):
    return above / below if below else float("nan")


def scored(rows, variant, k):
    """Return PSP and PSnDCG from the rows' scored terms."""
    n = len(rows)
    if variant == "row-ratios":
        psp = [gain / best if best else 0.0 for gain, best, *_ in rows]
        psndcg = [gain / best if best else 0.0 for _, _, gain, best, *_ in rows]
        return ratio(sum(psp), n), ratio(sum(psndcg), n)
    if variant == "raw":
        psndcg = [row[2] / row[4] if row[4] else 0.0 for row in rows]
        return ratio(sum(row[0] / k for row in rows), n), ratio(sum(psndcg), n)
    psp = ratio(sum(row[0] for row in rows), sum(row[1] for row in rows))
    if variant == "fastxml":
        return psp, ratio(sum(row[2] / row[5] for row in rows), n)
    divisor = [row[4] if variant == "pyxclib" and row[4] else 1.0 for row in rows]
    above = sum(row[2] / by for row, by in zip(rows, divisor, strict=True))
    below = sum(row[3] / by for row, by in zip(rows, divisor, strict=True))
    return psp, ratio(above, below)


def macro(rankings, truths, k, chosen):
    """Return macro precision, recall and F1, and coverage."""
    precision, recall, f1 = 0.0, 0.0, 0.0
    for label in chosen:
        listed = sum(label in row[:k] for row in rankings)
        true = sum(label in row for row in truths)
        hits = sum(label in row[:k] and label in mine for row, mine in zip(rankings, truths, strict=True))
        precision += hits / listed if listed else 0.0
        recall += hits / true if true else 0.0
        f1 += 2 * hits / (listed + true) if listed + true else 0.0
    n = len(chosen)
    occurring = {label for row in truths for label in row}
    found = {label for row, mine in zip(rankings, truths, strict=True) for label in row[:k] if label in mine}
    return ratio(precision, n), ratio(recall, n), ratio(f1, n), ratio(len(found), len(occurring))


def evaluate(rankings, scores, truths, n_labels, inverse, ks, conventions, train_counts, filtered):
    """Return every figure by its name. `rankings` are lists of labels (-1 pads), `truths` are sets.

    `inverse` has 1/p per label, or is a list with a dict of the true labels of each row.
    """
    pairs = set(filtered)
    depth = len(rankings[0]) if rankings else 0
    rows = []
    for row, (labels, values, true) in enumerate(zip(rankings, scores, truths, strict=True)):
        kept = [(label, value) for label, value in zip(labels, values, strict=True) if (row, label) not in pairs]
        kept += [(-1, float("-inf"))] * (depth - len(kept))
        left = set(true)
        if conventions.filtered == "both":
            left = {label for label in left if (row, label) not in pairs}
        if conventions.unseen_labels == "drop":
            left = {label for label in left if train_counts[label] > 0}
        if left or conventions.empty_rows == "keep":
            own = inverse[row] if isinstance(inverse, list) else inverse
            rows.append(([label for label, _ in kept], [value for _, value in kept], left, own))
    figures = {}
    for k in ks:
        plain = [row_metrics(labels, true, k, conventions.empty_ndcg) for labels, _, true, _ in rows]
        for name in row_metrics([], set(), k):
            figures[f"{name}@{k}"] = ratio(sum(row[name] for row in plain), len(rows))
        hits = sum(label in true for labels, _, true, _ in rows for label in labels[:k])
        n_pairs = sum(n_listed(labels, k) + len(true) for labels, _, true, _ in rows)
        figures[f"micro F1@{k}"] = ratio(2 * hits, n_pairs)
        figures[f"micro precision@{k}"] = ratio(hits, sum(n_listed(labels, k) for labels, *_ in rows))
        figures[f"micro recall@{k}"] = ratio(hits, sum(len(true) for _, _, true, _ in rows))
        if inverse is not None:
            lists = [rerank(one, two, inverse) if conventions.rerank else one for one, two, _, _ in rows]
            terms = [scored_terms(one, row[2], row[3], k) for one, row in zip(lists, rows, strict=True)]
            figures[f"PSP@{k}"], figures[f"PSnDCG@{k}"] = scored(terms, conventions.variant, k)
        occurring = {label for _, _, true, _ in rows for label in true}
        chosen = sorted(occurring) if conventions.macro == "true" else list(range(n_labels))
        values = macro([row[0] for row in rows], [row[2] for row in rows], k, chosen)
        for name, value in zip(("macro precision", "macro recall", "macro F1", "coverage"), values, strict=True):
            figures[f"{name}@{k}"] = value
        each = {label: macro([row[0] for row in rows], [row[2] for row in rows], k, [label]) for label in occurring}
        weights = {label: sum(label in true for _, _, true, _ in rows) for label in occurring}
        for at, name in enumerate(("weighted precision", "weighted recall", "weighted F1")):
            weighted = sum(weights[label] * each[label][at] for label in occurring)
            figures[f"{name}@{k}"] = ratio(weighted, sum(weights.values()))
    return figures
