"""Trainings in forked children that are killed, gone on with, and compared; each way returns how many died.

Forking makes the children warm: a kill hits the training, not the imports or the loading of kernels.
"""

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import own_model  # registers the tests' own model
from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.data import Dataset
from unmissed.runs import extend, open_run, replacing, train, update


def forked(work: Callable[[], Any]) -> int:
    """Start some work in a child process and return its id."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def died(child: int) -> bool:
    """Wait for a child; tell whether it was killed."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def at_random_times(root: Path, n_kills: int = 25) -> int:
    """Kill one training again and again, at random times, until it has been killed often enough."""
    data, _ = small_corpus(n_labels=240, n_train=600)

    def work(name: str) -> None:
        train("dismec", data, root / name, {"block_size": 4, "n_jobs": 2})

    train("dismec", data, root / "warm", {"block_size": 4, "n_jobs": 1})
    begin = time.perf_counter()
    assert not died(forked(lambda: work("reference")))
    seconds = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    n_died = 0
    for _ in range(n_kills):
        child = forked(lambda: work("killed"))
        time.sleep(rng.uniform(0, 2 * seconds / n_kills))
        os.kill(child, signal.SIGKILL)
        n_died += died(child)
    assert not died(forked(lambda: work("killed")))
    compare(root / "reference", root / "killed")
    assert open_run(root / "killed", verify=True).model.n_labels_ == 240
    return n_died


def at_every_write(root: Path) -> int:
    """Let a training and an extension die at their n-th write to the disk, for every n."""
    data, _ = small_corpus(n_labels=9, n_train=60)
    some = Dataset(data.X, data.Y[:, :6], label_names=data.label_names[:6])

    def work(folder: Path) -> None:
        train("dismec", some, folder, {"block_size": 4, "n_jobs": 1})
        if open_run(folder).n_labels < 9:
            extend(folder, data, old_rows=[some], n_jobs=1)

    return dying_everywhere(work, root)


def updates_at_every_write(root: Path) -> int:
    """The same for an update, which also swaps or changes names of folders; the run answers after every death."""
    data, new = small_corpus(n_labels=6, n_train=60)

    def work(folder: Path) -> None:
        update(folder, new, old_rows=[data])

    def begin(folder: Path) -> None:
        train("popularity", data, folder)

    def check(folder: Path) -> None:
        run = open_run(folder, verify=True)
        assert (run.parts[0].n_samples, run.rank(new.X, 3).n_samples) in ((60, 50), (110, 50))
        assert run.label_counts.sum() == data.Y.nnz + (new.Y.nnz if run.parts[0].n_samples == 110 else 0)

    return dying_everywhere(work, root, begin, check)


def own_model_at_every_write(root: Path) -> int:
    """The same for a model of another family: the one that the tests define."""
    data, _ = small_corpus(n_labels=9, n_train=60)
    method = own_model.METHOD
    return dying_everywhere(lambda folder: train(method, data, folder, {"block_size": 4, "n_jobs": 1}), root)


def nothing(folder: Path) -> None:
    """Do nothing."""


def dying_everywhere(
    work: Callable[[Path], Any],
    root: Path,
    begin: Callable[[Path], None] = nothing,
    check: Callable[[Path], None] = nothing,
) -> int:
    """Let some work die at its n-th write to the disk, go on with it, and compare, for every n; returns how many.

    `begin` makes what the work needs, `check` looks at what is there after a death.
    """
    begin(root / "reference")
    work(root / "reference")
    n = 0
    while True:
        folder = root / f"at-{n + 1}"
        begin(folder)

        def die(n: int = n, folder: Path = folder) -> None:
            die_at(n + 1)
            work(folder)

        if not died(forked(die)):
            return n
        n += 1
        check(folder)
        work(folder)
        compare(root / "reference", folder)


def die_at(n: int) -> Callable[[], int]:
    """Make this process kill itself instead of making its n-th call that changes the disk; returns their counter."""
    count = 0

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == n:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return step

    for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir"):
        setattr(os, name, dying(getattr(os, name)))
    replacing.exchange = dying(replacing.exchange)
    return lambda: count


def compare(reference: Path, other: Path) -> None:
    """Every file must hold the same bytes, and no file may be left over."""
    expected, found = tree_bytes(reference), tree_bytes(other)
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    assert [name for name in expected if expected[name] != found[name]] == []
