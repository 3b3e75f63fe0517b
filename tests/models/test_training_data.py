"""Rows are sent as the path of their store where they have one, and as they are where they do not."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from tests.runs.corpora import small_corpus
from unmissed.data import write_store
from unmissed.errors import InputError
from unmissed.features import Features, scale_rows
from unmissed.matrices import check_X
from unmissed.models.training_data import TrainingData

TRAIN, OTHER = small_corpus()[0], small_corpus(seed=1)[0]


@dataclass(frozen=True)
class Marked(TrainingData):
    """Rows of which a model knows more."""

    mark: str | None = None


def test_rows_of_a_store_are_pickled_as_a_path_and_digest(tmp_path):
    write_store(TRAIN, tmp_path / "store")
    rows = TrainingData.stored(tmp_path / "store", normalize=True)
    packed = pickle.dumps(rows)
    assert len(packed) < 500
    again = pickle.loads(packed)
    assert np.array_equal(again.features.csr.data, rows.features.csr.data)
    assert again.store == rows.store


def test_another_store_at_the_same_path_is_refused_where_it_is_opened(tmp_path):
    write_store(TRAIN, tmp_path / "store")
    packed = pickle.dumps(TrainingData.stored(tmp_path / "store"))
    (tmp_path / "store").rename(tmp_path / "old")
    write_store(OTHER, tmp_path / "store")
    with pytest.raises(InputError, match="holds other data"):
        pickle.loads(packed)


def test_rows_in_memory_are_pickled_without_what_was_computed_from_them():
    rows = TrainingData.check(TRAIN.X, TRAIN.Y, normalize=True)
    size = len(pickle.dumps(rows))
    rows.features.csr.sum()
    assert len(pickle.dumps(rows)) == size
    assert pickle.loads(pickle.dumps(rows)).normalize


def test_a_model_s_own_kind_of_rows_stays_its_own():
    rows = Marked(TRAIN.features, TRAIN.Y, True, "some")
    again = pickle.loads(pickle.dumps(rows))
    assert (type(again), again.mark, again.store) == (Marked, "some", None)


def test_scaled_rows_share_nothing_that_is_written_with_the_rows_before():
    X = check_X(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]))
    before = X.toarray()
    scaled = scale_rows(X)
    assert np.allclose(scaled.toarray(), [[0.6, 0.8], [0, 0], [0, 1]])
    scaled.data[:] = 9
    assert np.array_equal(X.toarray(), before)


@pytest.mark.parametrize("size", [1.0, 1e-15, 1e15])
def test_dense_rows_are_scaled_by_factors_unless_their_norms_are_extreme(size):
    dense = (size * np.random.default_rng(0).standard_normal((6, 4))).astype(np.float32)
    data = TrainingData.check(Features(dense=dense), np.eye(6), normalize=True)
    features, factors, _ = data.scaled()
    assert (factors is None) == (size != 1)
    assert np.shares_memory(features.dense, dense) == (size == 1)
    scaled = features.dense if factors is None else features.dense * factors[:, None]
    np.testing.assert_allclose(scaled, data.features.dense, rtol=1e-6)
