"""The MNIST study, from settings to figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmissed.progress import Progress, silent
from unmissed.reports.study_figures import draw_epoch_panels, draw_propensity_panels
from unmissed.studies.mnist import VARIANTS, MnistSettings, run_study


def study_mnist(
    out: Path,
    settings: MnistSettings,
    data: Path | None = None,
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[dict[str, Any], list[Path]]:
    """Run the study and draw its two figures; return the results and the written files."""
    study = run_study(out, settings, data, workers=workers, progress=progress)
    trained = f"{study['n_train']:,} training rows, {settings.hidden} hidden units, {settings.epochs} epochs"
    seeds = f"{settings.seeds} seed{'s' if settings.seeds > 1 else ''}: mean, minimum and maximum"
    source = "MNIST" if data is not None else "scikit-learn's small digits, not MNIST"
    files = draw_propensity_panels(out / "mnist", study["summary"], note=f"{source}; {trained}; {seeds}")
    lowest = min(settings.propensities)
    low = [training for training in study["trainings"] if training["propensity"] == lowest]
    labels = {name: {"family": variant.family, "label": variant.label} for name, variant in VARIANTS.items()}
    files += draw_epoch_panels(out / "epochs", low, labels, note=f"{source}; propensity {lowest:g}; one line per seed")
    return study, [*files, out / "trainings.csv", out / "summary.csv", out / "study.json"]
