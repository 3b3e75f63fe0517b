"""The store: a folder that opens memory-mapped, or not at all."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.runs.killing import died, forked
from unmissed import archive
from unmissed.archive import checksum, write_archive, write_manifest
from unmissed.data import Dataset, TextFeatures, load, load_labels, make_corpus, open_store, write_store
from unmissed.errors import InputError
from unmissed.settings import SETTINGS


@pytest.fixture
def dataset() -> Dataset:
    return make_corpus(60, 0, 8, 50, rng=1).train


def mapped(array: np.ndarray) -> bool:
    """Whether the array's memory is a file's."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def test_store_and_open_is_the_identity(tmp_path, dataset):
    write_store(dataset, tmp_path / "store")
    again = load(tmp_path / "store")
    for one, other in ((dataset.X, again.X), (dataset.Y, again.Y)):
        assert (one != other).nnz == 0
        assert one.data.tobytes() == other.data.tobytes()
    assert again.label_names == dataset.label_names
    assert again.feature_names == dataset.feature_names
    assert again.digest == dataset.digest
    assert Dataset(again.X, again.Y, again.label_names, again.feature_names).digest == dataset.digest


def test_an_opened_store_is_memory_mapped_and_read_only(tmp_path, dataset, monkeypatch):
    monkeypatch.setattr(SETTINGS, "mapped_bytes", 0)
    write_store(dataset, tmp_path / "store")
    again = open_store(tmp_path / "store")
    for matrix in (again.X, again.Y):
        for array in (matrix.data, matrix.indices, matrix.indptr):
            assert mapped(array)
            assert not array.flags.writeable
    assert (again.X[3:7] @ again.X.T).shape == (4, 60)  # works in products and slices


@pytest.mark.parametrize("names", [["", "ü", "a\nb", "日本\x00", "x" * 1000], []])
def test_any_names_come_back(tmp_path, names):
    matrix = sparse.csr_matrix((2, len(names)), dtype=np.float32)
    write_store(Dataset(matrix, matrix, names, names, label_titles=names), tmp_path / "store")
    again = open_store(tmp_path / "store", verify=True)
    assert again.label_names == again.feature_names == again.label_titles == names


