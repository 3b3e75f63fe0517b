"""A folder of texts: NAME.txt for each document, and its labels in NAME.tags or NAME.key, one per line."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from unmissed.data.columns import Columns
from unmissed.data.encodings import decode
from unmissed.data.streams import LONGEST
from unmissed.errors import InputError
from unmissed.files import open_regular, reading
from unmissed.progress import Progress, silent

TEXT = ".txt"
TAGS = (".tags", ".key")

PathLike = str | os.PathLike[str]


def is_text_folder(path: PathLike, *, labels: bool = True) -> bool:
    """Tell whether a folder holds texts with their labels; without `labels`, whether it holds texts at all."""
    place = Path(path)
    suffixes = TAGS if labels else (TEXT,)
    return place.is_dir() and any(entry.suffix.lower() in suffixes for entry in place.iterdir())


def documents(
    path: PathLike, columns: Columns, needed: Collection[str], *, progress: Progress = silent
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the file, and text, labels and id of each document, by name in sorted order.

    The id is the name without suffix. A document without a file of labels has no labels; labels without a text are
    refused. With a separator, a line may hold several labels.
    """
    place = Path(path)
    entries = sorted(entry.name for entry in place.iterdir() if entry.suffix.lower() in (TEXT, *TAGS))
    names = [name for name in entries if name.lower().endswith(TEXT)]
    stems = {name[: -len(TEXT)] for name in names}
    tags: dict[str, str] = {}
    for name in entries:
        stem = Path(name).stem
        if name in names:
            continue
        if stem not in stems or stem in tags:
            what = f"there is no {stem}{TEXT}" if stem not in stems else f"{tags[stem]} has labels too"
            raise InputError(f"{place / name}: holds labels, but {what}")
        tags[stem] = name
    for done, name in enumerate(names):
        if done % 64 == 0:
            progress(done, len(names))
        stem = name[: -len(TEXT)]
        document: dict[str, Any] = {columns.id: stem}
        if columns.text in needed:
            document[columns.text] = _read(place / name, columns.encoding)
        if columns.labels in needed:
            written = _read(place / tags[stem], columns.encoding) if stem in tags else ""
            lines = written.split("\n") if columns.separator is None else written.replace("\n", columns.separator)
            parts = lines if isinstance(lines, list) else lines.split(columns.separator)
            document[columns.labels] = [label for part in parts if (label := part.strip())]
        yield str(place / name), document


def _read(path: Path, encoding: str) -> str:
    with open_regular(path, follow=False) as stream, reading(path, f"{encoding} text"):
        if os.fstat(stream.fileno()).st_size > LONGEST:
            raise InputError(f"{path}: a text of more than {LONGEST} bytes")
        return decode(str(path), stream.read(), encoding)
