"""Ranking is thread-safe in every method: the layout is built once, and ranking changes nothing."""

import copy
import os
import pickle
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from tests.models.test_contract import TRAIN, assert_same_ranking, every_method, quick
from unmissed import DiSMEC
from unmissed.execution import Once
from unmissed.settings import SETTINGS

ROWS = sp.vstack([TRAIN.X] * 3, format="csr")[:300]
THREADS = 8


@pytest.fixture(autouse=True)
def _rows_that_repay_a_layout(monkeypatch):
    monkeypatch.setattr(SETTINGS, "prepare_rows", ROWS.shape[0])


@pytest.fixture(scope="module")
def fresh():
    """Return a function that opens a model of a method that has not ranked, from pieces that are trained once."""
    made = {}

    def open_again(method, **params):
        if method not in made:
            made[method] = quick(method).fit(TRAIN.X, TRAIN.Y)
        model = made[method]
        params = {name: value for name, value in params.items() if name in model.get_params()}
        return type(model).open(model.get_params() | params, model.pieces_, TRAIN.n_features, TRAIN.n_labels)

    return open_again


@pytest.fixture
def builds(monkeypatch):
    """Count the builds of each `Once`."""
    counts, get_build = Counter(), Once.__init__

    def count(self, name, build):
        get_build(self, name, build)

        def counted(*arguments):
            counts[id(self)] += 1
            return build(*arguments)

        self._build = counted

    monkeypatch.setattr(Once, "__init__", count)
    return counts


def ranked(model):
    """Rank many rows, one row and a deeper list."""
    return [model.rank(ROWS, 5), model.rank(ROWS[7], 3), model.rank(ROWS[:40], 12)]


def in_threads(work):
    """Call a function in all threads at the same time."""
    start = threading.Barrier(THREADS)

    def begin(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(begin, range(THREADS)))


@every_method
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_many_threads_rank_like_one(method, n_jobs, fresh, builds):
    expected = ranked(fresh(method))
    builds.clear()
    model = fresh(method, n_jobs=n_jobs)
    for found in in_threads(lambda number: ranked(model.prepare()) if number % 2 else ranked(model)):
        for one, other in zip(found, expected, strict=True):
            assert_same_ranking(one, other)
    assert set(builds.values()) <= {1}, "each layout is built once"


@every_method
def test_preparing_builds_everything_that_ranking_uses_once(method, fresh, builds):
    model = fresh(method)
    assert not builds, "opening builds no layout"
    assert model.prepare() is model
    built = dict(builds)
    model.prepare()
    in_threads(lambda _: model.prepare())
    ranked(model)
    assert builds == built
    assert set(built.values()) <= {1}


@every_method
def test_ranking_leaves_the_model_unchanged(method, fresh):
    model = fresh(method)
    before = dict(vars(model))
    ranked(model.prepare())
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


@every_method
def test_a_prepared_model_can_be_pickled_and_copied(method, fresh):
    model = fresh(method)
    small = len(pickle.dumps(model))
    expected = ranked(model.prepare())
    sent = pickle.dumps(model)
    assert len(sent) == small, "the layout is not sent"
    for again in (pickle.loads(sent), copy.copy(model), copy.deepcopy(model)):
        for one, other in zip(ranked(again.prepare()), expected, strict=True):
            assert_same_ranking(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@every_method
def test_a_child_forked_after_ranking_ranks_the_same(method, fresh):
    model = fresh(method, n_jobs=2)
    expected = ranked(model)
    child = os.fork()
    if not child:
        same = all(
            np.array_equal(one.labels, other.labels) and np.array_equal(one.scores, other.scores)
            for one, other in zip(ranked(model), expected, strict=True)
        )
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@every_method
def test_an_unfitted_model_cannot_be_prepared(method):
    with pytest.raises(NotFittedError):
        quick(method).prepare()


def test_one_row_builds_no_layout_of_a_linear_model(fresh, builds):
    model = fresh("dismec")
    model.rank(ROWS[0], 5)
    assert not builds


def test_threads_that_score_candidates_copy_the_weights_once(fresh, builds):
    model = fresh("dismec")
    candidates = model.rank(ROWS[:40], 12)
    expected = model.rank(ROWS[:40], 5)
    builds.clear()
    for found in in_threads(lambda _: model.rank(ROWS[:40], 5, candidates=candidates)):
        assert_same_ranking(found, expected)
    assert list(builds.values()) == [1]


def test_new_labels_get_a_new_layout():
    model = DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y[:, :30]).prepare()
    model.fit_labels(TRAIN.X, TRAIN.Y[:, 30:]).prepare()
    assert_same_ranking(model.rank(ROWS, 5), DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y).rank(ROWS, 5))
