"""RunFolder: what is where in a run's folder, and who may write there."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unmissed import __version__
from unmissed.archive import MANIFEST, below, open_arrays, read_manifest, write_manifest
from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Pieces
from unmissed.matrices import LARGEST
from unmissed.runs.recipe import Recipe
from unmissed.runs.replacing import recover, standing
from unmissed.runs.version1 import PiecesOfVersion1
from unmissed.writing import is_at, make_folder, try_lock

KIND = "run"
LABELS_KIND = "labels of a run"
FEATURES_KIND = "features of a run"
VERSION = 2
_LOCK = ".lock"
_MANIFEST_LOCK = ".manifest.lock"
_PATIENCE = 10.0  # seconds in which a share that comes first has cleaned up
_TRAINING, _COMPLETE = "training", "complete"


@dataclass(frozen=True)
class Source:
    """Data that a part was trained on: its digest, and where it was read, if it was read from anywhere.

    `options` are those of `unmissed.data.load`. Nothing is read there unless somebody asks for the old rows, and then
    only what has the digest is taken.
    """

    path: str | None
    digest: str
    n_samples: int
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset) -> Source:
        """Note where a data set came from."""
        path, options = (None, {}) if dataset.origin is None else dataset.origin
        return cls(path, dataset.digest, dataset.n_samples, options)


@dataclass(frozen=True)
class Part:
    """Labels that were trained together: those of `train`, then those of each `extend`.

    `sources` are the data that came with these labels; older runs do not know them.
    """

    first: int
    n_labels: int
    n_samples: int
    digest: str | None
    status: str = _TRAINING
    versions: list[dict[str, str]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)

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
    version: int = VERSION

    def with_last(self, part: Part) -> Manifest:
        """Return the manifest with another last part."""
        return replace(self, parts=[*self.parts[:-1], part])


class RunFolder:
    """A run on disk: `manifest.json`, `pieces/`, `labels/`, and `text/` or `features/` where their names are known."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def text(self) -> Path:
        """Where the text features are."""
        return below(self.path, "text")

    @property
    def features(self) -> Path:
        """Where the names of features are that did not come from text."""
        return below(self.path, "features")

    def labels(self, first: int) -> Path:
        """Where names and counts of the part that begins at label `first` are."""
        return below(self.path, f"labels/{first:08d}")

    @property
    def work(self) -> Path:
        """Where the model's pieces are."""
        return below(self.path, "pieces")

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

    def read(self, *, verify: bool = False) -> Manifest:
        """Read the manifest; with `verify`, one that has no checksum of its own is refused."""
        value = read_manifest(self.path, KIND)
        version = value.get("version")
        if version not in (1, VERSION):
            raise InputError(f"{self.path}: a run of version {version!r}; this program reads 1 to {VERSION}")
        try:
            if verify:
                open_arrays(self.path, {"arrays": {}, **value}, verify=True)  # which asks for the checksum
            n_features = _count(value["n_features"], "n_features")
            return Manifest(Recipe.from_json(value["recipe"]), n_features, _parts(value["parts"]), int(version))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self.path / MANIFEST}: damaged: {error}") from error

    def write(self, manifest: Manifest) -> None:
        """Write the manifest, aside and renamed; older versions are read only."""
        self.check_version(manifest)
        value = {
            "kind": KIND,
            "version": VERSION,
            "recipe": manifest.recipe.to_json(),
            "n_features": manifest.n_features,
            "parts": [asdict(part) for part in manifest.parts],
        }
        write_manifest(self.path, value)

    def check_version(self, manifest: Manifest) -> None:
        """Refuse to change a run of an older version."""
        if manifest.version != VERSION:
            raise InputError(
                f"{self.path}: a run of version {manifest.version} can be read, not changed; train it again"
            )

    @contextmanager
    def locked(self, *, together: bool = False) -> Iterator[None]:
        """Be the only one who writes here, and clean up first; the lock ends with the process, however it ends.

        With `together`, others who say the same may write here too: shares of one training. Whoever comes while nobody
        else is here cleans up.
        """
        descriptor, held = self._lock_standing()
        try:
            if held:
                recover(self.path)
                self.clean()
            if together:
                held = _lock(descriptor, shared=True, patience=_PATIENCE)  # another share may be cleaning up
            if not held:
                raise InputError(f"{self.path}: another process is training into this run; wait for it, or stop it")
            yield
        finally:
            os.close(descriptor)

    def _lock_standing(self) -> tuple[int, bool]:
        """Open the lock of the run that stands under this name, and try to take it."""
        while True:
            place = standing(self.path)
            make_folder(place)
            descriptor = _open_lock(place / _LOCK)
            held = _lock(descriptor)
            if is_at(descriptor, place / _LOCK):
                return descriptor, held
            os.close(descriptor)  # the run was replaced in the meantime

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Be the only one of all shares who reads and changes the manifest; waits for its turn, a moment each."""
        descriptor = _open_lock(self.path / _MANIFEST_LOCK)
        try:
            _lock(descriptor, patience=float("inf"))
            yield
        finally:
            os.close(descriptor)

    def clean(self) -> None:
        """Remove what a killed writer left behind; only under the lock."""
        for place in (self.path, below(self.path, "labels")):
            for entry in place.glob(".*.part"):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        OnDisk(self.work).clean()

    def forget(self, before: Manifest | None, part: Part) -> None:
        """Go back to an earlier manifest, or to an empty folder; only under the lock."""
        gone = (
            [self.labels(part.first)] if before is not None else [self.text, self.features, below(self.path, "labels")]
        )
        for place in gone:
            if place.exists():
                aside = place.with_name(f".{place.name}.part")  # killed in the middle, it is cleaned the next time
                os.rename(place, aside)
                shutil.rmtree(aside)
        if before is None:
            (self.path / MANIFEST).unlink()
        else:
            self.write(before)

    def pieces(self, manifest: Manifest, *, verify: bool = False) -> Pieces:
        """Return the model's pieces, opened memory-mapped when they are asked for; checksums on request."""
        if manifest.version == 1:
            return PiecesOfVersion1(self.path, verify=verify)
        return OnDisk(self.work, verify=verify)

    def n_finished(self) -> int:
        """Count the pieces that are there."""
        return len(OnDisk(self.work).listed())

    def n_bytes(self) -> int:
        """Add up the sizes of all files."""
        return sum(entry.stat().st_size for entry in self.path.rglob("*") if entry.is_file())


