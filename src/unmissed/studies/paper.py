"""The whole paper: every data set of a folder compared, losses drawn, digits trained, and a page of contents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unmissed.data import TextFeatures
from unmissed.data.collections import find_sets
from unmissed.data.sources import holds_text
from unmissed.errors import InputError
from unmissed.reports.compare import write_report
from unmissed.reports.paper import write_contents
from unmissed.runs.bouts import Stage, no_stage
from unmissed.runs.compare import Comparison, compare
from unmissed.studies.loss_sketch import study_losses
from unmissed.studies.mnist import Settings
from unmissed.studies.mnist_report import study_mnist

PARTS = ("losses", "mnist", "compare")
LOSS_PROPENSITY = 0.5  # of the paper's sketch


def study_paper(
    data: str | os.PathLike[str],
    out: Path,
    comparison: Comparison | None = None,
    *,
    parts: Sequence[str] = PARTS,
    digits: Settings | None = None,
    text: TextFeatures | None = None,
    workers: int | None = None,
    stage: Stage = no_stage,
) -> tuple[dict[str, dict[str, Any]], list[Path]]:
    """Regenerate the paper from the data sets in a folder; return the results by data set, and the pages.

    Parameters
    ----------
    data : a folder with a folder per data set, and perhaps `mnist` with the four idx files
    out : where everything goes; finished work in it is not done again
    comparison : methods, limits and the like, for every data set
    parts : which of losses, mnist and compare
    digits : of the study on digits
    text : how texts become features; fresh for each data set
    workers : processes of the study on digits
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    sets = find_sets(data) if "compare" in parts else {}
    made: dict[str, Any] = {}
    if "losses" in parts:
        made["losses"] = study_losses(out / "losses", LOSS_PROPENSITY)
    if "mnist" in parts:
        idx = Path(data) / "mnist"
        with stage("digits") as progress:
            settings = digits or Settings(epochs=10 if idx.is_dir() else 100)
            folder = idx if idx.is_dir() else None
            made["mnist"] = study_mnist(out / "mnist", settings, folder, workers=workers, progress=progress)[1]
    results = {}
    for name, (train, test) in sets.items():
        how = replace(comparison or Comparison(), name=name)
        own = None if not holds_text(train) else replace(text or TextFeatures())
        results[name] = compare(train, test, out / name, how, text=own, stage=stage)
        write_report(results[name], out / name)
    page = write_contents(results, made, out)
    return results, [page, *(out / name / "index.html" for name in results)]
