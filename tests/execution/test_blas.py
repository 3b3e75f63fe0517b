"""BLAS is limited to one thread wherever ours work side by side, whoever set a limit before."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.models.linear.problems import make_problem
from unmissed.execution.blas import one_blas_thread
from unmissed.models import SLEEC
from unmissed.models.embeddings.sleec import solver


def blas_threads() -> set[int]:
    """How many threads each BLAS library that is loaded would take."""
    np.linalg.qr(np.eye(3))
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    """Let BLAS take two threads at first, on any machine."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def in_thread(call):
    """What a call in a thread of its own returns."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def inside() -> set[int]:
    """How many threads BLAS would take within the limit."""
    with one_blas_thread():
        return blas_threads()


def test_the_limit_holds_in_a_worker_after_another_thread_has_set_one():
    assert inside() == {1}
    assert in_thread(inside) == {1}
    assert blas_threads() == {2}


def test_the_last_thread_that_leaves_restores_the_limit_even_if_another_entered_first():
    entered, both, left, seen = Barrier(2), Barrier(2), Barrier(2), []

    def first_then_leave():
        with one_blas_thread():
            entered.wait(60)
            both.wait(60)
        left.wait(60)

    def last_to_leave():
        entered.wait(60)
        with one_blas_thread():
            both.wait(60)
            left.wait(60)
            seen.append(blas_threads())

    threads = [Thread(target=first_then_leave), Thread(target=last_to_leave)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_sleec_embeds_clusters_with_one_blas_thread_on_any_number_of_threads(monkeypatch):
    X, Y = make_problem(0, n_samples=90, n_features=20, n_labels=8)
    seen, project = [], solver.project

    def watched(*arguments):
        seen.append(blas_threads())
        return project(*arguments)

    monkeypatch.setattr(solver, "project", watched)
    found = [SLEEC(n_components=4, cluster_size=30, n_learners=2, n_jobs=jobs).fit(X, Y) for jobs in (1, 2)]
    assert seen
    assert all(one == {1} for one in seen)
    one, two = ([c.regressor for learner in model.learners_ for c in learner.clusters] for model in found)
    for left, right in zip(one, two, strict=True):
        np.testing.assert_array_equal(left, right)
