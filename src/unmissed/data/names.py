"""Lists of names: packed into two arrays for an archive, and stored in sidecar files next to a data file."""

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
    """Return `<prefix>_utf8` (the concatenated UTF-8 bytes) and `<prefix>_ends` (the end offset of each name)."""
    if names is None:
        return {}
    check_strings(prefix, names)
    encoded = [name.encode() for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64) if encoded else np.zeros(0, np.int64)
    return {f"{prefix}_utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{prefix}_ends": ends}


def unpack_names(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[str] | None:
    """Return the names packed by `pack_names`, or None if the arrays do not exist."""
    if f"{prefix}_ends" not in arrays:
        return None
    utf8, ends = arrays.get(f"{prefix}_utf8"), arrays[f"{prefix}_ends"]
    if utf8 is None or utf8.dtype != np.uint8 or ends.dtype != np.int64 or utf8.ndim != 1 or ends.ndim != 1:
        raise InputError(f"the stored {prefix} are damaged: their arrays have the wrong type")
    if (ends.size and ends[0] < 0) or not rises(ends) or utf8.size != (int(ends[-1]) if ends.size else 0):
        raise InputError(f"the stored {prefix} are damaged: their end offsets are inconsistent")
    content, positions = utf8.tobytes(), [0, *ends.tolist()]
    try:
        text = content.decode()
        if len(text) == len(content):  # ASCII: byte offsets are character offsets
            return [text[begin:end] for begin, end in pairwise(positions)]
        return [content[begin:end].decode() for begin, end in pairwise(positions)]
    except UnicodeDecodeError as error:
        raise InputError(f"the stored {prefix} are damaged: {error}") from error


def read_name_files(path: str | os.PathLike[str], filename: str, n: int, form: str = "nfc") -> list[str] | None:
    """Read `filename`, one name per line, in the folder of `path`; None if it does not exist or has not `n` lines.

    Names are normalized to the Unicode form `form`, unless this would make two of them equal.
    """
    sidecar = Path(path).parent / filename
    if not sidecar.is_file():
        return None
    names = read_text(sidecar).split("\n")
    if names[-1] == "":
        names.pop()
    if len(names) != n:
        return None
    names = [name.removesuffix("\r") for name in names]
    normalized = [normalize(name, form) for name in names]
    return normalized if len(set(normalized)) == len(set(names)) else names


def write_name_files(path: str | os.PathLike[str], filename: str, names: Sequence[str] | None) -> None:
    """Write `filename` into the folder of `path`; raise InputError if it exists with other names."""
    if names is None:
        return
    sidecar = Path(path).parent / filename
    for number, name in enumerate(names):
        if "\n" in name or name.endswith("\r"):
            raise InputError(f"name {number}, {name!r}, cannot be written to {sidecar}: it contains a line break")
    text = "".join(f"{name}\n" for name in names)
    if sidecar.exists():
        if read_text(sidecar) != text:
            raise InputError(f"{sidecar}: exists already with other names; write into another folder")
        return
    write_text(sidecar, text)


def read_title_file(path: str | os.PathLike[str] | Any, names: Sequence[str], form: str = "nfc") -> list[str] | None:
    """Return the title of each label from `label_names.tsv` (identifier, tab, title) next to `path`, or None.

    Identifiers and titles are normalized to the Unicode form `form`, as `names` are.
    """
    if not isinstance(path, str | os.PathLike):  # a data frame has no folder
        return None
    sidecar = Path(path).parent / "label_names.tsv"
    if not sidecar.is_file():
        return None
    titles: dict[str, str] = {}
    for number, line in enumerate(read_text(sidecar).split("\n"), start=1):
        if not line.strip():
            continue
        identifier, tab, title = normalize(line, form).removesuffix("\r").partition("\t")
        if not tab:
            raise InputError(f"{sidecar}:{number}: expected an identifier, a tab and a name")
        titles[identifier] = title
    return [titles.get(name, name) for name in names]
