"""`unmissed predict`."""

import csv
import io
import json
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.cli.app import run as app_run
from unmissed.data import Dataset, TextFeatures, load, write_store, write_xmc
from unmissed.errors import InputError
from unmissed.ranking import Ranking, digest_names
from unmissed.runs import open_run, predict, train
from unmissed.settings import SETTINGS

TRAIN, TEST = small_corpus()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train("dismec", TRAIN, tmp_path_factory.mktemp("runs") / "run", PARAMS)


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = load(write_texts(folder / "train.jsonl"), text=TextFeatures())
    (folder / "label_names.tsv").write_text("fish\tFish and\ffishing\nlaw\tLaw\n")
    return train("dismec", load(folder / "train.jsonl"), folder / "run", PARAMS) if data else None


def test_it_writes_a_ranking_for_programs_and_a_table_for_people(run, tmp_path, capsys):
    write_xmc(TEST, tmp_path / "test.txt")
    said(capsys, "predict", run.folder, tmp_path / "test.txt", "--top", 3, "--out", tmp_path / "out" / "best")
    ranking = Ranking.load(tmp_path / "out" / "best.npz")
    expected = run.rank(TEST.X, 3)
    assert np.array_equal(ranking.labels, expected.labels)
    lines = (tmp_path / "out" / "best.tsv").read_text().splitlines()
    assert lines[0] == "row\trank\tlabel\tscore"
    assert len(lines) == 1 + 50 * 3
    row, rank, label, score = lines[5].split("\t")
    assert (row, rank, label) == ("1", "2", TRAIN.label_names[expected.labels[1, 1]])
    assert float(score) == pytest.approx(expected.scores[1, 1], rel=1e-5)
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["best.npz", "best.tsv"]


def test_what_it_writes_can_be_evaluated_and_knows_its_labels(run, tmp_path, capsys):
    write_store(TEST, tmp_path / "test")
    said(capsys, "predict", run.folder, tmp_path / "test", "--top", 5, "--out", tmp_path / "best")
    words = ["--truth", tmp_path / "test", "--train", run.folder, "--bootstrap", 0, "--json"]
    figures = [
        json.loads(said(capsys, "evaluate", tmp_path / name, *words))["figures"] for name in ("best.npz", "best.tsv")
    ]
    assert figures[0] == figures[1]
    assert Ranking.load(tmp_path / "best.npz").names_digest == digest_names(TRAIN.label_names)
    others = Dataset(TEST.X, TEST.Y, label_names=[f"other {name}" for name in TEST.label_names])
    write_store(others, tmp_path / "others")
    words = ["--truth", tmp_path / "others", "--train", tmp_path / "others"]
    assert "labels that are not those of" in refused(capsys, "evaluate", tmp_path / "best.npz", *words)


def test_text_without_labels_is_fine_and_readable_names_are_shown(text_run, tmp_path, capsys):
    (tmp_path / "one.jsonl").write_text('{"text": "cod and net"}\n')
    lines = said(capsys, "predict", text_run.folder, tmp_path / "one.jsonl", "--top", 9).splitlines()
    assert lines[0] == "row\trank\tlabel\tname\tscore"
    assert lines[1].startswith("0\t1\tfish\tFish and")
    assert len(lines) == 4  # no line for empty places


@pytest.mark.parametrize("suffix", [".npz", ".tsv", ".csv", ".jsonl"])
def test_a_suffix_chooses_the_form(suffix, text_run, tmp_path, capsys):
    (tmp_path / "two.jsonl").write_text('{"id": "a,1", "text": "cod and net"}\n{"id": 7, "text": "judge"}\n')
    words = ["--top", 2, "--out", tmp_path / f"best{suffix}"]
    said(capsys, "predict", text_run.folder, tmp_path / "two.jsonl", *words)
    assert [entry.name for entry in tmp_path.glob("best*")] == [f"best{suffix}"]
    if suffix == ".npz":
        assert Ranking.load(tmp_path / "best.npz").labels.shape == (2, 2)
        return
    lines = (tmp_path / f"best{suffix}").read_text().rstrip("\n").split("\n")
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in lines]
        assert [row["id"] for row in rows] == ["a,1", "7"]
        assert rows[0]["labels"][0]["label"] == "fish"
    else:
        rows = list(csv.reader(lines, delimiter="\t" if suffix == ".tsv" else ","))
        assert rows[0] == ["id", "rank", "label", "name", "score"]
        assert [row[:3] for row in rows[1::2]] == [["a,1", "1", "fish"], ["7", "1", "law"]]


