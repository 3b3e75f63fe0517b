"""The folder of a study, which belongs to one set of settings, and the data in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unmissed.archive import read_json, write_json
from unmissed.data import TextFeatures
from unmissed.errors import InputError
from unmissed.progress import silent
from unmissed.runs.compare.comparison import PreparedData, prepare

PathLike = str | os.PathLike[str]

SETTINGS_FILE = "settings.json"


def claim(out: Path, metadata: dict[str, Any]) -> None:
    """Write the settings into a new folder; raise InputError if it has a study with other settings."""
    path = out / SETTINGS_FILE
    if path.is_file():
        before = read_json(path)
        if not isinstance(before, dict):
            raise InputError(f"{path}: damaged; it does not hold the settings of a study")
        other = sorted(name for name in {*before, *metadata} if before.get(name) != metadata.get(name))
        if other:
            differences = ", ".join(f"{name} {before.get(name)} (now {metadata.get(name)})" for name in other)
            raise InputError(f"{out}: holds a study with other settings: {differences}; choose another folder")
        return
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, metadata)


def prepare_study(
    train: PathLike,
    test: PathLike,
    out: Path,
    name: str | None,
    text: TextFeatures | None,
    reading: dict[str, Any] | None,
) -> PreparedData:
    """Read both data sets into the folder of a study; `reading` has the options that differ from the defaults."""
    how = {"columns": None, "header": True, "one_based": False, "progress": silent, **(reading or {})}
    return prepare(train, test, out / "data", name, text, how)
