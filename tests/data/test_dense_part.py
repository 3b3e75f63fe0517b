"""The dense part of a data set: in stores, in numpy's files, and added to other formats when they are read."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.data.test_store import mapped
from tests.runs.corpora import small_corpus, tree_bytes, write_texts
from unmissed.archive import write_manifest
from unmissed.data import Dataset, load, load_labels, open_store, save, write_store
from unmissed.data.large_text import convert_text
from unmissed.data.survey import survey
from unmissed.errors import InputError
from unmissed.settings import SETTINGS

TRAIN, TEST = small_corpus(n_labels=10, n_train=60)
DENSE = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
MIXED = replace(TRAIN, dense=DENSE)
ONE_PART = Dataset(None, TRAIN.Y, dense=DENSE)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_store_keeps_the_dense_part_as_it_is_and_maps_it(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "mapped_bytes", 0)
    given = replace(TRAIN, dense=DENSE.astype(dtype))
    write_store(given, tmp_path / "store")
    again = open_store(tmp_path / "store", verify=True)
    assert again.dense.dtype == dtype
    assert mapped(again.dense)
    assert again.dense.tobytes() == given.dense.tobytes()
    assert again.digest == given.digest
    assert (again.n_features, again.n_dense, again.X.shape[1]) == (403, 3, 400)
    assert again.features.dense.dtype == np.float32
    assert np.shares_memory(again.features.dense, again.dense) == (dtype is np.float32)
    np.testing.assert_array_equal(again.features.dense, given.dense.astype(np.float32))
    assert "403 (3 dense)" in repr(again).replace("n_features=", "")


def test_a_store_without_a_dense_part_is_written_as_before(tmp_path):
    write_store(TRAIN, tmp_path / "store")
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert "n_dense" not in manifest
    assert not (tmp_path / "store" / "dense.npy").exists()


def test_the_digest_covers_values_and_shape_but_not_the_precision_they_are_stored_in():
    changed, half = DENSE.copy(), DENSE.astype(np.float16)
    changed[59, 2] += 1
    reshaped = replace(TRAIN, dense=np.zeros((60, 2)))
    digests = {one.digest for one in (TRAIN, MIXED, replace(TRAIN, dense=changed), reshaped, ONE_PART)}
    assert len(digests) == 5
    assert replace(TRAIN, dense=half).digest == replace(TRAIN, dense=half.astype(np.float32)).digest


def damaged(store, **changes):
    """Change the manifest of a store, with a valid checksum."""
    manifest = json.loads((store / "manifest.json").read_text())
    write_manifest(store, manifest | changes)


def test_a_damaged_dense_part_is_refused(tmp_path):
    for name, changes in {"count": {"n_dense": 2}, "more": {"n_features": 2}, "none": {"n_dense": -1}}.items():
        write_store(MIXED, tmp_path / name)
        damaged(tmp_path / name, **changes)
        with pytest.raises(InputError, match=f"{name}: damaged"):
            open_store(tmp_path / name)
    bad = DENSE.copy()
    bad[17, 1] = np.nan
    write_store(replace(TRAIN, trusted=True, dense=bad), tmp_path / "nan")
    with pytest.raises(InputError, match="damaged: the dense part holds a value in row 17"):
        open_store(tmp_path / "nan")
    write_store(MIXED, tmp_path / "flipped")
    raw = bytearray((tmp_path / "flipped" / "dense.npy").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "flipped" / "dense.npy").write_bytes(raw)
    with pytest.raises(InputError, match="does not match its checksum"):
        open_store(tmp_path / "flipped", verify=True)


@pytest.mark.parametrize(("dataset", "names"), [(MIXED, "X.npz,E.npy,Y.npz"), (ONE_PART, "E.npy,Y.npz")])
def test_numpy_files_are_the_same_data_set(dataset, names, tmp_path):
    path = ",".join(str(tmp_path / name) for name in names.split(","))
    save(dataset, path)
    again = load(path)
    assert again.digest == dataset.digest
    assert (load_labels(path)[0] != dataset.Y).nnz == 0
    save(again, tmp_path / "store")
    assert load(tmp_path / "store").digest == dataset.digest
    assert again.origin.path == path


def test_a_format_that_cannot_hold_a_part_is_refused(tmp_path):
    for name in ("data.txt", "X.npz,Y.npz"):
        with pytest.raises(InputError, match=r"dense features; write .*X\.npz,E\.npy,Y\.npz"):
            save(MIXED, ",".join(str(tmp_path / one) for one in name.split(",")))
    with pytest.raises(InputError, match="the data has 400 sparse features"):
        save(MIXED, f"{tmp_path}/E.npy,{tmp_path}/Y.npz")
    with pytest.raises(InputError, match="the data has no dense features"):
        save(TRAIN, f"{tmp_path}/X.npz,{tmp_path}/E.npy,{tmp_path}/Y.npz")
    assert list(tmp_path.iterdir()) == []


def test_dense_features_are_added_to_any_format(tmp_path):
    np.save(tmp_path / "E.npy", DENSE)
    save(TRAIN, tmp_path / "data.txt")
    for dense in (tmp_path / "E.npy", str(tmp_path / "E.npy"), DENSE):
        assert load(tmp_path / "data.txt", dense=dense).digest == MIXED.digest
    write_store(TRAIN, tmp_path / "store")
    found = load(tmp_path / "store", dense=tmp_path / "E.npy")
    assert found.digest == MIXED.digest
    assert found.store is None  # the store does not hold these features
    assert load(tmp_path / "store").store is not None
    assert found.origin.options["dense"] == str(tmp_path / "E.npy")
    assert "dense" not in load(tmp_path / "store").origin.options
    assert load(tmp_path / "store", dense=DENSE).origin is None  # nobody could read it again


def test_texts_with_embeddings_are_the_same_read_at_once_or_in_blocks(tmp_path):
    write_texts(tmp_path / "train.jsonl")
    np.save(tmp_path / "E.npy", DENSE)
    save(load(tmp_path / "train.jsonl", dense=tmp_path / "E.npy"), tmp_path / "at once")
    convert_text(tmp_path / "train.jsonl", tmp_path / "in blocks", dense=tmp_path / "E.npy")
    assert tree_bytes(tmp_path / "at once") == tree_bytes(tmp_path / "in blocks")
    assert load(tmp_path / "at once").text is not None
    found = survey(tmp_path / "train.jsonl", dense=tmp_path / "E.npy")
    assert (found.n_features, found.n_dense) == (load(tmp_path / "at once").n_features, 3)


def test_other_numbers_of_rows_are_refused_with_both_numbers(tmp_path):
    write_texts(tmp_path / "train.jsonl")
    np.save(tmp_path / "E.npy", DENSE[:59])
    for call in (
        lambda: load(tmp_path / "train.jsonl", dense=tmp_path / "E.npy"),
        lambda: convert_text(tmp_path / "train.jsonl", tmp_path / "store", dense=tmp_path / "E.npy"),
        lambda: survey(tmp_path / "train.jsonl", dense=tmp_path / "E.npy"),
    ):
        with pytest.raises(InputError, match=r"E\.npy: has 59 rows; .*train\.jsonl has 60"):
            call()
    assert not (tmp_path / "store").exists()
    with pytest.raises(InputError, match="the dense part has 59 rows and Y has 60"):
        replace(TRAIN, dense=DENSE[:59])


class Evil:
    """A pickle that must not be loaded."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(Evil()), "not a .npy file of numbers"),
        (np.array([[Evil()]], dtype=object), "not a .npy file of numbers"),
        (np.zeros(60), r"E\.npy must have two dimensions"),
        (np.full((60, 2), np.inf), r"E\.npy holds a value in row 0"),
    ],
)
def test_a_file_that_is_no_array_of_finite_numbers_is_refused(content, message, tmp_path):
    if isinstance(content, bytes):
        (tmp_path / "E.npy").write_bytes(content)
    else:
        np.save(tmp_path / "E.npy", content, allow_pickle=True)
    write_store(TRAIN, tmp_path / "store")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "store", dense=tmp_path / "E.npy")


def test_a_second_dense_part_and_another_number_of_features_than_in_training_are_refused(tmp_path):
    write_store(MIXED, tmp_path / "mixed")
    with pytest.raises(InputError, match="mixed: has 3 dense features already"):
        load(tmp_path / "mixed", dense=DENSE)
    write_store(TEST, tmp_path / "test")
    with pytest.raises(InputError, match=r"test: has 0 dense features; the training set has 3; give them \(--dense\)"):
        load(tmp_path / "test", like=MIXED)
    with pytest.raises(InputError, match="test: has 2 dense features; the training set has 3"):
        load(tmp_path / "test", like=MIXED, dense=np.zeros((50, 2)))
    assert load(tmp_path / "test", like=MIXED, dense=np.ones((50, 3))).n_dense == 3


def test_an_array_without_labels_is_no_data_set(tmp_path):
    np.save(tmp_path / "E.npy", DENSE)
    with pytest.raises(InputError, match=r"features without labels; give both files as 'E\.npy,Y\.npz'"):
        load(tmp_path / "E.npy")
