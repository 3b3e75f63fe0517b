"""RunFolder: what is where in a run's folder, who may write there, and which label blocks are finished."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed import __version__
from unmissed.archive import MANIFEST, open_arrays, read_json, read_manifest, write_archive, write_json
from unmissed.errors import InputError
from unmissed.runs.recipe import Recipe
from unmissed.solvers.shard import Shard

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

KIND = "run"
SHARD_KIND = "shard"
LABELS_KIND = "labels of a run"
FEATURES_KIND = "features of a run"
VERSION = 1
_LOCK = ".lock"
_TRAINING, _COMPLETE = "training", "complete"

_SHARD_TYPES = {
    "features": np.int32,
    "starts": np.int64,
    "labels": np.uint16,
    "weights": np.float32,
    "bias": np.float32,
    "objective": np.float64,
    "gap": np.float64,
    "epochs": np.int32,
}


@dataclass(frozen=True)
class Part:
    """Labels that were trained together: those of `train`, then those of each `extend`."""

    first: int
    n_labels: int
    n_samples: int
    digest: str | None
    status: str = _TRAINING
    versions: list[dict[str, str]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether every label of the part is trained."""
        return self.status == _COMPLETE

    def completed(self) -> Part:
        """Return this part, marked as complete."""
        return replace(self, status=_COMPLETE)

    def joined_by(self, versions: dict[str, str]) -> Part:
        """Return this part with the versions of the programs that now go on with it."""
        return self if versions in self.versions else replace(self, versions=[*self.versions, versions])


@dataclass(frozen=True)
class Manifest:
    """What a run's `manifest.json` says."""

    recipe: Recipe
    n_features: int
    parts: list[Part]

    def with_last(self, part: Part) -> Manifest:
        """Return the manifest with another last part."""
        return replace(self, parts=[*self.parts[:-1], part])


