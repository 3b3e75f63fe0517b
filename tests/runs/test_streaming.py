"""Texts are let go once they are read: training and prediction hold features, not texts."""

import csv
import io
import json
import time
import tracemalloc

import numpy as np
import pytest

from unmissed.cli.app import run as command
from unmissed.data import TextFeatures, load
from unmissed.data.survey import survey
from unmissed.models.popularity import Popularity
from unmissed.runs import open_run, predict, train
from unmissed.runs.lines import TextLines
from unmissed.runs.prediction import predict_lines, read_rows
from unmissed.settings import SETTINGS

N_TEXTS, N_BYTES = 200, 50_000  # each text a few words and one very long one, so that counting takes no time
TOPICS = {"fish": "cod net quota ", "law": "court judge appeal "}


def documents():
    for number in range(N_TEXTS):
        label = sorted(TOPICS)[number % 2]
        yield {"id": f"r{number}", "text": TOPICS[label] + "x" * N_BYTES, "labels": [label]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    with open(folder / "a.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "text", "labels"])
        writer.writeheader()
        writer.writerows({**one, "labels": one["labels"][0]} for one in documents())
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents()))
    train(Popularity(), load(folder / "a.jsonl"), folder / "run")
    return folder


def peak_of(work):
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_training_and_statistics_never_hold_all_texts(name, folder):
    dataset, peak = peak_of(lambda: load(folder / name))
    assert (dataset.n_samples, dataset.n_features, dataset.label_names) == (N_TEXTS, 7, ["fish", "law"])
    assert peak < N_TEXTS * N_BYTES / 2
    for count in (True, False):
        found, peak = peak_of(lambda count=count: survey(folder / name, count_features=count))
        assert (found.train.n_samples, found.n_features) == (N_TEXTS, 7 if count else None)
        assert peak < N_TEXTS * N_BYTES / 2


@pytest.mark.parametrize("name", ["a.txt", "-"])
def test_lines_of_text_are_let_go_once_they_are_ranked(name, folder, monkeypatch):
    run = open_run(folder / "run")
    (folder / "a.txt").write_text("".join(one["text"] + "\n" for one in documents()))
    monkeypatch.setattr(SETTINGS, "input_bytes", 1 << 16)
    monkeypatch.setattr(SETTINGS, "read_bytes", 1 << 16)

    def ranked():
        rows, _ = read_rows(run, "-" if name == "-" else folder / name)
        return sum(part.n_samples for part in predict_lines(run, rows, 2))

    with open(folder / "a.txt") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        n_texts, peak = peak_of(ranked)
    assert n_texts == N_TEXTS
    assert peak < N_TEXTS * N_BYTES / 10


class _Trickle(io.BytesIO):
    """A stream that gives one byte at a time."""

    def read1(self, size=-1):
        return self.read(1)


def test_standard_input_byte_by_byte_takes_time_in_proportion_to_its_bytes(monkeypatch):
    texts = ["cod", "x" * 40_000, "net"]
    stream = io.TextIOWrapper(_Trickle(b"\xef\xbb\xbf" + "\n".join(texts).encode()))
    monkeypatch.setattr("sys.stdin", stream)
    begin = time.process_time()
    found = [text for batch in TextLines("-") for text in batch]
    assert time.process_time() - begin < 3, "milliseconds; looking at all bytes again for each takes 20 seconds"
    assert found == texts


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_prediction_reads_texts_while_it_ranks_them(name, folder):
    run = open_run(folder / "run")

    def ranked():
        rows, ids = read_rows(run, folder / name)
        return predict(run, rows, 2, batch=7), ids

    (ranking, ids), peak = peak_of(ranked)
    assert peak < N_TEXTS * N_BYTES / 2
    assert ids == [f"r{number}" for number in range(N_TEXTS)]
    at_once = predict(run, [one["text"] for one in documents()], 2)
    assert np.array_equal(ranking.labels, at_once.labels)
    assert np.array_equal(ranking.scores, at_once.scores)
    assert ranking.names_digest == at_once.names_digest


def test_a_file_without_rows_gives_a_ranking_without_rows(folder, tmp_path):
    (tmp_path / "none.csv").write_text("text\n")
    rows, ids = read_rows(open_run(folder / "run"), tmp_path / "none.csv")
    assert predict(open_run(folder / "run"), rows, 2).labels.shape == (0, 2)
    assert ids == []


def test_a_line_that_cannot_be_read_is_named_and_nothing_is_written(folder, tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text('{"text": "cod"}\n{"text": 3}\n')
    with pytest.raises(SystemExit):
        command(["predict", str(folder / "run"), str(tmp_path / "bad.jsonl"), "--out", str(tmp_path / "out.csv")])
    assert "bad.jsonl:2: expected 'text' to be a string, found a number" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"bad.jsonl:1: expected 'labels' to be a list"):
        load(tmp_path / "bad.jsonl")
    assert not (tmp_path / "out.csv").exists()


def test_no_terms_in_an_iterator_of_texts_are_refused():
    with pytest.raises(ValueError, match="no terms to learn from texts with min_df=1"):
        TextFeatures().fit(iter(["", "a"]))
