"""The figures that `annif eval` prints, by Annif's names, of an evaluation with the conventions `ANNIF`."""

from __future__ import annotations

from unmissed.errors import InputError
from unmissed.metrics.conventions import ANNIF
from unmissed.metrics.evaluation import Evaluation

_AVERAGES = {
    "Precision (doc avg)": "sample precision",
    "Recall (doc avg)": "recall",
    "F1 score (doc avg)": "sample F1",
    "Precision (subj avg)": "macro precision",
    "Recall (subj avg)": "macro recall",
    "F1 score (subj avg)": "macro F1",
    "Precision (weighted subj avg)": "weighted precision",
    "Recall (weighted subj avg)": "weighted recall",
    "F1 score (weighted subj avg)": "weighted F1",
    "Precision (microavg)": "micro precision",
    "Recall (microavg)": "micro recall",
    "F1 score (microavg)": "micro F1",
}  # at the largest cut-off, which is Annif's limit
_AT = {
    "F1@5": "sample F1@5",
    "NDCG": "nDCG",
    "NDCG@5": "nDCG@5",
    "NDCG@10": "nDCG@10",
    "Precision@1": "sample precision@1",
    "Precision@3": "sample precision@3",
    "Precision@5": "sample precision@5",
}
ANNIF_METRICS = (*_AVERAGES.values(), "nDCG")
"""The metrics of an evaluation from which Annif's figures follow."""
ANNIF_CUT_OFFS = (1, 3, 5, 10)
"""Annif's cut-offs; the last is its default limit, the number of suggestions per document."""


def annif_figures(evaluation: Evaluation, n_subjects: int | None = None) -> dict[str, float]:
    """Return the figures of `annif eval` by its names, in its order; cut-offs that were not evaluated are left out.

    Parameters
    ----------
    evaluation : Evaluation
        Of the metrics `ANNIF_METRICS` with the conventions `ANNIF`; its largest cut-off is Annif's limit.
    n_subjects : int, optional
        The number of subjects of the vocabulary, over which Annif averages. By default that of the labels in the
        evaluation: those of the training set and of the truth.
    """
    if evaluation.conventions != ANNIF:
        raise InputError("Annif's figures need an evaluation with its conventions; pass conventions=ANNIF to evaluate")
    if n_subjects is not None and n_subjects < evaluation.n_labels:
        raise InputError(f"a vocabulary of {n_subjects} subjects; there are {evaluation.n_labels} labels already")
    limit, figures = evaluation.k[-1], evaluation.figures
    others = 1.0 if n_subjects is None else evaluation.n_labels / n_subjects  # subjects that occur nowhere have 0
    found = {}
    for name, metric in _AVERAGES.items():
        value = evaluation[f"{metric}@{limit}"]
        found[name] = value * others if metric.startswith("macro") else value
    for name, figure in _AT.items():
        wanted = figure if "@" in figure else f"{figure}@{limit}"
        if wanted in figures:
            found[name] = figures[wanted]
    hits, listed = (int(counts[:, -1].sum()) for counts in (evaluation.labels.hits, evaluation.labels.listed))
    found["True positives"] = hits
    found["False positives"] = listed - hits
    found["False negatives"] = int(evaluation.labels.true.sum()) - hits
    found["Documents evaluated"] = evaluation.n_samples
    return {name: 0.0 if value != value else value for name, value in found.items()}  # Annif has 0 for 0/0
