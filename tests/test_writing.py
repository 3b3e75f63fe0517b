"""Atomic writing: files and folders are complete or absent after a kill, a power failure, and among writers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unmissed.archive import write_archive, write_text
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Piece
from unmissed.writing import atomic_file, atomic_folder, exchange, make_folder, remove_stale, temporary_folder

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and locks")


@pytest.fixture
def calls(monkeypatch):
    """What is flushed and renamed, in order: ("fsync", path) and ("rename", path, path)."""
    seen = []
    fsync = os.fsync

    def note_sync(descriptor):
        seen.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def note(call):
        def renamed(one, other):
            seen.append(("rename", str(one), str(other)))
            call(one, other)

        return renamed

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", note(os.rename))
    monkeypatch.setattr(os, "replace", note(os.replace))
    return seen


@linux
def test_a_folder_is_flushed_before_its_rename_and_the_one_above_after_it(tmp_path, calls):
    OnDisk(tmp_path / "pieces").put(Piece("labels/0", {"a": np.arange(3), "b": np.arange(5)}))
    at, (_, aside, target) = next((at, call) for at, call in enumerate(calls) if call[0] == "rename")
    assert target == str(tmp_path / "pieces" / "labels" / "0")
    before, after = ({call[1] for call in part} for part in (calls[:at], calls[at + 1 :]))
    assert {f"{aside}/{name}" for name in ("a.npy", "b.npy", "manifest.json")} <= before
    assert aside in before, "the folder that lists the files"
    assert after == {str(tmp_path / "pieces" / "labels")}
    assert {str(tmp_path), str(tmp_path / "pieces")} <= before, "they list folders that are new"


@linux
def test_a_file_is_flushed_before_its_rename_and_the_folder_after_it(tmp_path, calls):
    write_text(tmp_path / "a.txt", "new")
    (first, aside), (second, _, target), last = calls
    assert (first, second, target) == ("fsync", "rename", str(tmp_path / "a.txt"))
    assert aside.endswith(".part")
    assert last == ("fsync", str(tmp_path))


WRITE_FOREVER = """
import sys, time
from unmissed.writing import atomic_file, atomic_folder
with atomic_folder(sys.argv[1]) as folder, atomic_file(sys.argv[2]) as stream:
    (folder / "part").touch()
    print("ready", flush=True)
    time.sleep(600)
"""


@linux
def test_what_a_killed_writer_left_goes_with_the_next_one_and_what_a_living_one_holds_stays(tmp_path):
    folder, file = tmp_path / "store", tmp_path / "a.txt"
    command = [sys.executable, "-c", WRITE_FOREVER, str(folder), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout.readline() == "ready\n"
            (tmp_path / ".store.download.part").touch()  # somebody else's
            held = sorted(tmp_path.iterdir())
            assert len(held) == 3
            remove_stale(folder)
            remove_stale(file)
            assert sorted(tmp_path.iterdir()) == held, "the writer lives"
        finally:
            writer.send_signal(signal.SIGKILL)
    write_archive(folder, {"a": np.arange(3)}, kind="box")
    write_text(file, "new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".store.download.part", "a.txt", "store"]


def test_many_writers_of_one_name_do_not_take_each_other_for_dead(tmp_path):
    """They make and sweep temporary files at the same time; all must end well."""
    script = "import sys\nfrom unmissed.archive import write_text\nfor n in range(150): write_text(sys.argv[1], str(n))"
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "a.txt")]) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "149"


def test_a_temporary_folder_is_removed_in_the_end(tmp_path):
    with temporary_folder(tmp_path / "new" / "x") as folder:
        (folder / "file").touch()
        assert folder.parent == tmp_path / "new"
    assert list((tmp_path / "new").iterdir()) == []


def test_a_target_of_the_same_bytes_stays_and_another_is_refused(tmp_path):
    def write(text):
        with atomic_folder(tmp_path / "folder", keep_same=True) as folder:
            (folder / "deep").mkdir()
            (folder / "deep" / "file").write_text(text)
        with atomic_file(tmp_path / "file", keep_same=True) as stream:
            stream.write(text.encode())

    write("one")
    before = [os.stat(tmp_path / name).st_ino for name in ("folder", "file")]
    write("one")
    assert [os.stat(tmp_path / name).st_ino for name in ("folder", "file")] == before
    with pytest.raises(InputError, match="folder: exists already and holds something else"):
        write("two")
    with (
        pytest.raises(InputError, match="file: exists already and holds something else"),
        atomic_file(tmp_path / "file", keep_same=True) as stream,
    ):
        stream.write(b"two")
    (tmp_path / "folder" / "more").touch()
    with pytest.raises(InputError, match="holds something else"):
        write("one")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "one"


def test_two_folders_swap_names_where_the_system_can(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if exchange(tmp_path / "one", tmp_path / "other"):
        assert [entry.name for entry in (tmp_path / "one").iterdir()] == ["other"]
        assert [entry.name for entry in (tmp_path / "other").iterdir()] == ["one"]
        with pytest.raises(FileNotFoundError, match="none"):
            exchange(tmp_path / "one", tmp_path / "none")
    else:
        assert [entry.name for entry in (tmp_path / "one").iterdir()] == ["one"]


def test_folders_are_made_once(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_folder(tmp_path / "file" / "c")
    assert Path(tmp_path / "a" / "b").is_dir()
