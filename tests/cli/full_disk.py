"""Every verb that writes, run in a forked child on a disk which is full, and what came of it.

The disk is a small tmpfs in a mount namespace of the child, filled up to some bytes.
"""

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runs.corpora import write_texts
from unmissed.cli.app import run

NEW_NAMESPACE, NEW_USER, PRIVATE = 0x00020000, 0x10000000, (1 << 14) | (1 << 18)
SIZE = 8 << 20
LEFT = (0, 6_000)  # bytes that are free when the verb begins


def words_of(data: Path, disk: Path) -> dict[str, list[Any]]:
    """Return the command of each verb: what it reads is in `data`, what it writes on the disk."""
    texts, more = data / "train.jsonl", data / "more.jsonl"
    size = ["--train", 400, "--test", 50, "--labels", 20, "--features", 400]
    compare = ["--methods", "popularity", "--baseline", "popularity", "--bootstrap", 10, "--jobs", 1]
    return {
        "train": ["train", "dismec", texts, "--run", disk / "run", "--jobs", 1, "--no-check"],
        "extend": ["extend", disk / "run", more, "--jobs", 1],
        "update": ["update", disk / "run", more, "--jobs", 1],
        "predict": ["predict", data / "run", texts, "--out", disk / "out" / "best"],
        "convert to a store": ["data", "convert", texts, disk / "store"],
        "convert to text": ["data", "convert", data / "store", disk / "train.txt"],
        "convert to pairs": ["data", "convert", data / "store", f"{disk / 'X.npz'},{disk / 'Y.npz'}"],
        "convert to lines": ["data", "convert", texts, disk / "train.jsonl"],
        "make": ["data", "make", disk / "corpus", *size],
        "figure": ["data", "stats", texts, "--figure", disk / "labels.png"],
        "losses": ["study", "losses", "--out", disk / "sketch"],
        "compare": ["compare", texts, more, "--out", disk / "side", *compare],
    }


def own_disk(position: Path) -> bool:
    """Mount a small file system that this process alone sees; False where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NAMESPACE) and libc.unshare(NEW_NAMESPACE | NEW_USER):
        return False
    private = libc.mount(b"none", b"/", None, PRIVATE, None) == 0
    return private and libc.mount(b"none", os.fsencode(position), b"tmpfs", 0, f"size={SIZE}".encode()) == 0


def fill(disk: Path, left: int) -> Path:
    """Write a file that leaves `left` bytes free."""
    free = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(b"x" * max(free.f_bavail * free.f_bsize - left, 0))
    return filler


def spoken(words: list[Any]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it says on standard error."""
    heard = os.memfd_create("said")  # no pipe: helper processes would hold it open
    nothing, before = os.open(os.devnull, os.O_WRONLY), (os.dup(1), os.dup(2))
    os.dup2(nothing, 1)
    os.dup2(heard, 2)
    streams = sys.stdout, sys.stderr  # pytest's own, which do not write to 1 and 2
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
    try:
        run([str(word) for word in words])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = streams
        for descriptor, saved in zip((1, 2), before, strict=True):
            os.dup2(saved, descriptor)
            os.close(saved)
        os.close(nothing)
    with os.fdopen(heard, "rb") as stream:
        stream.seek(0)
        return code, stream.read().decode()


def entries(disk: Path) -> list[str]:
    return sorted(str(path.relative_to(disk)) for path in disk.rglob("*") if path.name.endswith(".part"))


def try_verb(verb: str, left: int, data: Path, disk: Path) -> dict[str, Any] | None:
    """Run a command on a full disk, then again with free space."""
    if not own_disk(disk):
        return None
    if verb in ("extend", "update"):
        shutil.copytree(data / "run", disk / "run")
    if verb == "compare" and left:  # so much that reading the data succeeds, and a method's process meets the end
        left += 200_000
    words = words_of(data, disk)[verb]
    filler = fill(disk, left)
    code, said = spoken(words)
    found = {"verb": verb, "left": left, "code": code, "said": said, "parts": entries(disk), "disk": str(disk)}
    filler.unlink()
    return {**found, "again": spoken(words)}


def forked(work: Callable[[], Any]) -> Any:
    """Return what some work gives in a child process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    return json.loads(os.read(reader, 1 << 16))


def try_every_verb(root: Path) -> list[dict[str, Any]] | None:
    """Return what came of each verb; None where the system does not let this user mount."""
    data, disk = root / "data", root / "disk"
    for folder in (data, disk):
        folder.mkdir()
    write_texts(data / "train.jsonl")
    write_texts(data / "more.jsonl", n=20, seed=1, extra="mix")
    prepared = [words_of(data, data)[verb] for verb in ("train", "convert to a store", "figure")]
    assert [spoken(words)[0] for words in prepared] == [0, 0, 0]  # in this process: modules and kernels are loaded once
    found = [
        forked(lambda verb=verb, left=left: try_verb(verb, left, data, disk))  # type: ignore[misc]
        for verb in words_of(data, disk)
        for left in LEFT
    ]
    return None if None in found else found
