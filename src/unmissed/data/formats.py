"""Detection of formats: the reader of a source, and the writer of a target."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmissed.archive import MANIFEST
from unmissed.data.readers.format_registry import COMPRESSED, SOURCES, TARGETS, all_formats
from unmissed.data.readers.reader import DocumentReader, MatrixReader, Source, Writer, suffix_of_file
from unmissed.data.streams import bare_suffix
from unmissed.errors import InputError
from unmissed.files import no_such

_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_SIDECAR_FILES = ("labels.txt", "features.txt", "label_names.tsv")  # names in the same folder as the data
_EXPECTED = f"{SOURCES} ({COMPRESSED})"

PathLike = str | os.PathLike[str]
Reader = DocumentReader | MatrixReader


def find_reader(source: Source, *, labels: bool = True) -> Reader:
    """Return the reader of a source; raise InputError if no format fits.

    With `labels=False`, the source may hold rows without labels.
    """
    reader = _sniff(source, labels)
    if reader is None:
        raise _unreadable(source)
    return reader


def holds_text(source: Source) -> bool:
    """Return whether a source holds texts, from which features have to be computed."""
    return isinstance(find_reader(source), DocumentReader)


def files_of(path: PathLike) -> tuple[Path, ...]:
    """Return the files or folders that a path names, whether they exist or not."""
    reader = _sniff(path, True)
    return (Path(path),) if reader is None else reader.files(path)


def find_writer(path: PathLike) -> Writer:
    """Return the writer of a target; raise InputError if no format fits or the target cannot be written."""
    for one in all_formats():
        if isinstance(one, Writer) and one.writes(path):
            one.check_target(path)
            return one
    raise InputError(f"{path}: cannot write {bare_suffix(path)}; expected {TARGETS} ({COMPRESSED})")


def known_suffixes() -> set[str]:
    """Return the suffixes of all formats that can be read."""
    return {suffix for one in all_formats() for suffix in one.suffixes}


def no_data(path: PathLike, advice: str = "") -> InputError:
    """Return the error for a path that does not exist; a sentence given as a path gets its own message."""
    if not looks_like_sentence(path):
        return no_such(path)
    shown = str(path) if len(str(path)) <= 60 else f"{str(path)[:57]}..."
    return InputError(f"{shown!r}: a text, and no such file; {advice or f'give the path of a file: {_EXPECTED}'}")


def looks_like_sentence(path: PathLike) -> bool:
    """Return whether a path is probably a text: several words and no file suffix."""
    text = os.fspath(path)
    return len(text.split()) > 1 and re.search(r"\.\w{1,8}$", text) is None


def _sniff(source: Source, labels: bool) -> Reader | None:
    readers = (one for one in all_formats() if isinstance(one, DocumentReader | MatrixReader))
    return next((reader for reader in readers if reader.sniff(source, labels=labels)), None)


def _unreadable(source: Source) -> InputError:
    """Return the error for a source that has no known format."""
    if not isinstance(source, str | os.PathLike):
        return InputError(f"cannot read a {type(source).__name__}; expected a data frame or a path: {_EXPECTED}")
    path = Path(source)
    suffix = suffix_of_file(path)
    try:
        if path.is_dir():
            return _unreadable_folder(path)
        if not path.exists():
            return no_data(source)
    except (OSError, ValueError):  # too long, or not a valid path
        return no_data(source)
    if suffix == ".npz":
        return InputError(f"{source}: one file of a pair; give both files as 'X.npz,Y.npz'")
    if suffix == ".npy":
        return InputError(f"{source}: features without labels; give both files as 'E.npy,Y.npz'")
    if suffix in _SPREADSHEETS:
        return InputError(f"{source}: spreadsheets are not supported; save it as CSV (UTF-8) and give that file")
    if _is_idx(path):
        return InputError(f"{source}: an idx file of images or classes (as MNIST's), not a multi-label data set")
    return InputError(f"{source}: cannot tell the format by the name; expected {_EXPECTED}")


def _unreadable_folder(folder: Path) -> InputError:
    known = known_suffixes()
    inside = sorted(e.name for e in folder.iterdir() if bare_suffix(e) in known and e.name not in _SIDECAR_FILES)
    advice = f"; did you mean one of its files: {', '.join(inside[:5])}?" if inside else ""
    if any(_is_idx(entry) for entry in folder.iterdir()):
        advice = "; it holds idx files (as MNIST's), which are not a multi-label data set"
    return InputError(f"{folder}: a folder, but not a store (it has no {MANIFEST}){advice}")


def _is_idx(path: Path) -> bool:
    return "-idx" in path.name and "ubyte" in path.name
