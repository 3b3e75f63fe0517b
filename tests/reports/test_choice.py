"""Tables, sentences, files and the figure of a search."""

import csv

import pytest

from unmissed.reports.choice_figures import draw_choice, write_choice
from unmissed.reports.choice_tables import choice_csv, choice_sentence, choice_table


def difference(value):
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "ahead": 0.5}


def candidate(params, gain=None, cost=None, rung=2, verdict="", **more):
    gains = {} if gain is None else {"PSP@5": difference(gain), "P@1": difference(cost)}
    figures = {"PSP@5": 0.3 + (gain or 0), "P@1": 0.6 + (cost or 0)}
    sizes = {"rows_trained_on": 4000 if rung == 2 else 500, "rows_held_out": 1000}
    return {"params": params, "rung": rung, **sizes, "figures": figures, "gains": gains, "verdict": verdict, **more}


def a_choice(gain=0.02, cost=-0.001):
    candidates = [
        candidate({"w": "none", "C": 1.0}, verdict="baseline"),
        candidate({"w": "tail", "C": 1.0}, gain, cost, verdict="chosen"),
        candidate({"w": "tail", "C": 0.3}, -0.02, -0.03, rung=1, verdict="dropped after rung 1"),
    ]
    return {
        "metric": ["PSP@5"],
        "keep": ["P@1"],
        "level": 0.95,
        "params": {"w": "tail", "C": 1.0},
        "baseline": {"w": "none", "C": 1.0},
        "labels": 20,
        "candidates": candidates,
    }


def test_the_table_has_figures_gains_and_verdicts():
    table = choice_table(a_choice())
    assert table.columns == ["candidate", "rung", "rows", "PSP@5", "gain", "P@1", "gain", ""]
    assert table.rows[0] == ["w none, C 1", "2", "4,000", "30.00", "", "60.00", "", "baseline"]
    gains = "32.00", "+2.00 [+1.00, +3.00]", "59.90", "-0.10 [-1.10, +0.90]"
    assert table.rows[1] == ["w tail, C 1", "2", "4,000", *gains, "chosen"]
    assert "20 labels" in table.title


def test_a_comparison_of_methods_has_seconds_and_no_rung():
    choice = {**a_choice(), "params": {"method": "a"}}
    choice["candidates"] = [candidate({"method": "a"}, verdict="baseline, chosen", seconds=1.234)]
    table = choice_table(choice)
    assert table.columns == ["candidate", "rows", "PSP@5", "gain", "P@1", "gain", "seconds", ""]
    assert table.rows[0][-2:] == ["1.2", "baseline, chosen"]


def test_the_sentence_says_what_the_choice_gains_and_costs():
    choice = a_choice()
    assert choice_sentence(choice) == (
        "Selected: w tail, C 1; on 1,000 held-out rows PSP@5 +2.00 [+1.00, +3.00], P@1 -0.10 [-1.10, +0.90]."
    )
    plain = {**choice, "params": {"w": "none", "C": 1.0}}
    assert "the baseline; no candidate is likely to raise PSP@5 without a loss" in choice_sentence(plain)
    assert "too few rows" in choice_sentence({**choice, "candidates": []})


def test_the_csv_has_unrounded_numbers():
    rows = list(csv.DictReader(choice_csv(a_choice()).splitlines()))
    assert [row["w"] for row in rows] == ["none", "tail", "tail"]
    assert float(rows[1]["PSP@5 gain low"]) == pytest.approx(0.01)
    assert rows[0]["PSP@5 gain"] == ""


def test_the_figure_has_a_line_per_weighting_and_marks_the_selected_candidate():
    figure = draw_choice(a_choice())
    assert [axes.get_ylabel() for axes in figure.axes] == ["gain in PSP@5, points", "gain in P@1, points"]
    assert figure.axes[-1].get_xlabel() == "C"
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert set(labels) == {"w none", "w tail", "selected"}
    marked = [line for line in figure.axes[0].lines if line.get_markersize() == 10]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marked] == [(1.0, pytest.approx(2.0))]


def test_candidates_without_numbers_have_a_tick_each():
    choice = {**a_choice(), "params": {"method": "b"}}
    choice["candidates"] = [candidate({"method": "a"}, seconds=1.0), candidate({"method": "b"}, 0.02, 0.01)]
    figure = draw_choice(choice)
    assert [tick.get_text() for tick in figure.axes[-1].get_xticklabels()] == ["method a", "method b"]


def test_the_files_are_the_same_each_time(tmp_path):
    for name in ("a", "b"):
        paths = write_choice(a_choice(), tmp_path / name)
        assert [path.name for path in paths] == ["results.json", "table.md", "table.csv", "figure.svg"]
    for path in paths:
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
    assert "| **w tail, C 1** |" in (tmp_path / "a" / "table.md").read_text()
    empty = write_choice({**a_choice(), "candidates": []}, tmp_path / "empty")
    assert [path.name for path in empty] == ["results.json", "table.md", "table.csv"]
