"""Layouts on disk: where those of a model are, and that the last one is kept."""

import numpy as np
import pytest

from unmissed.execution import InMemory, Layouts, OnDisk, Piece, PrefixedPieces, RecordedPieces, layouts_of

OLD, NEW = (Piece(key, {"a": np.arange(3)}) for key in ("0a", "0b"))


def test_each_member_of_an_ensemble_has_layouts_of_its_own(tmp_path):
    pieces = OnDisk(tmp_path / "pieces", verify=True, layouts=tmp_path / "layouts")
    assert layouts_of(RecordedPieces(pieces)) == Layouts(tmp_path / "layouts", keeps=True)
    member = PrefixedPieces(RecordedPieces(pieces), "members/1")
    assert layouts_of(member) == Layouts(tmp_path / "layouts/members/1", keeps=True)
    layouts_of(member).put(NEW)
    assert (tmp_path / "layouts/members/1/0b").is_dir()


def test_pieces_that_are_not_those_of_a_run_have_none(tmp_path):
    assert layouts_of(InMemory()) is None
    assert layouts_of(OnDisk(tmp_path)) is None


@pytest.mark.parametrize("keeps", [True, False])
def test_a_new_layout_replaces_the_old_one_if_pieces_were_verified(tmp_path, keeps):
    Layouts(tmp_path, keeps=True).put(OLD)
    layouts = Layouts(tmp_path, keeps)
    layouts.put(NEW)
    assert (layouts.get("0a") is None) is keeps
    assert (layouts.get("0b") is not None) is keeps


def test_damage_is_found_and_replaced(tmp_path, caplog):
    layouts = Layouts(tmp_path, keeps=True)
    layouts.put(NEW)
    path = tmp_path / "0b" / "a.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    assert layouts.get("0b") is None
    assert "does not match its checksum" in caplog.text
    layouts.put(NEW)
    assert layouts.get("0b").arrays["a"].tolist() == [0, 1, 2]
