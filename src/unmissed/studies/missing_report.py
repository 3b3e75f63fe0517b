"""The study of missing labels, from data files to the report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unmissed.data import TextFeatures
from unmissed.progress import Progress, silent
from unmissed.reports.missing_page import write_missing_report
from unmissed.studies.missing_labels import MissingLabelSettings, run_study
from unmissed.studies.study_folder import prepare_study

PathLike = str | os.PathLike[str]


def study_missing(
    train: PathLike,
    test: PathLike,
    out: Path,
    settings: MissingLabelSettings,
    *,
    text: TextFeatures | None = None,
    reading: dict[str, Any] | None = None,
    name: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[dict[str, Any], list[Path]]:
    """Read both data sets, run the study and write the report; return the results and the files, the page first."""
    data = prepare_study(train, test, out, name, text, reading)
    study = run_study(out, data, settings, workers=workers, progress=progress)
    return study, write_missing_report(study, out)
