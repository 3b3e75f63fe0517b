"""fastText's files: labels are words with a prefix, wherever they stand."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.speaking import said
from unmissed.data import load, read_texts
from unmissed.data.readers.fasttext import FastText
from unmissed.data.readers.reader import ReadOptions
from unmissed.errors import InputError

LINES = "__label__fish __label__law cod and net\nbread and __label__food milk\n\nno label here\n"


@pytest.mark.parametrize("name", ["a.txt", "a.ft", "a.fasttext.gz", "a.txt.gz"])
def test_labels_are_separated_from_words_and_blank_lines_are_skipped(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES.encode()) if path.suffix == ".gz" else b"\xef\xbb\xbf" + LINES.encode())
    dataset = load(path)
    assert dataset.label_names == ["fish", "food", "law"]
    assert dataset.Y.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert read_texts(path) == ["cod and net", "bread and milk", "no label here"]


def test_a_txt_file_that_does_not_start_with_a_label_is_xmc_text(tmp_path):
    (tmp_path / "a.txt").write_text("1 1 1\n0 0:1\n")
    assert load(tmp_path / "a.txt").text is None
    (tmp_path / "b.txt").write_text("cod __label__fish\n")
    with pytest.raises(InputError, match=r"plain text, but \.txt files are XMC text here"):
        load(tmp_path / "b.txt")
    (tmp_path / "c.txt.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(InputError, match=r"c\.txt\.gz:1: the gzip file is damaged"):
        load(tmp_path / "c.txt.gz")


@pytest.mark.parametrize(
    ("line", "what"),
    [(b"__label__ cod", ":2: a label without a name"), (b"__label__a \xff", ":2:12: expected UTF-8 text")],
)
def test_malformed_lines_are_refused_with_their_line(line, what, tmp_path):
    (tmp_path / "a.ft").write_bytes(b"__label__x fine words\n" + line + b"\n")
    with pytest.raises(InputError, match=rf"a\.ft{what}"):
        load(tmp_path / "a.ft")


words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=8)


@given(st.lists(words.filter(lambda word: not word.startswith("__label__"))), st.lists(words))
def test_what_is_written_is_what_is_read(text, labels):
    line = " ".join([*text, *(f"__label__{label}" for label in labels)])
    found = list(FastText().parse("a", [(1, line.encode())], ReadOptions()))
    assert found == ([("a:1", {"text": " ".join(text), "labels": labels})] if line else [])


def test_prediction_does_not_see_the_labels(tmp_path, capsys):
    (tmp_path / "train.txt").write_text(LINES * 5)
    (tmp_path / "plain.txt").write_text("cod and net\nbread and milk\n\nno label here\n".replace("\n\n", "\n") * 5)
    said(capsys, "train", "dismec", tmp_path / "train.txt", "--run", tmp_path / "run", "--no-check")
    shown = said(capsys, "predict", tmp_path / "run", tmp_path / "train.txt")
    assert shown == said(capsys, "predict", tmp_path / "run", tmp_path / "plain.txt")
