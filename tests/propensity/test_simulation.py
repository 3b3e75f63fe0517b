import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from unmissed.errors import InputError
from unmissed.propensity import Constant, Jain, drop_labels


def truth(n_samples=60, n_labels=9, seed=0, kind=sp.csr_matrix):
    marks = np.random.default_rng(seed).random((n_samples, n_labels)) < 0.5
    return kind(marks.astype(np.float32))


@given(st.integers(0, 2**32), st.lists(st.floats(0.01, 1), min_size=9, max_size=9))
def test_observed_labels_are_a_subset_of_the_true_labels_in_canonical_form(seed, p):
    Y = truth()
    left = drop_labels(Y, p, np.random.default_rng(seed))
    assert left.shape == Y.shape
    assert left.dtype == Y.dtype
    assert left.has_canonical_format
    assert ((Y - left).data >= 0).all()
    steps = np.diff(left.indices)
    row_ends = left.indptr[1:-1] - 1
    assert (np.delete(steps, row_ends[(row_ends >= 0) & (row_ends < steps.size)]) > 0).all()


def test_no_label_is_missing_at_p_one_and_no_memory_is_shared():
    Y = truth()
    left = drop_labels(Y, np.ones(9), np.random.default_rng(0))
    assert (left != Y).nnz == 0
    left.data[:] = 7
    assert (Y.data == 1).all()


@given(st.integers(0, 2**32), st.floats(0.1, 0.5), st.floats(0.5, 1))
def test_a_larger_propensity_keeps_a_superset_under_one_seed(seed, low, high):
    Y = truth()
    few, many = (drop_labels(Y, p, np.random.default_rng(seed)) for p in (low, high))
    assert few.multiply(many).nnz == few.nnz


def test_each_label_is_kept_as_often_as_its_propensity_says():
    n_samples, p = 40_000, np.array([0.1, 0.5, 0.9])
    Y = sp.csr_matrix(np.ones((n_samples, 3), dtype=np.float32))
    share = np.asarray(drop_labels(Y, p, np.random.default_rng(5)).mean(axis=0)).ravel()
    assert (np.abs(share - p) < 5 * np.sqrt(p * (1 - p) / n_samples)).all()


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_every_sparse_kind_gives_the_same_outcome(kind):
    expected = drop_labels(truth(), 0.5, np.random.default_rng(1)).toarray()
    np.testing.assert_array_equal(drop_labels(truth(kind=kind), 0.5, np.random.default_rng(1)).toarray(), expected)


def test_the_storage_order_of_labels_does_not_matter():
    Y = truth()
    jumbled = sp.csr_matrix((Y.data, Y.indices.copy(), Y.indptr), shape=Y.shape)
    for row in range(Y.shape[0]):
        jumbled.indices[Y.indptr[row] : Y.indptr[row + 1]] = Y.indices[Y.indptr[row] : Y.indptr[row + 1]][::-1]
    jumbled.has_canonical_format = jumbled.has_sorted_indices = False
    first, second = (drop_labels(M, 0.5, np.random.default_rng(2)) for M in (Y, jumbled))
    assert (first != second).nnz == 0


def test_a_dense_truth_and_stored_zeros_give_the_same_outcome():
    Y = truth()
    expected = drop_labels(Y, 0.5, np.random.default_rng(3)).toarray()
    np.testing.assert_array_equal(drop_labels(Y.toarray(), 0.5, np.random.default_rng(3)).toarray(), expected)
    everywhere = sp.csr_matrix(np.ones(Y.shape, dtype=np.float32))
    everywhere.data = Y.toarray().ravel()
    left = drop_labels(everywhere, 0.5, np.random.default_rng(3))
    np.testing.assert_array_equal(left.toarray(), expected)
    assert left.nnz == np.count_nonzero(expected)
    assert everywhere.nnz == Y.shape[0] * Y.shape[1]


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float64])
def test_the_dtype_of_labels_is_kept(dtype):
    for Y in (truth().astype(dtype), truth().toarray().astype(dtype)):
        assert drop_labels(Y, 0.5, np.random.default_rng(0)).dtype == dtype
    assert drop_labels([[1, 0], [1, 1]], 0.5, np.random.default_rng(0)).dtype == np.float32


def test_arrays_stay_arrays_and_matrices_matrices():
    assert isinstance(drop_labels(truth(kind=sp.csc_array), 0.5, np.random.default_rng(0)), sp.csr_array)
    assert isinstance(drop_labels(truth(kind=sp.coo_matrix), 0.5, np.random.default_rng(0)), sp.csr_matrix)


@pytest.mark.parametrize("odd", [2.0, -1.0, np.nan])
def test_a_truth_of_other_numbers_than_0_and_1_is_rejected(odd):
    with pytest.raises(InputError, match=f"Y holds {odd:g} in row 1"):
        drop_labels(np.array([[1, 0], [0, odd]]), 0.5, np.random.default_rng(0))


def test_a_seed_stands_for_its_generator():
    for p in (0.5, "constant:0.5", np.full(9, 0.5), Constant(0.5)):
        expected = drop_labels(truth(), 0.5, np.random.default_rng(7))
        assert (drop_labels(truth(), p, 7) != expected).nnz == 0
    assert 0 < drop_labels(truth(), 0.5, None).nnz < truth().nnz
    assert 0 < drop_labels(truth(), 0.5, np.random.RandomState(0)).nnz < truth().nnz
    for wrong in ("seven", -1, 0.5):
        with pytest.raises(InputError, match=f"rng is {wrong!r}; expected a seed"):
            drop_labels(truth(), 0.5, wrong)


def test_a_model_takes_its_counts_from_the_truth():
    Y = truth()
    p = Jain().estimate(np.asarray((Y != 0).sum(axis=0)).ravel(), Y.shape[0])
    assert p.min() < p.max()
    for model in ("jain", Jain()):
        assert (drop_labels(Y, model, 0) != drop_labels(Y, p, 0)).nnz == 0


def test_bad_propensities_are_rejected():
    with pytest.raises(InputError, match="has 2 labels, the data has 9"):
        drop_labels(truth(), [0.5, 0.5], np.random.default_rng(0))
    with pytest.raises(InputError, match="the propensity is 0"):
        drop_labels(truth(), 0.0, np.random.default_rng(0))


def test_each_cell_is_kept_as_often_as_its_own_propensity_says():
    Y = truth(n_samples=4, n_labels=3)
    p = sp.csr_matrix((np.linspace(0.05, 1, Y.nnz), Y.indices, Y.indptr), Y.shape)
    rng = np.random.default_rng(2)
    share = sum(drop_labels(Y, p, rng).toarray() for _ in range(4000)) / 4000
    assert np.abs(share - p.toarray()).max() < 5 * 0.5 / np.sqrt(4000)
    per_label = np.array([0.2, 0.5, 0.9])
    cells = Y.multiply(per_label[None, :])
    assert (drop_labels(Y, per_label, 7) != drop_labels(Y, cells, 7)).nnz == 0
    with pytest.raises(InputError, match="propensities has no value for a label of Y: row"):
        drop_labels(Y, cells.tocsr()[::-1], 7)
