import json
import os
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unmissed import archive
from unmissed.archive import (
    MANIFEST,
    HashedAhead,
    atomic_folder,
    below,
    checksum,
    open_archive,
    open_arrays,
    read_json,
    read_manifest,
    write_archive,
    write_json,
    write_manifest,
    write_text,
)
from unmissed.errors import InputError

arrays = hnp.arrays(
    dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@settings(deadline=None)  # it waits for the disk
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), arrays))
def test_writing_and_opening_is_the_identity_and_read_only(tmp_path_factory, held):
    folder = tmp_path_factory.mktemp("archive") / "one"
    write_archive(folder, held, kind="box", note="ä")
    manifest = read_manifest(folder, "box")
    assert manifest["note"] == "ä"
    back = open_arrays(folder, manifest, verify=True)
    assert back.keys() == held.keys()
    for name, array in back.items():
        assert array.dtype == held[name].dtype
        assert array.shape == held[name].shape
        np.testing.assert_array_equal(array, held[name])
        assert not array.flags.writeable
    assert [each.name for each in folder.parent.iterdir()] == ["one"]


def test_columns_first_and_strided_arrays_come_back(tmp_path):
    array = np.arange(12).reshape(3, 4)
    write_archive(tmp_path / "one", {"f": np.asfortranarray(array), "s": array[::2, ::-1]}, kind="box")
    back = open_arrays(tmp_path / "one", read_manifest(tmp_path / "one", "box"))
    np.testing.assert_array_equal(back["f"], array)
    np.testing.assert_array_equal(back["s"], array[::2, ::-1])
    assert back["f"].flags.c_contiguous


def test_arrays_are_mapped_not_read_unless_they_are_small(tmp_path):
    write_archive(tmp_path / "one", {"large": np.arange(10_000), "small": np.arange(10)}, kind="box")
    arrays = open_arrays(tmp_path / "one", read_manifest(tmp_path / "one", "box"))
    assert isinstance(arrays["large"], np.memmap)
    assert not isinstance(arrays["small"], np.memmap), "a map would hold a file open"
    assert arrays["small"].tolist() == list(range(10))
    assert not arrays["small"].flags.writeable


def test_an_existing_target_is_refused_and_kept(tmp_path):
    write_archive(tmp_path / "one", {"a": np.arange(3)}, kind="box")
    with pytest.raises(InputError, match="exists already"):
        write_archive(tmp_path / "one", {}, kind="box")
    assert list(read_manifest(tmp_path / "one", "box")["arrays"]) == ["a"]


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="plain numbers, not object"):
        write_archive(tmp_path / "one", {"fine": np.arange(3), "bad": np.array([object()])}, kind="box")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    with atomic_folder(tmp_path / "deep" / "one") as aside:
        (aside / "part").touch()
        assert not (tmp_path / "deep" / "one").exists()
        assert aside.parent == tmp_path / "deep"
    assert (tmp_path / "deep" / "one" / "part").exists()


