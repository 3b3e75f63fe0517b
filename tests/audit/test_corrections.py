"""Confirmed labels are added to a copy of the data, with a log; contradictions follow the majority."""

import csv
import json

import numpy as np
import pytest

from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.audit import Answer, apply_answers, find_missing
from unmissed.data import load, write_store
from unmissed.errors import InputError
from unmissed.runs import calibrate, train


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder with documents that have ids and another field, and a calibrated run."""
    folder = tmp_path_factory.mktemp("corrections")
    lines = write_texts(folder / "plain.jsonl").read_text().splitlines()
    documents = [{"id": f"d{at}", **json.loads(line), "shelf": at} for at, line in enumerate(lines)]
    (folder / "train.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    train("dismec", load(folder / "train.jsonl"), folder / "run", PARAMS)
    return folder, calibrate(folder / "run"), documents


def missing_in(documents, label):
    return [one["id"] for one in documents if label not in one["labels"]]


def test_labels_with_more_yes_than_no_are_added_and_everything_else_stays(texts, tmp_path):
    folder, run, documents = texts
    before = (folder / "train.jsonl").read_bytes()
    sure, most, tie, against, unsure = missing_in(documents, "law")[:5]
    held = next(one["id"] for one in documents if "law" in one["labels"])
    verdicts = {sure: ["yes"], most: ["yes", "no", "yes"], tie: ["yes", "no"], against: ["no"], unsure: ["unsure"]}
    verdicts[held] = ["yes"]
    answers = [Answer(row, "law", one, f"p{at}") for row, all_ in verdicts.items() for at, one in enumerate(all_)]
    found, log = apply_answers(run, answers, tmp_path / "fixed.jsonl")
    written = [json.loads(line) for line in (tmp_path / "fixed.jsonl").read_text().splitlines()]
    for old, new in zip(documents, written, strict=True):
        more = ["law"] if old["id"] in (sure, most) else []
        assert new == {**old, "labels": [*old["labels"], *more]}
    assert (folder / "train.jsonl").read_bytes() == before
    assert found.summary() == {
        "n_answers": 9,
        "n_cells": 6,
        "n_added": 2,
        "n_already_observed": 1,
        "n_contradicted": 2,
        "n_contradicted_added": 1,
    }
    with open(log, newline="") as stream:
        lines = {line["row"]: line for line in csv.DictReader(stream)}
    assert [lines[row]["added"] for row in verdicts] == ["yes", "yes", "no", "no", "no", "already observed"]
    assert (lines[most]["n_yes"], lines[most]["annotators_yes"], lines[most]["annotators_no"]) == ("2", "p0; p2", "p1")
    assert load(tmp_path / "fixed.jsonl").Y.nnz == load(folder / "train.jsonl").Y.nnz + 2


def test_features_are_written_with_the_added_labels(tmp_path):
    data, _ = small_corpus(n_labels=12, n_train=80)
    write_store(data, tmp_path / "store")
    train("dismec", load(tmp_path / "store"), tmp_path / "run", PARAMS)
    run = calibrate(tmp_path / "run")
    cells = list(find_missing(run, top=5))
    answers = [Answer(str(cell["row"]), cell["label"], "yes") for cell in cells]
    apply_answers(run, answers, tmp_path / "fixed")
    fixed = load(tmp_path / "fixed")
    expected = data.Y.toarray()
    for cell in cells:
        expected[cell["row"], run.label(cell["label"])] = 1
    np.testing.assert_array_equal(fixed.Y.toarray(), expected)
    assert (fixed.X != data.X).nnz == 0
    assert fixed.label_names == data.label_names


def test_what_does_not_fit_is_refused_and_nothing_is_overwritten(texts, tmp_path):
    folder, run, documents = texts
    row = missing_in(documents, "law")[0]
    with pytest.raises(InputError, match="no row 'd9999'"):
        apply_answers(run, [Answer("d9999", "law", "yes")], tmp_path / "fixed.jsonl")
    with pytest.raises(InputError, match=r"no row '3' \(rows have ids, such as 'd3' for this number\)"):
        apply_answers(run, [Answer("3", "law", "yes")], tmp_path / "fixed.jsonl")
    with pytest.raises(InputError, match=r"no label 'laws'.*did you mean"):
        apply_answers(run, [Answer(row, "laws", "yes")], tmp_path / "fixed.jsonl")
    with pytest.raises(InputError, match="there are no answers"):
        apply_answers(run, [], tmp_path / "fixed.jsonl")
    with pytest.raises(InputError, match="as JSON lines"):
        apply_answers(run, [Answer(row, "law", "yes")], tmp_path / "store")
    before = (folder / "train.jsonl").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        apply_answers(run, [Answer(row, "law", "yes")], folder / "train.jsonl")
    assert (folder / "train.jsonl").read_bytes() == before
    assert not list(tmp_path.iterdir())
