"""A short campaign in every test run, and proof that it would notice; the long one is `python -m tests.hostile`."""

import json
import os
import signal
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc")

if sys.platform.startswith("linux"):
    from tests.hostile import forged_runs, kills
    from tests.hostile.__main__ import FORMATS
    from tests.hostile.campaign import DifferenceError, Format, ViolationError, run_format
    from unmissed.data.readers.format_registry import LISTED
    from unmissed.errors import InputError
    from unmissed.models.method_registry import METHODS as ALL
    from unmissed.runs import open_run

    METHODS = sorted(name for name, one in ALL.items() if one.import_path.startswith("unmissed."))
    SHORT = [name for name in FORMATS if name != "full disk in compare"]  # tests/cli/test_full_disk.py has its like

CASES = {"store": 60, "run": 40, "flips of a store": 20, "flips of runs": 20, "kills": 6}
if sys.platform.startswith("linux"):
    CASES |= {kind.name: 1 if "compare" in kind.name else 4 for kind in kills.FORMATS}


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("name", SHORT if sys.platform.startswith("linux") else [])
def test_nothing_hostile_crashes_hangs_or_passes_unnoticed(name):
    report = run_format(FORMATS[name], CASES.get(name, 120), seed=1)
    assert report.faults == []
    assert sum(report.counts.values()) == CASES.get(name, 120)
    if "kills" not in name and "full" not in name:
        assert report.counts["refused"] > 0, "it was spoilt"


def test_every_format_of_data_sets_has_its_mutator():
    """A new format gets a mutator; data frames are no files, and the files of a folder of texts are plain text."""
    names = {"json": "lines", "xmc": "text", "table": "tables", "parquet": "parquet"}
    names |= {"annif-tsv": "annif", "annif-csv": "annif"}
    assert {names.get(name, name) for name in LISTED.keys() - {"frame", "folder"}} <= FORMATS.keys()


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


def violate(seeds, case):
    raise ViolationError("impossible ranking: x")


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
        (violate, "impossible ranking: x"),
    ],
)
def test_the_campaign_notices_what_it_is_there_for(use, what):
    def sometimes(seeds, case):
        return use(seeds, case) if case == 2 else refuse(seeds, case)

    kind = Format("x", lambda position: None, lambda rng, seeds, folder: int(folder.name.split("-")[1]), sometimes)
    report = run_format(kind, 5, seed=0, patience=0.5)
    assert [fault.case for fault in report.faults] == [2]
    assert report.faults[0].what.startswith(what)
    assert report.counts["refused"] == 4


def test_a_case_is_the_same_whenever_it_is_tried(tmp_path):
    def keep(seeds, made):
        with open(tmp_path / "seen", "a") as stream:
            stream.write(f"{made}\n")

    kind = Format("x", lambda position: None, lambda rng, seeds, folder: int(rng.integers(1 << 30)), keep)
    run_format(kind, 4, seed=5)
    run_format(kind, 1, seed=5, first=2)
    seen = (tmp_path / "seen").read_text().split()
    assert len(seen) == 5
    assert seen[2] == seen[4]
    assert len(set(seen)) == 4


def test_a_format_may_bound_memory_more_tightly():
    def take_half_a_gigabyte(seeds, case):
        bytearray(1 << 29)

    for memory, n_faults in ((1 << 28, 3), (1 << 30, 0)):
        kind = Format("x", lambda position: None, lambda *case: None, take_half_a_gigabyte, memory=memory)
        assert len(run_format(kind, 3, seed=0).faults) == n_faults


def test_cases_are_counted_by_group_even_those_that_crash():
    kind = Format(
        "x",
        lambda position: None,
        lambda rng, seeds, folder: parity(rng, seeds),
        lambda seeds, group: crash(seeds, 0) if group == "odd" else refuse(seeds, 0),
        group=parity,
    )
    report = run_format(kind, 12, seed=0)
    assert report.groups["odd"]["fault"] == len(report.faults) > 0
    assert report.groups["even"]["refused"] == 12 - len(report.faults) > 0
    assert all(fault.what == "crash: SIGSEGV (odd)" for fault in report.faults)
    assert report.group_lines()[0].startswith("even: ")


def parity(rng, seeds):
    return ("even", "odd")[int(rng.integers(2))]


@pytest.fixture(scope="module")
def forging(tmp_path_factory):
    return forged_runs.prepare(tmp_path_factory.mktemp("forging"))


def test_forged_runs_are_of_every_method(forging):
    assert set(METHODS) <= set(forging["bases"])


def test_a_forged_recipe_has_right_checksums(forging, tmp_path):
    """What refuses a forged run is not its checksum: that is right."""
    n_opened = 0
    for case in range(30):
        folder = tmp_path / str(case)
        folder.mkdir()
        made = forged_runs.spoil(np.random.default_rng(case), forging, folder)
        why = refusal(made.folder)
        assert "checksum" not in why
        n_opened += not why
    assert n_opened > 10


def refusal(folder):
    try:
        open_run(folder, verify=True)
    except InputError as error:
        return str(error)
    return ""


def test_a_recipe_that_training_refuses_is_noticed(forging):
    data = forging["train"]
    for method in METHODS:
        params = dict(json.loads((forging["bases"][method].root / "manifest.json").read_text())["recipe"]["params"])
        assert forged_runs.refused_by_training(method, params, data) is None, method
        for name in {"penalty", "l1", "tol"} & params.keys():
            assert name in forged_runs.refused_by_training(method, {**params, name: -1.0}, data), method


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        ([[0, 0]], [[2, 1]]),
        ([[0, 9]], [[2, 1]]),
        ([[-1, 0]], [[2, 1]]),
        ([[0, -2]], [[2, 1]]),
        ([[0, 1]], [[1, 2]]),
        ([[0, 1]], [[1, np.nan]]),
    ],
)
def test_an_impossible_ranking_is_noticed(labels, scores):
    sound = {"labels": [[3, 1, -1]], "scores": [[2, 1, -np.inf]]}
    forged_runs.check_ranking(SimpleNamespace(**sound, probabilities=None), 9)
    with pytest.raises(forged_runs.ViolationError, match="impossible probabilities"):
        forged_runs.check_ranking(SimpleNamespace(**sound, probabilities=np.array([[1.5, 0.5, 0]])), 9)
    with pytest.raises(ViolationError, match="impossible ranking"):
        forged_runs.check_ranking(SimpleNamespace(labels=labels, scores=scores, probabilities=None), 9)


def test_a_ranking_that_changes_with_a_parameter_it_does_not_read_is_noticed(forging):
    base = forging["bases"]["dismec"]
    made = forged_runs.Forged(base._replace(scores=b"other"), base.root, same=True)
    with pytest.raises(DifferenceError, match="ranks otherwise"):
        forged_runs.use(forging, made)
