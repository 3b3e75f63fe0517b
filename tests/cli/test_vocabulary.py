"""`--vocabulary`: a run stores it and shows titles and notations; labels without rows are found by their names."""

import json
import shutil

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts
from unmissed.cli.app import run
from unmissed.runs import extend, open_run
from unmissed.runs.exploration import LabelIndex
from unmissed.runs.inspection import verify

TABLE = """uri,label_en,label_de,alt_label_en,notation,broader,deprecated
fish,Fishing,Fischerei,cod quota,7.1,all,
law,Law,Recht,court,,all,true
all,Everything,Alles,the of,7,,
tea,Tea,Tee,green tea,9,all,
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts, a vocabulary, and runs of two methods."""
    path = tmp_path_factory.mktemp("vocabulary")
    (path / "concepts.csv").write_text(TABLE, encoding="utf-8")
    texts = write_texts(path / "train.jsonl", 200)
    options = ["--vocabulary", str(path / "concepts.csv"), "--language", "en"]
    for method, more in (("dismec", ["--all-concepts"]), ("lexical", [])):
        with pytest.raises(SystemExit) as end:
            run(["train", method, str(texts), "--run", str(path / method), *options, *more])
        assert end.value.code == 0
    return path


def ranked(capsys, run, text, *more):
    rows = json.loads(said(capsys, "predict", run, "--text", text, "--json", *more))
    return {one["label"]: one for one in rows[0]["labels"]}


def test_training_reports_unknown_and_deprecated_labels(folder, tmp_path, capsys):
    words = ["train", "popularity", folder / "train.jsonl", "--run", tmp_path / "run"]
    with pytest.raises(SystemExit):
        run([*map(str, words), "--vocabulary", str(folder / "concepts.csv")])
    printed = capsys.readouterr().err
    assert "1 labels (" in printed
    assert "not in the vocabulary: 'food'" in printed
    assert "deprecated in the vocabulary: 'law'" in printed
    assert open_run(tmp_path / "run").label_names == ["fish", "food", "law"], "no unseen labels by default"
    assert "needs --vocabulary" in refused(capsys, *words, "--language", "de")


def test_predictions_show_titles_and_notations(folder, capsys):
    found = ranked(capsys, folder / "dismec", "cod net quota net")
    assert (found["fish"]["name"], found["fish"]["notation"]) == ("Fishing", "7.1")
    assert found["food"]["name"] == "food"
    assert found["law"]["notation"] is None
    table = said(capsys, "predict", folder / "dismec", "--text", "cod net quota").splitlines()
    assert table[0].split("\t") == ["row", "rank", "label", "name", "notation", "score"]
    assert table[1].split("\t")[:5] == ["0", "1", "fish", "Fishing", "7.1"]


def test_a_table_of_predictions_with_notations_can_be_evaluated(folder, tmp_path, capsys):
    said(capsys, "predict", folder / "dismec", folder / "train.jsonl", "--out", tmp_path / "best.tsv")
    words = ["evaluate", tmp_path / "best.tsv", "--truth", folder / "train.jsonl", "--train", folder / "dismec"]
    assert "P@1" in said(capsys, *words, "-k", "1")


def test_labels_without_rows_are_suggested_by_lexical_only(folder, capsys):
    assert "tea" in ranked(capsys, folder / "lexical", "a cup of green tea")
    assert "tea" not in ranked(capsys, folder / "dismec", "a cup of green tea")


def test_expand_adds_broader_labels_with_the_best_score_of_narrower_ones(folder, capsys):
    plain = ranked(capsys, folder / "lexical", "green tea cod quota")
    found = ranked(capsys, folder / "lexical", "green tea cod quota", "--expand", "broader")
    assert set(plain) == {"tea", "fish"}
    assert set(found) == {"tea", "fish", "all"}
    assert found["all"]["score"] == max(one["score"] for one in plain.values())
    words = ["predict", folder / "dismec", "--text", "cod", "--expand"]
    assert "--expand is broader; got 'up'" in refused(capsys, *words, "up")


def test_the_vocabulary_is_part_of_the_run_and_is_verified(folder, tmp_path, capsys):
    shutil.copytree(folder / "dismec", tmp_path / "run")
    assert verify(open_run(tmp_path / "run"))
    assert "4 concepts, en" in said(capsys, "inspect", tmp_path / "run")
    position = tmp_path / "run" / "vocabulary" / "texts_utf8.npy"
    position.write_bytes(position.read_bytes()[:-1] + b"!")
    with pytest.raises(Exception, match="vocabulary"):
        verify(open_run(tmp_path / "run"))


def test_update_extend_and_calibrate_keep_the_vocabulary(folder, tmp_path, capsys):
    shutil.copytree(folder / "lexical", tmp_path / "run")
    said(capsys, "calibrate", tmp_path / "run", "--folds", "2")
    more = write_texts(tmp_path / "more.jsonl", 20, seed=1)
    said(capsys, "update", tmp_path / "run", more)
    found = ranked(capsys, tmp_path / "run", "green tea cod quota", "--expand", "broader")
    assert found["tea"]["notation"] == "9"
    new = tmp_path / "new.jsonl"
    new.write_text(json.dumps({"text": "cod and whale", "labels": ["cod"]}) + "\n")
    from unmissed.data import load

    extend(tmp_path / "run", load(new, text=open_run(tmp_path / "run").text))
    assert "cod" in ranked(capsys, tmp_path / "run", "cod")


def test_an_ensemble_of_runs_shares_the_vocabulary(folder, tmp_path, capsys):
    words = ["ensemble", folder / "dismec", folder / "lexical", "--data", folder / "train.jsonl"]
    said(capsys, *words, "--out", tmp_path / "both")
    both = open_run(tmp_path / "both")
    assert both.label_names == open_run(folder / "lexical").label_names
    assert both.notations[both.label("tea")] == "9"


def test_features_that_are_no_words_are_refused(folder, tmp_path, capsys):
    words = ["train", "lexical", folder / "train.jsonl", "--run", tmp_path / "chars", "--analyzer", "char"]
    message = refused(capsys, *words)
    assert "lexical finds labels by the words of their names, and the features are not named by single words" in message


def test_the_service_knows_notations(folder):
    run = open_run(folder / "dismec")
    labels = LabelIndex(run)
    assert labels.notation(run.label("fish")) == "7.1"
    assert labels.notation(run.label("food")) is None
    assert (labels.name(run.label("fish")), labels.title(run.label("fish"))) == ("fish", "Fishing")
