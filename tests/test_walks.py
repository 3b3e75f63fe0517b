"""The tutorial and the walks of three new users: what their pages say is done, command by command, in its order."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.speaking import said
from unmissed import open_run

DOCS = Path(__file__).parents[1] / "docs"
STEP = re.compile(r"(?:`(?P<file>[\w.]+\.csv)`:\n\n)?```(?P<kind>text|sh|python)\n(?P<block>.*?)```", re.DOTALL)


def walk(page, capsys):
    """Do what a page says; returns what each command printed, and the names of its code."""
    printed, names = [], {}
    for step in STEP.finditer((DOCS / page).read_text(encoding="utf-8")):
        if step["kind"] == "python":
            exec(compile(step["block"], page, "exec"), names)
        elif step["kind"] == "sh":
            for line in step["block"].splitlines():
                command, *words = shlex.split(line)
                assert command == "unmissed"
                printed.append(said(capsys, *words))
        elif step["file"]:
            Path(step["file"]).write_text(step["block"], encoding="utf-8")
        else:
            names["shown"] = step["block"]
    return printed, names


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_from_a_csv_to_tags_in_six_commands_or_fewer(capsys):
    printed, names = walk("walk_tags.md", capsys)
    assert len(printed) <= 6

    def labels(table):
        return [line.split("\t")[2] for line in table.splitlines()]

    assert labels(printed[2]) == labels(names["shown"]) == ["label", "food", "recipes"]
    shown = [float(line.split("\t")[3]) for line in names["shown"].splitlines()[1:]]
    scores = [float(line.split("\t")[3]) for line in printed[2].splitlines()[1:]]
    assert scores == pytest.approx(shown, abs=0.02)  # what the solver's tolerance leaves open
    assert "recipe" in printed[3]
    rows = list(csv.DictReader(Path("best.csv").read_text().splitlines()))
    assert [(row["id"], row["label"]) for row in rows if row["rank"] == "1"] == [("a1", "fishing"), ("a2", "recipes")]
    assert open_run("posts").suggest("A recipe for bread with cheese")[0][0] == "food"


def test_a_grid_search_in_a_pipeline_that_becomes_a_run(capsys):
    _, names = walk("walk_sklearn.md", capsys)
    search = names["search"]
    assert set(search.best_params_) == {"model__C", "model__weighting", "text__ngrams"}
    assert 0.8 < search.best_score_ <= 1
    assert open_run("topics").suggest("a judge and a court", k=2)[0][0] == "law"


def test_scores_of_another_system_compared_with_ours_by_a_paired_interval(capsys):
    printed, names = walk("walk_scores.md", capsys)
    assert "ours.npz" in printed[-1]
    difference = names["difference"]["P@1"]
    words = ["evaluate", "ours.npz", "--truth", "corpus/test", "--train", "ours", "--against", "other.npz", "--json"]
    printed_difference = json.loads(said(capsys, *words))["differences"]["P@1"]
    assert printed_difference["value"] == pytest.approx(difference.value)
    assert printed_difference["low"] < printed_difference["value"] < printed_difference["high"]


def test_the_tutorial_trains_asks_measures_and_finds_a_missing_label(capsys):
    printed, names = walk("tutorial.md", capsys)
    columns = "row\trank\tlabel\tscore\tprobability"
    assert names["shown"].splitlines()[0] == printed[2].splitlines()[0] == columns
    best = printed[2].splitlines()[1].split("\t")
    assert best[2].endswith("linalg")
    assert float(best[4]) > 0.5
    assert "noise floor" in printed[4]
    assert "scipy.special" in printed[5], "numpy.i0 is a Bessel function"
