"""Reader of a folder of text files: NAME.txt has a document, NAME.tags or NAME.key its labels, one per line."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from unmissed.data.encodings import decode
from unmissed.data.readers.reader import Document, DocumentReader, ReadOptions, Source
from unmissed.errors import InputError
from unmissed.files import open_regular, reading
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS

TEXT = ".txt"
TAGS = (".tags", ".key")


class TextFolder(DocumentReader):
    """Reads a folder of text files.

    The id of a document is the file name without suffix. A document without a label file has no labels; a label file
    without a text raises InputError. With a separator, a line may hold several labels.
    """

    name = "a folder of texts"

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a folder has label files; with `labels=False`, whether it has label or text files."""
        if not isinstance(source, str | os.PathLike) or not os.path.isdir(source):
            return False
        suffixes = TAGS if labels else (TEXT, *TAGS)
        return any(entry.suffix.lower() in suffixes for entry in Path(source).iterdir())

    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield the path and the text, labels and id of each document, sorted by file name."""
        columns, folder = options.columns, Path(source)
        entries = sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() in (TEXT, *TAGS))
        names = [name for name in entries if name.lower().endswith(TEXT)]
        stems = {name[: -len(TEXT)] for name in names}
        tags: dict[str, str] = {}
        for name in entries:
            stem = Path(name).stem
            if name in names:
                continue
            if stem not in stems or stem in tags:
                what = f"there is no {stem}{TEXT}" if stem not in stems else f"{tags[stem]} has labels too"
                raise InputError(f"{folder / name}: holds labels, but {what}")
            tags[stem] = name
        for done, name in enumerate(names):
            if done % 64 == 0:
                progress(done, len(names))
            stem = name[: -len(TEXT)]
            document: dict[str, Any] = {columns.id: stem}
            if columns.text in needed:
                document[columns.text] = _read(folder / name, columns.encoding)
            if columns.labels in needed:
                content = _read(folder / tags[stem], columns.encoding) if stem in tags else ""
                lines = content.split("\n") if columns.separator is None else content.replace("\n", columns.separator)
                parts = lines if isinstance(lines, list) else lines.split(columns.separator)
                document[columns.labels] = [label for part in parts if (label := part.strip())]
            yield str(folder / name), document


def _read(path: Path, encoding: str) -> str:
    with open_regular(path, follow=False) as stream, reading(path, f"{encoding} text"):
        if os.fstat(stream.fileno()).st_size > SETTINGS.line_bytes:
            raise InputError(f"{path}: a text of more than {SETTINGS.line_bytes} bytes")
        return decode(str(path), stream.read(), encoding)
