"""Reproduction of the paper: comparisons on all data sets of a folder, loss curves, MNIST study and an index page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from unmissed.data import TextFeatures
from unmissed.data.collections import find_datasets
from unmissed.data.sources import holds_text
from unmissed.errors import InputError
from unmissed.reports.comparison_page import write_report
from unmissed.reports.paper_page import write_contents
from unmissed.runs.compare.comparison import Comparison, compare
from unmissed.runs.compare.trials import Stage, no_stage
from unmissed.studies.loss_sketch import study_losses
from unmissed.studies.mnist import MnistSettings
from unmissed.studies.mnist_report import study_mnist

PARTS = ("losses", "mnist", "compare")
LOSS_PROPENSITY = 0.5  # of the paper's Figure 2


def study_paper(
    data: str | os.PathLike[str],
    out: Path,
    comparison: Comparison | None = None,
    *,
    parts: Sequence[str] = PARTS,
    digits: MnistSettings | None = None,
    text: TextFeatures | None = None,
    workers: int | None = None,
    stage: Stage = no_stage,
) -> tuple[dict[str, dict[str, Any]], list[Path]]:
    """Reproduce the paper from the data sets in a folder; return the results by data set, and the pages.

    Parameters
    ----------
    data : path
        A folder with one folder per data set, and optionally `mnist` with the four IDX files.
    out : path
        The output folder; finished work in it is kept.
    comparison : Comparison, optional
        Methods and limits, for every data set.
    parts : sequence of str
        A subset of losses, mnist and compare.
    digits : MnistSettings, optional
        Settings of the MNIST study.
    text : TextFeatures, optional
        Text features, fitted to each data set separately.
    workers : int, optional
        Processes of the MNIST study.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    sets = find_datasets(data) if "compare" in parts else {}
    made: dict[str, Any] = {}
    if "losses" in parts:
        made["losses"] = study_losses(out / "losses", LOSS_PROPENSITY)
    if "mnist" in parts:
        idx = Path(data) / "mnist"
        with stage("digits") as progress:
            settings = digits or MnistSettings(epochs=10 if idx.is_dir() else 100)
            folder = idx if idx.is_dir() else None
            made["mnist"] = study_mnist(out / "mnist", settings, folder, workers=workers, progress=progress)[1]
    results = {}
    for name, (train, test) in sets.items():
        how = replace(comparison or Comparison(), name=name)
        own = None if not holds_text(train) else clone(text or TextFeatures())
        results[name] = compare(train, test, out / name, how, text=own, stage=stage)
        write_report(results[name], out / name)
    page = write_contents(results, made, out)
    return results, [page, *(out / name / "index.html" for name in results)]
