"""The first version of runs, kept readable: label blocks lay in `shards/`, under a manifest of another kind."""

from __future__ import annotations

from pathlib import Path

from unmissed.archive import below, open_arrays, read_manifest
from unmissed.errors import InputError
from unmissed.execution import Piece

_PREFIX = "labels/"


class PiecesOfVersion1:
    """The shards of a first-version run as the pieces that they would be today; nothing can be added."""

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        self.path = path
        self.verify = verify

    def get(self, key: str) -> Piece | None:
        """Open the shard whose labels a key names, or return None where there is none."""
        if not key.startswith(_PREFIX):
            return None
        folder = below(self.path, f"shards/{key.removeprefix(_PREFIX)}")
        if not folder.exists():
            return None
        manifest = read_manifest(folder, "shard")
        facts = {name: manifest.get(name) for name in ("first", "n_labels")}
        return Piece(key, open_arrays(folder, manifest, verify=self.verify), facts, str(folder))

    def put(self, piece: Piece) -> None:
        """Refuse: what is old is read only."""
        raise InputError(f"{self.path}: a run of the first version can be read, not added to; train it again")

    def drop(self, key: str) -> None:
        """Refuse: what is old is read only."""
        raise InputError(f"{self.path}: a run of the first version can be read, not changed; train it again")

    def listed(self) -> list[str]:
        """Return the keys of the shards, sorted."""
        names = (entry.name for entry in (self.path / "shards").glob("[0-9]*"))
        return sorted(f"{_PREFIX}{name}" for name in names)
