"""Cores lent to work that falls into smaller work."""

import threading
import time

import numpy as np
import pytest

from unmissed.execution.work_stealing import WorkStealingPool


def halve(done, lock, slow=0.0):
    """Return a step that halves numbers down to 1 and notes what it did."""

    def step(number):
        time.sleep(slow)
        with lock:
            done.append((number, threading.current_thread().name))
        return [] if number == 1 else [(half, half) for half in (number // 2, number - number // 2)]

    return step


@pytest.mark.parametrize("n_cores", [1, 2, 5])
def test_everything_that_comes_of_an_item_is_done(n_cores):
    done = []
    WorkStealingPool(n_cores).run(halve(done, threading.Lock()), 37)
    numbers = [number for number, _ in done]
    assert numbers[0] == 37
    assert numbers.count(1) == 37
    assert len(numbers) == 2 * 37 - 1


def test_idle_cores_help_and_are_gone_afterwards():
    done = []
    WorkStealingPool(3).run(halve(done, threading.Lock(), slow=0.005), 16)
    assert len({name for _, name in done} & {"unmissed-worker"}) == 1
    assert any(name != "unmissed-worker" for _, name in done)
    deadline = time.monotonic() + 5
    while any(thread.name == "unmissed-worker" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_more_items_are_under_way_than_there_are_cores():
    pool, lock, now, most = WorkStealingPool(2), threading.Lock(), [0], [0]

    def step(depth):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return [] if depth == 0 else [(1, depth - 1), (1, depth - 1)]

    jobs = [threading.Thread(target=pool.run, args=(step, 3)) for _ in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert most[0] == 2


@pytest.mark.parametrize("n_cores", [1, 3])
def test_an_error_ends_the_job_and_reaches_the_caller(n_cores):
    def step(number):
        if number == 5:
            raise ValueError("five")
        return [(number, number + 1)]

    pool = WorkStealingPool(n_cores)
    with pytest.raises(ValueError, match="five"):
        pool.run(step, 0)
    done = []
    pool.run(halve(done, threading.Lock()), 3)
    assert len(done) == 5, "the pool can be used again"


def test_the_largest_item_is_done_first():
    done = []

    def step(number):
        done.append(number)
        return [(3, 3), (9, 9), (5, 5)] if number == 0 else []

    WorkStealingPool(1).run(step, 0)
    assert done == [0, 9, 5, 3]


def test_items_of_two_jobs_are_never_compared():
    pool, both, lock, done = WorkStealingPool(3), threading.Barrier(2), threading.Lock(), []

    def step(item):
        if item is None:
            both.wait()
            return [(1, np.arange(2)) for _ in range(20)]
        time.sleep(0.001)
        with lock:
            done.append(threading.current_thread().name)
        return []

    jobs = [threading.Thread(target=pool.run, args=(step, None)) for _ in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert len(done) == 40
    assert "unmissed-worker" in done, "a worker chose between two jobs whose next items are as large and as old"
