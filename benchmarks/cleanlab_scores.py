"""Score the labels of cells by cleanlab, for `benchmarks.missing`; runs in an environment with cleanlab.

    PYTHON benchmarks/cleanlab_scores.py FOLDER

FOLDER/cells.npz has the cells, their probabilities and the observed labels. Cells that were not scored have
probability 0. FOLDER/scores.npz gets a quality of each candidate cell by three of cleanlab's rankings, lowest first:
self-confidence; the same, adjusted for class imbalance; and the cells that confident learning reports as label issues
before all others.
"""

import sys
from pathlib import Path

import numpy as np
from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class
from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

folder = Path(sys.argv[1])
given = np.load(folder / "cells.npz")
dense = np.zeros(given["shape"])
dense[given["rows"], given["labels"]] = given["pi"]
ends = given["indptr"]
labels = [given["indices"][begin:end].tolist() for begin, end in zip(ends[:-1], ends[1:], strict=True)]
row, label = given["rows"][given["candidates"]], given["labels"][given["candidates"]]
found = {}
for name, adjusts in (("self_confidence", False), ("adjusted", True)):
    quality = get_label_quality_scores_per_class(labels, dense, adjust_pred_probs=adjusts)
    found[name] = quality[row, label]
issues = find_multilabel_issues_per_class(labels, dense, n_jobs=1)
found["issues_first"] = found["self_confidence"] - issues[row, label]
np.savez(folder / "scores.npz", **found)
