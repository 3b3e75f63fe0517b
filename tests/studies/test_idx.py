"""Reading MNIST's files, and refusing what only looks like them."""

import gzip
import struct

import numpy as np
import pytest

from unmissed.errors import InputError
from unmissed.studies.idx import embedded_digits, read_idx, read_mnist

STEMS = [
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
]


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder, *, zipped=False, rows=(30, 10), side=4, seed=0):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for (images, digits), n in zip(STEMS, rows, strict=True):
        parts = {
            images: rng.integers(0, 256, (n, side, side), dtype=np.uint8),
            digits: rng.integers(0, 10, n, dtype=np.uint8),
        }
        for stem, array in parts.items():
            raw = idx(array)
            path = folder / (f"{stem}.gz" if zipped else stem)
            path.write_bytes(gzip.compress(raw) if zipped else raw)
    return folder


def test_zipped_and_plain_files_give_the_same_digits(tmp_path):
    plain = read_mnist(write_mnist(tmp_path / "plain"))
    zipped = read_mnist(write_mnist(tmp_path / "zipped", zipped=True))
    assert plain.digest == zipped.digest
    assert plain.train_images.shape == (30, 16)
    assert plain.train_images.dtype == np.float32
    assert plain.train_images.max() <= 1 < plain.train_images.max() * 255
    assert plain.digest != read_mnist(write_mnist(tmp_path / "other", seed=1)).digest


def test_bytes_come_back_in_their_shape(tmp_path):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(idx(array))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), array)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "two zero bytes"),
        (b"P5 28", "two zero bytes"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "0x0d"),
        (bytes([0, 0, 8, 3, 0, 0]), "cut short"),
        (bytes([0, 0, 8, 0]), "cut short"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2]), "it has 2"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 1, 1, 2]), "it has more"),
        (bytes([0, 0, 8, 64, *[0, 0, 0, 1] * 64, 7]), "64 axes"),
        (bytes([0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255]), "it has 0"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name_and_the_reason(tmp_path, raw, reason):
    path = tmp_path / "odd"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=reason) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_cut_gzip_file_is_refused(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(idx(np.zeros(2000, np.uint8)))[:-9])
    with pytest.raises(InputError, match="gzip"):
        read_idx(path)


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    folder = write_mnist(tmp_path / "a")
    (folder / STEMS[0][1]).write_bytes(idx(np.zeros(29, np.uint8)))
    with pytest.raises(InputError, match="do not fit"):
        read_mnist(folder)
    (folder / STEMS[0][1]).write_bytes(idx(np.full(30, 10, np.uint8)))
    with pytest.raises(InputError, match="label is 10"):
        read_mnist(folder)
    (folder / STEMS[0][1]).unlink()
    with pytest.raises(InputError, match="neither"):
        read_mnist(folder)
    other = write_mnist(tmp_path / "b")
    (other / STEMS[1][0]).write_bytes(idx(np.zeros((10, 5, 5), np.uint8)))
    with pytest.raises(InputError, match="differ in size"):
        read_mnist(other)


def test_the_embedded_digits_are_split_without_overlap():
    digits = embedded_digits()
    assert len(digits.train_digits) + len(digits.test_digits) == 1797
    assert set(digits.test_digits) == set(range(10))
    assert 0 <= digits.train_images.min() < digits.train_images.max() == 1