def test_folders_and_files_get_the_rights_of_any_new_one(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    write_archive(tmp_path / "one", {"a": np.arange(3)}, kind="box")
    assert (tmp_path / "one").stat().st_mode == (tmp_path / "folder").stat().st_mode
    for each in (tmp_path / "one").iterdir():
        assert each.stat().st_mode == (tmp_path / "file").stat().st_mode


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_rights_follow_the_umask_which_is_not_touched(tmp_path, monkeypatch, mask):
    """Setting it, even for a moment, would open or close the files that other threads create."""
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", None)
            write_archive(tmp_path / "one", {"a": np.arange(3)}, kind="box")
            write_text(tmp_path / "text", "words")
    finally:
        os.umask(before)
    for path, mode in ((tmp_path / "one", 0o777), (tmp_path / "one" / "a.npy", 0o666), (tmp_path / "text", 0o666)):
        assert stat.S_IMODE(path.stat().st_mode) == mode & ~mask


def test_every_changed_byte_is_detected_with_verify(tmp_path):
    folder = tmp_path / "one"
    write_archive(folder, {"a": np.arange(4, dtype=np.uint8)}, kind="box")
    manifest = read_manifest(folder, "box")
    content = (folder / "a.npy").read_bytes()
    for at in range(len(content)):
        (folder / "a.npy").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(InputError, match=r"a\.npy: does not match its checksum"):
            open_arrays(folder, manifest, verify=True)


def test_damage_is_named(tmp_path):
    folder = tmp_path / "one"
    write_archive(folder, {"a": np.arange(4)}, kind="box")
    manifest = read_manifest(folder, "box")
    content = (folder / "a.npy").read_bytes()
    (folder / "a.npy").write_bytes(content[:-1])
    with pytest.raises(InputError, match=rf"a\.npy: has {len(content) - 1} bytes, its manifest says {len(content)}"):
        open_arrays(folder, manifest)
    (folder / "a.npy").write_bytes(b"x" * len(content))
    with pytest.raises(InputError, match=r"a\.npy: not a readable array"):
        open_arrays(folder, manifest)
    (folder / "a.npy").unlink()
    with pytest.raises(InputError, match=r"a\.npy: missing"):
        open_arrays(folder, manifest)
    entry = manifest["arrays"]["a"]
    for broken in (
        {},
        {"arrays": []},
        {"arrays": {"a": {}}},
        {"arrays": {"a": None}},
        {"arrays": {"a": {**entry, "bytes": "160"}}},
        {"arrays": {"a": {**entry, "sha256": 7}}},
        {"arrays": {"../a": entry}},
        {"arrays": {"": entry}},
        {"arrays": {"b/a": entry}},
        {"arrays": {".a": entry}},
        {"arrays": {"a.b": entry}},
    ):
        (folder / "a.npy").write_bytes(content)
        with pytest.raises(InputError, match="damaged"):
            open_arrays(folder, broken)


@pytest.mark.parametrize("change", [{"note": "b"}, {"more": 1}, {"sha256": "0"}])
def test_a_manifest_that_was_changed_is_refused_with_or_without_verify(tmp_path, change):
    write_archive(tmp_path / "one", {"a": np.arange(4)}, kind="box", note="a")
    manifest = json.loads((tmp_path / "one" / MANIFEST).read_text())
    write_json(tmp_path / "one" / MANIFEST, {**manifest, **change})
    with pytest.raises(InputError, match=r"manifest\.json: does not match its own checksum"):
        open_archive(tmp_path / "one", "box")
    write_manifest(tmp_path / "one", {**manifest, **change})
    open_archive(tmp_path / "one", "box", verify=True)


def test_every_changed_byte_of_a_manifest_is_found_or_means_nothing(tmp_path):
    folder = tmp_path / "one"
    write_archive(folder, {"a": np.arange(4, dtype=np.uint8)}, kind="box", note="b")
    metadata, _ = open_archive(folder, "box", verify=True)
    content = (folder / MANIFEST).read_bytes()
    for at in range(len(content)):
        (folder / MANIFEST).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            assert open_archive(folder, "box", verify=True)[0] == metadata
        except InputError:
            pass
        else:
            assert content[at] in b" \n", "only blanks may change without a word"


def test_a_manifest_without_its_checksum_does_not_verify(tmp_path):
    write_archive(tmp_path / "one", {"a": np.arange(4)}, kind="box")
    manifest = read_manifest(tmp_path / "one", "box")
    del manifest["sha256"]
    write_json(tmp_path / "one" / MANIFEST, manifest)
    assert open_archive(tmp_path / "one", "box")[1].keys() == {"a"}
    with pytest.raises(InputError, match="no checksum of its own"):
        open_archive(tmp_path / "one", "box", verify=True)


def test_links_and_pipes_in_an_archive_are_not_opened(tmp_path):
    folder = tmp_path / "one"
    write_archive(folder, {"a": np.arange(4)}, kind="box")
    for name in ("a.npy", MANIFEST):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
        with pytest.raises(InputError, match="symbolic link"):
            open_archive(folder, "box")
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(InputError, match="not a regular file"):
            open_archive(folder, "box")
        (folder / name).unlink()
        (tmp_path / name).rename(folder / name)
    (tmp_path / "link").symlink_to(folder)
    open_archive(tmp_path / "link", "box")  # the user's own way to the folder may be a link


def test_nothing_below_a_folder_leads_out_of_it(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    assert below(tmp_path / "in", "deep/file") == tmp_path / "in" / "deep" / "file"
    for relative in ("..", "deep/../../x", "/etc/passwd", "out", "out/in"):
        with pytest.raises(InputError, match=r"leads out|symbolic link"):
            below(tmp_path / "in", relative)


def test_an_array_without_a_plain_name_is_not_written(tmp_path):
    for name in ("../a", "a/b", "", "a\0"):
        with pytest.raises(InputError, match="no name of an array"):
            write_archive(tmp_path / "one", {name: np.arange(3)}, kind="box")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_kind_is_refused(tmp_path):
    write_archive(tmp_path / "one", {}, kind="box")
    with pytest.raises(InputError, match=r"not a bag folder .*'box'"):
        read_manifest(tmp_path / "one", "bag")
    with pytest.raises(InputError, match=f"it has no {MANIFEST}"):
        read_manifest(tmp_path, "box")
    (tmp_path / MANIFEST).write_text("[1]")
    with pytest.raises(InputError, match="says None"):
        read_manifest(tmp_path, "box")


def test_text_is_replaced_atomically(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_json_comes_back_and_bad_json_is_named(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"ä": [1, None]})
    assert read_json(path) == {"ä": [1, None]}
    assert json.loads(path.read_text(encoding="utf-8")) == {"ä": [1, None]}
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"a\.json: not a readable JSON file"):
        read_json(path)
    with pytest.raises(InputError, match="no such file"):
        read_json(tmp_path / "none.json")


def test_the_checksum_is_sha256(tmp_path):
    (tmp_path / "empty").touch()
    assert checksum(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def hashed(tmp_path, monkeypatch):
    """An archive whose checksums were computed ahead, and the number of checksums that are computed afterwards."""
    write_archive(tmp_path / "held", {"a": np.arange(9), "b": np.arange(5)}, kind="test")
    with HashedAhead([tmp_path / "held", tmp_path / "none"], smallest=1) as found:
        found.wait()
        counted, digest = [], archive._digest
        monkeypatch.setattr(archive, "_digest", lambda stream: counted.append(stream) or digest(stream))
        yield tmp_path / "held", counted, found


def test_a_checksum_that_was_computed_ahead_is_used_once(hashed):
    folder, counted, _ = hashed
    open_archive(folder, "test", verify=True)
    assert len(counted) == 0
    open_archive(folder, "test", verify=True)
    assert len(counted) == 2


def test_checksums_that_are_left_are_forgotten(hashed):
    folder, counted, found = hashed
    found.clear()
    open_archive(folder, "test", verify=True)
    assert len(counted) == 2


def test_a_file_that_changed_since_its_checksum_was_computed_is_found(hashed):
    path = hashed[0] / "a.npy"
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(InputError, match="does not match its checksum"):
        open_archive(hashed[0], "test", verify=True)


def test_a_file_that_was_damaged_before_is_found_by_its_checksum_ahead(tmp_path):
    write_archive(tmp_path / "held", {"a": np.arange(9)}, kind="test")
    path = tmp_path / "held/a.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with HashedAhead([tmp_path / "held"], smallest=1) as found:
        found.wait()
        with pytest.raises(InputError, match="does not match its checksum"):
            open_archive(tmp_path / "held", "test", verify=True)
