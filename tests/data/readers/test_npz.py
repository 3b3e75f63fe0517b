"""scipy's files from anybody: every format is read, and nothing in them leads compiled code astray."""

import numpy as np
import pytest
from scipy import sparse

from unmissed.data import load
from unmissed.data.readers.npz import read_matrix
from unmissed.errors import InputError
from unmissed.matrices import check_X

DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 4], [0, 5, 6, 0]], np.float64)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
@pytest.mark.parametrize("compressed", [False, True])
def test_every_format_that_scipy_writes_is_read(tmp_path, form, kind, compressed):
    matrix = getattr(sparse, f"coo_{kind}")(DENSE).asformat(form)
    sparse.save_npz(tmp_path / "X.npz", matrix, compressed=compressed)
    np.testing.assert_array_equal(check_X(read_matrix(tmp_path / "X.npz")).toarray(), DENSE)


def parts(form):
    matrix = sparse.coo_matrix(DENSE).asformat(form)
    held = {"format": np.array(form.encode()), "shape": np.array(DENSE.shape), "data": matrix.data}
    names = {"coo": ("row", "col"), "dia": ("offsets",)}.get(form, ("indices", "indptr"))
    return held | {name: getattr(matrix, name) for name in names}


@pytest.mark.parametrize(
    ("form", "changes"),
    [
        ("csr", {"indptr": np.array([0, 10**8, 0, 0, 0])}),
        ("csr", {"indptr": np.array([0, 2, 2, 4, 5])}),
        ("csr", {"indptr": np.array([0, 0, 0, 0, 0])}),
        ("csr", {"indices": np.array([1, 3, 0, 3, 1, 4])}),
        ("csr", {"shape": np.array([4, 3])}),
        ("csr", {"shape": np.array([4])}),
        ("csr", {"shape": np.array([4, 4, 1])}),
        ("csr", {"shape": np.array([4.0, 4.0])}),
        ("csr", {"shape": np.array([-4, 4])}),
        ("csr", {"shape": np.array([4, 2**40])}),
        ("csr", {"format": np.array(b"xyz")}),
        ("csr", {"format": np.array("dok")}),
        ("csr", {"format": np.array([b"csr", b"csr"])}),
        ("csr", {"format": np.array(b"c\xff")}),
        ("csr", {"data": np.array(["a"] * 6)}),
        ("csr", {"indices": None}),
        ("csr", {"data": None}),
        ("csr", {"shape": None}),
        ("csr", {"format": None}),
        ("csc", {"indptr": np.array([0, 10**8, 0, 0, 0])}),
        ("bsr", {"data": np.zeros((6, 3, 1))}),
        ("bsr", {"data": np.zeros((6, 0, 0))}),
        ("coo", {"row": np.array([0, 0, 2, 2, 3, 10**8])}),
        ("coo", {"shape": np.array([2**31 - 1, 4])}),
        ("coo", {"shape": np.array([4, 2**31 - 1])}),
        ("dia", {"offsets": np.array([-(2**40), -1, 0, 1, 2, 3])[:5]}),
        ("dia", {"offsets": np.zeros(0, np.int32)}),
    ],
)
def test_a_file_that_lies_is_refused_by_its_name(tmp_path, form, changes):
    held = {name: array for name, array in (parts(form) | changes).items() if array is not None}
    np.savez(tmp_path / "X.npz", **held)
    sparse.save_npz(tmp_path / "Y.npz", sparse.csr_matrix((4, 1)))
    with pytest.raises(InputError, match=r"X\.npz"):
        load(f"{tmp_path}/X.npz,{tmp_path}/Y.npz")


def test_a_npy_under_the_name_of_a_npz_is_refused(tmp_path):
    with open(tmp_path / "X.npz", "wb") as stream:
        np.save(stream, DENSE)
    with pytest.raises(InputError, match=r"X\.npz: not a sparse matrix"):
        read_matrix(tmp_path / "X.npz")
