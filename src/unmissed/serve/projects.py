"""Projects: the opened runs of a service, warm, each under the name of its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from unmissed.archive import MANIFEST
from unmissed.errors import InputError
from unmissed.runs.exploration import (
    LabelIndex,
    LabelList,
    can_explain,
    explain_text,
    label_neighbors,
    suggest_labels,
)
from unmissed.runs.replacing import standing
from unmissed.runs.run import Run

RunPaths = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Project:
    """An opened run that is ready to rank.

    Parameters
    ----------
    id : the name of the run's folder
    run : the run, prepared
    labels : its labels by name and prefix
    modified : when the run was last written, in seconds since 1970; None if unknown
    opened : when it was opened, in seconds since 1970
    """

    id: str
    run: Run
    labels: LabelIndex
    modified: float | None
    opened: float = field(default_factory=time.time)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: bool = True) -> Project:
        """Open a run, verify its checksums, build its layout and rank a text, so that the first request is fast."""
        run = Run(path, verify=verify)
        run.prepare().model.with_jobs(1)  # each worker ranks with one thread; more workers use more cores
        manifest = run.folder.path / MANIFEST
        project = cls(project_id(path), run, LabelIndex(run), manifest.stat().st_mtime if manifest.exists() else None)
        if project.takes_text:
            for texts in (["text"], ["text", *(run.feature_names or [])[:1]]):
                project.suggest(texts, 10, 0.0)
            if project.explains:
                explain_text(run, "text", 0)
                label_neighbors(run, 0)
        return project

    @property
    def takes_text(self) -> bool:
        """Whether the run ranks texts: it was trained on text, without dense features or with a stored encoder."""
        text = self.run.text
        return text is not None and (not self.run.n_dense or text.encoder is not None)

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder embeds the texts, which takes longer than all the rest."""
        return self.run.text is not None and self.run.text.encoder is not None

    @property
    def modification_time(self) -> str | None:
        """When the run was last written, in ISO format."""
        return None if self.modified is None else datetime.fromtimestamp(self.modified, UTC).isoformat()

    @property
    def is_calibrated(self) -> bool:
        """Whether scores are probabilities."""
        return self.run.calibration is not None

    @property
    def explains(self) -> bool:
        """Whether the method can say which words contribute to a label."""
        return can_explain(self.run)

    def suggest(self, texts: list[str], k: int, threshold: float) -> list[LabelList]:
        """Return the labels of each text."""
        return suggest_labels(self.run, texts, min(k, self.run.n_labels), threshold)


def project_id(path: str | os.PathLike[str]) -> str:
    """Return the id of the project of a run: the name of its folder."""
    return Path(path).resolve().name


def check_paths(paths: RunPaths) -> dict[str, Path]:
    """Return the paths of runs by project id; raise InputError if two have the same id, or if there are none."""
    found: dict[str, Path] = {}
    for path in paths:
        name = project_id(path)
        if name in found:
            raise InputError(f"{path} and {found[name]} have the same name; rename one of the folders")
        found[name] = Path(path).absolute()
    if not found:
        raise InputError("no run to serve; give at least one folder")
    return found


def open_projects(paths: RunPaths, *, verify: bool = True) -> dict[str, Project]:
    """Open all runs; raise InputError if one of them cannot be opened."""
    return {name: Project.open(path, verify=verify) for name, path in check_paths(paths).items()}


def signature(paths: RunPaths) -> tuple[tuple[int, ...] | None, ...]:
    """Return what changes if one of the runs is replaced or trained further: inode and time of each manifest."""
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            state = os.stat(standing(path) / MANIFEST)
        except OSError:
            found.append(None)
        else:
            found.append((state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size))
    return tuple(found)
