"""What looks wrong with training data is said before training, and the absurd is refused."""

import json
import random

import numpy as np
import pytest
from scipy import sparse

from tests.cli.speaking import refused
from tests.runs.corpora import small_corpus
from unmissed.cli.app import run
from unmissed.data import Dataset, check_dataset, load, make_corpus
from unmissed.errors import InputError
from unmissed.runs import train

WORDS = ["cod", "court", "milk", "trade", "border", "ship", "judge", "river", "school", "music"]
LABELS = ["fish", "law", "food", "economy", "politics", "transport", "culture"]


def rows(n=60, seed=0):
    """Return id, text and labels of made-up documents."""
    draw = random.Random(seed)
    return [
        (str(number), " ".join(draw.choices(WORDS, k=12)), draw.sample(LABELS, draw.randint(2, 4)))
        for number in range(n)
    ]


def write_table(path, found):
    path.write_text("id,text,labels\n" + "".join(f"{one},{text},{labels}\n" for one, text, labels in found))
    return path


def warnings_of(capsys, *words):
    """Run a command that succeeds; returns the warnings that it prints."""
    with pytest.raises(SystemExit) as end:
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert end.value.code == 0, captured.err
    return [line for line in captured.err.splitlines() if line.startswith("warning: ")]


def commands(path, folder):
    """Return the commands that look at training data."""
    return [
        ["train", "popularity", path, "--run", folder / "run"],
        ["data", "stats", path],
        ["compare", path, path, "--out", folder / "out", "--methods", "popularity", "--bootstrap", 2],
    ]


def test_sound_data_gives_no_warning(tmp_path, capsys):
    path = write_table(tmp_path / "a.csv", [(one, text, ";".join(labels)) for one, text, labels in rows()])
    for words in commands(path, tmp_path)[:2]:
        assert warnings_of(capsys, *words) == []
    assert check_dataset(small_corpus()[0]) == []
    assert check_dataset(make_corpus(2000, 0, n_labels=1500, n_features=300, rng=0).train) == []  # a long tail


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda number, one, text, labels: (one, text, " ".join(labels)),
            "labels occur once, rows have one label",
        ),
        (
            lambda number, one, text, labels: (one, text, ";".join(labels) if number % 2 else ""),
            "30 of 60 rows (50%) have no label",
        ),
        (
            lambda number, one, text, labels: (number // 2, text, ";".join(labels)),
            "30 rows have the id of a row before them, such as '0'",
        ),
        (
            lambda number, one, text, labels: (one, text, f"label{number}"),
            "100% of 60 labels occur once and can hardly be learned",
        ),
        (
            lambda number, one, text, labels: (one, text, ";".join(labels) if number else "x" * 501),
            "the longest label has 501 characters",
        ),
    ],
)
def test_what_looks_wrong_is_one_line_in_every_command(change, line, tmp_path, capsys):
    found = [change(number, *row) for number, row in enumerate(rows())]
    path = write_table(tmp_path / "a.csv", found)
    fast, slow = commands(path, tmp_path)[:2], commands(path, tmp_path)[2:]
    for words in fast + slow * line.startswith("the longest"):  # a comparison starts processes: with one kind only
        said = warnings_of(capsys, *words)
        assert len(said) == 1, (words, said)
        assert line in said[0]
        assert "a.csv: " in said[0]
        assert "?" in said[0]


def test_swapped_columns_are_refused(tmp_path, capsys):
    path = write_table(tmp_path / "a.csv", [(one, ";".join(labels), text) for one, text, labels in rows()])
    for words in commands(path, tmp_path):
        line = refused(capsys, *words)
        assert "and 100% of the labels occur once: are the columns swapped? (--text-column, --labels-column)" in line
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="are the columns swapped"):
        train("popularity", load(path), tmp_path / "run")
    long = [(one, "fish", '"' + ", ".join([text] * 5) + '"') for one, text, _ in rows()]
    with pytest.raises(InputError, match=r"cells of 'labels' have \d+ characters on average and are not split"):
        load(write_table(tmp_path / "b.csv", long))


def test_data_without_any_label_is_refused(tmp_path, capsys):
    path = write_table(tmp_path / "a.csv", [(one, text, "") for one, text, _ in rows()])
    for words in commands(path, tmp_path):
        assert "none of its 60 rows has a label; is --labels-column right?" in refused(capsys, *words)
    X = sparse.csr_matrix(np.eye(3))
    with pytest.raises(InputError, match="the data: none of its 3 rows has a label"):
        train("popularity", Dataset(X, sparse.csr_matrix((3, 2))), tmp_path / "run")


def test_a_few_rows_say_nothing_about_shares(tmp_path):
    few = [(one, text, f"label{one}") for one, text, _ in rows(19)]
    assert check_dataset(load(write_table(tmp_path / "a.csv", few))) == []


def test_one_row_has_two_labels_of_one_rank(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"id": one, "text": t, "labels": ls}) + "\n" for one, t, ls in rows(20)))
    (tmp_path / "best.tsv").write_text("id\trank\tlabel\tscore\n3\t1\tfish\t2\n3\t1\tlaw\t1\n")
    line = refused(capsys, "evaluate", tmp_path / "best.tsv", "--truth", path, "--train", path)
    assert "best.tsv: id '3' has rank 1 twice" in line
