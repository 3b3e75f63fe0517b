"""The whole paper: a page that names each table and figure and leads to ours."""

import re

import pytest

from tests.reports.results import make_results
from unmissed.errors import InputError
from unmissed.reports.compare_figures import TITLES
from unmissed.reports.compare_tables import all_tables
from unmissed.reports.paper_page import entries_of, joined_claims, joined_main, summary, write_contents
from unmissed.studies import paper
from unmissed.studies.mnist import MnistSettings
from unmissed.studies.paper import study_paper


def test_every_table_and_figure_of_the_paper_is_named_in_its_order(tmp_path):
    made = {"losses": [tmp_path / "losses" / "losses.png"], "mnist": [tmp_path / "mnist" / "mnist.png"]}
    entries = entries_of({"a": make_results(), "b": make_results()}, made, tmp_path)
    assert [one.name for one in entries] == ["Figure 1", "Figure 2", "Figure 3", "Table 1", "Table 2", "Figure 4"]
    assert [link.path for link in entries[1].links] == ["losses/losses.png"]
    assert [link.path for link in entries[4].links] == ["#main", "a/index.html#main", "b/index.html#main"]


def test_the_joined_table_has_a_row_per_data_set_and_metric_and_a_column_per_method():
    grid = joined_main({"a": make_results(), "b": make_results()})
    assert grid.columns[:3] == ["data set", "DiSMEC", "PW-DiSMEC, tail"]
    assert [row[0].text for row in grid.rows[:2]] == ["a, PSP@1", "a, PSP@3"]
    assert len(grid.rows) == 10
    assert grid.rows[0][2].best
    assert grid.rows[0][5].text == "–", "a method that was stopped"


def test_the_summary_has_two_figures_per_data_set_and_joins_methods_whose_numbers_differ():
    one, two = make_results(), make_results()
    one["methods"][2] |= {"key": "parabel:n_trees=1", "title": "Parabel, n_trees 1"}
    grid = summary({"a": one, "b": two})
    assert grid.columns == ["method", "a P@1", "a PSP@5", "b P@1", "b PSP@5"]
    assert [row[0].text for row in grid.rows] == ["DiSMEC", "PW-DiSMEC, tail", "Parabel", "Popularity", "SLEEC"]
    assert [cell.text for cell in grid.rows[4][1:]] == ["time limit"] * 4, "a method that did not finish says why"
    assert [cell.best for cell in grid.rows[1]] == [False, True, True, True, True]
    assert sum(cell.best for row in grid.rows for cell in row) == 4
    assert grid.rows[0][2].value == 100 * one["methods"][0]["figures"]["PSP@5"]["value"]


def test_the_joined_claims_say_for_each_data_set_whether_a_claim_holds():
    one, two = make_results(), make_results()
    one["claims"] = [
        {"claim": "first", "holds": True, "evidence": ""},
        {"claim": "second", "holds": None, "evidence": ""},
    ]
    two["claims"] = [
        {"claim": "third", "holds": True, "evidence": ""},
        {"claim": "first", "holds": False, "evidence": ""},
    ]
    grid = joined_claims({"a": one, "b": two})
    assert grid.columns == ["claim", "a", "b"]
    shown = [[cell.text for cell in row] for row in grid.rows]
    assert shown == [["first", "yes", "no"], ["second", "open", "–"], ["third", "–", "yes"]]


def test_links_lead_to_anchors_of_the_pages(tmp_path):
    page = write_contents({"a": make_results()}, {}, tmp_path).read_text(encoding="utf-8")
    anchors = {*all_tables(make_results()), *(f"figure-{name}" for name in TITLES)}
    links = re.findall(r'href="a/index.html#([^"]+)"', page)
    assert len(links) == 4
    assert set(links) <= anchors
    assert "not reproduced" in page


def test_every_data_set_of_the_folder_is_compared(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for part in ("train", "test"):
            (tmp_path / "data" / name / f"{part}.txt").touch()
    calls = []

    def pretend(train, test, out, how, *, text, stage):
        calls.append((train.parent.name, how.name, text))
        return make_results()

    monkeypatch.setattr(paper, "compare", pretend)
    monkeypatch.setattr(paper, "write_report", lambda *_: [])
    monkeypatch.setattr(paper, "study_losses", lambda out, propensity: [out / "losses.png"])
    results, pages = study_paper(tmp_path / "data", tmp_path / "out", parts=("losses", "compare"))
    assert calls == [("one", "one", None), ("two", "two", None)]
    assert list(results) == ["one", "two"]
    assert [page.relative_to(tmp_path / "out").as_posix() for page in pages] == [
        "index.html",
        "one/index.html",
        "two/index.html",
    ]
    assert 'href="losses/losses.png"' in pages[0].read_text(encoding="utf-8")


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(InputError, match="unknown part 'figures'"):
        study_paper(tmp_path, tmp_path / "out", parts=("figures",), digits=MnistSettings())
