"""Registries: objects that are found by name, imported on first use, and added to by installed packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from unmissed.errors import InputError, UnmissedError, did_you_mean

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Objects by name.

    Parameters
    ----------
    group : the entry-point group in which an installed package adds objects: `name = "module:object"`
    kind : what the objects are, for messages
    import_paths : the objects of this package, as `module:object`
    """

    def __init__(self, group: str, kind: str, import_paths: Mapping[str, str]) -> None:
        self.group, self._kind = group, kind
        self._paths = dict(import_paths)
        self._found: dict[str, Entry] = {}

    def register(self, name: str, entry: Entry) -> None:
        """Add an object for this process; an entry point adds one for every process."""
        if name in self._paths or self._found.get(name, entry) is not entry:
            raise InputError(f"the {self._kind} {name!r} is already registered")
        self._found[name] = entry

    def names(self) -> list[str]:
        """Return all names: those of this package, registered ones, and those of installed packages."""
        return list(dict.fromkeys((*self._paths, *self._found, *self._installed)))

    def find(self, name: str) -> Entry:
        """Return the object of this name; raise InputError if it is unknown."""
        if name not in self._found:
            path = self._paths.get(name) or self._installed.get(name)  # entry points are slow to look up
            if path is None:
                known = self.names()
                raise InputError(f"unknown {self._kind} {name!r}; known: {', '.join(known)}{did_you_mean(name, known)}")
            self._found[name] = self._load(name, path)
        return self._found[name]

    def __iter__(self) -> Iterator[Entry]:
        """Yield all objects; those of this package come first, and entry points are looked up last."""
        own = list(dict.fromkeys((*self._paths, *self._found)))
        yield from map(self.find, own)
        yield from (self.find(name) for name in self._installed if name not in own)

    @cached_property
    def _installed(self) -> dict[str, str]:
        return {entry.name: entry.value for entry in entry_points(group=self.group)}

    def _load(self, name: str, path: str) -> Entry:
        module, _, attribute = path.partition(":")
        try:
            found: Any = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UnmissedError(f"the {self._kind} {name!r} cannot be imported from {path}: {error}") from error
        entry: Entry = found
        return entry
