"""Killed at any moment and started again, training leaves the bytes of a training that was not."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and SIGKILL")


def deaths(way, root):
    """Run `tests.runs.killing` in a process of its own; returns how many trainings died there."""
    command = [sys.executable, "-m", "tests.runs.killing", way, str(root)]
    here = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


def test_a_training_killed_again_and_again_leaves_the_same_bytes(tmp_path):
    assert deaths("times", tmp_path) >= 10  # of 25: else the kills came too late to show anything


def test_a_training_or_extension_that_dies_at_any_single_write_leaves_the_same_bytes(tmp_path):
    assert deaths("writes", tmp_path) > 40  # so many places to die at


def test_a_model_of_another_family_that_dies_at_any_single_write_leaves_the_same_bytes(tmp_path):
    assert deaths("own", tmp_path) > 20


def test_an_update_that_dies_at_any_single_write_leaves_the_same_bytes(tmp_path):
    assert deaths("updates", tmp_path) > 20
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