def test_a_name_that_is_no_text_is_refused(tmp_path):
    matrix = sparse.csr_matrix((2, 1), dtype=np.float32)
    with pytest.raises(InputError, match="half of a surrogate pair"):
        write_store(Dataset(matrix, matrix, label_titles=["\ud800"]), tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_text_features_are_remembered(tmp_path):
    text = TextFeatures(min_df=1, ngrams=(1, 2))
    X = text.fit_transform(["one two", "two three"])
    write_store(Dataset(X, sparse.csr_matrix((2, 1)), text=text), tmp_path / "store")
    again = open_store(tmp_path / "store").text
    assert again is not None
    assert again.options == text.options
    assert again.transform(["three two one"]).data.tobytes() == text.transform(["three two one"]).data.tobytes()


def test_an_existing_folder_is_not_overwritten(tmp_path, dataset):
    write_store(dataset, tmp_path / "store")
    with pytest.raises(InputError, match="exists already"):
        write_store(dataset, tmp_path / "store")


def test_a_flipped_byte_is_found_on_request(tmp_path, dataset):
    write_store(dataset, tmp_path / "store")
    file = tmp_path / "store" / "X_data.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    open_store(tmp_path / "store")
    with pytest.raises(InputError, match=r"X_data.npy: does not match its checksum"):
        open_store(tmp_path / "store", verify=True)


def damage_manifest(folder, **changes):
    """Change a manifest and make its own checksum right again."""
    manifest = {**json.loads((folder / "manifest.json").read_text()), **changes}
    write_manifest(folder, {key: value for key, value in manifest.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 99}, "version 99"),
        ({"kind": "model"}, "not a data set folder"),
        ({"n_samples": 7}, "damaged: X is not a valid sparse matrix: it has 61 pointers; expected 8"),
        ({"n_samples": None}, "damaged"),
        ({"digest": None}, "damaged"),
        ({"arrays": None}, "damaged"),
        ({"arrays": {}}, "damaged"),
        ({"arrays": []}, "damaged"),
        ({"n_features": "many"}, "damaged"),
        ({"n_features": -5}, "damaged"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, dataset, changes, what):
    write_store(dataset, tmp_path / "store")
    damage_manifest(tmp_path / "store", **changes)
    with pytest.raises(InputError, match=what):
        open_store(tmp_path / "store")


def put_right(folder, name, array):
    """Replace an array of a store and make all checksums right again."""
    np.save(folder / f"{name}.npy", array)
    manifest = json.loads((folder / "manifest.json").read_text())
    file = folder / f"{name}.npy"
    manifest["arrays"][name] = {"bytes": file.stat().st_size, "sha256": checksum(file)}
    write_manifest(folder, manifest)


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        ("X_indices", 5, 10**8),
        ("X_indices", 5, -1),
        ("Y_indices", 5, 8),
        ("X_indptr", 5, 10**8),
        ("X_indptr", 5, 0),
        ("X_indptr", 0, 1),
        ("Y_indptr", -1, 0),
        ("Y_indptr", 3, -5),
        ("X_data", 3, np.nan),
        ("X_data", 3, np.inf),
        ("Y_data", 3, 2),
        ("label_names_ends", 3, 10**9),
        ("label_names_ends", 3, -1),
        ("feature_names_ends", -1, 3),
        ("label_names_utf8", 0, 255),
    ],
)
@pytest.mark.parametrize("verify", [False, True])
def test_indices_out_of_range_are_damage_even_with_valid_checksums(tmp_path, dataset, name, position, value, verify):
    write_store(dataset, tmp_path / "store")
    array = np.load(tmp_path / "store" / f"{name}.npy")
    array[position] = value
    put_right(tmp_path / "store", name, array)
    with pytest.raises(InputError, match="store: damaged: "):
        open_store(tmp_path / "store", verify=verify)


@pytest.mark.parametrize("name", ["X_indices", "Y_indices"])
def test_rows_out_of_order_and_doubled_columns_are_damage(tmp_path, dataset, name):
    write_store(dataset, tmp_path / "store")
    array = np.load(tmp_path / "store" / f"{name}.npy")
    row = np.flatnonzero(np.diff(getattr(dataset, name[0]).indptr) > 1)[0]
    begin = getattr(dataset, name[0]).indptr[row]
    for value in (array[begin + 1], array[begin + 1] - 1):
        changed = array.copy()
        changed[begin], changed[begin + 1] = array[begin + 1], value
        put_right(tmp_path / "store", name, changed)
        with pytest.raises(InputError, match="columns of a row do not rise"):
            open_store(tmp_path / "store")


def test_open_labels_validates_too(tmp_path, dataset):
    write_store(dataset, tmp_path / "store")
    assert load_labels(tmp_path / "store")[1] == dataset.label_names
    put_right(tmp_path / "store", "Y_indices", np.full(dataset.Y.nnz, 10**8, np.int32))
    with pytest.raises(InputError, match="damaged: Y is not a valid sparse matrix"):
        load_labels(tmp_path / "store")


def test_other_contents_under_the_old_digest_do_not_verify(tmp_path, dataset):
    write_store(dataset, tmp_path / "store")
    put_right(tmp_path / "store", "X_data", dataset.X.data * 2)
    with pytest.raises(InputError, match="do not match its digest"):
        open_store(tmp_path / "store", verify=True)


