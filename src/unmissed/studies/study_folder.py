"""The folder of a study, which belongs to one set of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmissed.archive import read_json, write_json
from unmissed.errors import InputError

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
