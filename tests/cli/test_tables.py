"""A table of texts through every verb that takes data."""

import csv
import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts

COLUMNS = ["--text-column", "body", "--labels-column", "tags", "--separator", "|"]
EVERY = [*COLUMNS, "--id-column", "number"]


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    """A folder with posts.csv and the same as JSON lines."""
    folder = tmp_path_factory.mktemp("posts")
    documents = [json.loads(line) for line in write_texts(folder / "posts.jsonl").read_text().splitlines()]
    with open(folder / "posts.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["number", "body", "tags"])
        for number, one in enumerate(documents):
            writer.writerow([f"post-{number}", one["text"], "|".join(one["labels"])])
    return folder


@pytest.fixture(scope="module")
def trained(posts):
    from unmissed.cli.app import run

    with pytest.raises(SystemExit) as end:
        run(["train", "dismec", f"{posts}/posts.csv", *COLUMNS, "--run", f"{posts}/run", "--jobs", "1"])
    assert end.value.code == 0
    return posts / "run"


def test_every_verb_takes_the_same_words_for_the_same_table(posts, tmp_path, capsys):
    table, run = posts / "posts.csv", tmp_path / "run"
    said(capsys, "train", "dismec", table, *EVERY, "--run", run, "--jobs", 1)
    said(capsys, "predict", run, table, *EVERY, "--out", tmp_path / "best.csv")
    said(capsys, "evaluate", tmp_path / "best.csv", "--truth", table, "--train", table, *EVERY, "--bootstrap", 0)
    assert "all trained already" in said(capsys, "update", run, table, *EVERY)
    assert "has all 3 labels" in refused(capsys, "extend", run, table, *EVERY)
    said(capsys, "data", "stats", table, *EVERY)
    words = [*EVERY, "--try", "C=1,3", "--rows", 100, "--ngrams", 2, "--smooth-idf", "--jobs", 1]
    command = said(capsys, "tune", table, "--method", "dismec", *words).splitlines()[-1]
    assert command.startswith(f"unmissed train dismec {table} --run DIR --text-column body --labels-column tags ")
    assert " --separator '|' --id-column number --ngrams 2 --smooth-idf --C " in command


@pytest.mark.parametrize("verb", [["train", "dismec"], ["data", "stats"], ["tune"]])
def test_a_column_of_ids_that_is_not_there_is_refused(verb, posts, tmp_path, capsys):
    words = [
        *verb,
        posts / "posts.csv",
        *COLUMNS,
        "--id-column",
        "no",
        *(["--run", tmp_path / "r"] * ("train" in verb)),
    ]
    assert "there is no column 'no'" in refused(capsys, *words)


def test_statistics_of_a_table_are_those_of_the_same_json_lines(posts, capsys):
    found = json.loads(said(capsys, "data", "stats", posts / "posts.csv", *COLUMNS, "--json"))
    same = json.loads(said(capsys, "data", "stats", posts / "posts.jsonl", "--json"))
    assert found["train"] | {"path": ""} == same["train"] | {"path": ""}
    assert found["n_features"] == same["n_features"]


def test_a_table_is_converted_into_a_store_and_into_json_lines(posts, tmp_path, capsys):
    words = [posts / "posts.csv", *COLUMNS, "--id-column", "number"]
    said(capsys, "data", "convert", words[0], tmp_path / "store", *words[1:])
    said(capsys, "data", "convert", words[0], tmp_path / "back.jsonl.gz", *words[1:])
    assert "rows with their texts" in said(capsys, "data", "convert", words[0], tmp_path / "back.jsonl", *words[1:])
    digests = [
        json.loads(said(capsys, "data", "convert", source, tmp_path / f"{number}", "--json"))["digest"]
        for number, source in enumerate([tmp_path / "back.jsonl", tmp_path / "back.jsonl.gz", tmp_path / "store"])
    ]
    assert len(set(digests)) == 1
    assert json.loads((tmp_path / "back.jsonl").read_text().splitlines()[1])["id"] == "post-1"
    store, target = tmp_path / "store", tmp_path / "no.jsonl"
    assert "has features and no texts" in refused(capsys, "data", "convert", store, target)
    assert "leave out --like" in refused(capsys, "data", "convert", words[0], target, "--like", store)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
@pytest.mark.parametrize("ids", [True, False])
def test_the_table_and_the_ranking_of_predict_give_the_same_figures(suffix, ids, posts, trained, tmp_path, capsys):
    by_id = ["--id-column", "number"] if ids else []
    said(capsys, "predict", trained, posts / "posts.csv", *COLUMNS[:2], *by_id, "--out", tmp_path / "best.npz")
    said(capsys, "predict", trained, posts / "posts.csv", *COLUMNS[:2], *by_id, "--out", tmp_path / f"best{suffix}")
    first = (tmp_path / f"best{suffix}").read_text().splitlines()[1]
    assert ("post-" in first) == ids
    words = ["--truth", posts / "posts.csv", "--train", trained, *COLUMNS[2:], *by_id, "--bootstrap", 0, "--json"]
    figures, same = (
        json.loads(said(capsys, "evaluate", tmp_path / name, *words))["figures"]
        for name in ("best.npz", f"best{suffix}")
    )
    assert figures == same
    assert figures["P@1"]["value"] > 0.5


def test_ids_that_the_truth_does_not_have_are_refused(posts, trained, tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("id\trank\tlabel\tscore\npost-x\t1\tfish\t1\n")
    words = ["--truth", posts / "posts.csv", "--train", trained, *COLUMNS[2:]]
    assert "names rows by their ids, and the rows of the truth have none" in refused(
        capsys, "evaluate", tmp_path / "a.tsv", *words
    )
    words += ["--id-column", "number"]
    assert "not have 1 of the ids of this ranking, first 'post-x'" in refused(
        capsys, "evaluate", tmp_path / "a.tsv", *words
    )
    twice = (posts / "posts.csv").read_text().replace("post-1,", "post-0,")
    (tmp_path / "twice.csv").write_text(twice)
    words[1] = tmp_path / "twice.csv"
    assert "two rows of the truth share one" in refused(capsys, "evaluate", tmp_path / "a.tsv", *words)


def test_a_ranking_of_other_rows_is_refused_by_their_ids(posts, trained, tmp_path, capsys):
    words = [*COLUMNS[:2], "--id-column", "number"]
    said(capsys, "predict", trained, posts / "posts.csv", *words, "--out", tmp_path / "best.npz")
    header, *rows = (posts / "posts.csv").read_text().splitlines(keepends=True)
    (tmp_path / "turned.csv").write_text(header + "".join(rows[::-1]))
    words = ["--truth", tmp_path / "turned.csv", "--train", trained, *COLUMNS[2:], "--id-column", "number"]
    assert "rows that are not those of" in refused(capsys, "evaluate", tmp_path / "best.npz", *words, "-k", 1)


def test_damaged_tables_of_scores_are_refused(posts, trained, tmp_path, capsys):
    words = ["--truth", posts / "posts.csv", "--train", trained, *COLUMNS[2:]]
    for name, content, what in (
        ("a.jsonl", '{"row": 0, "labels": [3]}\n', "expected 'labels' to be a list of objects"),
        ("a.jsonl", '{"row": 0, "labels": [{"label": "fish"}]}\n', "expected row, rank, label and score"),
        ("a.csv", "row,label\n", "expected the columns row, rank, label and score"),
        ("a.csv", 'row,rank,label,score\n0,1,"fish,1\n', "expected row, rank, label and score"),
    ):
        (tmp_path / name).write_text(content)
        assert what in refused(capsys, "evaluate", tmp_path / name, *words)


def test_a_folder_of_texts_without_labels_is_ranked(trained, tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("cod and net")
    lines = said(capsys, "predict", trained, tmp_path / "texts", "--top", 1).splitlines()
    assert lines[1].startswith("one\t1\tfish\t")