@pytest.mark.parametrize("size", ["n_features", "n_labels"])
def test_a_size_out_of_all_proportion_is_refused(tmp_path, size):
    empty = sparse.csr_matrix((1, 1), dtype=np.float32)
    write_store(Dataset(empty, empty), tmp_path / "store")
    damage_manifest(tmp_path / "store", **{size: 200_000_000})
    with pytest.raises(InputError, match=r"claims 200000000 (features|labels) and holds 0 entries"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize(
    "changes",
    [
        {"text": {"ngrams": [1]}},
        {"text": {"ngrams": "11"}},
        {"text": {"min_df": "1"}},
        {"text": {"ngrams": [2, 1]}},
        {"text": {"foreign": 1}},
        {"text": []},
        {"text": {"max_features": 0}},
    ],
)
def test_damaged_text_features_are_refused(tmp_path, changes):
    text = TextFeatures()
    X = text.fit_transform(["one two", "two three"])
    write_store(Dataset(X, sparse.csr_matrix((2, 1)), text=text), tmp_path / "store")
    damage_manifest(tmp_path / "store", **changes)
    with pytest.raises(InputError, match="damaged"):
        open_store(tmp_path / "store")


def test_a_term_that_stands_twice_is_refused(tmp_path):
    text = TextFeatures()
    X = text.fit_transform(["one two", "two six"])
    write_store(Dataset(X, sparse.csr_matrix((2, 1)), text=text), tmp_path / "store")
    put_right(tmp_path / "store", "text_terms_utf8", np.frombuffer(b"onetwotwo", np.uint8))
    with pytest.raises(InputError, match="a term occurs twice"):
        open_store(tmp_path / "store")


def test_missing_or_cut_files_are_refused(tmp_path, dataset):
    write_store(dataset, tmp_path / "store")
    file = tmp_path / "store" / "Y_indices.npy"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"Y_indices.npy: has \d+ bytes"):
        open_store(tmp_path / "store")
    file.unlink()
    with pytest.raises(InputError, match=r"Y_indices.npy: missing"):
        open_store(tmp_path / "store")


def test_an_archive_of_another_kind_is_no_store(tmp_path):
    write_archive(tmp_path / "other", {}, kind="something else")
    with pytest.raises(InputError, match="not a data set folder"):
        load(tmp_path / "other")


def write_and_die(dataset: Dataset, target: Path, step: int) -> int:
    """Write a store in this process, which kills itself before a step; return the number of steps."""
    seen = 0

    def deadly(function):
        def call(*arguments):
            nonlocal seen
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1
            return function(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_write_array", deadly(archive._write_array))
        patch.setattr(archive, "_manifest_text", deadly(archive._manifest_text))
        patch.setattr(archive.os, "rename", deadly(os.rename))
        write_store(dataset, target)
    return seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_writer_killed_at_any_step_leaves_nothing_that_opens(tmp_path, dataset):
    """The last step is the renaming; killed right before it, there is still no folder of that name."""
    n_steps = write_and_die(dataset, tmp_path / "whole", 999)
    assert n_steps >= 12
    for step in (0, 3, n_steps - 2, n_steps - 1):
        target = tmp_path / f"store{step}"
        assert died(forked(partial(write_and_die, dataset, target, step)))
        assert not target.exists()
        with pytest.raises(InputError, match="no such file or folder"):
            load(target)
        write_store(open_store(tmp_path / "whole"), target)  # what was left aside is in nobody's way
        assert not list(tmp_path.glob(f".store{step}.*")), "it is gone with the next start"
        assert open_store(target, verify=True).n_samples == 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_writer_killed_at_a_random_moment_leaves_a_complete_store_or_none(tmp_path):
    large = make_corpus(2000, 0, 50, 500).train
    for turn, patience in enumerate((0.0, 0.004, 0.012)):
        target = tmp_path / f"store{turn}"
        writer = forked(partial(write_store, large, target))
        time.sleep(patience)
        os.kill(writer, signal.SIGKILL)
        died(writer)
        if target.exists():
            assert open_store(target, verify=True).n_samples == 2000
