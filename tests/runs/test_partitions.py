"""Partitions of one training fill one folder at once, in any order or twice, and leave the bytes of one training."""

import multiprocessing
import time
from dataclasses import dataclass

import pytest

from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.errors import InputError
from unmissed.execution import InMemory, Partition, Piece, Threads, Unfinished, Work
from unmissed.runs import open_run, train
from unmissed.runs.run_folder import RunFolder
from unmissed.settings import SETTINGS

PARAMS = {"block_size": 4, "n_jobs": 1}
DATA = small_corpus()[0]


def train_partition(path, number, of, seconds=None):
    """Train one partition; return the number of missing pieces."""
    try:
        train("dismec", DATA, path, PARAMS, partition=Partition(number, of, seconds))
    except Unfinished as error:
        return len(error.missing)
    return 0


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "run"
    train("dismec", DATA, path, PARAMS)
    return tree_bytes(path)


def test_partitions_in_any_order_and_twice_leave_the_bytes_of_one_training(reference, tmp_path):
    left = [train_partition(tmp_path / "run", number, 3) for number in (3, 1, 3, 2)]
    assert left == [7, 3, 3, 0], "ten blocks: partitions of 4, 3 and 3"
    assert tree_bytes(tmp_path / "run") == reference
    assert train_partition(tmp_path / "run", 1, 3) == 0, "a partition of a finished run has nothing to do"


def test_partitions_at_the_same_time_leave_the_bytes_of_one_training(reference, tmp_path):
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        pool.starmap(train_partition, [(tmp_path / "run", number, 3) for number in (1, 2, 3, 1)])
    assert tree_bytes(tmp_path / "run") == reference
    assert open_run(tmp_path / "run", verify=True).n_labels == DATA.n_labels


def test_finishing_says_what_is_missing_and_completes_what_is_not(reference, tmp_path):
    train_partition(tmp_path / "run", 1, 2)
    with pytest.raises(Unfinished, match=r"5 of 10 pieces are finished; missing: labels/00000004, .*, \.\.\.") as error:
        train("dismec", DATA, tmp_path / "run", PARAMS, partition=Partition(seconds=0))
    assert error.value.missing == [f"labels/{first:08d}" for first in range(4, 40, 8)]
    with pytest.raises(InputError, match="training is not finished"):
        open_run(tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    manifest = folder.read()
    train_partition(tmp_path / "run", 2, 2)
    folder.write(manifest)  # as if the last partition had died just before the end
    train("dismec", DATA, tmp_path / "run", PARAMS, partition=Partition(seconds=0))
    assert tree_bytes(tmp_path / "run") == reference


def test_a_training_of_all_tasks_and_a_partition_exclude_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "lock_seconds", 0.1)
    folder = RunFolder(tmp_path / "run")
    with folder.locked(), pytest.raises(InputError, match="another process is training"):
        train_partition(tmp_path / "run", 1, 2)
    with folder.locked(shared=True):
        with pytest.raises(InputError, match="another process is training"):
            train("dismec", DATA, tmp_path / "run", PARAMS)
        assert train_partition(tmp_path / "run", 1, 2) == 5


def test_what_another_partition_is_writing_is_not_cleaned_away(tmp_path):
    folder = RunFolder(tmp_path / "run")
    half = folder.path / "pieces" / "labels" / ".00000004.abc.part"
    with folder.locked(shared=True):
        half.mkdir(parents=True)
        with folder.locked(shared=True):
            assert half.exists()
    with folder.locked(shared=True):
        assert not half.exists(), "whoever comes when nobody else is there cleans up"


def test_a_partition_of_another_recipe_is_refused_and_changes_nothing(tmp_path):
    train_partition(tmp_path / "run", 1, 2)
    before = tree_bytes(tmp_path / "run")
    with pytest.raises(InputError, match="another recipe"):
        train("dismec", DATA, tmp_path / "run", {**PARAMS, "C": 3.0}, partition=Partition(2, 2))
    assert tree_bytes(tmp_path / "run") == before


@dataclass(frozen=True)
class Nap:
    number: int
    size: int = 1

    @property
    def key(self):
        return f"naps/{self.number}"

    def run(self, shared):
        time.sleep(0.05)
        return Piece(self.key)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_partition_stops_before_its_time_is_up_and_goes_on_later(n_jobs):
    pieces = InMemory()
    begin = time.monotonic()
    with pytest.raises(Unfinished) as error:
        Work(pieces, Threads(n_jobs), partition=Partition(seconds=0.6)).run([Nap(n) for n in range(200)], dict)
    assert time.monotonic() - begin < 1.2
    assert 2 <= error.value.finished == len(pieces.listed()) < 40
    assert error.value.own == 200 - error.value.finished
    Work(pieces, Threads(8)).run([Nap(n) for n in range(40)], dict)


def test_a_partition_is_one_of_a_number():
    for number, of in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(InputError, match="a partition is one of"):
            Partition(number, of)
    with pytest.raises(InputError, match="at least 0"):
        Partition(seconds=-1)
