"""Names from outside are shown as text, whatever is in them."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.speaking import refused
from unmissed.cli import app as application
from unmissed.cli import show
from unmissed.cli.terminal_text import escape_control

WICKED = ["[fruit]", "[/x]", ":smile:", "\x1b[31mred", "\x9b2J", "a\u202eb", "<b>", "\ud800", "\x00", "a\x7f"]


@pytest.mark.parametrize("name", WICKED)
def test_a_name_is_shown_as_text_in_tables_lines_and_json(capsys, name):
    show.print_table(name, ["", name], [[name, name], ["a", "b"]])
    show.say(name)
    show.print_json({"name": name})
    printed = capsys.readouterr().out
    assert printed.count(escape_control(name)) >= 4
    assert json.loads(printed[printed.index("{") :]) == {"name": name}
    assert not any(letter in printed for letter in "\x1b\x9b\u202e\ud800\x00\x7f")


def test_tabs_and_ordinary_characters_are_kept():
    text = "a\tb\nZürich 東京 שלום 😀"
    assert escape_control(text) == text
    assert escape_control("\x1b[0m\u2028") == "\\x1b[0m\\u2028"


@pytest.mark.parametrize("letter", "\u061c\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
def test_what_has_no_width_is_shown_on_a_terminal_and_kept_in_files(capsys, monkeypatch, letter):
    name = f"a{letter}b"
    code = f"\\u{ord(letter):04x}"
    show.say(name)
    show.print_table("t", ["n"], [[name]])
    assert capsys.readouterr().out.count(name) == 2, "a pipe gets the name as it is"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show.say(name)
    show.print_table("t", ["n"], [[name]])
    show.print_json({"name": name})
    printed = capsys.readouterr().out
    assert letter not in printed
    assert printed.count(f"a{code}b") == 3
    assert json.loads(printed[printed.index("{") :]) == {"name": name}


def test_an_escape_in_a_file_name_is_not_obeyed(capsys):
    assert "\\x1b[31m" in refused(capsys, "data", "stats", "no\x1b[31m.txt")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.npz"), "unmissed: a.npz: the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "unmissed: a.txt: permission denied"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "."), "unmissed: .: is a folder; a file was expected"),
        (OSError(errno.EIO, "Input/output error"), "unmissed: Input/output error"),
        (OSError("gone"), "unmissed: gone"),
        (MemoryError("Unable to allocate 8 TiB"), "unmissed: not enough memory: Unable to allocate 8 TiB"),
        (MemoryError(), "unmissed: not enough memory"),
    ],
)
def test_what_the_system_refuses_is_said_in_plain_words(capsys, monkeypatch, error, line):
    def fail(**options):
        raise error

    monkeypatch.setattr(application, "app", fail)
    assert refused(capsys, "demo").strip() == line


def test_a_full_disk_is_called_that():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    call = [sys.executable, "-c", "from unmissed.cli import main; main()", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, check=False)
    assert b"the disk is full" in done.stderr
    assert b"Traceback" not in done.stderr


SLOW = """
import signal, sys, time
from unmissed.cli import main
from unmissed.data import survey

def wait(*arguments, **options):
    print("ready", flush=True)
    time.sleep(60)

signal.signal(signal.SIGINT, signal.default_int_handler)
survey.survey = wait
sys.argv[1:1] = ["data", "stats"]
main()
"""


def test_ctrl_c_ends_with_one_line(tmp_path):
    (tmp_path / "any.txt").write_text("1 1 1\n0 0:1\n")
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, tmp_path / "any.txt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        _, said_last = running.communicate(timeout=60)
    assert (running.returncode, said_last) == (130, "unmissed: interrupted (Ctrl-C)\n")
