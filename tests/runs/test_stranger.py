"""A run's folder from a stranger: everything a run needs is inside it, and nothing in it is believed."""

import json
import os

import numpy as np
import pytest

from tests.cli.speaking import refused
from tests.runs.corpora import PARAMS, small_corpus, tree_bytes
from unmissed.archive import checksum, write_manifest
from unmissed.data import write_store
from unmissed.errors import InputError
from unmissed.runs import extend, open_run, train
from unmissed.runs.inspection import summarize, verify

DATA, ROWS = small_corpus(n_labels=9, n_train=60)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    train("pw-dismec", DATA, folder, {**PARAMS, "block_size": 4})
    return folder


@pytest.fixture
def run(trained, tmp_path):
    from shutil import copytree

    return copytree(trained, tmp_path / "run")


def change(folder, **changes):
    """Change a manifest and make its own checksum right again."""
    manifest = json.loads((folder / "manifest.json").read_text())
    write_manifest(folder, {**manifest, **changes})


def put(folder, name, array):
    """Replace an array and make the checksums right again."""
    np.save(folder / f"{name}.npy", array)
    file = folder / f"{name}.npy"
    arrays = json.loads((folder / "manifest.json").read_text())["arrays"]
    change(folder, arrays={**arrays, name: {"bytes": file.stat().st_size, "sha256": checksum(file)}})


def used(folder):
    opened = open_run(folder)
    opened.rank(ROWS.X, 3)
    opened.propensities()
    return summarize(opened), opened.label_names, opened.feature_names


def recipe(run):
    return json.loads((run / "manifest.json").read_text())["recipe"]


PART = {"first": 0, "n_labels": 9, "n_samples": 60, "digest": None, "status": "complete", "versions": []}


@pytest.mark.parametrize(
    "changes",
    [
        {"parts": []},
        {"parts": None},
        {"parts": [{}]},
        {"parts": [7]},
        {"parts": [{**PART, "n_labels": "9"}]},
        {"parts": [{**PART, "n_labels": -9}]},
        {"parts": [{**PART, "n_labels": 2**40}]},
        {"parts": [{**PART, "first": 4}]},
        {"parts": [{**PART, "status": "done"}]},
        {"parts": [{**PART, "status": ["complete"]}]},
        {"parts": [{**PART, "digest": 7}]},
        {"parts": [{**PART, "versions": [{"numpy": 7}]}]},
        {"parts": [{**PART, "versions": 7}]},
        {"parts": [{**PART, "n_samples": 2}]},
        {"n_features": -1},
        {"n_features": "400"},
        {"n_features": 3},
        {"recipe": None},
        {"recipe": []},
        {"recipe": {"method": ["dismec"]}},
        {"recipe": {"method": "dismec", "params": []}},
        {"recipe": {"method": "dismec", "text": "x"}},
        {"recipe": {"method": "dismec", "more": 1}},
        {"version": [2]},
        {"version": {}},
    ],
    ids=str,
)
def test_a_manifest_that_no_training_writes_is_refused(run, changes):
    change(run, **changes)
    with pytest.raises(InputError, match="run"):
        used(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tol", "x"),
        ("tol", None),
        ("block_size", 1.5),
        ("normalize", "yes"),
        ("weighting", "none of these"),
        ("weighting", 7),
        ("fit_bias", "bound"),
        ("propensity", "/etc/passwd"),
        ("propensity", {"model": "table", "values": "/etc/passwd"}),
        ("propensity", {"model": "table", "values": "/dev/zero"}),
        ("foreign", 1),
    ],
)
def test_a_parameter_that_the_model_cannot_have_is_refused_and_no_file_is_opened(run, name, value):
    original = recipe(run)
    change(run, recipe={**original, "params": {**original["params"], name: value}})
    with pytest.raises(InputError, match="run: "):
        used(run)


