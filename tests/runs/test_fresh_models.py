"""An update that learns new words, withdraws rows or drops labels is a training on the same data, bit for bit."""

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, tree_bytes, write_texts
from tests.runs.json_lines import rows_of, write
from unmissed.data import TextFeatures, load
from unmissed.errors import InputError
from unmissed.runs import calibrate, extend, open_run, train, update
from unmissed.runs.inspection import certificate

TEXT = TextFeatures(min_df=2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with old and new documents; the new ones have the word `whale` and the label `whales`."""
    folder = tmp_path_factory.mktemp("fresh")
    old = [{"id": f"old{row}", **one} for row, one in enumerate(rows_of(write_texts(folder / "plain.jsonl", 80)))]
    new = [{"id": f"new{row}", "text": f"whale hunt {row} cod", "labels": ["whales"]} for row in range(6)]
    new.append({"id": "again", "text": old[7]["text"], "labels": ["law"]})
    write(folder / "old.jsonl", old)
    write(folder / "new.jsonl", new)
    return folder


@pytest.fixture
def run(corpus, tmp_path):
    """A run on the old documents."""
    return train("dismec", load(corpus / "old.jsonl", text=TEXT), tmp_path / "run", PARAMS)


def loaded(path, run):
    return load(path, text=open_run(run.folder.path).text)


def assert_same_run(found, expected):
    assert found.label_names == expected.label_names
    assert found.feature_names == expected.feature_names
    for part in ("pieces", "text"):
        assert tree_bytes(found.folder.path / part) == tree_bytes(expected.folder.path / part), part
    assert found.label_counts.tolist() == expected.label_counts.tolist()


def scratch(path, rows):
    """Train on documents from the beginning."""
    write(path / "scratch.jsonl", rows)
    return train("dismec", load(path / "scratch.jsonl", text=TEXT), path / "scratch", PARAMS)


def test_growth_is_a_training_on_all_texts_and_knows_new_words(corpus, run, tmp_path):
    assert run.suggest("whale").no_known_words
    grown = update(run.folder.path, loaded(corpus / "new.jsonl", run), vocabulary_growth=True, n_jobs=1)
    assert grown.suggest("whale")[0][0] == "whales", "the answer to a new word is the label that has it"
    replaced = rows_of(corpus / "old.jsonl")[7]["text"]
    kept = [row for row in rows_of(corpus / "old.jsonl") if row["text"] != replaced]
    expected = scratch(tmp_path, kept + rows_of(corpus / "new.jsonl"))
    assert_same_run(grown, expected)
    assert "whale" in grown.feature_names
    assert certificate(grown)["missed"] == 0


def test_without_growth_new_words_stay_unknown(corpus, run):
    updated = update(run.folder.path, loaded(corpus / "new.jsonl", run), n_jobs=1)
    assert updated.label("whales") == 3
    assert updated.suggest("whale").no_known_words


def test_withdrawn_rows_and_dropped_labels_are_gone_for_good(corpus, run, tmp_path):
    ids = {f"old{row}" for row in range(0, 60, 3)}
    changed = update(run.folder.path, remove=[*ids, "nobody"], drop_labels=["law"], vocabulary_growth=True, n_jobs=1)
    rows = [row for row in rows_of(corpus / "old.jsonl") if row["id"] not in ids]
    for row in rows:
        row["labels"] = [label for label in row["labels"] if label != "law"]
    assert_same_run(changed, scratch(tmp_path, rows))
    assert changed.parts[0].n_samples == 60
    assert calibrate(run.folder.path, n_folds=2, n_jobs=1).calibration.n_samples == 60
    again = update(run.folder.path, loaded(corpus / "new.jsonl", run), n_jobs=1)
    assert again.parts[0].n_samples == 60 + 7 - sum(
        row["text"] == rows_of(corpus / "new.jsonl")[6]["text"] for row in rows
    )
    assert again.label_names == ["fish", "food", "law", "whales"], "law came back with new rows"


def test_removal_keeps_the_words(corpus, run, tmp_path):
    changed = update(run.folder.path, remove=["old3"], n_jobs=1)
    assert changed.feature_names == run.feature_names
    assert changed.parts[0].n_samples == 79
    more = write(tmp_path / "more.jsonl", [{"text": "cod bread", "labels": ["sandwich"]}] * 3)
    assert extend(run.folder.path, loaded(more, run), n_jobs=1).label_names[-1] == "sandwich"
    with pytest.raises(InputError, match="none of the 1 ids to remove is in its training data: old3"):
        update(run.folder.path, remove=["old3"])


def test_what_cannot_be_done_is_refused(corpus, run, tmp_path):
    with pytest.raises(InputError, match=r"has no label 'lw'.*did you mean 'law'"):
        update(run.folder.path, drop_labels=["lw"])
    with pytest.raises(InputError, match="all 3 labels would be dropped"):
        update(run.folder.path, drop_labels=["fish", "food", "law"])
    new = loaded(corpus / "new.jsonl", run)
    vars(new)["origin"] = None
    with pytest.raises(InputError, match="rows in memory: no file of documents"):
        update(run.folder.path, new, vocabulary_growth=True)
    assert open_run(run.folder.path).n_labels == 3
    ranked = open_run(run.folder.path).rank(["cod net"], 3)
    assert np.isfinite(ranked.scores).all()


def test_the_command_withdraws_drops_and_learns(corpus, run, tmp_path, capsys):
    (tmp_path / "ids.txt").write_text("old1\nold2\n\n")
    (tmp_path / "labels.txt").write_text("food\n")
    words = ["update", run.folder.path, corpus / "new.jsonl", "--remove", tmp_path / "ids.txt", "--drop-labels"]
    output = said(capsys, *words, tmp_path / "labels.txt", "--vocabulary-growth")
    assert "7 of them given now" in output
    assert "words, before" in output
    assert open_run(run.folder.path).label_names == ["fish", "law", "whales"]
    assert "update needs DATA, --remove FILE, --drop-labels FILE or --vocabulary-growth" in refused(
        capsys, "update", run.folder.path
    )


def test_uris_lose_their_brackets_and_missing_ids_are_explained(tmp_path, capsys):
    corpus = tmp_path / "train.tsv"
    lines = [f"cod net {row}\t<http://ex.org/fish>" for row in range(20)]
    lines = [f"{line} <http://ex.org/law>" if row % 2 else line for row, line in enumerate(lines)]
    corpus.write_text("\n".join(lines))
    train("dismec", load(corpus, text=TextFeatures(min_df=2)), tmp_path / "run", PARAMS)
    (tmp_path / "ids.txt").write_text("1\n")
    advice = "none of the 1 ids to remove is in its training data: 1; its documents have no ids, use CSV or JSON lines"
    assert advice in refused(capsys, "update", tmp_path / "run", "--remove", tmp_path / "ids.txt")
    (tmp_path / "labels.txt").write_text("<http://ex.org/law>\n")
    said(capsys, "update", tmp_path / "run", "--drop-labels", tmp_path / "labels.txt")
    assert open_run(tmp_path / "run").label_names == ["http://ex.org/fish"]
