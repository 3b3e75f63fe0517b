"""Options of texts on the command line; a run remembers the columns that its texts came from."""

import csv
import io
import json

import pytest

from tests.cli.speaking import refused, said
from unmissed.runs import open_run
from unmissed.runs.training_sources import reading_of

ROWS = [("Häuser", "die Stadt", "arch|city"), ("Fische", "der Dorsch", "fish"), ("Recht", "ein Gericht", "law")] * 4
READING = ["--text-column", "title:3,body", "--labels-column", "tags", "--separator", "|", "--id-column", "key"]


def write_table(path, rows=ROWS, names=("key", "title", "body", "tags")):
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows([f"k{number}", *row] for number, row in enumerate(rows))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of a table with unusual columns, trained with options of texts."""
    folder = tmp_path_factory.mktemp("options")
    write_table(folder / "train.csv")
    return folder


@pytest.fixture
def run(folder, capsys):
    if not (folder / "run").exists():
        words = ["--stemmer", "german", "--stop-words", "german", "--strip-accents", "unicode", "--ngram-range", "2"]
        said(capsys, "train", "dismec", folder / "train.csv", "--run", folder / "run", "--no-check", *READING, *words)
    return folder / "run"


def test_a_run_stores_the_options_of_its_texts(run):
    text = open_run(run).text
    assert (text.stemmer, text.strip_accents, text.ngrams, text.fields) == ("german", "unicode", (1, 2), "title:3,body")
    assert "haus" in text.terms_
    assert not {"die", "der", "ein"} & set(text.terms_)


def test_prediction_and_evaluation_need_not_repeat_the_columns(run, folder, capsys):
    plain = said(capsys, "predict", run, folder / "train.csv", "--top", 2)
    assert plain == said(capsys, "predict", run, folder / "train.csv", "--top", 2, *READING)
    assert plain.splitlines()[1].startswith("k0\t1\tarch")
    said(capsys, "predict", run, folder / "train.csv", "-k", 3, "--out", folder / "best.npz")
    words = ["evaluate", folder / "best.npz", "--truth", folder / "train.csv", "--bootstrap", 0, "-k", "1,3"]
    found = said(capsys, *words, "--train", run, "--json")
    assert json.loads(found)["figures"]["P@1"]["value"] == 1
    assert "there is no column 'labels'" in refused(capsys, *words, "--train", folder / "train.csv")


def test_options_of_the_command_replace_those_of_the_run(run, folder, tmp_path, capsys):
    names = ("key", "headline", "body", "subjects")
    other = write_table(tmp_path / "other.csv", names=names)
    assert "there is no column 'title'" in refused(capsys, "predict", run, other)
    shown = said(capsys, "predict", run, other, "--top", 2, "--text-column", "headline:3,body")
    assert shown == said(capsys, "predict", run, folder / "train.csv", "--top", 2)


def test_new_rows_are_read_with_the_columns_of_the_run(run, folder, tmp_path, capsys):
    new = write_table(tmp_path / "new.csv", [("Museum", "die Kunst", "art|arch")])
    said(capsys, "extend", run, new)
    assert "art" in open_run(run).label_names


def test_an_encoding_is_not_remembered(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes("text,labels\nHäuser,arch\nFische,fish\n".encode("cp1252"))
    said(capsys, "train", "dismec", tmp_path / "a.csv", "--run", tmp_path / "run", "--no-check", "--encoding", "cp1252")
    (tmp_path / "b.jsonl").write_text('{"text": "Häuser"}\n', encoding="utf-8")
    assert "\tarch" in said(capsys, "predict", tmp_path / "run", tmp_path / "b.jsonl", "--top", 1)
    assert reading_of(open_run(tmp_path / "run")).columns.encoding == "utf-8"


def test_fields_are_remembered_through_a_store(tmp_path, capsys):
    source = write_table(tmp_path / "train.csv")
    said(capsys, "data", "convert", source, tmp_path / "store", *READING)
    said(capsys, "train", "dismec", tmp_path / "store", "--run", tmp_path / "run", "--no-check")
    assert reading_of(open_run(tmp_path / "run")).columns.text == "title:3,body"


def test_unknown_languages_are_refused_with_those_that_are_known(folder, capsys):
    words = ["train", "dismec", folder / "train.csv", "--run", folder / "none", *READING]
    assert "known stemmers: arabic" in refused(capsys, *words, "--stemmer", "klingon")
    assert "not a language (arabic, " in refused(capsys, *words, "--stop-words", "klingon")
    (folder / "words.txt").write_text("die\nder\n")
    said(capsys, *words[:4], folder / "listed", *READING, "--no-check", "--stop-words", folder / "words.txt")
    assert open_run(folder / "listed").text.stop_words == ["der", "die"]


def test_a_file_of_one_document_is_one_text(run, tmp_path, capsys, monkeypatch):
    paragraphs = ["Häuser und eine Stadt " * 30, "Fische"]
    (tmp_path / "report.txt").write_text("\n\n".join(paragraphs))
    shown = said(capsys, "predict", run, tmp_path / "report.txt", "--one-document", "--top", 1)
    assert [line.split("\t")[:3] for line in shown.splitlines()[1:]] == [["report", "1", "arch"]]
    expected = said(capsys, "predict", run, "--text", "\n".join(paragraphs), "--top", 1)
    assert shown.splitlines()[1].split("\t")[1:] == expected.splitlines()[1].split("\t")[1:]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(paragraphs).encode())))
    assert "arch" in said(capsys, "predict", run, "-", "--one-document", "--top", 1)


def test_long_lines_without_tabs_get_advice(run, tmp_path, capsys):
    from unmissed.cli.app import run as command

    for name, line, expected in (
        ("long", "Häuser " * 100, True),
        ("short", "Häuser", False),
        ("tab", "a\tb" * 200, False),
    ):
        (tmp_path / f"{name}.txt").write_text(f"{line}\n{line}\n")
        with pytest.raises(SystemExit):
            command(["predict", str(run), str(tmp_path / f"{name}.txt"), "--top", "1"])
        assert ("--one-document ranks the file as one text" in capsys.readouterr().err) == expected


def test_one_document_is_a_file_of_text(run, tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("\n")
    assert "the text is empty" in refused(capsys, "predict", run, tmp_path / "empty.txt", "--one-document")
    assert "not a file of one text" in refused(capsys, "predict", run, tmp_path, "--one-document")
    assert "needs a file of plain text as DATA" in refused(capsys, "predict", run, "--text", "x", "--one-document")
