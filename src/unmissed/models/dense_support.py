"""DenseSupport: what a family of models does with the dense part of X, and what that costs."""

from __future__ import annotations

from enum import Enum

from unmissed.errors import InputError
from unmissed.execution import machine_bytes
from unmissed.features import Features

_MEGABYTE = 1e6


class DenseSupport(Enum):
    """What a model does with dense features.

    Attributes
    ----------
    NATIVE : it reads the dense part, or no features at all
    CONVERTED : it converts the dense part to sparse features and trains on these and the sparse part
    ONE_PART : it converts a dense part without a sparse one, and refuses mixed features
    """

    NATIVE = "native"
    CONVERTED = "converted"
    ONE_PART = "one part"

    def check(self, name: str, X: Features) -> str | None:
        """Raise InputError if the model called `name` cannot train on X; return what `conversion` returns."""
        if X.is_mixed and self is DenseSupport.ONE_PART:
            raise InputError(
                f"X has {X.n_sparse} sparse and {X.n_dense} dense features; {name} takes one kind only: "
                "leave one out, or choose another method"
            )
        note = self.conversion(name, X)
        if note is not None and 0 < machine_bytes() < X.csr_bytes:
            raise InputError(
                f"{note}, and this machine has {machine_bytes() / _MEGABYTE:,.0f} MB; choose a method that takes dense "
                "features as they are, such as DiSMEC, or fewer rows"
            )
        return note

    def conversion(self, name: str, X: Features) -> str | None:
        """Return the memory that converting the dense part takes, as a sentence; None if it takes less than 1 MB."""
        if self is DenseSupport.NATIVE or X.csr_bytes < _MEGABYTE:
            return None
        return (
            f"{name} converts {X.n_dense:,} dense features of {X.shape[0]:,} rows to sparse ones, "
            f"which takes up to {X.csr_bytes / _MEGABYTE:,.0f} MB"
        )
