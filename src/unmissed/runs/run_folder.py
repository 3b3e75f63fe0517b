"""RunFolder: layout, manifest and locks of a run's folder."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unmissed._version import __version__
from unmissed.archive import MANIFEST, below, open_arrays, read_manifest, write_manifest
from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Pieces
from unmissed.matrices import LARGEST
from unmissed.runs.recipe import Recipe
from unmissed.runs.replacing import recover, standing
from unmissed.settings import SETTINGS
from unmissed.writing import is_at, make_folder, try_lock

KIND = "run"
LABELS_KIND = "labels of a run"
FEATURES_KIND = "features of a run"
VERSION = 1
DENSE_VERSION = 2
"""The version of a run whose features have a dense part."""
_LOCK = ".lock"
_MANIFEST_LOCK = ".manifest.lock"
_TRAINING, _COMPLETE = "training", "complete"


@dataclass(frozen=True)
class Source:
    """Training data of a part: its path (None if it was in memory), digest and number of rows.

    `options` are those of `unmissed.data.load`. `extend` and `update` read it again and compare the digest.
    """

    path: str | None
    digest: str
    n_samples: int
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: Dataset) -> Source:
        """Return the source of a data set."""
        path, options = (None, {}) if dataset.origin is None else dataset.origin
        return cls(path, dataset.source_digest, dataset.n_samples, options)


@dataclass(frozen=True)
class RunPart:
    """Labels that were trained together: those of `train`, then those of each `extend`.

    Parameters
    ----------
    first, n_labels : first label and number of labels
    n_samples : number of training rows
    digest : digest of the training data
    status : "training" or "complete"
    versions : versions of the software that worked on the part
    sources : where the training data was read; may be empty
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

    def completed(self) -> RunPart:
        """Return this part with the status complete."""
        return replace(self, status=_COMPLETE)

    def joined_by(self, versions: dict[str, str]) -> RunPart:
        """Return this part with further versions of the software that works on it."""
        return self if versions in self.versions else replace(self, versions=[*self.versions, versions])


@dataclass(frozen=True)
class CalibrationEntry:
    """The calibration of a run.

    Parameters
    ----------
    name : the folder of its pieces below `calibrations/`
    n_samples : number of rows of which the folds were made
    n_labels : number of labels that the run had; labels that `extend` added later are not calibrated
    n_folds, seed : options of `calibrate`; None is the default number of folds
    groups : what was held out together: "nearly equal rows", "given groups", or "column NAME"
    """

    name: str
    n_samples: int
    n_labels: int
    n_folds: int | None = None
    seed: int = 0
    groups: str = "nearly equal rows"


@dataclass(frozen=True)
class Manifest:
    """The content of a run's `manifest.json`; `calibration` is None if the run has no probabilities."""

    recipe: Recipe
    n_features: int
    parts: list[RunPart]
    n_dense: int = 0
    calibration: CalibrationEntry | None = None

    @property
    def version(self) -> int:
        """The version of the format: programs that do not know a dense part refuse a run that has one."""
        return DENSE_VERSION if self.n_dense else VERSION

    def with_last(self, part: RunPart) -> Manifest:
        """Return the manifest with its last part replaced."""
        return replace(self, parts=[*self.parts[:-1], part])


