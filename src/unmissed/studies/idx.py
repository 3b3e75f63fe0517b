"""Reader of the IDX files of MNIST, and the small digits of scikit-learn."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unmissed.errors import InputError
from unmissed.files import open_regular

_MOST_AXES = 8
_DEFLATED = 1032  # maximum compression ratio of gzip
_BYTES = 0x08  # the IDX type code of unsigned bytes, the only one in MNIST
_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_digits": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_digits": "t10k-labels-idx1-ubyte",
}


class Digits(NamedTuple):
    """Training and test images as float32 rows in [0, 1], with their digits."""

    name: str
    train_images: npt.NDArray[np.float32]
    train_digits: npt.NDArray[np.uint8]
    test_images: npt.NDArray[np.float32]
    test_digits: npt.NDArray[np.uint8]

    @property
    def digest(self) -> str:
        """A digest of all images and digits."""
        digest = hashlib.sha256()
        for array in (self.train_images, self.train_digits, self.test_images, self.test_digits):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, gzipped or not."""
    with open_regular(path) as stream:
        packed = path.suffix == ".gz"
        most = os.fstat(stream.fileno()).st_size * (_DEFLATED if packed else 1)
        try:
            with gzip.GzipFile(fileobj=stream) if packed else nullcontext(stream) as content:
                return _read_idx(path, content, most)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: not a whole {'gzip ' if packed else ''}file: {error}") from error


def _read_idx(path: Path, stream: Any, most: int) -> npt.NDArray[np.uint8]:
    """Read an IDX array from a stream of at most `most` bytes."""
    head = stream.read(4)
    if len(head) < 4 or head[0] != 0 or head[1] != 0:
        raise InputError(f"{path}: not an idx file (it must begin with two zero bytes)")
    if head[2] != _BYTES:
        raise InputError(f"{path}: holds idx type 0x{head[2]:02x}; unsigned bytes (0x08) were expected")
    n_axes = head[3]
    sizes = stream.read(4 * n_axes)
    if n_axes == 0 or len(sizes) < 4 * n_axes:
        raise InputError(f"{path}: its idx header is cut short")
    if n_axes > _MOST_AXES:
        raise InputError(f"{path}: its idx header says {n_axes} axes; at most {_MOST_AXES} were expected")
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    wanted = math.prod(shape)
    raw = stream.read(wanted + 1) if wanted <= most else b""
    if len(raw) != wanted:
        raise InputError(
            f"{path}: its header says {shape}, {wanted} bytes; it has {'more' if len(raw) > wanted else len(raw)}"
        )
    return np.frombuffer(raw, np.uint8).reshape(shape)


def read_mnist(folder: Path) -> Digits:
    """Read MNIST from a folder with its four idx files."""
    arrays: dict[str, Any] = {name: read_idx(_find(folder, stem)) for name, stem in _FILES.items()}
    for part in ("train", "test"):
        images, digits = arrays[f"{part}_images"], arrays[f"{part}_digits"]
        if images.ndim != 3 or digits.ndim != 1 or len(images) != len(digits) or not len(images):
            raise InputError(f"{folder}: {part} images {images.shape} and labels {digits.shape} do not fit together")
        if digits.max() > 9:
            raise InputError(f"{folder}: a {part} label is {digits.max()}; digits 0 to 9 were expected")
        arrays[f"{part}_images"] = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
    if arrays["train_images"].shape[1] != arrays["test_images"].shape[1]:
        raise InputError(f"{folder}: training and test images differ in size")
    return Digits("MNIST", **arrays)


def embedded_digits() -> Digits:
    """Return scikit-learn's 1,797 digits of 8 x 8 pixels; every fifth one is a test row."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    images, digits = images.astype(np.float32) / np.float32(16), digits.astype(np.uint8)
    test = np.arange(len(digits)) % 5 == 0
    return Digits("scikit-learn digits", images[~test], digits[~test], images[test], digits[test])


def _find(folder: Path, stem: str) -> Path:
    for name in (stem, f"{stem}.gz"):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder}: has neither {stem} nor {stem}.gz")
