"""`unmissed ensemble`: trained runs become one run, which every other command takes."""

import json
import shutil

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import tree_bytes, write_texts
from unmissed.runs import open_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts, and runs of two methods on them."""
    from unmissed.cli.app import run

    path = tmp_path_factory.mktemp("ensemble")
    texts = write_texts(path / "train.jsonl")
    for method in ("dismec", "popularity"):
        with pytest.raises(SystemExit):
            run(["train", method, str(texts), "--run", str(path / method)])
    with pytest.raises(SystemExit):
        run(["train", "dismec", str(texts), "--run", str(path / "bigrams"), "--ngrams", "2"])
    return path


def combine(folder, *more):
    return ["ensemble", folder / "dismec", folder / "popularity", "--data", folder / "train.jsonl", *more]


def test_it_is_a_run_like_any_other_and_needs_no_other(folder, tmp_path, capsys):
    output = said(capsys, *combine(folder, "--out", tmp_path / "both"))
    assert "weight of member 0, dismec" in output
    members = [tmp_path / "both" / "pieces" / "members" / number for number in "01"]
    assert [tree_bytes(one).keys() for one in members] == [
        tree_bytes(folder / method / "pieces").keys() for method in ("dismec", "popularity")
    ]
    shutil.move(tmp_path / "both", tmp_path / "moved")
    rows = json.loads(said(capsys, "predict", tmp_path / "moved", "--text", "cod quota net cod", "--json"))
    assert rows[0]["labels"][0]["label"] == "fish"
    assert "every file matches its checksum" in said(capsys, "inspect", tmp_path / "moved", "--verify")
    assert "dismec, popularity" in said(capsys, "inspect", tmp_path / "moved")
    assert open_run(tmp_path / "moved").recipe.method == "ensemble"


def test_it_speaks_json_and_does_nothing_twice(folder, tmp_path, capsys):
    words = combine(folder, "--out", tmp_path / "both", "--metric", "P@1", "--json")
    first = json.loads(said(capsys, *words))
    assert first["method"] == "ensemble"
    assert first["members"] == [str(folder / "dismec"), str(folder / "popularity")]
    before = tree_bytes(tmp_path / "both")
    assert json.loads(said(capsys, *words)) == first
    assert tree_bytes(tmp_path / "both") == before


def test_update_trains_all_members_on_old_and_new_rows(folder, tmp_path, capsys):
    said(capsys, *combine(folder, "--out", tmp_path / "both"))
    (tmp_path / "new.jsonl").write_text('{"text": "cod net quota", "labels": ["fish"]}\n')
    said(capsys, "update", tmp_path / "both", tmp_path / "new.jsonl")
    updated = open_run(tmp_path / "both")
    assert updated.recipe.method == "ensemble"
    assert updated.parts[0].n_samples == open_run(folder / "dismec").parts[0].n_samples + 1


def test_labels_cannot_be_added(folder, tmp_path, capsys):
    said(capsys, *combine(folder, "--out", tmp_path / "both"))
    (tmp_path / "new.jsonl").write_text('{"text": "cod net quota", "labels": ["sea"]}\n')
    assert "Ensemble cannot add labels" in refused(capsys, "extend", tmp_path / "both", tmp_path / "new.jsonl")


def test_mistakes_are_one_line(folder, tmp_path, capsys):
    out, data = ["--out", tmp_path / "both"], ["--data", folder / "train.jsonl"]
    linear, counts = folder / "dismec", folder / "popularity"
    (tmp_path / "file").write_text("x")
    (tmp_path / "other.jsonl").write_text('{"text": "cod net", "labels": ["fish"]}\n')
    for words, line in (
        ([linear, *data, *out], "at least 2 different runs; got only"),
        ([linear, linear, *data, *out], "at least 2 different runs"),
        ([linear, counts, *out], "--data DATA, the rows that the runs were trained on, is missing"),
        ([linear, counts, *data], "--out DIR, the new run, is missing"),
        ([linear, tmp_path / "nothing", *data, *out], "nothing"),
        ([linear, counts, *data, "--out", tmp_path / "file"], "is a file; expected the folder of a run"),
        ([linear, counts, *data, "--out", linear], "was trained by another recipe: method is 'dismec' there"),
        ([linear, folder / "bigrams", *data, *out], "features"),
        ([linear, counts, "--data", tmp_path / "other.jsonl", *out], "has 3 labels; the data has 1"),
        ([linear, counts, *data, *out, "--metric", "P"], "'P'"),
    ):
        assert line in refused(capsys, "ensemble", *words)
        assert not (tmp_path / "both").exists()