class RunFolder:
    """A run on disk: `manifest.json`, `labels/`, `shards/`, and `text/` or `features/` where their names are known."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def text(self) -> Path:
        """Where the text features are."""
        return self.path / "text"

    @property
    def features(self) -> Path:
        """Where the names of features are that did not come from text."""
        return self.path / "features"

    def labels(self, first: int) -> Path:
        """Where names and counts of the part that begins at label `first` are."""
        return self.path / "labels" / f"{first:08d}"

    def shard(self, first: int) -> Path:
        """Where the shard that begins at label `first` is."""
        return self.path / "shards" / f"{first:08d}"

    def is_new(self) -> bool:
        """Tell whether nothing was begun here; a folder with other things in it is refused."""
        if (self.path / MANIFEST).is_file():
            return False
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: a file; expected the folder of a run, or a name that is free")
        alien = [e.name for e in self.path.iterdir() if not _leftover(e)] if self.path.is_dir() else []
        if alien:
            raise InputError(f"{self.path}: holds {sorted(alien)[0]!r} and is no run; choose another folder")
        return True

    def read(self) -> Manifest:
        """Read the manifest."""
        value = read_manifest(self.path, KIND)
        if value.get("version") != VERSION:
            raise InputError(f"{self.path}: a run of version {value.get('version')!r}; this program reads {VERSION}")
        try:
            parts = [Part(**part) for part in value["parts"]]
            return Manifest(Recipe.from_json(value["recipe"]), int(value["n_features"]), parts)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.path / MANIFEST}: damaged: {error}") from error

    def write(self, manifest: Manifest) -> None:
        """Write the manifest, aside and renamed."""
        value = {
            "kind": KIND,
            "version": VERSION,
            "recipe": manifest.recipe.to_json(),
            "n_features": manifest.n_features,
            "parts": [asdict(part) for part in manifest.parts],
        }
        write_json(self.path / MANIFEST, value)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who writes here; the lock ends with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _lock(descriptor):
                raise InputError(f"{self.path}: another process is training into this run; wait for it, or stop it")
            yield
        finally:
            os.close(descriptor)

    def clean(self) -> None:
        """Remove what a killed writer left behind; only under the lock."""
        for place in (self.path, self.path / "shards", self.path / "labels"):
            for entry in place.glob(".*.part"):
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()

    def forget(self, before: Manifest | None, part: Part) -> None:
        """Go back to an earlier manifest, or to an empty folder; only under the lock."""
        gone = [self.labels(part.first)] if before is not None else [self.text, self.features, self.path / "labels"]
        for place in gone:
            if place.exists():
                aside = place.with_name(f".{place.name}.part")  # killed in the middle, it is cleaned the next time
                os.rename(place, aside)
                shutil.rmtree(aside)
        if before is None:
            (self.path / MANIFEST).unlink()
        else:
            self.write(before)

    def open_shard(self, first: int, *, verify: bool = False) -> Shard:
        """Open a shard memory-mapped; the sizes of files and arrays are checked, checksums on request."""
        folder = self.shard(first)
        manifest = read_manifest(folder, SHARD_KIND)
        arrays = open_arrays(folder, manifest, verify=verify)
        if manifest.get("version") != VERSION or manifest.get("first") != first or not _sound(arrays):
            raise InputError(f"{folder}: its arrays do not make a shard; the run is damaged")
        return Shard.from_arrays(first, arrays)

    def open_shards(self, manifest: Manifest, *, verify: bool = False) -> list[Shard]:
        """Open the shards of all complete parts and check that they hold each label once."""
        wanted = sum(part.n_labels for part in manifest.parts if part.is_complete)
        shards: list[Shard] = []
        first = 0
        while first < wanted:
            shards.append(self.open_shard(first, verify=verify))
            if not shards[-1].n_labels:
                raise InputError(f"{self.shard(first)}: holds no labels; the run is damaged")
            first += shards[-1].n_labels
        if first != wanted:
            raise InputError(f"{self.path}: shards hold {first} labels, the manifest says {wanted}; the run is damaged")
        return shards

    def n_finished(self, part: Part) -> int:
        """Count the labels of a part whose shards are there."""
        end, done = part.first + part.n_labels, 0
        for entry in (self.path / "shards").glob("[0-9]*"):
            if entry.name.isdigit() and part.first <= int(entry.name) < end:
                done += int(read_json(entry / MANIFEST).get("n_labels", 0))
        return done

    def n_bytes(self) -> int:
        """Add up the sizes of all files."""
        return sum(entry.stat().st_size for entry in self.path.rglob("*") if entry.is_file())


class ShardsOnDisk:
    """The shards of a run as `fit` takes them: those there are, and a place for those to come."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def get(self, first: int) -> Shard | None:
        """Return the shard that begins at label `first`, or None where it is not finished."""
        return self.folder.open_shard(first) if self.folder.shard(first).exists() else None

    def put(self, shard: Shard) -> None:
        """Write a finished shard aside and give it its name."""
        write_archive(
            self.folder.shard(shard.first),
            shard.arrays,
            kind=SHARD_KIND,
            version=VERSION,
            first=int(shard.first),
            n_labels=int(shard.n_labels),
        )


def versions() -> dict[str, str]:
    """Return the versions of what can change a result."""
    import numba
    import scipy

    return {
        "unmissed": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }


def _sound(arrays: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Tell whether arrays have the names, types and sizes of a shard's."""
    if arrays.keys() != _SHARD_TYPES.keys():
        return False
    if any(arrays[name].dtype != dtype or arrays[name].ndim != 1 for name, dtype in _SHARD_TYPES.items()):
        return False
    n_labels = arrays["bias"].size
    return (
        arrays["starts"].size == arrays["features"].size + 1
        and arrays["labels"].size == arrays["weights"].size == int(arrays["starts"][-1])
        and all(arrays[name].size == n_labels for name in ("objective", "gap", "epochs"))
    )


def _leftover(entry: Path) -> bool:
    """Tell whether a killed training leaves such an entry before it has written the manifest."""
    return entry.name == _LOCK or (entry.name.startswith(f".{MANIFEST}.") and entry.name.endswith(".part"))


def _lock(descriptor: int) -> bool:
    """Take the lock of an open file without waiting; where the file system knows no locks, go without."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise
    return True
