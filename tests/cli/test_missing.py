"""`unmissed missing`."""

import csv
import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts, whose ids look like formulas, a run without and a run with probabilities."""
    from unmissed.cli.app import run

    path = tmp_path_factory.mktemp("missing")
    lines = write_texts(path / "train.jsonl").read_text().splitlines()
    objects = [{"id": f"=1+{at}", **json.loads(line)} for at, line in enumerate(lines)]
    (path / "train.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    for name, more in (("plain", []), ("run", ["--calibrate"])):
        with pytest.raises(SystemExit) as end:
            run(["train", "pw-dismec", str(path / "train.jsonl"), "--run", str(path / name), *more])
        assert end.value.code == 0
    return path


def test_the_first_cells_are_printed(folder, capsys):
    output = said(capsys, "missing", folder / "run", "--top", 3)
    assert "missing_probability" in output
    assert "are expected to be true" in output
    assert "clipped at 1" not in output
    assert "at most" not in output
    clipped = said(capsys, "missing", folder / "run", "--propensity", "constant:1e-7")
    assert "clipped at 1" in clipped
    assert "cells without a label; at most " in clipped
    assert output.count("=1+") == 3
    found = json.loads(said(capsys, "missing", folder / "run", "--top", 1000, "--json"))
    assert len(found["cells"]) == found["n_cells"] == 20
    assert found["cells"][0]["missing_probability"] >= found["cells"][19]["missing_probability"]
    assert {"expected_true", "clipped_fraction", "n_candidates"} <= set(found)


def test_files_have_every_cell(folder, capsys, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow.parquet import read_table

    for suffix in ("csv", "jsonl", "parquet"):
        said(capsys, "missing", folder / "run", "--out", tmp_path / f"missing.{suffix}")
    with open(tmp_path / "missing.csv", newline="") as stream:
        table = list(csv.DictReader(stream))
    lines = [json.loads(line) for line in (tmp_path / "missing.jsonl").read_text().splitlines()]
    rows = read_table(tmp_path / "missing.parquet").to_pylist()
    assert len(table) == len(lines) == len(rows) > 20
    for row, line, parquet in zip(table, lines, rows, strict=True):
        assert row["id"] == "'" + line["id"]  # no formula in a spreadsheet
        assert (row["label"], row["count"]) == (line["label"], str(line["count"]))
        assert float(row["missing_probability"]) == pytest.approx(line["missing_probability"], rel=1e-5)
        assert {**line, "words": list(line["words"])} == parquet
        assert row["words"] == " ".join(line["words"])


def test_questions_for_annotators_have_the_texts(folder, capsys, tmp_path):
    text = json.loads((folder / "train.jsonl").read_text().splitlines()[0])["text"]
    for name, file in (("label-studio", "tasks.json"), ("prodigy", "tasks.jsonl"), ("argilla", "records.json")):
        said(capsys, "missing", folder / "run", "--out", tmp_path / file, "--format", name)
        assert text in (tmp_path / file).read_text()
    said(capsys, "missing", folder / "run", "--out", tmp_path / "questions.html")
    assert text in (tmp_path / "questions.html").read_text()
    assert "--format needs" in refused(capsys, "missing", folder / "run", "--format", "html")
    assert "unknown format" in refused(capsys, "missing", folder / "run", "--out", "a", "--format", "excel")


def test_answers_are_applied_to_a_new_file(folder, capsys, tmp_path):
    said(capsys, "missing", folder / "run", "--out", tmp_path / "missing.csv", "--top", 4)
    lines = (tmp_path / "missing.csv").read_text().splitlines()
    answers = [f"{lines[0]},answer", *(f"{line},yes" for line in lines[1:]), f"{lines[1]},no", f"{lines[1]},no"]
    (tmp_path / "answers.csv").write_text("\n".join(answers) + "\n")
    words = ("missing", folder / "run", "--apply", tmp_path / "answers.csv")
    output = said(capsys, *words, "--out", tmp_path / "fixed.jsonl")
    assert "3 labels added, by 6 answers to 4 cells" in output
    assert "contradict each other in 1 cells; 0 of them" in output
    summary = json.loads(said(capsys, *words, "--out", tmp_path / "fixed.jsonl", "--json"))  # the same bytes are kept
    assert (summary["n_added"], summary["log"]) == (3, str(tmp_path / "fixed.jsonl.log.csv"))
    assert "--apply needs" in refused(capsys, *words)


def test_filters_reach_the_list(folder, capsys, tmp_path):
    words = ("missing", folder / "run", "--out", tmp_path / "one.jsonl", "--label", "law", "--per-label", 4)
    found = json.loads(said(capsys, *words, "--json"))
    assert (found["n_cells"], found["n_labels"], found["out"]) == (4, 1, str(tmp_path / "one.jsonl"))
    certain = said(capsys, "missing", folder / "run", "--propensity", "constant:1", "--json")
    assert json.loads(certain)["expected_true"] == 0


def test_what_cannot_be_done_is_said_in_one_line(folder, capsys, tmp_path):
    assert f"unmissed calibrate {folder / 'plain'}" in refused(capsys, "missing", folder / "plain")
    assert "formats are csv" in refused(capsys, "missing", folder / "run", "--out", tmp_path / "missing.xlsx")
    assert "did you mean" in refused(capsys, "missing", folder / "run", "--label", "fishh")
