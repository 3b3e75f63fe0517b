"""Data from outside is validated once: how often the entries of a matrix are checked on each way through `runs`."""

import os

import numpy as np
import pytest

import unmissed.numerics.csr
from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.data import load, open_store, write_store
from unmissed.models import DiSMEC, Popularity
from unmissed.models.selection import Sampling
from unmissed.runs import train
from unmissed.runs.compare.comparison import Comparison, compare
from unmissed.runs.compare.method_specs import read_method_specs
from unmissed.runs.prediction import predict
from unmissed.runs.tuning import tune

TRAIN, TEST = small_corpus()


@pytest.fixture
def checked(monkeypatch):
    """Return a list that receives the number of entries of each matrix whose entries are validated."""
    sizes = []
    find_faults = unmissed.numerics.csr.find_faults

    def counted(indptr, indices, numbers, n_columns):
        sizes.append(indices.size)
        return find_faults(indptr, indices, numbers, n_columns)

    monkeypatch.setattr(unmissed.numerics.csr, "find_faults", counted)
    return sizes


def test_fit_validates_each_matrix_once(checked):
    DiSMEC(**PARAMS).fit(TRAIN.X, TRAIN.Y)
    assert sorted(checked) == sorted([TRAIN.X.nnz, TRAIN.Y.nnz])


def test_a_data_set_is_trained_on_and_tuned_on_without_another_validation(checked, tmp_path):
    DiSMEC(**PARAMS).fit(TRAIN)
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    assert checked == []
    tune("dismec", TRAIN, PARAMS, {"C": [1.0, 2.0]}, sampling=Sampling(n_folds=2))
    assert TRAIN.X.nnz not in checked
    assert all(size <= TRAIN.Y.nnz for size in checked)  # `evaluate` validates its Y


def test_a_store_is_validated_when_it_is_opened_and_not_again(checked, tmp_path):
    write_store(TRAIN, tmp_path / "store")
    train("dismec", open_store(tmp_path / "store"), tmp_path / "run", PARAMS)
    assert sorted(checked) == sorted([TRAIN.X.nnz, TRAIN.Y.nnz])


def test_rows_are_validated_before_they_are_cut_into_batches(checked, tmp_path):
    run = train("dismec", TRAIN, tmp_path / "run", PARAMS)
    at_once = predict(run, TEST.X, 3)
    assert checked == [TEST.X.nnz]
    in_batches = predict(run, TEST.X, 3, batch=7)
    assert checked == [TEST.X.nnz] * 2
    assert np.array_equal(at_once.labels, in_batches.labels)
    assert np.array_equal(at_once.scores, in_batches.scores)
    predict(run, TEST.features, 3, batch=7)
    assert checked == [TEST.X.nnz] * 2


class _Counted(DiSMEC):
    n_computed = 0

    def _costs(self, rows):
        _Counted.n_computed += 1
        return super()._costs(rows)


def test_costs_are_computed_once(monkeypatch):
    monkeypatch.setattr(_Counted, "n_computed", 0)
    _Counted(**PARAMS).fit(TRAIN)
    assert _Counted.n_computed == 1


def test_compare_reads_each_file_once(tmp_path, monkeypatch):
    paths = write_texts(tmp_path / "train.jsonl"), write_texts(tmp_path / "test.jsonl", 40, 1, extra="new")
    scores = tmp_path / "scores.npy"
    np.save(scores, np.random.default_rng(0).random((40, load(paths[0]).n_labels)))
    how = Comparison(read_method_specs(["popularity"]), {"other": scores}, n_resamples=20, n_jobs=1)
    opened, open_file = [], os.open

    def counted(path, *arguments, **words):
        opened.append(str(path))
        return open_file(path, *arguments, **words)

    monkeypatch.setattr(os, "open", counted)
    results = compare(*paths, tmp_path / "out", how)
    assert results["data"]["unknown_assignments"] > 0
    assert [opened.count(str(path)) for path in (*paths, scores)] == [1, 1, 1]


def test_a_model_fitted_on_a_data_set_knows_its_names(tmp_path):
    dataset = load(write_texts(tmp_path / "train.jsonl"))
    write_store(dataset, tmp_path / "store")
    for rows in (dataset, tmp_path / "store"):
        model = Popularity().fit(rows)
        assert model.classes_.tolist() == dataset.label_names
        assert model.feature_names_in_.tolist() == dataset.feature_names