@pytest.mark.parametrize(
    ("folder", "name", "array"),
    [
        ("labels/00000000", "counts", np.zeros((9, 1), np.int64)),
        ("labels/00000000", "counts", np.full(9, 61)),
        ("labels/00000000", "counts", np.full(9, -1)),
        ("labels/00000000", "counts", np.zeros(8, np.int64)),
        ("labels/00000000", "counts", np.zeros(9, np.float64)),
        ("labels/00000000", "label_names_ends", np.arange(8, dtype=np.int64)),
        ("features", "feature_names_ends", np.zeros(3, np.int64)),
        ("pieces/labels/00000000", "features", np.full(3, 10**8, np.int32)),
        ("pieces/labels/00000000", "bias", np.zeros(0, np.float32)),
        ("pieces/labels/00000000", "starts", "wrapping"),
        ("pieces/labels/00000000", "features", "wrapping"),
    ],
)
def test_what_leads_out_of_range_is_damage_whatever_the_checksums_say(run, folder, name, array):
    if isinstance(array, str):  # differences that wrap around look as if they rose
        array = np.load(run / folder / f"{name}.npy")
        array[1:3] = np.iinfo(array.dtype).max, -2
        assert (np.diff(array) >= 0).all()
    put(run / folder, name, array)
    with pytest.raises(InputError, match="damaged"):
        used(run)


def test_a_manifest_without_its_checksum_does_not_verify(run):
    assert verify(open_run(run)) > 0
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["sha256"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="no checksum of its own"):
        verify(open_run(run))


@pytest.mark.parametrize("position", ["pieces", "labels", "features", "labels/00000000", "pieces/labels/00000000"])
def test_no_link_is_followed_out_of_a_run(run, tmp_path, position):
    (run / position).rename(tmp_path / "outside")
    (run / position).symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="symbolic link"):
        used(run)


@pytest.mark.parametrize("position", ["pieces", "labels"])
def test_cleaning_up_follows_no_link(run, tmp_path, position):
    (run / position).rename(tmp_path / "outside")
    (run / position).symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / ".mine.part").mkdir()
    (tmp_path / "outside" / ".mine.part" / "precious").touch()
    before = tree_bytes(tmp_path / "outside")
    with pytest.raises(InputError, match="symbolic link"):
        extend(run, DATA)
    assert tree_bytes(tmp_path / "outside") == before


def test_a_link_among_leftovers_is_removed_and_not_followed(run, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    for position in (run, run / "pieces", run / "labels"):
        (position / ".x.part").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="has all 9 labels"):
        extend(run, DATA)
    assert (tmp_path / "outside" / "precious").exists()
    assert not list(run.rglob(".x.part"))


def test_the_lock_is_no_link_and_waits_for_no_pipe(run, tmp_path):
    (run / ".lock").unlink(missing_ok=True)
    (run / ".lock").symlink_to(tmp_path / "made-by-us")
    with pytest.raises(InputError, match="symbolic link"):
        extend(run, DATA)
    assert not (tmp_path / "made-by-us").exists()
    (run / ".lock").unlink()
    os.mkfifo(run / ".lock")
    with pytest.raises(InputError, match="has all 9 labels"):
        extend(run, DATA)


@pytest.mark.parametrize("label", ["²", "9" * 5000, "-1", "٣", "", "\x1b[31m"])
def test_a_label_that_is_none_is_refused_in_one_line(run, capsys, label):
    assert "has no label" in refused(capsys, "inspect", run, "--label", label)


@pytest.mark.parametrize(
    "words", [["--out", "."], ["--out", ".."], ["--out", "/"], ["--top", str(10**30)], ["--top", str(2**31)]]
)
def test_words_that_predict_cannot_use_are_refused_in_one_line(run, tmp_path, capsys, words):
    write_store(ROWS, tmp_path / "rows")
    refused(capsys, "predict", run, tmp_path / "rows", *words)


@pytest.mark.parametrize("words", [["--C", "nan"], ["--C", "0"], ["--seed", str(10**30)], ["--tol", "0"]])
def test_a_recipe_that_fails_does_not_block_its_folder(tmp_path, capsys, words):
    write_store(DATA, tmp_path / "data")
    refused(capsys, "train", "dismec", tmp_path / "data", "--run", tmp_path / "run", *words)
    assert not (tmp_path / "run" / "manifest.json").exists()
    train("popularity", DATA, tmp_path / "run")
