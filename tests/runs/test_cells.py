"""Cells that a spreadsheet would run as formulas are guarded in files, and read back as they were."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.speaking import said
from unmissed.data import load
from unmissed.models.popularity import Popularity
from unmissed.ranking import Ranking
from unmissed.runs import train
from unmissed.runs.cells import guard, unguard
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.runs.prediction import write_ranking

FORMULA = '=HYPERLINK("http://x","y")'
NAMES = [
    FORMULA,
    "'" + FORMULA,
    "''=1+1",
    "+sum",
    "-x",
    "@cmd",
    "\ttab",
    "\rreturn",
    "\r\ntwo\nlines",
    "'tis",
    "plain",
    "-5",
    "-0.2e3",
]
SIGNS = "=+-@\t\r"


@pytest.mark.parametrize("cell", ["=1", "+x", "-x", "@x", "\t1", "\r1", "-1+cmd|' /C calc'!A0", "+1 555", "--1"])
def test_formulas_begin_with_an_apostrophe(cell):
    assert guard(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "a", "-0.2", "+3", "-5", "1e-7", "-1.5E+10", "-.5", "'tis", "'-5", " =1"])
def test_numbers_and_other_texts_stay_as_they_are(cell):
    assert guard(cell) == unguard(cell) == cell


@given(st.text(alphabet="'=+-@\t\r\n1.ea ", max_size=6))
def test_every_cell_comes_back_and_none_begins_like_a_formula(cell):
    assert unguard(guard(cell)) == cell
    if guard(cell)[:1] and guard(cell)[0] in SIGNS:
        float(cell)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Documents whose ids and labels begin like formulas, a run of these labels, and the right ranking."""
    folder = tmp_path_factory.mktemp("cells")
    lines = [{"id": name, "text": f"word{row}", "labels": [name]} for row, name in enumerate(NAMES)]
    (folder / "test.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    run = train(Popularity(), load(folder / "test.jsonl"), folder / "run")
    labels = np.array([[run.label_names.index(name)] for name in NAMES])
    return folder, run, Ranking.sort(labels, np.full(labels.shape, -0.25))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_ids_and_labels_of_written_tables_match_when_they_are_read(case, tmp_path, form, raw):
    folder, run, ranking = case
    if raw and form != "jsonl":  # in a raw table '=1 could be either of two names
        kept = [row for row, name in enumerate(NAMES) if not name.startswith("'")]
        ranking = Ranking(ranking.labels[kept], ranking.scores[kept])
    names = [name for name in NAMES if not (raw and form != "jsonl" and name.startswith("'"))]
    (path,) = write_ranking(run, ranking, tmp_path / f"best.{form}", ids=names, raw=raw)
    how = Measuring((1,), n_resamples=0, missing_rows="skip")
    found = evaluate_ranking(path, folder / "test.jsonl", folder / "run", how)
    assert (found["n_samples"], found["figures"]["P@1"]["value"]) == (len(names), 1)


def test_scores_stay_numbers_and_raw_turns_the_guard_off(case, tmp_path):
    _, run, ranking = case
    for raw in (False, True):
        (path,) = write_ranking(run, ranking, tmp_path / "best.csv", ids=NAMES, raw=raw)
        with path.open(newline="") as stream:
            first = next(csv.DictReader(stream))
        assert first["score"] == "-0.25"
        assert first["id"] == first["label"] == (FORMULA if raw else f"'{FORMULA}")


def test_the_command_guards_files_and_not_what_it_prints(case, tmp_path, capsys):
    folder, _, _ = case
    words = ["predict", folder / "run", folder / "test.jsonl", "--top", 1]
    said(capsys, *words, "--out", tmp_path / "best.csv")
    assert (tmp_path / "best.csv").read_text().splitlines()[1].startswith("\"'=HYPER")
    said(capsys, *words, "--out", tmp_path / "raw.csv", "--raw")
    assert (tmp_path / "raw.csv").read_text().splitlines()[1].startswith('"=HYPER')
    assert said(capsys, *words).splitlines()[1].startswith("=HYPER")
