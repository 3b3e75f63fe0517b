"""Work does what is missing once, keeps it, and tells how far it is, on any executor."""

from dataclasses import dataclass

import pytest

from unmissed.errors import UnmissedError
from unmissed.execution import InMemory, Partition, Piece, Processes, Threads, Unfinished, Work


@dataclass(frozen=True)
class Square:
    number: int
    size: int = 1

    @property
    def key(self):
        return f"squares/{self.number}"

    def run(self, shared):
        if self.number == 13:
            raise UnmissedError("unlucky")
        return Piece(self.key, metadata={"square": self.number**2 + shared["offset"]})


@dataclass(frozen=True)
class Offset:
    offset: int

    def __call__(self):
        return {"offset": self.offset}


EXECUTORS = [Threads(1), Threads(3), Processes(1), Processes(2)]


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: f"{type(one).__name__}-{one.n_jobs}")
def test_every_task_is_run_once_with_the_shared_state(executor):
    work = Work(executor=executor)
    found = {piece.key: piece.metadata["square"] for piece in work.map([Square(n) for n in range(5)], Offset(100))}
    assert found == {f"squares/{n}": n * n + 100 for n in range(5)}
    assert work.pieces.listed() == sorted(found)


def test_what_is_finished_is_yielded_but_not_done_again():
    pieces = InMemory()
    pieces.put(Piece("squares/2", metadata={"square": "kept"}))
    seen = []
    work = Work(pieces, Threads(1), lambda done, total: seen.append((done, total)))
    found = [piece.metadata["square"] for piece in work.map([Square(n, 10) for n in range(4)], Offset(0))]
    assert found == ["kept", 0, 1, 9]
    assert seen == [(10, 40), (20, 40), (30, 40), (40, 40)]


def test_the_shared_state_is_not_built_when_nothing_is_missing():
    def never():
        raise AssertionError("made for nothing")

    pieces = InMemory()
    pieces.put(Piece("squares/1"))
    Work(pieces, Threads(1)).run([Square(1)], never)


def test_a_plan_makes_several_maps_one_bar():
    seen = []
    work = Work(executor=Threads(1), progress=lambda done, total: seen.append((done, total)))
    work.plan(4)
    work.run([Square(0), Square(1)], Offset(0))
    work.run([Square(2), Square(3)], Offset(0))
    assert seen[0] == (0, 4)
    assert seen[-1] == (4, 4)


def test_the_progress_of_a_partition_is_that_of_its_own_tasks():
    seen, pieces = [], InMemory()
    Work(pieces, Threads(1)).run([Square(0), Square(1)], Offset(0))
    tasks = [Square(n) for n in range(6)]
    work = Work(pieces, Threads(1), lambda done, total: seen.append((done, total)), Partition(1, 2))
    with pytest.raises(Unfinished):
        work.run(tasks, Offset(0))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: f"{type(one).__name__}-{one.n_jobs}")
def test_a_task_that_fails_reaches_the_caller_and_finished_ones_are_kept(executor):
    work = Work(executor=executor)
    with pytest.raises(UnmissedError, match="unlucky"):
        work.run([Square(n) for n in (1, 2, 13)], Offset(0))
    assert set(work.pieces.listed()) <= {"squares/1", "squares/2"}
    if executor.n_jobs == 1:
        assert work.pieces.listed() == ["squares/1", "squares/2"]
