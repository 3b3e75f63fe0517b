"""Score the labels of cells by cleanlab, for `benchmarks.missing`; runs in an environment with cleanlab.

    PYTHON benchmarks/cleanlab_scores.py FOLDER

FOLDER/cells.npz has the cells, their probabilities and the observed labels. Cells that were not scored have
probability 0. FOLDER/scores.npz gets a quality of each candidate cell by two of cleanlab's rankings, lowest first:
self-confidence, and the same adjusted for class imbalance.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

folder = Path(sys.argv[1])
given = np.load(folder / "cells.npz")
dense = np.zeros(given["shape"])
dense[given["rows"], given["labels"]] = given["pi"]
ends = given["indptr"]
labels = [given["indices"][begin:end].tolist() for begin, end in pairwise(ends)]
row, label = given["rows"][given["candidates"]], given["labels"][given["candidates"]]
found = {}
for name, adjusts in (("self_confidence", False), ("adjusted", True)):
    quality = get_label_quality_scores_per_class(labels, dense, adjust_pred_probs=adjusts)
    found[name] = quality[row, label]
np.savez(folder / "scores.npz", **found)
