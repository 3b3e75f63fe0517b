"""Killed at any moment and started again, training leaves the bytes of a training that was not."""

import sys

import pytest

from tests.runs import killing
from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.runs import replacing, train

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and SIGKILL")


class StopError(Exception):
    """An interruption."""


def test_a_training_killed_again_and_again_leaves_the_same_bytes(tmp_path):
    assert killing.at_random_times(tmp_path) >= 10  # of 25: else the kills came too late to show anything


def test_a_training_or_extension_that_dies_at_any_single_write_leaves_the_same_bytes(tmp_path):
    assert killing.at_every_write(tmp_path) > 40  # number of writes that a kill can hit


def test_a_model_of_another_family_that_dies_at_any_single_write_leaves_the_same_bytes(tmp_path):
    assert killing.own_model_at_every_write(tmp_path) > 20


@pytest.mark.parametrize("swaps", [True, False], ids=["updates", "renames"])
def test_a_run_answers_whenever_its_update_dies_and_the_update_then_leaves_the_same_bytes(swaps, tmp_path, monkeypatch):
    if not swaps:  # as on a system where two folders cannot swap names in one step
        monkeypatch.setattr(replacing, "exchange", lambda one, other: False)
    assert killing.updates_at_every_write(tmp_path) > 30
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
