"""Dataset: the one form that features and labels have."""

import numpy as np
import pytest
from scipy import sparse

from unmissed.data import Dataset
from unmissed.errors import InputError

EYE = sparse.csr_matrix(np.eye(3, dtype=np.float32))


def test_any_sparse_matrix_becomes_canonical_float32_csr_and_stays_itself():
    X = sparse.coo_array((np.array([1.0, 2.0, 4.0]), ([0, 0, 1], [2, 0, 2])), shape=(2, 3))
    Y = sparse.csc_matrix(np.array([[True, False], [False, True]]))
    dataset = Dataset(X, Y)
    for matrix in (dataset.X, dataset.Y):
        assert type(matrix) is sparse.csr_matrix
        assert matrix.dtype == np.float32
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        assert matrix.has_canonical_format
    assert dataset.X.toarray().tolist() == [[2, 0, 1], [0, 0, 4]]
    assert X.dtype == np.float64


def test_unsorted_rows_and_duplicates_are_put_right_in_a_copy():
    X = sparse.csr_matrix((np.array([1, 2, 3], np.float32), [2, 0, 2], [0, 3]), shape=(1, 3))
    dataset = Dataset(X, EYE[:1])
    assert dataset.X.indices.tolist() == [0, 2]
    assert dataset.X.data.tolist() == [2, 4]
    assert X.indices.tolist() == [2, 0, 2]


def test_long_indices_become_int32():
    X = EYE.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    dataset = Dataset(X, EYE)
    assert dataset.X.indices.dtype == dataset.X.indptr.dtype == np.int32


def test_a_zero_in_Y_is_no_label():
    Y = sparse.csr_matrix((np.array([0.0, 1.0]), [0, 1], [0, 2]), shape=(1, 2))
    dataset = Dataset(EYE[:1], Y)
    assert dataset.Y.nnz == 1
    assert dataset.label_counts.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("X", "Y", "what"),
    [
        (EYE, EYE[:2], "X has 3 rows and Y has 2"),
        (EYE, EYE * 2, "Y holds 2 in row 0"),
        (EYE, EYE * np.nan, "Y holds nan in row 0"),
        (sparse.csr_matrix(np.array([[0.0, 1], [np.inf, 0]])), EYE[:2], "value in row 1"),
        (sparse.csr_matrix(np.array([[1e300]])), EYE[:1], "value in row 0"),
        (EYE.astype(np.complex64), EYE, "must hold numbers"),
        (np.zeros(3), EYE, "two dimensions"),
        (np.array([["a"]]), EYE, "must hold numbers"),
        (sparse.csr_matrix((2**31 + 5, 1)), EYE, "at most"),
    ],
)
def test_matrices_that_cannot_be_data_are_refused(X, Y, what):
    with pytest.raises(InputError, match=what):
        Dataset(X, Y)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_an_unsound_matrix_is_refused(form):
    X = EYE.asformat(form, copy=True)
    X.indices = np.array([0, 1, 7_000_000], np.int32)
    with pytest.raises(InputError, match="not a valid sparse matrix"):
        Dataset(X, EYE)


def test_names_must_be_as_many_as_columns():
    with pytest.raises(InputError, match="label_names has 2 entries; expected 3"):
        Dataset(EYE, EYE, label_names=["a", "b"])


def test_the_digest_tells_contents_apart_and_nothing_else():
    one = Dataset(EYE, EYE)
    long = EYE.copy()
    long.indices = long.indices.astype(np.int64)
    assert Dataset(long, EYE.astype(bool)).digest == one.digest
    changed = EYE.copy()
    changed.data = np.array([1, 1, 2], np.float32)
    others = [
        Dataset(changed, EYE),
        Dataset(EYE, EYE[::-1]),
        Dataset(EYE, EYE, label_names=["a", "b", "c"]),
        Dataset(EYE, EYE, feature_names=["a", "b", "c"]),
        Dataset(EYE, EYE, label_names=["a", "bc", ""]),
        Dataset(sparse.hstack([EYE, sparse.csr_matrix((3, 1))]), EYE),
    ]
    assert len({dataset.digest for dataset in [one, *others]}) == 7
