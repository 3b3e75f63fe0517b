"""Dense features in models: arrays are not converted on the way, each part has its weight, the memory is announced."""

import logging

import numpy as np
import pytest

from tests.runs.corpora import PARAMS, small_corpus
from unmissed import Features
from unmissed.data import write_store
from unmissed.data.dataset import Dataset
from unmissed.errors import InputError
from unmissed.models import DiSMEC, Popularity
from unmissed.models.dense_support import DenseSupport
from unmissed.models.selection import Goal, Sampling
from unmissed.models.selection.held_out import HeldOut, Part
from unmissed.models.training_data import TrainingData

TRAIN, TEST = small_corpus(n_labels=10, n_train=60)
DENSE = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
MIXED = Features(TRAIN.X, DENSE)


class _Seen(Popularity):
    """A model that keeps the features it is trained on and ranks."""

    def __init__(self, *, normalize=False, dense_weight=1.0):
        self.normalize = normalize
        self.dense_weight = dense_weight

    def _fit(self, rows, work):
        self.seen_ = rows.features
        super()._fit(rows, work)

    def _rank_features(self, rows, k):
        vars(self)["ranked_"] = rows
        return super()._rank_features(rows, k)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_training_and_ranking_scale_both_parts_alike(normalize, weight, tmp_path):
    model = _Seen(normalize=normalize, dense_weight=weight)
    expected = MIXED.scaled(normalize, weight)
    write_store(Dataset(TRAIN.X, TRAIN.Y, dense=DENSE), tmp_path / "store")
    for given in ((MIXED, TRAIN.Y), (Dataset(TRAIN.X, TRAIN.Y, dense=DENSE),), (tmp_path / "store",)):
        model.fit(*given)
        model.rank(MIXED, 2)
        for found in (model.seen_, model.ranked_):
            assert found.sparse.data.tobytes() == expected.sparse.data.tobytes()
            assert found.dense.tobytes() == expected.dense.tobytes()


def test_an_array_reaches_the_model_as_it_is():
    model = _Seen().fit(DENSE, TRAIN.Y)
    assert np.shares_memory(model.seen_.dense, DENSE)
    assert model.seen_.sparse is None
    assert (model.n_features_in_, model.n_dense_in_) == (3, 3)
    model.rank(DENSE[:7], 2)
    assert np.shares_memory(model.ranked_.dense, DENSE)
    assert _Seen().fit(TRAIN.X, TRAIN.Y).n_dense_in_ == 0


def test_a_model_fitted_on_one_part_ranks_rows_of_the_other():
    together = TRAIN.X.toarray()
    for fitted, n_dense in ((TRAIN.X, 0), (together, 400)):
        model = _Seen(normalize=True, dense_weight=2.0).fit(fitted, TRAIN.Y)
        for rows in (TRAIN.X, together):
            model.rank(rows, 2)
            assert model.ranked_.n_dense == n_dense
            norms = np.linalg.norm(model.ranked_.csr.toarray(), axis=1)
            np.testing.assert_allclose(norms, 1.0, rtol=1e-6)


def test_more_labels_need_the_same_parts():
    model = Popularity().fit(MIXED, TRAIN.Y)
    assert model.fit_labels(MIXED, TRAIN.Y).n_labels_ == 20
    assert model.n_dense_in_ == 3
    with pytest.raises(InputError, match="X has 0 dense features, the model was fitted on 3"):
        model.fit_labels(TRAIN.X, TRAIN.Y)


def test_rows_of_a_store_are_pickled_with_their_weight(tmp_path):
    write_store(Dataset(TRAIN.X, TRAIN.Y, dense=DENSE), tmp_path / "store")
    rows = TrainingData.stored(tmp_path / "store", normalize=True, dense_weight=0.5)
    make, words = rows.__reduce__()
    assert len(repr(words)) < 500
    again = make(*words)
    assert again.features.dense.tobytes() == rows.features.dense.tobytes() == MIXED.normalized(0.5).dense.tobytes()


def test_candidates_on_held_out_rows_have_their_own_weight():
    held = HeldOut(TrainingData.check(MIXED, TRAIN.Y), Goal("P@1"), sampling=Sampling(n_folds=2))
    assert held.budget > 0
    seen = {}
    for weight in (0.5, 2.0):
        model = _Seen(normalize=True, dense_weight=weight)
        held.measure(model, Part(30, 1))
        key = next(key for key in held._training if key[3] == weight)
        seen[weight] = np.linalg.norm(held._training[key].features.dense, axis=1)
    for weight, norms in seen.items():
        np.testing.assert_allclose(norms, weight / np.hypot(1, weight), rtol=1e-6)


def test_the_memory_of_a_conversion_is_announced_and_too_much_is_refused(caplog, monkeypatch):
    wide = Features(dense=np.ones((1000, 500), np.float32))
    for support in (DenseSupport.CONVERTED, DenseSupport.ONE_PART):
        note = support.conversion("Tree", wide)
        assert note == "Tree converts 500 dense features of 1,000 rows to sparse ones, which takes up to 4 MB"
        assert support.check("Tree", wide) == note
        with monkeypatch.context() as patched:
            patched.setattr("unmissed.models.dense_support.machine_bytes", lambda: 3_000_000)
            with pytest.raises(InputError, match=r"takes up to 4 MB, and this machine has 3 MB; choose a method"):
                support.check("Tree", wide)
            DenseSupport.NATIVE.check("Tree", wide)
    assert DenseSupport.NATIVE.conversion("Tree", wide) is None
    assert DenseSupport.CONVERTED.conversion("Tree", TRAIN.features) is None

    class Converting(_Seen):
        dense_support = DenseSupport.CONVERTED

    with caplog.at_level(logging.INFO, "unmissed"):
        Converting().fit(wide, np.ones((1000, 2)))
    assert "Converting converts 500 dense features of 1,000 rows" in caplog.text


def test_mixed_features_tell_more_than_each_part():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 400)
    words = np.where(truth[:, None] // 2 == np.arange(2), 1.0, 0.0)  # one bit of the label
    meaning = np.where(truth[:, None] % 2 == np.arange(2), 1.0, 0.0)  # the other one
    Y = np.eye(4)[truth]
    scores = {
        name: DiSMEC(**PARAMS).fit(X, Y).score(X, Y)
        for name, X in {
            "words": Features(words),
            "meaning": meaning,
            "both": Features(words, meaning),
        }.items()
    }
    assert scores["both"] == 1
    assert max(scores["words"], scores["meaning"]) < 0.7
