"""The store: a data set as a folder of `.npy` files and a manifest, opened memory-mapped."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.archive import open_arrays, read_manifest, write_archive
from unmissed.data.dataset import Dataset
from unmissed.data.names import pack_names, unpack_names
from unmissed.data.text import TextFeatures
from unmissed.errors import InputError
from unmissed.matrices import assemble

KIND = "data set"
VERSION = 1


def write_store(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as a new folder; it appears whole or not at all."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, matrix in (("X", dataset.X), ("Y", dataset.Y)):
        arrays |= {f"{name}_data": matrix.data, f"{name}_indices": matrix.indices, f"{name}_indptr": matrix.indptr}
    for name in ("label_names", "label_titles", "feature_names"):
        arrays |= pack_names(name, getattr(dataset, name))
    if dataset.text is not None:
        arrays |= dataset.text.to_arrays(prefix="text_")
    write_archive(
        path,
        arrays,
        kind=KIND,
        version=VERSION,
        n_samples=dataset.n_samples,
        n_features=dataset.n_features,
        n_labels=dataset.n_labels,
        n_unknown_labels=dataset.n_unknown_labels,
        digest=dataset.digest,
        text=None if dataset.text is None else dataset.text.options,
    )


def open_store(path: str | os.PathLike[str], *, verify: bool = False) -> Dataset:
    """Open a data set's folder; matrices stay on the disk and are read where they are looked at.

    With `verify` every file is compared with its checksum first.
    """
    manifest = read_manifest(path, KIND)
    if manifest.get("version") != VERSION:
        raise InputError(f"{path}: a data set of version {manifest.get('version')!r}; this program reads {VERSION}")
    try:
        arrays = open_arrays(path, manifest, verify=verify)
        n_samples, n_features, n_labels = (int(manifest[name]) for name in ("n_samples", "n_features", "n_labels"))
        dataset = Dataset(
            _matrix(path, arrays, "X", (n_samples, n_features)),
            _matrix(path, arrays, "Y", (n_samples, n_labels)),
            label_names=unpack_names("label_names", arrays),
            feature_names=unpack_names("feature_names", arrays),
            label_titles=unpack_names("label_titles", arrays),
            text=_text(path, manifest, arrays),
            n_unknown_labels=int(manifest["n_unknown_labels"]),
            trusted=True,
        )
        vars(dataset)["digest"] = str(manifest["digest"])  # what the property would compute
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: the manifest is damaged: {error!r}") from error
    return dataset


def _matrix(
    path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, int]
) -> sparse.csr_matrix:
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    sound = (
        data.dtype == np.float32
        and indices.dtype == indptr.dtype
        and indices.dtype in (np.dtype(np.int32), np.dtype(np.int64))
        and indptr.shape == (shape[0] + 1,)
        and data.shape == indices.shape == (int(indptr[-1]),)
    )
    if not sound:
        raise InputError(f"{path}: the arrays of {name} do not make a matrix of shape {shape}")
    return assemble(data, indices, indptr, shape)


def _text(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> TextFeatures | None:
    options = manifest.get("text")
    return None if options is None else TextFeatures.from_arrays(options, arrays, str(path), prefix="text_")
