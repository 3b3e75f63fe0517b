"""Threads run every piece of work once, stop at the first failure, and count cores like scikit-learn."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from unmissed.errors import InputError
from unmissed.execution import Threads, count_jobs
from unmissed.numerics import workspace as workspaces


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_every_item_is_worked_on_once(n_jobs):
    assert sorted(Threads(n_jobs).each(lambda item: item * item, range(40))) == [item * item for item in range(40)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_none_is_an_item_like_any_other(n_jobs):
    assert sorted(Threads(n_jobs).each(str, [1, None, 2])) == ["1", "2", "None"]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_failure_reaches_the_caller(n_jobs):
    def work(item):
        if item == 7:
            raise RuntimeError("seven")
        return item

    with pytest.raises(RuntimeError, match="seven"):
        list(Threads(n_jobs).each(work, range(100)))


def test_work_is_taken_up_only_as_it_is_needed():
    taken = []

    def items():
        for item in range(1000):
            taken.append(item)
            yield item

    results = Threads(2).each(lambda item: item, items())
    next(results)
    assert len(taken) <= 8, "a thousand blocks are never in memory at once"
    results.close()


def test_jobs_are_counted_from_all_cores():
    cores = count_jobs(-1)
    assert cores == count_jobs(None) >= 1
    assert count_jobs(3) == 3
    with pytest.raises(InputError, match="n_jobs"):
        count_jobs(0)
    with pytest.raises(InputError, match="n_jobs"):
        count_jobs(-cores - 1)


def test_a_call_uses_no_more_threads_than_it_may():
    lock, running, most = threading.Lock(), 0, 0

    def work(_):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    list(Threads(3).each(work, range(60)))
    assert most <= 3
    assert running == 0


def test_threads_are_used_again():
    seen = set()
    for _ in range(50):
        list(Threads(2).each(lambda _: seen.add(threading.current_thread()), range(4)))
    assert len(seen) <= 12, "50 calls do not start 100 threads"
    assert threading.current_thread() not in seen


def test_calls_inside_calls_do_not_wait_for_one_another():
    def outer(item):
        return sum(Threads(4).each(lambda inner: sum(Threads(2).each(int, [inner, item])), range(4)))

    found = sorted(Threads(8).each(outer, range(32)))
    assert found == sorted(6 + 4 * item for item in range(32))


def test_nothing_runs_any_more_when_a_call_is_closed():
    running = threading.Semaphore(0)
    ended = []

    def work(item):
        running.release()
        time.sleep(0.05 if item else 0)
        ended.append(item)
        return item

    results = Threads(2).each(work, range(100))
    next(results)
    results.close()
    begun = len(ended)
    time.sleep(0.1)
    assert len(ended) == begun < 10
    assert running._value == begun


def test_many_threads_may_call_at_the_same_time():
    with ThreadPoolExecutor(16) as callers:
        found = callers.map(lambda n: sum(Threads(3).each(lambda item: item * n, range(50))), range(64))
        assert list(found) == [1225 * n for n in range(64)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own():
    assert sum(Threads(2).each(int, range(10))) == 45
    child = os.fork()  # no warning about threads: they were idle and ended before the fork
    if not child:
        os._exit(0 if sum(Threads(2).each(int, range(10))) == 45 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum(Threads(2).each(int, range(10))) == 45, "the parent starts new ones"


def test_no_thread_is_left_idle_when_a_process_forks():
    script = (
        "import os, threading\n"
        "from unmissed.execution import Threads\n"
        "list(Threads(3).each(int, range(30)))\n"
        "assert threading.active_count() > 1\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0)\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_a_process_ends_although_threads_are_idle_or_at_work():
    script = (
        "import time\n"
        "from unmissed.execution import Threads\n"
        "list(Threads(3).each(int, range(30)))\n"
        "work = Threads(2).each(time.sleep, [0, 0.2, 0.2])\n"
        "next(work)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_idle_threads_keep_little_memory_and_none_after_a_failure():
    def fill(name, size, error=None):
        workspaces.workspace(name, (size,))
        time.sleep(0.001)
        if error is not None:
            raise error

    def kept(_):
        time.sleep(0.001)
        return dict(workspaces._buffers.arrays)

    list(Threads(4).each(lambda _: fill("small", 16), range(40)))
    found = list(Threads(20).each(kept, range(200)))
    assert any("small" in arrays for arrays in found), "a small array is kept for the next call"
    list(Threads(4).each(lambda _: fill("large", 2**22), range(8)))
    with pytest.raises(RuntimeError, match="seven"):
        list(Threads(4).each(lambda _: fill("failed", 16, RuntimeError("seven")), range(8)))
    found = list(Threads(20).each(kept, range(200)))
    assert not any("large" in arrays or "failed" in arrays for arrays in found)
