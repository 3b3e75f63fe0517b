"""Collections: a folder with one subfolder per data set, each with a training and a test part."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmissed.data.readers.format_registry import all_formats
from unmissed.data.streams import COMPRESSIONS
from unmissed.errors import InputError

_PART = re.compile(r"(?:.*[_.-])?(train|trn|test|tst)", re.IGNORECASE)


def find_datasets(folder: str | os.PathLike[str]) -> dict[str, tuple[Path, Path]]:
    """Return the training and the test path of every data set in a folder, keyed by the name of its subfolder.

    A part is named `train` or `test`, optionally with a prefix (`eurlex_train.txt`), in any format.
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
    """Return the training and the test part; if a part exists in several formats, the first of the registry counts."""
    named = {file: match[1].lower() for file in sorted(folder.iterdir()) if (match := _PART.fullmatch(_stem(file)))}
    parts: dict[str, Path] = {}
    for one in all_formats():
        for file, part in named.items():
            if one.sniff(file):
                parts.setdefault({"trn": "train", "tst": "test"}.get(part, part), file)
    return parts


def _stem(file: Path) -> str:
    """Return the name without suffix and compression."""
    if file.is_dir():
        return file.name
    return Path(file.stem).stem if file.suffix.lower() in COMPRESSIONS else file.stem
