"""Calls in a process of their own: what they return, and the limits that end them."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unmissed.errors import InputError
from unmissed.execution import Limits, peak_bytes, watch


def answer(say):
    say("half")
    say("all")
    return {"process": os.getpid()}


def sleep(say):
    say("begun")
    time.sleep(60)


def get_ready(say):
    time.sleep(1.0)
    say("begun")
    return "done"


def eat(say):
    held = []
    while True:
        held.append(bytearray(os.urandom(2**20)) * 32)


def fail(say):
    raise InputError("no\nrows")


def fill(say):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/pieces/0")


def tell_process(say):
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(600)


def vanish(say):
    os._exit(3)


def test_a_call_runs_in_another_process_and_what_it_says_is_heard():
    heard = []
    outcome = watch(answer, Limits(), heard.append)
    assert outcome.state == "finished"
    assert outcome.value["process"] != os.getpid()
    assert [word for word in heard if word is not None] == ["half", "all"]
    assert outcome.peak_bytes > 2**20


def test_a_call_is_stopped_at_its_limit_of_time():
    begin = time.monotonic()
    outcome = watch(sleep, Limits(seconds=0.3), lambda word: None)
    assert (outcome.state, outcome.reason) == ("time limit", "stopped after 0.3 seconds")
    assert 0.3 <= outcome.seconds < 30
    assert time.monotonic() - begin < 50


def test_the_clock_begins_with_the_first_word():
    assert watch(get_ready, Limits(seconds=0.5), lambda word: None).state == "finished"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a memory limit needs /proc")
def test_a_call_is_stopped_at_its_limit_of_memory():
    outcome = watch(eat, Limits(memory=400 * 2**20), lambda word: None)
    assert outcome.state == "memory limit"
    assert outcome.peak_bytes > 400 * 2**20


def test_an_exception_of_the_call_is_reported_in_one_line():
    outcome = watch(fail, Limits(), lambda word: None)
    assert (outcome.state, outcome.reason) == ("failed", "InputError: no rows")


def test_a_lost_process_is_reported_with_its_exit_code():
    assert "code 3" in watch(vanish, Limits(), lambda word: None).reason


@pytest.mark.parametrize("limits", [Limits(seconds=0), Limits(memory=0)])
def test_limits_that_nothing_can_keep_are_refused(limits):
    with pytest.raises(InputError, match="above 0"):
        limits.check()


def test_the_peak_of_this_process_is_known():
    before = peak_bytes()
    held = bytearray(os.urandom(2**20)) * 64
    assert peak_bytes() >= before
    assert len(held) == 2**26


def test_a_full_disk_is_raised_as_what_it_is_and_not_taken_for_a_fault_of_the_call():
    with pytest.raises(OSError, match="No space left on device: 'run/pieces/0'"):
        watch(fill, Limits(), lambda word: None)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc and SIGKILL")
def test_a_call_ends_when_the_process_that_watches_it_is_killed():
    """It would go on with a lock that the next process needs."""
    script = (
        "from tests.execution.test_watched import tell_process\nfrom unmissed.execution import Limits, watch\n"
        "if __name__ == '__main__': watch(tell_process, Limits(), lambda word: None)"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as watcher:
        process = int(watcher.stdout.readline())
        watcher.send_signal(signal.SIGKILL)
        end = time.monotonic() + 20
        while Path(f"/proc/{process}/cmdline").is_file() and Path(f"/proc/{process}/cmdline").read_bytes():
            if time.monotonic() > end:
                os.kill(process, signal.SIGKILL)
                pytest.fail("it lives on")
            time.sleep(0.05)
