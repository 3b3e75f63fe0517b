"""A short campaign in every test run, and proof that it would notice; the long one is `python -m tests.hostile`."""

import os
import signal
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc")

if sys.platform.startswith("linux"):
    from tests.hostile import kills
    from tests.hostile.__main__ import FORMATS
    from tests.hostile.campaign import DifferenceError, Format, run_format
    from unmissed.errors import InputError

CASES = {"store": 60, "run": 40, "flips of a store": 20, "flips of runs": 20, "kills": 6}
if sys.platform.startswith("linux"):
    CASES |= {kind.name: 1 if "compare" in kind.name else 4 for kind in kills.FORMATS}


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("name", FORMATS)
def test_nothing_hostile_crashes_hangs_or_passes_unnoticed(name):
    report = run_format(FORMATS[name], CASES.get(name, 120), seed=1)
    assert report.faults == []
    assert sum(report.counts.values()) == CASES.get(name, 120)
    if "kills" not in name and "full" not in name:
        assert report.counts["refused"] > 0, "it was spoilt"


def refuse(seeds, case):
    raise InputError("no")


def crash(seeds, case):
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(seeds, case):
    os._exit(7)


def hang(seeds, case):
    time.sleep(60)


def stumble(seeds, case):
    raise KeyError("x")


def differ(seeds, case):
    raise DifferenceError("x")


def babble(seeds, case):
    raise InputError("two\nlines")


def gorge(seeds, case):
    bytearray(1 << 40)


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (crash, "crash: SIGSEGV"),
        (leave, "crash: exit code 7"),
        (hang, "hang: more than 0.5 s"),
        (stumble, "traceback: KeyError"),
        (differ, "silent difference: x"),
        (babble, "two lines"),
        (gorge, "hungry"),
    ],
)
def test_the_campaign_notices_what_it_is_there_for(use, what):
    def sometimes(seeds, case):
        return use(seeds, case) if case == 2 else refuse(seeds, case)

    kind = Format("x", lambda place: None, lambda rng, seeds, folder: int(folder.name.split("-")[1]), sometimes)
    report = run_format(kind, 5, seed=0, patience=0.5)
    assert [fault.case for fault in report.faults] == [2]
    assert report.faults[0].what.startswith(what)
    assert report.counts["refused"] == 4


def test_a_case_is_the_same_whenever_it_is_tried(tmp_path):
    def keep(seeds, made):
        with open(tmp_path / "seen", "a") as stream:
            stream.write(f"{made}\n")

    kind = Format("x", lambda place: None, lambda rng, seeds, folder: int(rng.integers(1 << 30)), keep)
    run_format(kind, 4, seed=5)
    run_format(kind, 1, seed=5, first=2)
    seen = (tmp_path / "seen").read_text().split()
    assert len(seen) == 5
    assert seen[2] == seen[4]
    assert len(set(seen)) == 4
