"""Lists of names: as two plain arrays for an archive, and as the files that stand beside a data file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.archive import write_text
from unmissed.data.unicode import check_strings, normalize
from unmissed.errors import InputError
from unmissed.files import read_text
from unmissed.matrices import rises


def pack_names(prefix: str, names: Sequence[str] | None) -> dict[str, npt.NDArray[Any]]:
    """Turn names into `<prefix>_utf8` (all bytes, end to end) and `<prefix>_ends` (where each name ends)."""
    if names is None:
        return {}
    check_strings(prefix, names)
    encoded = [name.encode() for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64) if encoded else np.zeros(0, np.int64)
    return {f"{prefix}_utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{prefix}_ends": ends}


def unpack_names(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[str] | None:
    """Turn the two arrays of `pack_names` back into names; None where they are not there."""
    if f"{prefix}_ends" not in arrays:
        return None
    utf8, ends = arrays.get(f"{prefix}_utf8"), arrays[f"{prefix}_ends"]
    if utf8 is None or utf8.dtype != np.uint8 or ends.dtype != np.int64 or utf8.ndim != 1 or ends.ndim != 1:
        raise InputError(f"the stored {prefix} are damaged: their arrays are not those that were written")
    if (ends.size and ends[0] < 0) or not rises(ends) or utf8.size != (int(ends[-1]) if ends.size else 0):
        raise InputError(f"the stored {prefix} are damaged: a name ends before it begins, or not in the text")
    whole, places = utf8.tobytes(), [0, *ends.tolist()]
    try:
        text = whole.decode()
        if len(text) == len(whole):  # ASCII, where bytes and letters have the same places
            return [text[begin:end] for begin, end in pairwise(places)]
        return [whole[begin:end].decode() for begin, end in pairwise(places)]
    except UnicodeDecodeError as error:
        raise InputError(f"the stored {prefix} are damaged: {error}") from error


def names_beside(path: str | os.PathLike[str], filename: str, n: int, form: str = "nfc") -> list[str] | None:
    """Read `filename` in the folder of `path`, one name a line, if it is there and has `n` lines.

    Names get the normal form `form`, unless two of them would become one: each has a column of its own.
    """
    beside = Path(path).parent / filename
    if not beside.is_file():
        return None
    names = read_text(beside).split("\n")
    if names[-1] == "":
        names.pop()
    if len(names) != n:
        return None
    names = [name.removesuffix("\r") for name in names]
    normalized = [normalize(name, form) for name in names]
    return normalized if len(set(normalized)) == len(set(names)) else names


def write_names_beside(path: str | os.PathLike[str], filename: str, names: Sequence[str] | None) -> None:
    """Write `filename` into the folder of `path`; a file that says something else is not overwritten."""
    if names is None:
        return
    beside = Path(path).parent / filename
    for number, name in enumerate(names):
        if "\n" in name or name.endswith("\r"):
            raise InputError(f"name {number}, {name!r}, cannot stand in {beside}: it holds a line break")
    text = "".join(f"{name}\n" for name in names)
    if beside.exists():
        if read_text(beside) != text:
            raise InputError(f"{beside}: exists already with other names; write into another folder")
        return
    write_text(beside, text)


def titles_beside(path: str | os.PathLike[str] | Any, names: Sequence[str], form: str = "nfc") -> list[str] | None:
    """Read readable names from `label_names.tsv` (identifier, tab, name) beside `path`, if it is there.

    Both get the normal form `form`, which `names` have.
    """
    if not isinstance(path, str | os.PathLike):  # a data frame lies nowhere
        return None
    beside = Path(path).parent / "label_names.tsv"
    if not beside.is_file():
        return None
    titles: dict[str, str] = {}
    for number, line in enumerate(read_text(beside).split("\n"), start=1):
        if not line.strip():
            continue
        identifier, tab, title = normalize(line, form).removesuffix("\r").partition("\t")
        if not tab:
            raise InputError(f"{beside}:{number}: expected an identifier, a tab and a name")
        titles[identifier] = title
    return [titles.get(name, name) for name in names]
