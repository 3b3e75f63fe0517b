"""Which form a path has: by its name, and for folders by what is in them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from unmissed.archive import MANIFEST
from unmissed.data import delimited
from unmissed.data.npz import split_pair
from unmissed.data.parquet import is_frame
from unmissed.data.streams import bare_suffix
from unmissed.data.text_folder import is_text_folder
from unmissed.errors import InputError
from unmissed.files import no_such

_XMC = (".txt", ".svm", ".xmc")
JSON = (".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_TEXTS = ("json", "table", "parquet", "folder", "frame")
_BESIDE = ("labels.txt", "features.txt", "label_names.tsv")  # names that lie beside data
_FORMS = (
    "a store folder, .txt (XMC text), .jsonl, .csv or .tsv, all also .gz or .xz, .parquet, a folder of texts with "
    "NAME.tags files, or a pair 'X.npz,Y.npz'"
)


def form_of(path: str | os.PathLike[str] | Any) -> str:
    """Return `store`, `npz`, `xmc`, `json`, `table`, `parquet`, `folder` or `frame`, or say what was expected."""
    if is_frame(path):
        return "frame"
    if split_pair(path) is not None:
        return "npz"
    place = Path(path)
    try:
        is_folder, is_there = place.is_dir(), place.exists()
    except (OSError, ValueError):  # too long for a name, or not a name at all
        is_folder = is_there = False
    if is_folder:
        return _form_of_folder(place)
    if not is_there:
        raise no_data(path)
    suffix = bare_suffix(place)
    if suffix in JSON:
        return "json"
    if suffix in delimited.SUFFIXES:
        return "table"
    if suffix in _PARQUET:
        return "parquet"
    if suffix in _XMC:
        return "xmc"
    if suffix == ".npz":
        raise InputError(f"{path}: one half of a data set; give both files as 'X.npz,Y.npz'")
    if suffix in _SPREADSHEETS:
        raise InputError(f"{path}: a spreadsheet, which is not read; save it as CSV (UTF-8) and give that file")
    if _is_idx(place):
        raise InputError(f"{path}: an idx file of images or classes (as MNIST's), not a multi-label data set")
    raise InputError(f"{path}: cannot tell the format by the name; expected {_FORMS}")


def no_data(path: str | os.PathLike[str], advice: str = "") -> InputError:
    """Return the error that there is no file; a sentence instead of a path is told apart."""
    if not looks_like_sentence(path):
        return no_such(path)
    shown = str(path) if len(str(path)) <= 60 else f"{str(path)[:57]}..."
    return InputError(f"{shown!r}: a text, and no such file; {advice or f'give the path of a file: {_FORMS}'}")


def looks_like_sentence(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path that does not exist is rather a text: words with blanks, and no suffix of a file."""
    text = os.fspath(path)
    return len(text.split()) > 1 and re.search(r"\.\w{1,8}$", text) is None


def holds_text(path: str | os.PathLike[str] | Any) -> bool:
    """Tell whether features have to be made from text here."""
    return form_of(path) in _TEXTS


def _form_of_folder(place: Path) -> str:
    if (place / MANIFEST).is_file():
        return "store"
    if is_text_folder(place):
        return "folder"
    known = _XMC + JSON + delimited.SUFFIXES + _PARQUET
    inside = sorted(e.name for e in place.iterdir() if bare_suffix(e) in known and e.name not in _BESIDE)
    hint = f"; did you mean one of its files: {', '.join(inside[:5])}?" if inside else ""
    if any(_is_idx(entry) for entry in place.iterdir()):
        hint = "; it holds idx files (as MNIST's), which are no multi-label data set"
    raise InputError(f"{place}: a folder, but not a store (it has no {MANIFEST}){hint}")


def _is_idx(path: Path) -> bool:
    return "-idx" in path.name and "ubyte" in path.name
