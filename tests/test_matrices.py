"""What becomes a matrix here, and what is refused before compiled code could follow it out of bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from unmissed.errors import InputError
from unmissed.losses import named
from unmissed.matrices import canonical_csr, check_X, check_Y, rises
from unmissed.metrics import evaluate
from unmissed.models import DiSMEC
from unmissed.propensity import drop_labels
from unmissed.ranking import Ranking

FORMATS = ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"]
MADE = ["csr", "csc", "bsr", "coo", "dia"]


def example(form, kind="matrix", dtype=np.float64):
    dense = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 4], [0, 5, 6, 0]], dtype)
    matrix = getattr(sparse, f"coo_{kind}")(dense)
    return matrix.tobsr((2, 2)) if form == "bsr" else matrix.asformat(form), dense


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["matrix", "array"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.uint64, np.longdouble])
def test_every_format_becomes_the_same_canonical_matrix(form, kind, dtype):
    matrix, dense = example(form, kind, dtype)
    X = check_X(matrix)
    assert type(X) is sparse.csr_matrix
    assert X.dtype == np.float32
    assert X.indices.dtype == X.indptr.dtype == np.int32
    again = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
    assert again.has_canonical_format  # newly computed, not what assemble claims
    np.testing.assert_array_equal(X.toarray(), dense)
    kept = canonical_csr(matrix, "X")
    assert kept.dtype == matrix.dtype
    np.testing.assert_array_equal(kept.toarray(), dense)


def test_a_canonical_matrix_is_not_copied_and_may_be_read_only():
    X = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    for part in (X.data, X.indices, X.indptr):
        part.setflags(write=False)
    assert np.shares_memory(check_X(X).data, X.data)
    assert np.shares_memory(check_X(X).indices, X.indices)


def test_a_flag_that_claims_sorted_rows_is_not_believed():
    X = sparse.csr_matrix((np.array([1, 2, 4], np.float32), [2, 0, 2], [0, 3]), shape=(1, 3))
    X.has_sorted_indices = X.has_canonical_format = True
    assert check_X(X).indices.tolist() == [0, 2]
    assert check_X(X).data.tolist() == [2, 5]
    assert X.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_a_part_of_two_dimensions_is_refused_also_where_nothing_is_converted(part):
    matrix = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    setattr(matrix, part, np.atleast_2d(getattr(matrix, part)))
    with pytest.raises(InputError, match="X"):
        check_X(matrix)


@given(st.data())
def test_diagonals_and_blocks_are_read_as_scipy_reads_them(data):
    draw = data.draw
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    offsets = draw(st.lists(st.integers(-8, 8), max_size=4, unique=True))
    values = np.arange(1, 1 + len(offsets) * 7, dtype=np.float64).reshape(len(offsets), 7)
    diagonals = sparse.dia_matrix((values, offsets), shape=(rows, columns))
    np.testing.assert_array_equal(check_X(diagonals).toarray(), diagonals.toarray())
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dense = np.kron(diagonals.toarray(), np.arange(height * width).reshape(height, width))
    np.testing.assert_array_equal(check_X(sparse.bsr_matrix(dense, blocksize=(height, width))).toarray(), dense)


def test_half_floats_are_widened_and_foreign_byte_orders_read():
    X = sparse.csr_matrix(np.eye(2, dtype=np.float32))
    X.data = X.data.astype(np.float16)
    assert check_X(X).toarray().tolist() == [[1, 0], [0, 1]]
    X.data, X.indices = np.array([1.0, 2.0], ">f8"), X.indices.astype(">i4")
    assert check_X(X).toarray().tolist() == [[1, 0], [0, 2]]
    assert check_X(np.eye(2, dtype=np.float16)).nnz == 2


def test_spare_capacity_is_dropped():
    X = sparse.csr_matrix(np.eye(2, dtype=np.float32))
    X.data, X.indices = np.array([1, 2, 9], np.float32), np.array([0, 1, 700], np.int32)
    assert check_X(X).toarray().tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo"])
def test_a_negative_index_of_few_bits_is_refused_though_it_reads_as_a_small_unsigned_number(form, dtype):
    size = 2 ** (8 * np.dtype(dtype).itemsize) + 50
    wide = sparse.coo_matrix(([1.0], ([0], [0])), shape=(size, size)).asformat(form)
    name = "row" if form == "coo" else "indices"
    setattr(wide, name, getattr(wide, name).astype(dtype))
    assert check_X(wide).nnz == 1
    setattr(wide, name, np.array([-1], dtype))
    with pytest.raises(InputError, match="it holds the index -1"):
        check_X(wide)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_indices_and_pointers_of_any_integer_dtype_are_read(form, dtype):
    matrix, dense = example(form)
    matrix.indices, matrix.indptr = matrix.indices.astype(dtype), matrix.indptr.astype(dtype)
    np.testing.assert_array_equal(check_X(matrix).toarray(), dense)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_pointers_whose_differences_overflow_are_not_sorted(dtype):
    wild = np.array([0, np.iinfo(dtype).max, -2, 5], dtype)
    assert (np.diff(wild) >= 0).all(), "this is what differences say"
    assert not rises(wild)
    assert not rises(wild, strictly=True)
    assert rises(np.array([0, 2, 2, 5], dtype))
    assert not rises(np.array([0, 2, 2, 5], dtype), strictly=True)
    assert rises(np.zeros(0, dtype), strictly=True)


def broken(form, **parts):
    matrix, _ = example(form)
    for name, value in parts.items():
        setattr(matrix, name, value)
    return matrix


def wide(form, shape):
    matrix, _ = example(form)
    matrix._shape = shape
    return matrix


BROKEN = {
    "csr index": broken("csr", indices=np.array([1, 3, 0, 3, 1, 10**8], np.int32)),
    "csr negative index": broken("csr", indices=np.array([1, 3, 0, -3, 1, 2], np.int32)),
    "csr long negative index": broken("csr", indices=np.array([1, 3, 0, -(2**40), 1, 2], np.int64)),
    "csr unsigned index": broken("csr", indices=np.array([1, 3, 0, 2**63 + 1, 1, 2], np.uint64)),
    "csr float indices": broken("csr", indices=np.array([1, 3, 0, 3, 1, 2], np.float32)),
    "csr no indices": broken("csr", indices=np.zeros(0, np.int32)),
    "csr values too few": broken("csr", data=np.ones(5)),
    "csr values of two axes": broken("csr", data=np.ones((6, 1))),
    "csr pointers too few": broken("csr", indptr=np.array([0, 6], np.int32)),
    "csr no pointers": broken("csr", indptr=np.zeros(0, np.int32)),
    "csr pointers fall": broken("csr", indptr=np.array([0, 10**8, 2, 4, 6], np.int32)),
    "csr last pointer 0": broken("csr", indptr=np.array([0, 10**8, 0, 0, 0], np.int32)),
    "csr pointers from 1": broken("csr", indptr=np.array([1, 2, 2, 4, 6], np.int32)),
    "csr negative pointers": broken("csr", indptr=np.array([0, -2, 2, 4, 6], np.int32)),
    "csr last pointer beyond": broken("csr", indptr=np.array([0, 2, 2, 4, 7], np.int32)),
    "csr shape": wide("csr", (5, 4)),
    "csr narrow": wide("csr", (4, 3)),
    "csc index": broken("csc", indices=np.array([2, 0, 3, 3, 0, 10**8], np.int32)),
    "csc last pointer 0": broken("csc", indptr=np.array([0, 10**8, 0, 0, 0], np.int32)),
    "bsr index": broken("bsr", indices=np.array([0, 1, 0, 10**8], np.int32)),
    "bsr pointers": broken("bsr", indptr=np.array([0, 10**8, 4], np.int32)),
    "bsr last pointer": broken("bsr", indptr=np.array([0, 2, 3], np.int32)),
    "bsr does not divide": wide("bsr", (5, 4)),
    "bsr does not divide columns": wide("bsr", (4, 5)),
    "bsr flat": broken("bsr", data=np.ones(16)),
    "bsr empty blocks": broken("bsr", data=np.ones((4, 0, 2))),
    "bsr too few indices": broken("bsr", indices=np.array([0, 1, 0], np.int32)),
    "coo row": broken("coo", row=np.array([0, 0, 2, 2, 3, 10**8])),
    "coo column": broken("coo", col=np.array([1, 3, 0, -1, 1, 2])),
    "coo lengths": broken("coo", data=np.ones(5)),
    "dia offsets": broken("dia", offsets=np.array([0, 1], np.int32)),
    "dia offset twice": broken("dia", offsets=np.zeros(6, np.int32)),
    "dia offset outside": broken("dia", offsets=np.array([-3, -2, -1, 1, 2, 2**62])),
    "dia flat": broken("dia", data=np.ones(6)),
    "dia float offsets": broken("dia", offsets=np.arange(6.0)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_arrays_that_are_unsafe_for_kernels_are_refused(case):
    with pytest.raises(InputError, match="X is not a valid sparse matrix"):
        check_X(BROKEN[case])


ASTRAY = sparse.csr_matrix((np.ones(1), [10**8], [0, 1]), shape=(1, 3))


@pytest.mark.parametrize(
    "use",
    [
        lambda: DiSMEC().fit(ASTRAY, [[1]]),
        lambda: DiSMEC().fit([[1.0]], ASTRAY),
        lambda: DiSMEC().fit(np.eye(3), np.eye(3)).rank(ASTRAY),
        lambda: evaluate(Ranking(np.zeros((1, 1), np.int32), np.ones((1, 1))), ASTRAY, k=1),
        lambda: drop_labels(ASTRAY, 0.5, np.random.default_rng(0)),
        lambda: named.hinge().value(np.zeros((1, 3)), ASTRAY),
        lambda: named.hinge().value(ASTRAY, np.zeros((1, 3))),
    ],
)
def test_every_entry_point_validates_its_matrix(use):
    with pytest.raises(InputError, match="valid sparse matrix: it holds the index 100000000; expected 0 to 2"):
        use()


@pytest.mark.parametrize("wrong", [np.eye(2) * 1j, sparse.csr_matrix(np.eye(2) * 1j), np.array([["a"]]), [["a"]]])
def test_what_holds_no_numbers_is_refused(wrong):
    for check in (check_X, check_Y):
        with pytest.raises(InputError, match="must hold numbers"):
            check(wrong)


@pytest.mark.parametrize("wrong", [np.zeros(3), 5, [[1], [1, 2]], sparse.coo_array(np.ones(3)), np.zeros((2, 2, 2))])
def test_what_is_no_matrix_is_refused(wrong):
    with pytest.raises(InputError, match="two dimensions"):
        check_X(wrong)


def test_lists_that_lie_are_refused():
    X, _ = example("lil")
    X.rows[0] = [1, 10**6]
    with pytest.raises(InputError, match="valid sparse matrix"):
        check_X(X)
    for rows in ([1, 2, 3], [1], [1, "a"], [1, 2**70], 7):
        X.rows[0] = rows
        with pytest.raises(InputError, match="valid sparse matrix"):
            check_X(X)


@pytest.mark.parametrize("form", [*MADE, "dense"])
@pytest.mark.parametrize("value", [2, 1 + 1e-12, -1, np.nan, 0.5])
def test_labels_are_exactly_0_or_1(form, value):
    Y = np.array([[0, 1.0], [value, 0]])
    with pytest.raises(InputError, match=r"Y holds .*, neither 0 nor 1"):
        check_Y(Y if form == "dense" else sparse.coo_matrix(Y).asformat(form))


def test_zeros_are_no_labels_and_a_label_twice_is_refused():
    assert check_Y(sparse.coo_matrix(([1, 0], ([0, 1], [0, 1])))).nnz == 1
    with pytest.raises(InputError, match="Y names a label twice in row 0"):
        check_Y(sparse.coo_matrix(([0.5 + 0.5, 1], ([0, 0], [1, 1]))))
    with pytest.raises(InputError, match=r"Y holds 0\.5"):
        check_Y(sparse.csr_matrix(([0.5, 0.5], [1, 1], [0, 2]), shape=(1, 2)))


def test_a_value_that_float32_cannot_hold_is_named_by_its_row():
    for value in (np.inf, np.nan, -np.inf, 1e300):
        with pytest.raises(InputError, match="X holds a value in row 1"):
            check_X(np.array([[1.0, 2.0], [3.0, value]]))
    twice = sparse.coo_matrix(([3e38, 3e38], ([0, 0], [1, 1])))
    with pytest.raises(InputError, match="X holds a value in row 0"):
        check_X(twice)


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_negative_indices_of_few_bits_are_refused(kind):
    """Read as unsigned numbers they would lie inside of a large matrix."""
    for form, shape in (("csr", (2, 70_000)), ("csc", (70_000, 2))):
        made = getattr(sparse, f"{form}_matrix")(shape, dtype=np.float32)
        made.data, made.indices, made.indptr = np.ones(1, np.float32), np.array([-1], kind), np.array([0, 1, 1])
        with pytest.raises(InputError, match="it holds the index -1"):
            check_X(made)


def test_unsigned_pointers_of_blocks_are_taken():
    made = sparse.bsr_matrix(np.eye(4, dtype=np.float32), blocksize=(2, 2))
    made.indptr = made.indptr.astype(np.uint64)
    assert check_X(made).toarray().tolist() == np.eye(4).tolist()
