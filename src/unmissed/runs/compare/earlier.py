"""Methods of earlier comparisons in the same folder, which are included unless their settings differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unmissed.archive import read_json
from unmissed.errors import InputError
from unmissed.runs.compare.method_specs import MethodSpec, folder_name, read_method_specs
from unmissed.runs.compare.trials import RANKING, RECORD

_UNFINISHED = ("new", "begun")


class Earlier(NamedTuple):
    """Results of earlier comparisons in a folder.

    Parameters
    ----------
    methods : each method with its record
    scores : score files of other systems by name
    left_out : keys of methods and scores that cannot be included, with the reasons
    """

    methods: list[tuple[MethodSpec, dict[str, Any]]]
    scores: dict[str, Path]
    left_out: dict[str, str]


def find_earlier(
    folder: Path,
    results: Mapping[str, Any],
    taken: Collection[str],
    wanted: Callable[[MethodSpec], Mapping[str, Any]],
) -> Earlier:
    """Return the methods and scores of earlier comparisons in a folder.

    Parameters
    ----------
    folder : the folder of the comparisons
    results : the results of the last one, empty if there are none
    taken : keys and titles of the current comparison, which are skipped
    wanted : returns recipe, digests and depth that the current comparison would use for a method
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
            spec = read_method_specs([key])[0]
            found.methods.append((spec, _fitting(folder / "methods" / name, record, wanted(spec))))
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
    """Return the record of a method that ended with the same settings; raise otherwise."""
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
