"""Collections: folders that hold a data set each, with a training and a test part."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmissed.archive import MANIFEST
from unmissed.errors import InputError

_PART = re.compile(
    r"(?:.*[_.-])?(train|trn|test|tst)(?:\.(?:txt|svm|xmc|jsonl|ndjson)(?:\.(?:gz|xz))?)?", re.IGNORECASE
)


def find_sets(folder: str | os.PathLike[str]) -> dict[str, tuple[Path, Path]]:
    """Return the training and the test part of every data set in a folder, by the names of their own folders.

    A part is called `train` or `test`, perhaps with something before it (`eurlex_train.txt`): XMC text or JSON lines,
    packed or not, or a store.
    """
    found = {}
    try:
        entries = sorted(Path(folder).iterdir())
    except OSError as error:
        raise InputError(f"{folder}: not a folder of data sets") from error
    for entry in entries:
        parts = _parts(entry) if entry.is_dir() else {}
        if parts.keys() == {"train", "test"}:
            found[entry.name] = (parts["train"], parts["test"])
    if not found:
        raise InputError(f"{folder}: no folder in it has a training and a test part, such as train.txt and test.txt")
    return found


def _parts(folder: Path) -> dict[str, Path]:
    parts: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        named = _PART.fullmatch(file.name)
        is_data = named is not None and ("." in file.name if file.is_file() else (file / MANIFEST).is_file())
        if named is not None and is_data:
            parts.setdefault({"trn": "train", "tst": "test"}.get(named[1].lower(), named[1].lower()), file)
    return parts
