"""The dense part of a data set, such as embeddings: an array or a memory-mapped `.npy` file, one line per row."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from unmissed.data.dataset import Dataset
from unmissed.errors import InputError
from unmissed.files import open_npy
from unmissed.matrices import check_dense

if TYPE_CHECKING:
    from unmissed.data.text import TextFeatures

Dense = str | os.PathLike[str] | npt.ArrayLike
"""The path of a `.npy` file, or an array."""


def read_dense(dense: Dense) -> npt.NDArray[Any]:
    """Return a validated dense part, float32 or float16; a file is memory-mapped and must not hold pickles."""
    if isinstance(dense, str | os.PathLike):
        return check_dense(open_npy(dense, "a .npy file of numbers"), str(dense), keep_half=True)
    return check_dense(dense, "the dense part", keep_half=True)


def add_dense(dataset: Dataset, dense: Dense, where: str) -> Dataset:
    """Return a data set, which was read at `where`, with a dense part; raise if it has one or rows differ."""
    if dataset.dense is not None:
        raise InputError(f"{where}: has {dataset.n_dense} dense features already; give no others")
    part = read_dense(dense)
    check_number_of_rows(part, dense, dataset.n_samples, where)
    return dataset.with_dense(part)


def check_one_source(text: TextFeatures, dense: Dense | None, where: str) -> None:
    """Raise InputError if a training set at `where` is given dense features, and an encoder that computes others."""
    if dense is not None and text.encoder is not None:
        raise InputError(f"{where}: gets dense features and an encoder; give one of them (--dense or --encoder)")


def check_number_of_rows(part: npt.NDArray[Any], dense: Dense, n_samples: int, where: str) -> None:
    """Raise InputError unless a dense part, read from `dense`, has one row for each row of the data at `where`."""
    if part.shape[0] != n_samples:
        name = str(dense) if isinstance(dense, str | os.PathLike) else "the dense part"
        raise InputError(f"{name}: has {part.shape[0]} rows; {where} has {n_samples}")


def check_dense_part(where: str, n_dense: int, like: Dataset) -> None:
    """Raise InputError unless the data at `where` has as many dense features as the training set."""
    if n_dense != like.n_dense:
        advice = "; give them (--dense)" if not n_dense else ""
        raise InputError(f"{where}: has {n_dense} dense features; the training set has {like.n_dense}{advice}")