class RunFolder:
    """The folder of a run.

    It has `manifest.json`, `pieces/`, `labels/`, `text/` or `features/`, and perhaps `vocabulary/`, `calibrations/`,
    `layouts/` and `rows/`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def text(self) -> Path:
        """The folder of the text features."""
        return below(self.path, "text")

    @property
    def features(self) -> Path:
        """The folder of the feature names, if features are not made from text."""
        return below(self.path, "features")

    @property
    def vocabulary(self) -> Path:
        """The folder of the vocabulary, if labels stand for its concepts."""
        return below(self.path, "vocabulary")

    def labels(self, first: int) -> Path:
        """Return the folder with names and counts of the part whose first label is `first`."""
        return below(self.path, f"labels/{first:08d}")

    def rows(self, digest: str) -> Path:
        """Return the folder of the training rows with this digest, if the run keeps them; that of all rows for ""."""
        return below(self.path, f"rows/{digest[:16]}")

    @property
    def work(self) -> Path:
        """The folder of the model's pieces."""
        return below(self.path, "pieces")

    @property
    def layouts(self) -> Path:
        """The folder of the layouts that ranking prepares; it can be removed at any time."""
        return below(self.path, "layouts")

    def calibration(self, name: str) -> Path:
        """Return the folder of the pieces of a calibration."""
        return below(self.path, f"calibrations/{name}")

    def is_new(self) -> bool:
        """Return whether the folder has no run yet; raise if it holds other files."""
        if (self.path / MANIFEST).is_file():
            return False
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; expected the folder of a run, or a new name")
        other = [e.name for e in self.path.iterdir() if not _leftover(e)] if self.path.is_dir() else []
        if other:
            raise InputError(f"{self.path}: holds {sorted(other)[0]!r} and is not a run; choose another folder")
        return True

    def read(self, *, verify: bool = False) -> Manifest:
        """Return the manifest; with `verify`, raise if it has no checksum."""
        value = read_manifest(self.path, KIND)
        version = value.get("version")
        if version not in (VERSION, DENSE_VERSION):
            known = f"{VERSION} and {DENSE_VERSION}"
            raise InputError(f"{self.path}: a run of version {version!r}; this program reads {known}")
        try:
            if verify:
                open_arrays(self.path, {"arrays": {}, **value}, verify=True)  # requires the checksum
            n_features = _count(value["n_features"], "n_features")
            n_dense = _count(value["n_dense"], "n_dense") if version == DENSE_VERSION else 0
            if n_dense > n_features:
                raise InputError(f"n_dense is {n_dense} of {n_features} features")
            calibration = _calibration(value.get("calibration"))
            return Manifest(Recipe.from_json(value["recipe"]), n_features, _parts(value["parts"]), n_dense, calibration)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self.path / MANIFEST}: damaged: {error}") from error

    def write(self, manifest: Manifest) -> None:
        """Write the manifest under a temporary name and rename it."""
        value = {
            "kind": KIND,
            "version": manifest.version,
            "recipe": manifest.recipe.to_json(),
            "n_features": manifest.n_features,
            **({"n_dense": manifest.n_dense} if manifest.n_dense else {}),
            "parts": [asdict(part) for part in manifest.parts],
            **({} if manifest.calibration is None else {"calibration": asdict(manifest.calibration)}),
        }
        write_manifest(self.path, value)

    @contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Hold the lock of the folder, exclusive or shared; the system releases it when the process ends.

        Partitions of one training take the shared lock. A process that gets the exclusive lock first removes temporary
        files of killed processes.
        """
        descriptor, held = self._lock_standing()
        try:
            if held:
                recover(self.path)
                self.clean()
            if shared:
                held = _lock(
                    descriptor, shared=True, patience=SETTINGS.lock_seconds
                )  # another partition may be cleaning up
            if not held:
                raise InputError(f"{self.path}: another process is training into this run; wait for it, or stop it")
            yield
        finally:
            os.close(descriptor)

    def _lock_standing(self) -> tuple[int, bool]:
        """Open the lock file of the run that currently has this name, and try to lock it."""
        while True:
            position = standing(self.path)
            make_folder(position)
            descriptor = _open_lock(position / _LOCK)
            held = _lock(descriptor)
            if is_at(descriptor, position / _LOCK):
                return descriptor, held
            os.close(descriptor)  # the run was replaced in the meantime

    @contextmanager
    def manifest_lock(self) -> Iterator[None]:
        """Hold the lock of the manifest against other partitions; waits until it is free."""
        descriptor = _open_lock(self.path / _MANIFEST_LOCK)
        try:
            _lock(descriptor, patience=float("inf"))
            yield
        finally:
            os.close(descriptor)

    def clean(self) -> None:
        """Remove temporary files of killed processes; the caller holds the exclusive lock."""
        for position in (self.path, below(self.path, "labels")):
            for entry in position.glob(".*.part"):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        for folder in (self.work, below(self.path, "calibrations"), self.layouts):
            OnDisk(folder).clean()

    def drop_calibrations(self, kept: str | None) -> None:
        """Remove the pieces of all calibrations but one; the caller holds the exclusive lock."""
        root = below(self.path, "calibrations")
        for folder in sorted(root.iterdir()) if root.is_dir() else []:
            if folder.name != kept and folder.is_dir():
                aside = folder.with_name(f".{folder.name}.part")  # `clean` removes it if we are killed here
                os.rename(folder, aside)
                shutil.rmtree(aside)

    def roll_back(self, before: Manifest | None, part: RunPart) -> None:
        """Restore an earlier manifest, or an empty folder; the caller holds the exclusive lock."""
        every = [self.text, self.features, self.vocabulary, below(self.path, "labels")]
        gone = every if before is None else [self.labels(part.first)]
        for position in gone:
            if position.exists():
                aside = position.with_name(f".{position.name}.part")  # `clean` removes it if we are killed here
                os.rename(position, aside)
                shutil.rmtree(aside)
        if before is None:
            (self.path / MANIFEST).unlink()
        else:
            self.write(before)

    def pieces(self, *, verify: bool = False) -> Pieces:
        """Return the model's pieces, memory-mapped on first use; `verify` compares checksums."""
        return OnDisk(self.work, verify=verify, layouts=self.layouts)

    def n_finished(self) -> int:
        """Return the number of finished pieces."""
        return len(OnDisk(self.work).listed())

    def n_bytes(self) -> int:
        """Return the total size of all files."""
        return sum(entry.stat().st_size for entry in self.path.rglob("*") if entry.is_file())


