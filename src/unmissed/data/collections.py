"""Collections: a folder with one subfolder per data set, each with a training and a test part."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmissed.archive import MANIFEST
from unmissed.errors import InputError

_PART = re.compile(
    r"(?:.*[_.-])?(train|trn|test|tst)(?:\.(?:txt|svm|xmc|jsonl|ndjson)(?:\.(?:gz|xz))?)?", re.IGNORECASE
)


def find_datasets(folder: str | os.PathLike[str]) -> dict[str, tuple[Path, Path]]:
    """Return the training and the test path of every data set in a folder, keyed by the name of its subfolder.

    A part is named `train` or `test`, optionally with a prefix (`eurlex_train.txt`). It is XMC text or JSON lines,
    optionally compressed, or a store.
    """
    datasets = {}
    try:
        entries = sorted(Path(folder).iterdir())
    except OSError as error:
        raise InputError(f"{folder}: not a folder of data sets") from error
    for entry in entries:
        parts = _parts(entry) if entry.is_dir() else {}
        if parts.keys() == {"train", "test"}:
            datasets[entry.name] = (parts["train"], parts["test"])
    if not datasets:
        raise InputError(f"{folder}: no folder in it has a training and a test part, such as train.txt and test.txt")
    return datasets


def _parts(folder: Path) -> dict[str, Path]:
    parts: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        match = _PART.fullmatch(file.name)
        is_data = match is not None and ("." in file.name if file.is_file() else (file / MANIFEST).is_file())
        if match is not None and is_data:
            parts.setdefault({"trn": "train", "tst": "test"}.get(match[1].lower(), match[1].lower()), file)
    return parts