def _parts(value: Any) -> list[Part]:
    """Return the parts that a manifest lists, or refuse them: label after label, none left out."""
    if not isinstance(value, list) or not value:
        raise InputError("it lists no parts")
    parts: list[Part] = []
    first = 0
    for entry in value:
        part = Part(**{**entry, "sources": [_source(one) for one in entry.get("sources", [])]})
        for name in ("first", "n_labels", "n_samples"):
            _count(getattr(part, name), name)
        told = [one for each in part.versions for one in (*each, *each.values())]
        strings = [part.status, "" if part.digest is None else part.digest, *told]
        if part.first != first or part.status not in (_TRAINING, _COMPLETE) or not all(map(_is_text, strings)):
            raise InputError(f"its part {len(parts)} is not what a training writes")
        first += part.n_labels
        parts.append(part)
    return parts


def _source(value: Any) -> Source:
    """Return where a manifest says that data is, or refuse what no training writes."""
    source = Source(**value)
    _count(source.n_samples, "n_samples")
    told = source.options.values() if isinstance(source.options, dict) else [()]
    plain = all(isinstance(one, str | int | float | None) for each in told for one in _values(each))
    if not plain or not _is_text(source.digest) or not isinstance(source.path, str | None):
        raise InputError("it names training data in another way than a training does")
    return source


def _values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else [value]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise InputError(f"{name} is {str(value)[:40]!r}")
    return value


def _open_lock(path: Path) -> int:
    """Open a lock file, making it where there is none; a link or a pipe in its place is refused."""
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: a symbolic link, and links are not followed here") from error
        raise


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


def _leftover(entry: Path) -> bool:
    """Tell whether a killed training leaves such an entry before it has written the manifest."""
    return entry.name in (_LOCK, _MANIFEST_LOCK) or (
        entry.name.startswith(f".{MANIFEST}.") and entry.name.endswith(".part")
    )


def _lock(descriptor: int, *, shared: bool = False, patience: float = 0.0) -> bool:
    """Take the lock of an open file, or change it to a shared one, waiting for some seconds at most.

    Where the file system knows no locks, or the system no shared ones, go without.
    """
    end = time.monotonic() + patience
    while try_lock(descriptor, shared=shared) is False:
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True
