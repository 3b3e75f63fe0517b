"""Pieces come back as they were put, piece or not at all."""

import numpy as np
import pytest

from unmissed.errors import InputError
from unmissed.execution import InMemory, OnDisk, Overlay, Piece


@pytest.fixture(params=["memory", "disk", "overlay"])
def pieces(request, tmp_path):
    made = {"memory": InMemory, "disk": lambda: OnDisk(tmp_path / "pieces"), "overlay": lambda: Overlay(InMemory())}
    return made[request.param]()


def test_a_piece_comes_back_as_it_was_put(pieces):
    assert pieces.get("tree/2") is None
    pieces.put(Piece("tree/2", {"depth": np.arange(3), "empty": np.zeros((0, 4), np.float32)}, {"n_nodes": 7}))
    found = pieces.get("tree/2")
    assert found.arrays["depth"].tolist() == [0, 1, 2]
    assert found.arrays["empty"].shape == (0, 4)
    assert found.metadata == {"n_nodes": 7}
    assert pieces.listed() == ["tree/2"]


def test_a_key_keeps_what_it_has(pieces):
    for number in (1, 2):
        pieces.put(Piece("one", metadata={"number": number}))
    assert pieces.get("one").metadata == {"number": 1}


def test_dropped_pieces_are_gone(pieces):
    for key in ("state/1", "state/2"):
        pieces.put(Piece(key))
    pieces.drop("state/1")
    pieces.drop("state/7")
    assert pieces.listed() == ["state/2"]
    assert pieces.get("state/1") is None


def test_an_overlay_does_not_change_the_pieces_below(tmp_path):
    below = OnDisk(tmp_path)
    below.put(Piece("labels/0"))
    above = Overlay(below)
    above.put(Piece("labels/1"))
    assert above.listed() == ["labels/0", "labels/1"]
    assert below.listed() == ["labels/0"]
    assert above.get("labels/0").key == "labels/0"


@pytest.mark.parametrize("key", ["", "/etc", "../up", "a//b", "a/../b", ".hidden", "a/.b", "A", "a b", "a/"])
def test_keys_are_plain_words(key, tmp_path):
    with pytest.raises(InputError, match="not the key of a piece"):
        Piece(key)
    with pytest.raises(InputError, match="not the key of a piece"):
        OnDisk(tmp_path).get(key)


def test_a_piece_under_the_name_of_another_is_refused(tmp_path):
    pieces = OnDisk(tmp_path)
    pieces.put(Piece("tree/1"))
    (tmp_path / "tree" / "1").rename(tmp_path / "tree" / "2")
    with pytest.raises(InputError, match=r"damaged.*tree/2"):
        pieces.get("tree/2")


def test_what_a_killed_writer_left_is_no_piece_and_is_cleaned(tmp_path):
    pieces = OnDisk(tmp_path)
    pieces.put(Piece("tree/1"))
    (tmp_path / "tree" / ".2.abc.part").mkdir()
    (tmp_path / "tree" / ".2.abc.part" / "manifest.json").write_text("{}")
    assert pieces.listed() == ["tree/1"]
    pieces.clean()
    assert sorted(entry.name for entry in (tmp_path / "tree").iterdir()) == ["1"]


def test_arrays_of_other_names_types_or_dimensions_are_refused():
    piece = Piece("counts", {"counts": np.arange(3)})
    assert piece.expect({"counts": (np.int64, 1)})["counts"].size == 3
    for layout in ({}, {"counts": (np.int32, 1)}, {"counts": (np.int64, 2)}, {"other": (np.int64, 1)}):
        with pytest.raises(InputError, match="counts: damaged"):
            piece.expect(layout)


def test_numeric_metadata_is_checked():
    piece = Piece("one", metadata={"gap": 0.5, "epochs": 3, "name": "x", "yes": True, "lost": float("nan")})
    assert piece.numbers("gap", "epochs") == {"gap": 0.5, "epochs": 3}
    for wrong in ("name", "yes", "lost", "missing"):
        with pytest.raises(InputError, match=f"one: damaged: {wrong} is .*, expected a number"):
            piece.numbers("gap", wrong)


def test_a_piece_that_a_power_cut_tore_is_not_there_and_is_put_again(tmp_path):
    """An archive is renamed before its files reach the disk: after the cut the folder is there, its manifest is not."""
    pieces = OnDisk(tmp_path)
    piece = Piece("labels/0", {"a": np.arange(3)})
    pieces.put(piece)
    (tmp_path / "labels" / "0" / "manifest.json").unlink()
    (tmp_path / "labels" / "0" / "a.npy").write_bytes(b"")
    assert pieces.get("labels/0") is None
    assert pieces.listed() == []
    pieces.put(piece)
    assert OnDisk(tmp_path, verify=True).get("labels/0").arrays["a"].tolist() == [0, 1, 2]
    assert [entry.name for entry in (tmp_path / "labels").iterdir()] == ["0"]


def test_a_folder_of_other_pieces_is_not_taken_for_a_torn_one(tmp_path):
    pieces = OnDisk(tmp_path)
    pieces.put(Piece("labels/0", {"a": np.arange(3)}))
    with pytest.raises(InputError, match="exists already"):
        pieces.put(Piece("labels", {"a": np.arange(3)}))
    assert pieces.listed() == ["labels/0"]
