"""Reader of a folder of documents: NAME.txt with its labels in NAME.tags, NAME.key or NAME.tsv, or NAME.json."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from unmissed.archive import MANIFEST
from unmissed.data.encodings import decode
from unmissed.data.readers.annif_corpora import annif_document, is_annif_document, strip_brackets
from unmissed.data.readers.reader import Document, DocumentReader, ReadOptions, Source
from unmissed.data.streams import first_bytes
from unmissed.data.table_columns import Columns
from unmissed.errors import InputError
from unmissed.files import open_regular, parse_json, reading
from unmissed.progress import Progress, silent
from unmissed.settings import SETTINGS

TEXT, JSON = ".txt", ".json"
TAGS, URIS = (".tags", ".key"), ".tsv"
_ANNIF = (".key", URIS)  # a line has a label, or a URI in angle brackets and a label


class TextFolder(DocumentReader):
    """Reads a folder of documents, as Annif does: text files with label files, and JSON files with both.

    The id of a document is the file name without suffix. A document without a label file has no labels; a label file
    without a text raises InputError. If there are both, NAME.tsv is read and NAME.key is not. In both, a URI in angle
    brackets is the label of its line, without the brackets. With a separator, a line may hold several labels.
    """

    name = "a folder of texts"

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a folder has label files or JSON documents; with `labels=False`, or text files."""
        if not isinstance(source, str | os.PathLike) or not os.path.isdir(source):
            return False
        entries = list(Path(source).iterdir())
        if {entry.suffix.lower() for entry in entries} & {*TAGS, *(() if labels else (TEXT,))}:
            return True
        names = {entry.name for entry in entries}
        label_files = (entry for entry in entries if entry.suffix == URIS and f"{entry.stem}{TEXT}" in names)
        return any(first_bytes(entry, 1) == b"<" for entry in label_files) or bool(_find_json(Path(source), names))

    def documents(
        self, source: Source, options: ReadOptions, needed: Collection[str], progress: Progress = silent
    ) -> Iterator[Document]:
        """Yield the path and the text, labels and id of each document, sorted by file name."""
        columns, folder = options.columns, Path(source)
        names, tags = _find_files(folder)
        for done, name in enumerate(names):
            if done % 64 == 0:
                progress(done, len(names))
            path = folder / name
            if name.endswith(JSON):
                yield str(path), {columns.id: path.stem, **_read_json(path, columns)}
                continue
            document: dict[str, Any] = {columns.id: path.stem}
            if columns.text in needed:
                document[columns.text] = _read(path, columns.encoding)
            if columns.labels in needed:
                document[columns.labels] = _read_labels(folder / tags[path.stem], columns) if path.stem in tags else []
            yield str(path), document


def _find_files(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the sorted names of the documents, and the label file of each stem; raise if they contradict."""
    found = sorted(entry.name for entry in folder.iterdir())
    texts = [name for name in found if name.lower().endswith(TEXT)]
    stems = {Path(name).stem for name in texts}
    tags: dict[str, str] = {}
    for name in found:
        stem, suffix = Path(name).stem, Path(name).suffix.lower()
        if suffix not in TAGS and not (suffix == URIS and stem in stems):
            continue
        if suffix == URIS and tags.get(stem, "").endswith(".key"):
            del tags[stem]
        if stem not in stems or stem in tags:
            what = f"there is no {stem}{TEXT}" if stem not in stems else f"{tags[stem]} has labels too"
            raise InputError(f"{folder / name}: holds labels, but {what}")
        tags[stem] = name
    return sorted([*texts, *_find_json(folder, found)]), tags


def _find_json(folder: Path, names: Collection[str]) -> list[str]:
    """Return the sorted names of the JSON documents; none if the first is another file, as in a store or a run."""
    found = sorted(name for name in names if name.endswith(JSON))
    return found if found and MANIFEST not in found and _is_document(folder / found[0]) else []


def _read_labels(path: Path, columns: Columns) -> list[str]:
    """Return the labels of a file, one per line; with a separator, several."""
    lines = _read(path, columns.encoding).split("\n")
    if path.suffix.lower() in _ANNIF:
        lines = [_uri_or_label(line) for line in lines]
    if columns.separator is not None:
        lines = columns.separator.join(lines).split(columns.separator)
    return [label for line in lines if (label := line.strip())]


def _uri_or_label(line: str) -> str:
    """Return the URI of a line such as `<uri>`, tab, label; else the line."""
    cells = (cell.strip() for cell in line.split("\t"))
    return next((strip_brackets(cell) for cell in cells if cell.startswith("<") and cell.endswith(">")), line)


def _is_document(path: Path) -> bool:
    try:
        return is_annif_document(parse_json(_read(path, "utf-8"), any_string=True))
    except (InputError, ValueError):
        return False


def _read_json(path: Path, columns: Columns) -> dict[str, Any]:
    """Return the fields of a JSON document; raise unless it has those of Annif's documents."""
    try:
        document = parse_json(_read(path, columns.encoding), any_string=True)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: expected a JSON object: {error}") from error
    if not is_annif_document({**document, "metadata": {}} if isinstance(document, dict) else document):
        raise InputError(f"{path}: expected a JSON object with the fields text, subjects, metadata and document_id")
    return annif_document(str(path), document, columns)


def _read(path: Path, encoding: str) -> str:
    with open_regular(path, follow=False) as stream, reading(path, f"{encoding} text"):
        if os.fstat(stream.fileno()).st_size > SETTINGS.line_bytes:
            raise InputError(f"{path}: a text of more than {SETTINGS.line_bytes} bytes")
        return decode(str(path), stream.read(), encoding)