def typed(content):
    """Standard input that holds these bytes."""
    return io.TextIOWrapper(io.BytesIO(content))


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_lines_are_written_batch_by_batch_as_all_at_once(suffix, text_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(SETTINGS, "ranked_rows", 2)
    texts = ["cod and net", "judge", "net", "law and judge", "milk"]
    (tmp_path / "lines.txt").write_text("\n\n".join(texts))
    (tmp_path / "same.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    output = said(capsys, "predict", text_run.folder, tmp_path / "lines.txt", "-k", 2, "--out", tmp_path / f"a{suffix}")
    assert output.startswith("5 rows, 2 labels each")
    said(capsys, "predict", text_run.folder, tmp_path / "same.jsonl", "-k", 2, "--out", tmp_path / f"b{suffix}")
    assert (tmp_path / f"a{suffix}").read_text() == (tmp_path / f"b{suffix}").read_text()


@pytest.mark.parametrize("words", [["--json"], ["--out", "a.npz"], ["--out", "a.tsv"]])
def test_a_line_that_is_no_text_is_refused_with_its_number(words, text_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", typed(b"cod\nn\xff\n"))
    output = refused(capsys, "predict", text_run.folder, "-", *words)
    assert "standard input:2:2: expected UTF-8 text, found byte 0xFF" in output
    assert not list(tmp_path.iterdir())


def test_lines_of_standard_input_are_answered_before_it_ends(text_run):
    words = [sys.executable, "-m", "unmissed", "predict", str(text_run.folder), "-", "--top", "1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        process.stdin.write("cod and net\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("row\trank\tlabel")
        assert process.stdout.readline().startswith("0\t1\tfish")
        process.stdin.write("jud")
        process.stdin.flush()
        process.stdin.write("ge\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("1\t1\tlaw")
        process.stdin.write("cod")  # a last line without an end
        process.stdin.close()
        assert process.stdout.readline().startswith("2\t1\tfish")
    assert process.returncode == 0


def test_who_reads_no_further_ends_it_without_a_word(text_run):
    words = [sys.executable, "-m", "unmissed", "predict", str(text_run.folder), "-", "--top", "1"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write("cod\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.write("cod\n" * 100)
            process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_one_text_lines_of_a_file_and_standard_input_are_ranked_alike(text_run, tmp_path, capsys, monkeypatch):
    expected = said(capsys, "predict", text_run.folder, "--text", "cod and net", "--top", 2)
    (tmp_path / "lines.txt").write_text("cod and net\n\n")
    assert said(capsys, "predict", text_run.folder, tmp_path / "lines.txt", "--top", 2) == expected
    monkeypatch.setattr("sys.stdin", typed(b"\xef\xbb\xbfcod and net\r\n"))
    assert said(capsys, "predict", text_run.folder, "-", "--top", 2) == expected
    best = text_run.suggest("cod and net", 2)
    assert best[0][0].startswith("Fish")
    assert best == sorted(best, key=lambda pair: -pair[1])


def test_one_text_in_a_process_of_its_own_is_ranked_alike(text_run):
    script = "from unmissed.cli import main\nmain()"
    words = ["predict", str(text_run.folder), "--text", "cod and net", "--top", "2", "--json"]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)[0]["labels"]
    best = text_run.rank(["cod and net"], 2)
    assert [one["score"] for one in found] == best.scores[0].tolist()
    assert [one["label"] for one in found] == [text_run.label_names[label] for label in best.labels[0]]


def test_a_threshold_leaves_out_what_scores_less(text_run, capsys):
    scores = [score for _, score in text_run.suggest("cod and net", 3)]
    words = ["predict", text_run.folder, "--text", "cod and net", "--top", 3, "--json", "--threshold"]
    assert len(json.loads(said(capsys, *words, scores[1]))[0]["labels"]) == 2
    assert len(text_run.suggest("cod and net", 3, threshold=scores[1])) == 2
    assert json.loads(said(capsys, *words, scores[0] + 1)) == [{"row": 0, "labels": []}]


def test_what_a_threshold_left_out_is_not_counted(text_run, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("cod and net\njudge\n")
    words = ["predict", text_run.folder, tmp_path / "texts.txt", "--top", 2, "--threshold"]
    scores = [score for text in ("cod and net", "judge") for _, score in text_run.suggest(text, 2)]
    between = sorted(scores)[-1]  # only the best of all is left
    out = tmp_path / "best.csv"
    assert said(capsys, *words, -9, "--out", out).startswith("2 rows, 2 labels each: ")
    assert said(capsys, *words, between, "--out", out) == f"2 rows, 1 label, at most 1 each; 1 row without any: {out}\n"
    assert out.read_text().count("\n") == 2
    npz = said(capsys, *words, between, "--out", tmp_path / "best.npz")
    assert npz.startswith("2 rows, 1 label, at most 1 each; 1 row without any: ")
    found = json.loads(said(capsys, *words, between, "--out", out, "--json"))
    assert (found["n_samples"], found["n_suggestions"], found["n_rows_without_suggestion"]) == (2, 1, 1)


def test_several_texts_get_a_list_of_suggestions_each(text_run):
    texts = ["cod and net", "court"]
    for given in (texts, tuple(texts), np.array(texts), iter(texts)):
        assert text_run.suggest(given, 2) == [text_run.suggest(text, 2) for text in texts]
    assert text_run.suggest([]) == []
    with pytest.raises(InputError, match="suggest takes a text or several texts; text 1 is int"):
        text_run.suggest(["cod", 3])


def test_rows_and_a_text_at_once_or_neither_are_refused(run, text_run, tmp_path, capsys):
    assert "needs either DATA or --text" in refused(capsys, "predict", text_run.folder)
    assert "needs either DATA or --text" in refused(capsys, "predict", text_run.folder, "x.txt", "--text", "cod")
    assert "not trained on text" in refused(capsys, "predict", run.folder, "--text", "cod")
    assert "not the name of a file" in refused(capsys, "predict", text_run.folder, "--text", "cod", "--out", ".")
    for name in ("best.xlsx", "best.json", "best.csv.gz"):
        line = refused(capsys, "predict", text_run.folder, "--text", "cod", "--out", tmp_path / name)
        assert f"cannot write .{name.rpartition('.')[2]}; expected .npz, .tsv, .csv, .jsonl" in line


def test_it_speaks_json(text_run, tmp_path, capsys):
    (tmp_path / "one.jsonl").write_text('{"text": "judge"}\n{"text": ""}\n')
    rows = json.loads(said(capsys, "predict", text_run.folder, tmp_path / "one.jsonl", "--top", 1, "--json"))
    assert rows[0]["labels"][0]["label"] == "law"
    assert rows[0]["labels"][0]["name"] == "Law"
    assert rows[1] == {"row": 1, "labels": [], "no_known_words": True}


UNKNOWN = ["judge", "xyzzy qwertz", "", "cod"]


def test_texts_without_a_known_word_get_no_labels_in_python(text_run):
    assert not text_run.suggest("judge", 2).no_known_words
    for text in UNKNOWN[1:3]:
        assert text_run.suggest(text) == []
        assert text_run.suggest(text).no_known_words
    for found in (
        text_run.rank(UNKNOWN, 2),
        predict(text_run, UNKNOWN, 2, batch=3),
        predict(text_run, iter(UNKNOWN), 2),
    ):
        assert found.no_known_words.tolist() == [False, True, True, False]
        assert (found.labels[1:3] == -1).all()
        assert (found.labels[[0, 3], 0] >= 0).all()
    assert text_run.rank(text_run.text.transform([""]), 1).labels[0, 0] >= 0, "a row of zeros of a matrix is ranked"


@pytest.mark.parametrize("form", ["jsonl", "txt", "csv"])
def test_texts_without_a_known_word_are_counted_and_said(form, text_run, tmp_path, capsys):
    known = [text or "..." for text in UNKNOWN]
    lines = [json.dumps({"text": text}) for text in known] if form == "jsonl" else known
    data = tmp_path / f"rows.{form}"
    data.write_text("\n".join([*(["text"] if form == "csv" else []), *lines]) + "\n")
    for words in ([], ["--json"], ["--out", tmp_path / "best.jsonl"], ["--out", tmp_path / "best", "--json"]):
        with pytest.raises(SystemExit) as end:
            app_run([str(word) for word in ["predict", text_run.folder, data, "-k", 1, *words]])
        captured = capsys.readouterr()
        assert end.value.code == 0
        assert captured.err == "no known words in 2 of 4 texts; they get no labels\n"
        if not words:
            assert [line.split("\t")[0] for line in captured.out.splitlines()[1:]] == ["0", "3"]
    assert json.loads(captured.out)["n_no_known_words"] == 2
    rows = [json.loads(line) for line in (tmp_path / "best.jsonl").read_text().splitlines()]
    assert [row.get("no_known_words", False) for row in rows] == [False, True, True, False]
    assert [len(row["labels"]) for row in rows] == [1, 0, 0, 1]


def test_features_come_in_every_form(run, tmp_path, capsys):
    write_store(TEST, tmp_path / "store")
    sparse.save_npz(tmp_path / "X.npz", TEST.X)
    bare = Dataset(TEST.X, sparse.csr_matrix((TEST.n_samples, 1), dtype=np.float32))
    write_xmc(bare, tmp_path / "bare.txt")
    headless = (tmp_path / "bare.txt").read_text().split("\n", 1)[1]
    (tmp_path / "headless.txt").write_text(headless)
    tables = [
        said(capsys, "predict", run.folder, tmp_path / name, *words)
        for name, words in [("store", []), ("X.npz", []), ("bare.txt", []), ("headless.txt", ["--no-header"])]
    ]
    assert tables[0] == tables[1] == tables[2] == tables[3]


def test_other_features_and_texts_for_a_run_without_text_are_refused(run, tmp_path, capsys):
    write_xmc(Dataset(TEST.X[:, :10], TEST.Y), tmp_path / "narrow.txt")
    assert "has 10 features" in refused(capsys, "predict", run.folder, tmp_path / "narrow.txt")
    (tmp_path / "one.jsonl").write_text('{"text": "cod"}\n')
    assert "not trained on text" in refused(capsys, "predict", run.folder, tmp_path / "one.jsonl")


def test_no_run_is_one_line(tmp_path, capsys):
    assert "not a run folder" in refused(capsys, "predict", tmp_path, tmp_path / "none.txt")


@pytest.mark.parametrize("batch", [1, 7, 50, 1000])
def test_batches_of_any_size_give_the_same_ranking(batch, run):
    expected = run.rank(TEST.X, 5)
    found = predict(open_run(run.folder.path), TEST.X, 5, batch=batch)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def test_a_run_stands_in_for_its_training_set_in_evaluate(run, tmp_path, capsys):
    write_store(TRAIN, tmp_path / "train")
    write_store(TEST, tmp_path / "test")
    said(capsys, "predict", run.folder, tmp_path / "test", "--out", tmp_path / "best")
    words = ["evaluate", tmp_path / "best.npz", "--truth", tmp_path / "test", "--bootstrap", 0, "--json", "--train"]
    by_data, by_run = (json.loads(said(capsys, *words, position)) for position in (tmp_path / "train", run.folder))
    assert by_data.pop("train") != by_run.pop("train")
    assert by_data == by_run
