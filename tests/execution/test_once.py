"""A value is built once, by whichever thread comes first; copies build their own."""

import copy
import logging
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from unmissed.execution import Once

BUILT = []


def build(value, delay=0.0):
    BUILT.append(value)
    threading.Event().wait(delay)
    return [value]


@pytest.fixture(autouse=True)
def _nothing_built():
    BUILT.clear()


def test_nothing_is_built_before_it_is_needed():
    once = Once("a list", partial(build, 1))
    assert once.peek() is None
    assert BUILT == []
    assert once.get() == [1]
    assert once.peek() is once.get()
    assert BUILT == [1]


def test_many_threads_get_the_value_that_one_of_them_built():
    once, n = Once("a list", partial(build, 1, 0.05)), 8
    start = threading.Barrier(n)

    def get(_):
        start.wait()
        return once.get()

    with ThreadPoolExecutor(n) as threads:
        found = list(threads.map(get, range(n)))
    assert all(value is found[0] for value in found)
    assert BUILT == [1]


def test_none_is_a_value_and_is_not_built_again():
    once = Once("nothing", partial(BUILT.append, 1))
    assert once.get() is None
    assert once.get() is None
    assert BUILT == [1]


def test_a_failure_is_raised_and_the_next_call_tries_again():
    tries = []

    def fail_first():
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError
        return "built"

    once = Once("a string", fail_first)
    with pytest.raises(MemoryError):
        once.get()
    assert once.peek() is None
    assert once.get() == "built"


@pytest.mark.parametrize("again", [lambda once: pickle.loads(pickle.dumps(once)), copy.deepcopy])
def test_a_copy_holds_no_value_and_builds_its_own(again):
    once = Once("a list", partial(build, 1))
    once.get()
    other = again(once)
    assert other.peek() is None
    assert other.get() == [1]
    assert BUILT == [1, 1]


def test_what_is_built_is_logged_with_its_size(caplog):
    class Sized:
        n_bytes = 12_345_678

    with caplog.at_level(logging.INFO, logger="unmissed"):
        Once("a layout", Sized).get()
    assert caplog.messages[0].startswith("prepared a layout, 12.3 MB, in 0.")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_forked_during_a_build_builds_its_own():
    begun, finish = threading.Event(), threading.Event()

    def wait():
        begun.set()
        finish.wait(10)
        return "built"

    once = Once("slow", wait)
    thread = threading.Thread(target=once.get)
    thread.start()
    begun.wait(10)
    child = os.fork()
    if not child:
        finish.set()
        os._exit(0 if once.get() == "built" else 1)
    finish.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
