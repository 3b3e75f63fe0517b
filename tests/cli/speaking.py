"""How tests talk to the command line."""

import pytest

from unmissed.cli.app import run


def said(capsys, *words):
    """Run a verb that succeeds; returns its standard output."""
    with pytest.raises(SystemExit) as end:
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert end.value.code == 0, captured.err
    return captured.out


def refused(capsys, *words):
    """Run a verb that is refused; returns its one line."""
    with pytest.raises(SystemExit) as end:
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert end.value.code == 2, captured
    assert captured.out == ""
    assert captured.err.startswith("unmissed: ")
    assert captured.err.count("\n") == 1
    return captured.err
