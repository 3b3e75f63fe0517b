"""Features: the type says that rows are valid, so nobody validates them again; a dense part is refused clearly."""

import numpy as np
import pytest
from scipy import sparse

from tests.runs.corpora import small_corpus
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.models import DiSMEC

TRAIN, TEST = small_corpus(n_labels=10, n_train=60)
DENSE = np.ones((60, 3), np.float32)


def test_a_matrix_from_outside_is_validated_and_features_are_taken_as_they_are():
    features = Features.check(TRAIN.X)
    assert Features.check(features) is features
    broken = sparse.csr_matrix(TRAIN.X)
    broken.indices = broken.indices.copy()
    broken.indices[3] = TRAIN.n_features
    with pytest.raises(InputError, match="holds the index"):
        Features.check(broken)


def test_features_of_another_number_are_refused_in_either_form():
    for X in (TRAIN.X, TRAIN.features):
        with pytest.raises(InputError, match=r"X has 400 features, the model was fitted on 7"):
            Features.check(X, 7)


@pytest.mark.parametrize("rows", [slice(None), slice(3, 9), slice(9, 3), slice(-4, None), slice(0, 60, 7), [5, 1, 5]])
def test_rows_are_those_of_the_matrix(rows):
    found = Features(TRAIN.X, DENSE.cumsum(axis=0))[rows]
    assert found.shape == (TRAIN.X[rows].shape[0], 403)
    np.testing.assert_array_equal(found.sparse.toarray(), TRAIN.X[rows].toarray())
    np.testing.assert_array_equal(found.dense, DENSE.cumsum(axis=0)[rows])


def test_consecutive_rows_share_the_memory():
    assert np.shares_memory(TRAIN.features[10:20].csr.data, TRAIN.X.data)


def test_parts_of_different_numbers_of_rows_are_refused():
    with pytest.raises(InputError, match=r"the parts of X have \[59, 60\] rows"):
        Features(TRAIN.X, DENSE[:59])
    with pytest.raises(InputError, match="expected one number"):
        Features()


def test_a_dense_part_is_refused_by_models_that_do_not_take_it():
    mixed = Features(TRAIN.X, DENSE)
    for call in (lambda: mixed.csr, mixed.normalized, lambda: DiSMEC(n_jobs=1).fit(mixed, TRAIN.Y)):
        with pytest.raises(InputError, match="3 dense features; this method takes sparse features only"):
            call()
    model = DiSMEC(n_jobs=1, normalize=False).fit(TRAIN.X, TRAIN.Y)
    model.n_features_in_ += 3
    with pytest.raises(InputError, match="takes sparse features only"):
        model.rank(mixed)


def test_a_model_ranks_features_as_it_ranks_their_matrix():
    model = DiSMEC(n_jobs=1).fit(TRAIN.features, TRAIN.Y)
    for rows in (TEST.features, model.check_features(TEST.X)):
        found = model.rank(rows, 3)
        assert np.array_equal(found.labels, model.rank(TEST.X, 3).labels)
        assert np.array_equal(found.scores, model.rank(TEST.X, 3).scores)
