"""Features: the type says that rows are valid, so nobody validates them again; each part is scaled on its own."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from tests.runs.corpora import small_corpus
from unmissed import Features
from unmissed.errors import InputError
from unmissed.models import DiSMEC

TRAIN, TEST = small_corpus(n_labels=10, n_train=60)
DENSE = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
DENSE[5] = 0
DENSE[7, 1] = 0
MIXED = Features(TRAIN.X, DENSE)


def test_a_matrix_from_outside_is_validated_and_features_are_taken_as_they_are():
    features = Features.check(TRAIN.X)
    assert Features.check(features) is features
    broken = sparse.csr_matrix(TRAIN.X)
    broken.indices = broken.indices.copy()
    broken.indices[3] = TRAIN.n_features
    for call in (Features.check, Features):
        with pytest.raises(InputError, match="holds the index"):
            call(broken)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, ">f4", ">f2"])
def test_an_array_is_the_dense_part_in_float32(dtype):
    given = (8 * DENSE).astype(dtype)
    for found in (Features.check(given), Features(dense=given), Features.check(given.tolist())):
        assert found.sparse is None
        assert found.dense.dtype == np.float32
        assert found.dense.dtype.isnative
        assert found.dense.flags.c_contiguous
        np.testing.assert_array_equal(found.dense, given.astype(np.float32))


def test_a_float32_array_is_not_copied_even_if_it_is_mapped_read_only(tmp_path):
    assert np.shares_memory(Features.check(DENSE).dense, DENSE)
    np.save(tmp_path / "E.npy", DENSE)
    mapped = np.load(tmp_path / "E.npy", mmap_mode="r")
    assert np.shares_memory(Features(TRAIN.X, mapped).dense, mapped)
    columns = np.asfortranarray(DENSE)
    assert Features.check(columns).dense.flags.c_contiguous


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
def test_a_value_that_is_not_finite_is_refused_with_its_row(wrong):
    broken = DENSE.astype(np.float64)
    broken[41, 2] = wrong
    for call in (Features.check, lambda dense: Features(TRAIN.X, dense)):
        with pytest.raises(InputError, match="X holds a value in row 41 that is infinite or not a number"):
            call(broken)


@pytest.mark.parametrize("wrong", [DENSE[0], DENSE[None], np.array([["a"]]), [[1, 2], [3]]])
def test_what_is_no_matrix_of_numbers_is_refused(wrong):
    with pytest.raises(InputError, match=r"must (have two dimensions|hold numbers)"):
        Features(dense=wrong)


@pytest.mark.parametrize("rows", [slice(None), slice(3, 9), slice(9, 3), slice(-4, None), slice(0, 60, 7), [5, 1, 5]])
def test_rows_are_those_of_the_matrix(rows):
    found = MIXED[rows]
    assert found.shape == (TRAIN.X[rows].shape[0], 403)
    np.testing.assert_array_equal(found.sparse.toarray(), TRAIN.X[rows].toarray())
    np.testing.assert_array_equal(found.dense, DENSE[rows])
    assert found.dense.flags.c_contiguous


def test_consecutive_rows_share_the_memory():
    assert np.shares_memory(TRAIN.features[10:20].csr.data, TRAIN.X.data)
    assert np.shares_memory(MIXED[10:20].dense, DENSE)


def test_parts_of_different_numbers_of_rows_are_refused():
    with pytest.raises(InputError, match=r"sparse part of X has 60 rows and the dense part 59"):
        Features(TRAIN.X, DENSE[:59])
    with pytest.raises(InputError, match="X has no features"):
        Features()


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_converted_features_are_both_parts_side_by_side(block, monkeypatch):
    monkeypatch.setattr("unmissed.features._BLOCK", block)
    for features, expected in (
        (Features(TRAIN.X, DENSE), sparse.hstack([TRAIN.X, sparse.csr_matrix(DENSE)])),
        (Features(dense=DENSE), sparse.csr_matrix(DENSE)),
        (Features(TRAIN.X, DENSE[:, :0]), TRAIN.X),
    ):
        found = features.csr
        assert found.has_canonical_format
        assert np.all(found.data != 0)
        assert found.data.nbytes + found.indices.nbytes <= features.csr_bytes
        np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_pickled_features_leave_out_the_converted_matrix():
    features = Features(TRAIN.X, DENSE)
    before = len(pickle.dumps(features))
    assert features.csr.shape == (60, 403)
    assert len(pickle.dumps(features)) == before
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.csr.toarray(), features.csr.toarray())


def test_each_part_is_normalized_on_its_own_and_then_the_row():
    found = MIXED.normalized(0.25)
    words, dense = np.linalg.norm(found.sparse.toarray(), axis=1), np.linalg.norm(found.dense, axis=1)
    assert dense[5] == 0
    np.testing.assert_allclose(np.hypot(words, dense), 1, rtol=1e-6)  # row 5 has no dense part
    np.testing.assert_allclose(np.delete(dense / words, 5), 0.25, rtol=1e-6)
    np.testing.assert_allclose(found.dense[3] / dense[3], DENSE[3] / np.linalg.norm(DENSE[3]), rtol=1e-6)
    row, given = found.sparse[3].toarray(), TRAIN.X[3].toarray()
    np.testing.assert_allclose(row / words[3], given / np.linalg.norm(given), rtol=1e-6)


def test_a_row_without_words_keeps_its_dense_part_at_norm_1_and_one_part_has_no_weight():
    X = sparse.csr_matrix(np.array([[0, 0], [3, 4]], np.float32))
    found = Features(X, np.array([[3, 4], [0, 5]], np.float32)).normalized(2.0)
    np.testing.assert_allclose(found.dense, [[0.6, 0.8], [0, 2 / 5**0.5]], rtol=1e-6)
    np.testing.assert_allclose(found.sparse.toarray(), [[0, 0], [0.6 / 5**0.5, 0.8 / 5**0.5]], rtol=1e-6)
    np.testing.assert_allclose(Features(dense=np.array([[3, 4]], np.float32)).normalized(2.0).dense, [[0.6, 0.8]])


def test_without_normalization_the_weight_still_multiplies():
    found = MIXED.scaled(normalize=False, dense_weight=3.0)
    assert found.sparse is MIXED.sparse
    np.testing.assert_array_equal(found.dense, 3 * DENSE)
    assert MIXED.scaled(normalize=False) is MIXED
    np.testing.assert_array_equal(MIXED.scaled(True, 3.0).dense, MIXED.normalized(3.0).dense)


@pytest.mark.parametrize("normalize", [False, True])
def test_factors_stand_for_a_scaled_copy(normalize):
    found, expected = MIXED.with_factors(normalize, 0.25), MIXED.scaled(normalize, 0.25)
    assert found.features is MIXED
    lengths = np.diff(MIXED.sparse.indptr)
    first, second = (np.repeat(factor, lengths) for factor in found.sparse_factors or np.ones((2, len(lengths))))
    np.testing.assert_array_equal((MIXED.sparse.data * first).astype(np.float32) * second, expected.sparse.data)
    np.testing.assert_array_equal((MIXED.dense * found.factors[:, None]).astype(np.float32), expected.dense)
    assert Features(TRAIN.X).with_factors(normalize).factors is None


@pytest.mark.parametrize("width", [1, 7, 384, 9000])
def test_the_scale_of_a_row_does_not_depend_on_other_rows(width):
    dense = np.random.default_rng(width).normal(size=(40, width)).astype(np.float32)
    rows = Features(TRAIN.X[:40], dense)
    together = rows.normalized(0.7).dense
    for one in range(40):
        np.testing.assert_array_equal(rows[one : one + 1].normalized(0.7).dense, together[one : one + 1])


def test_rows_with_one_part_are_converted_to_the_part_of_the_model():
    dense = TRAIN.X.toarray()
    np.testing.assert_array_equal(Features.check(TRAIN.X).in_parts(400, 400).dense, dense)
    found = Features.check(dense).in_parts(400, 0)
    assert found.dense is None
    np.testing.assert_array_equal(found.sparse.toarray(), dense)
    assert MIXED.in_parts(403, 3) is MIXED


@pytest.mark.parametrize(
    ("rows", "expected", "message"),
    [
        (MIXED, (400, 0), "X has 3 dense features, the model was fitted on 0"),
        (MIXED, (403, 0), "X has 3 dense features, the model was fitted on 0"),
        (MIXED, (403, 403), "X has 3 dense features, the model was fitted on 403"),
        (MIXED, (402, 3), "X has 400 sparse features, the model was fitted on 399"),
        (TRAIN.features, (403, 3), r"X has 0 dense features, .* fitted on 3; pass X as Features\(sparse, dense\)"),
        (TRAIN.features, (7, 0), "X has 400 features, the model was fitted on 7"),
        (Features(dense=DENSE), (400, 0), "X has 3 features, the model was fitted on 400"),
        (Features(dense=DENSE), (403, 3), "X has 0 sparse features, the model was fitted on 400"),
    ],
)
def test_features_of_other_parts_are_refused(rows, expected, message):
    with pytest.raises(InputError, match=message):
        rows.in_parts(*expected)


def test_a_model_ranks_features_as_it_ranks_their_matrix():
    model = DiSMEC(n_jobs=1).fit(TRAIN.features, TRAIN.Y)
    for rows in (TEST.features, model.check_features(TEST.X), TEST.X.toarray(), TEST.X.toarray().tolist()):
        found = model.rank(rows, 3)
        assert np.array_equal(found.labels, model.rank(TEST.X, 3).labels)
        assert np.array_equal(found.scores, model.rank(TEST.X, 3).scores)
