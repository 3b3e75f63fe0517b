"""CellPropensities: one propensity per observed positive of the training rows, as a sparse matrix."""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.losses.inverse import check_cells
from unmissed.matrices import canonical_csr
from unmissed.registry import Registry

_READERS: Registry[Any] = Registry("unmissed.cells", "reader", {"npz": "unmissed.data.readers.npz:read_matrix"})


class CellPropensities:
    """Propensities per cell, p = P(this label of this row is observed | it is true), for the training rows.

    They have no p per label, so `estimate` raises InputError: only models that declare it (`Model.cost_support`) train
    with them. Immutable; equal if their digests are.

    Parameters
    ----------
    values : sparse matrix, 0 < p <= 1 for every observed positive; or None to read them from `source` when needed
    source : path of the file, written by `scipy.sparse.save_npz`, that has them; "" if there is none
    digest : the digest of values that were not read yet
    """

    def __init__(self, values: Any, source: str | os.PathLike[str] = "", digest: str = "") -> None:
        self.source = os.path.abspath(source) if source else ""
        if values is not None:
            self.__dict__["matrix"] = _checked(values, self.source)
            digest = _digest(self.matrix)
        elif not isinstance(digest, str) or len(digest) != 64:
            raise InputError("propensities per cell have neither values nor a digest")
        self.digest = digest

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read them from a file."""
        return cls(_READERS.find("npz")(path), path)

    @classmethod
    def without_values(cls, values: sp.csr_matrix | None) -> Self | None:
        """Return what is left of checked values when they are not kept: their digest; None if there are none."""
        return None if values is None else cls(None, digest=_digest(values))

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """The propensities, canonical float64 CSR; read from the source if they were not given."""
        if not self.source:
            raise InputError("propensities per cell are not stored with a run; give them again (cells:FILE)")
        found = type(self).read(self.source)
        if found.digest != self.digest:
            raise InputError(f"{self.source}: holds other propensities than those of training")
        return found.matrix

    def estimate(self, label_counts: npt.ArrayLike, n_samples: float) -> npt.NDArray[np.float64]:
        """Raise InputError: there is no propensity per label."""
        raise InputError(
            "propensities per cell are those of training rows and give no propensity per label; name another one "
            "(--propensity jain)"
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return no parameters: a matrix is not searched."""
        return {}

    def __sklearn_clone__(self) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CellPropensities) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"CellPropensities({self.source or self.digest[:12]!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of a file instead of its matrix."""
        return CellPropensities, ((None, self.source, self.digest) if self.source else (self.matrix,))


def _checked(values: Any, source: str) -> sp.csr_matrix:
    name = source or "propensities per cell"
    cells = canonical_csr(values, name) if sp.issparse(values) else values
    return check_cells(cells, cells, name)


def _digest(matrix: sp.csr_matrix) -> str:
    """Return the SHA-256 of shape, indices and values."""
    state = hashlib.sha256(repr(tuple(map(int, matrix.shape))).encode())
    for array, dtype in ((matrix.indptr, "<i8"), (matrix.indices, "<i8"), (matrix.data, "<f8")):
        state.update(np.ascontiguousarray(array, np.dtype(dtype)).data)
    return state.hexdigest()
