"""Progress lines: not too many, with the share that is done and the time that is left."""

import time

import pytest

from unmissed import progress


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_lines_are_rare_and_tell_what_is_left(clock):
    lines = []
    report = progress.ProgressLines("DiSMEC", "labels", lines.append, pause=1.0)
    report(0, 4000)
    for done in (10, 20):
        clock[0] += 0.6
        report(done, 4000)
    assert lines == ["DiSMEC: 20 of 4,000 labels (0 %) after 1 s, about 3.98 min to go"]
    clock[0] += 200
    report(3000, 4000)
    assert lines[1:] == ["DiSMEC: 3,000 of 4,000 labels (75 %) after 3.35 min, about 67 s to go"]
    report(4000, 4000)
    assert len(lines) == 2


def test_the_rate_of_a_second_file_does_not_count_the_first(clock):
    lines = []
    report = progress.ProgressLines("reading", "", lines.append, pause=30.0)
    clock[0] += 25
    report(1000, 1000)
    report(1, 1000)
    clock[0] += 10
    report(500, 1000)
    assert lines == ["reading: 500 of 1,000 (50 %) after 35 s, about 10 s to go"]


def test_work_of_unknown_size_is_counted(clock):
    lines = []
    report = progress.ProgressLines("reading", "", lines.append, pause=1.0)
    clock[0] += 2
    report(1234, None)
    assert lines == ["reading: 1,234 after 2 s"]


def test_the_end_is_printed_once_however_short_the_work(clock, capsys):
    report = progress.print_progress("DiSMEC", "labels")
    for done in (0, 3, 5, 5):
        report(done, 5)
    captured = capsys.readouterr()
    assert captured.err == "DiSMEC: 5 of 5 labels (100 %) after 0 s\n"
    assert captured.out == ""


def test_nothing_to_do_has_no_share(clock, capsys):
    progress.print_progress("DiSMEC", "labels")(0, 0)
    assert capsys.readouterr().err == "DiSMEC: 0 after 0 s\n"
