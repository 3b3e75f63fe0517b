"""Killed at any moment and started again, training leaves the bytes of a training that was not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.runs import train

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and SIGKILL")


class StopError(Exception):
    """An interruption."""


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
    assert deaths("writes", tmp_path) > 40  # number of writes that a kill can hit


def test_a_model_of_another_family_that_dies_at_any_single_write_leaves_the_same_bytes(tmp_path):
    assert deaths("own", tmp_path) > 20


@pytest.mark.parametrize("way", ["updates", "renames"])
def test_a_run_answers_whenever_its_update_dies_and_the_update_then_leaves_the_same_bytes(way, tmp_path):
    assert deaths(way, tmp_path) > 30
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_what_a_power_cut_tore_is_trained_again(tmp_path):
    """Folders whose files never reached the disk have no manifest; the run ends with the same bytes all the same."""
    data, _ = small_corpus(n_labels=9, n_train=60)
    params = {"block_size": 4, "n_jobs": 1}
    train("dismec", data, tmp_path / "whole", params)

    def stop(done, total):
        if done == total:
            raise StopError

    for torn in ("pieces/labels/00000004", "labels/00000000", "features"):
        folder = tmp_path / torn.replace("/", "-")
        with pytest.raises(StopError):
            train("dismec", data, folder, params, progress=stop)
        for entry in (folder / torn).iterdir():
            entry.write_bytes(b"")
        (folder / torn / "manifest.json").unlink()
        train("dismec", data, folder, params)
        assert tree_bytes(folder) == tree_bytes(tmp_path / "whole")