def _parts(value: Any) -> list[RunPart]:
    """Return the parts of a manifest; raise unless they cover the labels without gaps."""
    if not isinstance(value, list) or not value:
        raise InputError("it lists no parts")
    parts: list[RunPart] = []
    first = 0
    for entry in value:
        part = RunPart(**{**entry, "sources": [_source(one) for one in entry.get("sources", [])]})
        for name in ("first", "n_labels", "n_samples"):
            _count(getattr(part, name), name)
        version_strings = [one for each in part.versions for one in (*each, *each.values())]
        strings = [part.status, "" if part.digest is None else part.digest, *version_strings]
        if part.first != first or part.status not in (_TRAINING, _COMPLETE) or not all(map(_is_text, strings)):
            raise InputError(f"part {len(parts)} is invalid")
        first += part.n_labels
        parts.append(part)
    return parts


def _calibration(value: Any) -> CalibrationEntry | None:
    """Return the entry of a calibration in a manifest; raise if it is invalid."""
    if value is None:
        return None
    entry = CalibrationEntry(**value)
    for name in ("n_samples", "n_labels", "seed", *(() if entry.n_folds is None else ("n_folds",))):
        _count(getattr(entry, name), name)
    if not _is_text(entry.groups) or not _is_text(entry.name) or not re.fullmatch("[0-9a-f]{16}", entry.name):
        raise InputError("its calibration is invalid")
    return entry


def _source(value: Any) -> Source:
    """Return a source of a manifest; raise if it is invalid."""
    source = Source(**value)
    _count(source.n_samples, "n_samples")
    options = dict(source.options) if isinstance(source.options, dict) else {"": ()}
    ids = options.pop("without", [])
    are_scalars = all(isinstance(one, str | int | float | None) for each in options.values() for one in _values(each))
    if (
        not isinstance(ids, list)
        or not all(map(_is_text, ids))
        or not are_scalars
        or not _is_text(source.digest)
        or not isinstance(source.path, str | None)
    ):
        raise InputError("a source of training data is invalid")
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
    """Open or create a lock file; raise if it is a symbolic link."""
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: a symbolic link, and links are not followed here") from error
        raise


def versions() -> dict[str, str]:
    """Return the versions of the software that can change a result."""
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
    """Return whether a training that is killed before it writes the manifest leaves this entry."""
    return entry.name in (_LOCK, _MANIFEST_LOCK) or (
        entry.name.startswith(f".{MANIFEST}.") and entry.name.endswith(".part")
    )


def _lock(descriptor: int, *, shared: bool = False, patience: float = 0.0) -> bool:
    """Lock an open file, exclusive or shared; return False if that is not possible within `patience` seconds.

    Without support for locks by the file system or the operating system, the file counts as locked.
    """
    end = time.monotonic() + patience
    while try_lock(descriptor, shared=shared) is False:
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True
