"""Methods of earlier comparisons in a folder: they stay in its page, unless their settings differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unmissed.archive import read_json
from unmissed.errors import InputError
from unmissed.runs.bouts import RANKING, RECORD
from unmissed.runs.contenders import Contender, folder_name, read_contenders

_UNFINISHED = ("new", "begun")


class Earlier(NamedTuple):
    """What a folder holds from earlier comparisons.

    Parameters
    ----------
    methods : each method with its record
    scores : files of other systems by name
    left_out : what cannot stand in the same page, by key, and why
    """

    methods: list[tuple[Contender, dict[str, Any]]]
    scores: dict[str, Path]
    left_out: dict[str, str]


def find_earlier(
    folder: Path,
    results: Mapping[str, Any],
    taken: Collection[str],
    wanted: Callable[[Contender], Mapping[str, Any]],
) -> Earlier:
    """Return what is in a folder of comparisons beside the methods of this one.

    Parameters
    ----------
    folder : of the comparisons
    results : the last one's results, empty if there are none
    taken : keys and titles of this comparison
    wanted : gives the recipe and the digests with which this comparison would train a method
    """
    found = Earlier([], {}, {})
    entries = results.get("methods", [])
    keys = {folder_name(one["key"]): str(one["key"]) for one in entries if "source" not in one}
    order = list(keys)
    names = [path.parent.name for path in (folder / "methods").glob(f"*/{RECORD}")]
    for name in sorted(names, key=lambda one: (order.index(one) if one in order else len(order), one)):
        record = read_json(folder / "methods" / name / RECORD)
        key = str(record.get("key") or keys.get(name, name)) if isinstance(record, dict) else name
        if key in taken:
            continue
        try:
            contender = read_contenders([key])[0]
            found.methods.append((contender, _fitting(folder / "methods" / name, record, wanted(contender))))
        except InputError as error:
            found.left_out[key] = str(error)
    for one in entries:
        if "source" in one and one["key"] not in taken:
            path = Path(one["source"])
            if path.is_file():
                found.scores[str(one["key"])] = path
            else:
                found.left_out[str(one["key"])] = f"{path} is gone"
    return found


def _fitting(folder: Path, record: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's record if it ended, with what is wanted; else say why not."""
    if not isinstance(record, dict) or not isinstance(record.get("wanted"), dict):
        raise InputError(f"{folder / RECORD} is damaged")
    other = sorted(name for name in wanted if record["wanted"].get(name) != wanted[name])
    if other:
        raise InputError(f"was trained with another {' and another '.join(other)}")
    if record.get("state") in (*_UNFINISHED, None):
        raise InputError("is not finished")
    if record["state"] == "finished" and not (folder / RANKING).is_file():
        raise InputError(f"{folder / RANKING} is gone")
    return record
