"""Detection of the data format of a path: by its suffix, or for folders by their contents."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from unmissed.archive import MANIFEST
from unmissed.data.readers import delimited
from unmissed.data.readers.npz import split_pair
from unmissed.data.readers.parquet import is_frame
from unmissed.data.readers.text_folder import is_text_folder
from unmissed.data.streams import bare_suffix
from unmissed.errors import InputError
from unmissed.files import no_such

_XMC = (".txt", ".svm", ".xmc")
JSON = (".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_TEXTS = ("json", "table", "parquet", "folder", "frame")
_SIDECAR_FILES = ("labels.txt", "features.txt", "label_names.tsv")  # names in the same folder as the data
_EXPECTED = (
    "a store folder, .txt (XMC text), .jsonl, .csv or .tsv, all also .gz or .xz, .parquet, a folder of texts with "
    "NAME.tags files, or a pair 'X.npz,Y.npz'"
)


def format_of(path: str | os.PathLike[str] | Any) -> str:
    """Return `store`, `npz`, `xmc`, `json`, `table`, `parquet`, `folder` or `frame`; raise InputError if unknown."""
    if is_frame(path):
        return "frame"
    if split_pair(path) is not None:
        return "npz"
    file_path = Path(path)
    try:
        is_folder, is_there = file_path.is_dir(), file_path.exists()
    except (OSError, ValueError):  # too long, or not a valid path
        is_folder = is_there = False
    if is_folder:
        return _format_of_folder(file_path)
    if not is_there:
        raise no_data(path)
    suffix = bare_suffix(file_path)
    if suffix in JSON:
        return "json"
    if suffix in delimited.SUFFIXES:
        return "table"
    if suffix in _PARQUET:
        return "parquet"
    if suffix in _XMC:
        return "xmc"
    if suffix == ".npz":
        raise InputError(f"{path}: one file of a pair; give both files as 'X.npz,Y.npz'")
    if suffix in _SPREADSHEETS:
        raise InputError(f"{path}: spreadsheets are not supported; save it as CSV (UTF-8) and give that file")
    if _is_idx(file_path):
        raise InputError(f"{path}: an idx file of images or classes (as MNIST's), not a multi-label data set")
    raise InputError(f"{path}: cannot tell the format by the name; expected {_EXPECTED}")


def no_data(path: str | os.PathLike[str], advice: str = "") -> InputError:
    """Return the error for a path that does not exist; a sentence given as a path gets its own message."""
    if not looks_like_sentence(path):
        return no_such(path)
    shown = str(path) if len(str(path)) <= 60 else f"{str(path)[:57]}..."
    return InputError(f"{shown!r}: a text, and no such file; {advice or f'give the path of a file: {_EXPECTED}'}")


def looks_like_sentence(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is probably a text: several words and no file suffix."""
    text = os.fspath(path)
    return len(text.split()) > 1 and re.search(r"\.\w{1,8}$", text) is None


def holds_text(path: str | os.PathLike[str] | Any) -> bool:
    """Return whether a source holds texts, from which features have to be computed."""
    return format_of(path) in _TEXTS


def _format_of_folder(folder: Path) -> str:
    if (folder / MANIFEST).is_file():
        return "store"
    if is_text_folder(folder):
        return "folder"
    known = _XMC + JSON + delimited.SUFFIXES + _PARQUET
    inside = sorted(e.name for e in folder.iterdir() if bare_suffix(e) in known and e.name not in _SIDECAR_FILES)
    advice = f"; did you mean one of its files: {', '.join(inside[:5])}?" if inside else ""
    if any(_is_idx(entry) for entry in folder.iterdir()):
        advice = "; it holds idx files (as MNIST's), which are not a multi-label data set"
    raise InputError(f"{folder}: a folder, but not a store (it has no {MANIFEST}){advice}")


def _is_idx(path: Path) -> bool:
    return "-idx" in path.name and "ubyte" in path.name
