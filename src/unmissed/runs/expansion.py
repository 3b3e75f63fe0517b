"""Expansion of a ranking by the broader concepts of its labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unmissed.data.unicode import find_name, index_names
from unmissed.errors import InputError
from unmissed.ranking import Ranking
from unmissed.runs.run import Run

_VALUES = ("scores", "probabilities", "true_probabilities")


class BroaderLabels:
    """The broader labels of each label of a run, one step up in its vocabulary.

    Parameters
    ----------
    run : a run with a vocabulary that has broader concepts; only those that are labels of the run are found
    """

    def __init__(self, run: Run) -> None:
        vocabulary, names = run.vocabulary, run.label_names or []
        if vocabulary is None or not vocabulary.broader.size:
            missing = "was trained without a vocabulary" if vocabulary is None else "has no broader concepts"
            raise InputError(f"{run.folder}: {missing}; train it with --vocabulary FILE that has broader concepts")
        label_of = index_names(names)
        self._broader: dict[int, list[int]] = {}
        for label, name in enumerate(names):
            concept = vocabulary.find(name)
            broader = [] if concept < 0 else vocabulary.broader_of(concept)
            found = [find_name(label_of, vocabulary.uris[one]) for one in broader]
            self._broader[label] = [one for one in found if one >= 0]

    def add_to(self, ranking: Ranking) -> Ranking:
        """Return a ranking with the broader labels of its labels, each with the highest score of its narrower ones.

        Probabilities are the highest ones, too: a broader label is at least as probable. Labels that were ranked keep
        their own values if these are higher. Rows become longer as needed.
        """
        columns = {name: values for name in _VALUES if (values := getattr(ranking, name)) is not None}
        rows: list[dict[int, list[float]]] = []
        for row in range(ranking.n_samples):
            found: dict[int, list[float]] = {}
            for position, label in enumerate(ranking.labels[row].tolist()):
                values = [float(column[row, position]) for column in columns.values()]
                for one in [label, *self._broader.get(label, ())] if label >= 0 else []:
                    found[one] = list(map(max, found.get(one, values), values))
            rows.append(found)
        k = max([ranking.k, *map(len, rows)])
        labels = np.full((len(rows), k), -1, np.int32)
        scores = np.full(labels.shape, -np.inf, np.float32)
        for row, found in enumerate(rows):
            labels[row, : len(found)] = list(found)
            scores[row, : len(found)] = [values[0] for values in found.values()]
        ranked = Ranking.sort(labels, scores)
        more: dict[str, Any] = {}
        for number, name in enumerate(columns):
            if number:
                cells = [[rows[row].get(label, [0.0] * 3)[number] for label in line] for row, line in _lines(ranked)]
                more[name] = np.array(cells, np.float32).reshape(labels.shape)
        return replace(ranking, labels=ranked.labels, scores=ranked.scores, **more)


def _lines(ranking: Ranking) -> Any:
    return enumerate(ranking.labels.tolist())
