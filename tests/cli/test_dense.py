"""--dense and 'X.npz,E.npy,Y.npz': dense features from the shell to predictions."""

import json
import re

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts
from unmissed.data import load, open_store
from unmissed.ranking import Ranking


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with texts and embeddings, as the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, n_rows in (("train", 60), ("test", 20)):
        write_texts(tmp_path / f"{name}.jsonl", n_rows)
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(n_rows, 3)).astype(np.float16))
    return tmp_path


def test_text_and_embeddings_give_the_same_ranking_from_files_and_from_stores(here, capsys):
    said(capsys, "train", "dismec", "train.jsonl", "--dense", "train.npy", "--run", "run", "--jobs", 1)
    said(capsys, "predict", "run", "test.jsonl", "--dense", "test.npy", "--out", "one.npz")
    printed = said(capsys, "data", "convert", "train.jsonl", "store", "--dense", "train.npy")
    assert re.search(r"60 rows, \d+ sparse, 3 dense features, 3 labels", printed)
    said(capsys, "data", "convert", "test.jsonl", "held", "--like", "store", "--dense", "test.npy")
    assert "3 dense" in said(capsys, "data", "verify", "store")
    assert "sparse, 3 dense" in said(capsys, "data", "stats", "store")
    said(capsys, "train", "dismec", "store", "--run", "other", "--jobs", 1)
    said(capsys, "predict", "other", "held", "--out", "two.npz")
    one, two = Ranking.load("one.npz"), Ranking.load("two.npz")
    assert np.array_equal(one.labels, two.labels)
    assert np.array_equal(one.scores, two.scores)
    assert re.search(r"features +│ +\d+ sparse, 3 dense", said(capsys, "inspect", "run"))
    figures = json.loads(said(capsys, "evaluate", "one.npz", "--truth", "held", "--train", "store", "--json"))
    assert figures["figures"]["P@1"]["value"] > 0.5


def test_a_text_of_the_command_line_takes_one_line_of_dense_features(here, capsys):
    said(capsys, "train", "dismec", "train.jsonl", "--dense", "train.npy", "--run", "run", "--jobs", 1)
    np.save("one.npy", np.load("test.npy")[:1])
    np.save("narrow.npy", np.load("test.npy")[:, :2])
    found = json.loads(said(capsys, "predict", "run", "--text", "cod net", "--dense", "one.npy", "--json"))
    assert len(found) == 1
    for words, message in (
        (["--text", "cod net"], "was trained on 3 dense features, too; give them with the texts"),
        (["test.jsonl"], "was trained on 3 dense features, too"),
        (["--text", "cod net", "--dense", "test.npy"], "test.npy: has 20 rows; --text has 1"),
        (["test.jsonl", "--dense", "train.npy"], "train.npy: has 60 rows; test.jsonl has 20"),
        (["test.jsonl", "--dense", "narrow.npy"], "narrow.npy: has 2 columns; run was trained on 3 of them"),
        (
            ["--text", "cod net", "--dense", "narrow.npy"],
            "narrow.npy: has 2 columns; run was trained on 3 of them",
        ),
        (["test.jsonl", "--dense", "gone.npy"], "gone.npy: no such file"),
    ):
        assert message in refused(capsys, "predict", "run", *words)


def test_numpy_files_are_read_and_written_wherever_pairs_are(here, capsys):
    said(capsys, "data", "convert", "train.jsonl", "store", "--dense", "train.npy")
    said(capsys, "data", "convert", "store", "X.npz,E.npy,Y.npz")
    assert load("X.npz,E.npy,Y.npz").digest == open_store("store").digest
    said(capsys, "train", "dismec", "X.npz,E.npy,Y.npz", "--run", "run", "--jobs", 1)
    for rows in ("X.npz,E.npy,Y.npz", "X.npz,E.npy", "store"):
        said(capsys, "predict", "run", rows, "--out", f"{len(rows)}.npz")
    rankings = [Ranking.load(f"{n}.npz") for n in (17, 11, 5)]
    assert all(np.array_equal(one.scores, rankings[0].scores) for one in rankings)
    assert "X.npz: has 0 dense features; run was trained on 3; give them (--dense)" in refused(
        capsys, "predict", "run", "X.npz"
    )
    said(capsys, "train", "dismec", "E.npy,Y.npz", "--run", "alone", "--jobs", 1)
    said(capsys, "predict", "alone", "E.npy", "--out", "alone.npz")
    assert Ranking.load("alone.npz").labels.shape == (60, 5)


def test_the_weight_of_the_dense_part_is_tried_like_other_parameters(here, capsys):
    words = ["--dense", "train.npy", "--method", "dismec", "--try", "dense_weight=0.5,1", "--jobs", 1]
    assert "--dense train.npy" in said(capsys, "tune", "train.jsonl", *words)
    said(capsys, "train", "dismec", "train.jsonl", "--dense", "train.npy", "--dense-weight", 0.5, "--run", "run")
    assert json.loads((here / "run" / "manifest.json").read_text())["recipe"]["params"]["dense_weight"] == 0.5


def test_methods_that_take_one_kind_of_features_refuse_two(here, capsys):
    assert "dense features; FastXML takes one kind only" in refused(
        capsys, "train", "fastxml", "train.jsonl", "--dense", "train.npy", "--run", "run"
    )
    assert not (here / "run" / "manifest.json").exists()


def test_texts_and_xmc_files_hold_no_dense_features(here, capsys):
    assert "leave out --dense" in refused(
        capsys, "data", "convert", "train.jsonl", "copy.jsonl", "--dense", "train.npy"
    )
    assert "holds no dense features" in refused(
        capsys, "data", "convert", "train.jsonl", "copy.txt", "--dense", "train.npy"
    )


def test_a_run_is_updated_with_dense_features_only(here, capsys):
    said(capsys, "train", "dismec", "train.jsonl", "--dense", "train.npy", "--run", "run", "--jobs", 1)
    assert "the data has 0 dense features; the run has 3; give them (--dense)" in refused(
        capsys, "update", "run", "test.jsonl"
    )
    assert "80 rows, 20 of them given now" in said(
        capsys, "update", "run", "test.jsonl", "--dense", "test.npy", "--jobs", 1
    )
