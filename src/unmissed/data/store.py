"""The store: a data set as a folder of `.npy` files and a manifest, memory-mapped when opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.archive import open_arrays, read_manifest, write_archive
from unmissed.data.dataset import Dataset
from unmissed.data.names import pack_names, unpack_names
from unmissed.data.text import TextFeatures
from unmissed.errors import InputError
from unmissed.matrices import LARGEST, check_claims, check_dense, stored_csr

KIND = "data set"
_DENSE = "dense"
VERSION = 1
DENSE_VERSION = 2
"""The version of a store with a dense part."""
Arrays = Mapping[str, npt.NDArray[Any]]


def write_store(dataset: Dataset, path: str | os.PathLike[str], *, keep_same: bool = False) -> None:
    """Write a data set as a new folder, atomically.

    An existing folder raises InputError; with `keep_same`, a store with the same contents is kept.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, matrix in (("X", dataset.X), ("Y", dataset.Y)):
        arrays |= {f"{name}_data": matrix.data, f"{name}_indices": matrix.indices, f"{name}_indptr": matrix.indptr}
    for name in ("label_names", "label_titles", "feature_names"):
        arrays |= pack_names(name, getattr(dataset, name))
    if dataset.text is not None:
        arrays |= dataset.text.to_arrays(prefix="text_")
    if dataset.dense is not None:
        arrays[_DENSE] = dataset.dense
    dense: dict[str, Any] = {} if dataset.dense is None else {"n_dense": dataset.n_dense}
    write_archive(
        path,
        arrays,
        keep_same=keep_same,
        kind=KIND,
        version=VERSION if dataset.dense is None else DENSE_VERSION,
        n_samples=dataset.n_samples,
        n_features=dataset.n_features,
        **dense,
        n_labels=dataset.n_labels,
        n_unknown_labels=dataset.n_unknown_labels,
        digest=dataset.digest,
        text=None if dataset.text is None else dataset.text.options,
    )


def open_store(path: str | os.PathLike[str], *, verify: bool = False) -> Dataset:
    """Open a store as a data set with memory-mapped matrices.

    Indices, pointers and values are validated. With `verify`, the checksum of every file and the digest of the data set
    are compared, too.
    """
    manifest, arrays, (n_samples, n_features, n_labels) = _open(path, verify)
    with _damage_of(path):
        dense = _dense(manifest, arrays, n_samples)
        n_sparse = n_features - (0 if dense is None else dense.shape[1])
        dataset = Dataset(
            _matrix(arrays, "X", (n_samples, n_sparse)),
            _matrix(arrays, "Y", (n_samples, n_labels)),
            label_names=unpack_names("label_names", arrays),
            feature_names=unpack_names("feature_names", arrays),
            label_titles=unpack_names("label_titles", arrays),
            text=_text(path, manifest, arrays),
            n_unknown_labels=_count(manifest, "n_unknown_labels"),
            trusted=True,
            dense=dense,
        )
        digest = manifest["digest"]
        if not isinstance(digest, str) or (verify and dataset.digest != digest):
            raise InputError("its contents do not match its digest")
    vars(dataset)["digest"] = digest  # the value that the property would compute
    vars(dataset)["store"] = Path(path).absolute()
    return dataset


def open_labels(path: str | os.PathLike[str]) -> tuple[sparse.csr_matrix, list[str] | None, int]:
    """Return Y, the label names and `n_unknown_labels` of a store, without opening its features."""
    manifest, arrays, (n_samples, _, n_labels) = _open(path, False)
    with _damage_of(path):
        names = unpack_names("label_names", arrays)
        if names is not None and len(names) != n_labels:
            raise InputError(f"it names {len(names)} labels and has {n_labels}")
        return _matrix(arrays, "Y", (n_samples, n_labels)), names, _count(manifest, "n_unknown_labels")


def _open(path: str | os.PathLike[str], verify: bool) -> tuple[dict[str, Any], Arrays, tuple[int, int, int]]:
    """Return the manifest, the arrays and the sizes of a store."""
    manifest = read_manifest(path, KIND)
    if manifest.get("version") not in (VERSION, DENSE_VERSION):
        known = f"{VERSION} and {DENSE_VERSION}"
        raise InputError(f"{path}: a data set of version {manifest.get('version')!r}; this program reads {known}")
    arrays = open_arrays(path, manifest, verify=verify)
    with _damage_of(path):
        n_samples, n_features, n_labels = (_count(manifest, name) for name in ("n_samples", "n_features", "n_labels"))
        n_values = arrays["X_indices"].size + (arrays[_DENSE].size if _DENSE in arrays else 0)
        check_claims("it", n_values, features=n_features)
        check_claims("it", arrays["Y_indices"].size, labels=n_labels)
    return manifest, arrays, (n_samples, n_features, n_labels)


@contextmanager
def _damage_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the path of the store to errors."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"{path}: damaged: it has no {error}") from error
    except InputError as error:
        raise InputError(f"{path}: damaged: {error}") from error


def _count(manifest: Mapping[str, Any], name: str) -> int:
    value = manifest[name]
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise InputError(f"its manifest says {str(value)[:40]!r} for {name}")
    return value


def _matrix(arrays: Arrays, name: str, shape: tuple[int, int]) -> sparse.csr_matrix:
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return stored_csr(name, data, indices, indptr, shape, ones=name == "Y")


def _dense(manifest: Mapping[str, Any], arrays: Arrays, n_samples: int) -> npt.NDArray[Any] | None:
    """Return the dense part; raise InputError if it is not what the manifest says."""
    if manifest["version"] == VERSION:
        return None
    dense, shape = arrays[_DENSE], (n_samples, _count(manifest, "n_dense"))
    if dense.dtype not in (np.float16, np.float32) or dense.shape != shape or shape[1] > _count(manifest, "n_features"):
        raise InputError(
            f"its dense part is {dense.dtype} of shape {dense.shape}; expected float16 or float32, {shape}"
        )
    return check_dense(dense, "the dense part", keep_half=True)


def _text(path: str | os.PathLike[str], manifest: Mapping[str, Any], arrays: Arrays) -> TextFeatures | None:
    options = manifest["text"]
    return None if options is None else TextFeatures.from_arrays(options, arrays, str(path), prefix="text_")
