"""The report of a comparison: tables, figures and a page that needs no other file."""

import re
from html import escape
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text

from tests.reports.results import make_results
from unmissed.reports.compare_figures import all_figures, reliability_curves
from unmissed.reports.compare_tables import all_tables, main_table, measured, other_table, plain_table
from unmissed.reports.comparison_page import figures_table, render_page, write_report
from unmissed.reports.grids import Grid, GridCell, escape_latex, to_latex, to_markdown

FIGURES = {"scored", "vanilla", "gains", "deciles", "frequencies", "time", "size"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, write_report(make_results(published=True), folder)


def test_every_table_and_figure_is_written_in_each_form(report):
    folder, files = report
    tables = set(all_tables(make_results(published=True)))
    assert {"main", "plain", "gain", "cost", "data", "deciles", "conventions", "published", "claims"} == tables
    expected = {f"tables/{name}{suffix}" for name in tables for suffix in (".md", ".tex")}
    expected |= {f"figures/{name}{suffix}" for name in FIGURES for suffix in (".png", ".svg")}
    assert {file.relative_to(folder).as_posix() for file in files} == {"index.html", *expected}
    for file in files:
        assert file.stat().st_size > 0
    for name in FIGURES:
        ElementTree.parse(folder / "figures" / f"{name}.svg")


def test_the_page_needs_no_other_file_and_shows_names_as_text(report):
    page = (report[0] / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "url(http" not in page
    assert page.count("<svg") == len(FIGURES)
    assert "&lt;tiny&gt; &amp; sons" in page
    assert "<tiny>" not in page
    assert "prefers-color-scheme: dark" in page
    assert "#2b2f36" not in page, "ink that a dark page would swallow"


def test_methods_with_probabilities_get_a_reliability_diagram():
    results = make_results()
    curve = {"probability": [0.1, 0.5, 0.9], "observed": [0.0, 0.5, 1.0], "n_cells": [60, 60, 50]}
    others = [{"k": 1, "decile": None, "curve": {}}, {"k": 5, "decile": 3, "curve": {}}]
    results["methods"][1]["probabilities"] = [*others, {"k": 5, "decile": None, "curve": curve}]
    results["methods"][0]["probabilities"] = None
    assert reliability_curves(results) == {results["methods"][1]["title"]: curve}
    figures = all_figures(results)
    assert set(figures) == FIGURES | {"reliability"}
    assert 'id="figure-reliability"' in render_page(results, figures)


def test_the_best_is_bold_and_what_is_near_is_marked():
    row = dict(zip(plain_table(make_results()).columns, plain_table(make_results()).rows[0], strict=True))
    assert (row["P@1"].near, row["P@3"].near) == (True, False)
    best = main_table(make_results()).rows[1]
    assert all(cell.best for cell in best[1:])
    assert f"**{best[1].text}**" in to_markdown(main_table(make_results()))
    assert rf"\textbf{{{best[1].text}}}" in to_latex(main_table(make_results()))
    assert r"$^{\approx}$" in to_latex(plain_table(make_results()))


def test_metrics_of_no_other_table_are_shown_at_the_largest_cut_off():
    results = make_results()
    assert other_table(results) is None
    for one in measured(results):
        one["figures"] |= {f"own@{k}": {"value": 0.25, "low": 0.2, "high": 0.3} for k in (1, 3, 5)}
    results["best"]["own@5"] = {"key": measured(results)[0]["key"], "near": []}
    grid = other_table(results)
    assert grid.columns == ["method", "own@5"]
    assert (grid.rows[0][1].text, grid.rows[0][1].small, grid.rows[0][1].best) == ("25.00", "20.0–30.0", True)
    assert "own@5" in render_page(results)


def test_a_method_that_was_stopped_has_dashes_and_says_so():
    tables = all_tables(make_results())
    stopped = tables["main"].rows[-1]
    assert (stopped[0].small, stopped[1].text) == ("time limit", "–")
    assert tables["cost"].rows[-1][-1].text == "time limit: stopped after 9"
    title, columns, rows = figures_table(make_results())
    assert rows[-1] == ["SLEEC (time limit)", *["-"] * (len(columns) - 1)]
    assert "30 labels" in title


def test_names_mean_nothing_to_markdown_and_latex():
    grid = Grid("t", "50 % & more", ["a|b"], [[GridCell("x|y_z")]])
    assert "| x\\|y_z |" in to_markdown(grid)
    assert r"50 \% \& more" in to_latex(grid)
    assert escape_latex("a\\b^~$") == r"a\textbackslash{}b\textasciicircum{}\textasciitilde{}\$"


def test_names_in_markdown_are_text_and_not_html():
    grid = Grid(
        "t", "<b>t</b>", ["a|b", "<i>"], [[GridCell("<img src=x onerror=alert(1)>\nA & B|C"), GridCell("1")]], ["<hr>|"]
    )
    text = to_markdown(grid)
    assert not any(tag in text for tag in ("<b>", "<i>", "<img", "<hr>"))
    assert "| &lt;img src=x onerror=alert(1)&gt; A &amp; B\\|C | 1 |" in text
    assert "| a\\|b | &lt;i&gt; |" in text
    assert "**&lt;b&gt;t&lt;/b&gt;**" in text


def test_the_note_on_groups_of_labels_says_how_many_there_are():
    (note,) = all_tables(make_results())["deciles"].notes
    assert "tenth" not in note
    assert note.startswith("3 groups of labels by training count, with 10, 50, 50 % of the labels seen in training.")
    assert note.endswith("None: labels without a training row.")


def test_the_page_names_conventions_and_what_comes_from_earlier_comparisons():
    results = make_results()
    results["settings"]["conventions"] = {"variant": "pyxclib", "unseen_labels": "keep"}
    results |= {"kept": ["parabel"], "left_out": {"sleec": "was trained with another <recipe>"}}
    page = render_page(results)
    assert "Conventions: variant pyxclib, unseen labels keep." in page
    assert "From earlier comparisons in this folder: Parabel." in page
    assert "Omitted: sleec (was trained with another &lt;recipe&gt;)." in page


def test_a_comparison_in_which_nothing_finished_has_a_page_too(tmp_path):
    results = make_results()
    results |= {"methods": results["methods"][-1:], "best": {}, "baseline": None, "claims": []}
    write_report(results, tmp_path)
    assert "Not finished: SLEEC (time limit)" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert set(all_figures(results)) == {"frequencies"}


def test_names_of_many_equal_points_do_not_overlap_nor_leave_the_figure():
    results = make_results()
    one = results["methods"][0]
    results["methods"] = [{**one, "key": f"m{at}", "title": f"PW-DiSMEC, weighting {at}"} for at in range(16)]
    figure = all_figures(results)["size"]
    texts = [Text.get_window_extent(text) for text in figure.axes[0].texts]  # without the lines to the points
    assert len(texts) == 16
    for above, below in pairwise(sorted(texts, key=lambda box: -box.y0)):
        assert above.y0 >= below.y0 + 0.9 * below.height
    assert max(box.x1 for box in texts) < figure.bbox.x1


def test_a_warning_that_all_methods_share_is_said_once():
    results = make_results()
    for one in results["methods"]:
        one["warnings"] = ["some rows are empty"]
    results["methods"][0]["warnings"].append("one label is half of it")
    page = render_page(results)
    assert page.count("some rows are empty") == 1
    assert "<li>All methods: some rows are empty</li>" in page
    assert f"<li>{escape(results['methods'][0]['title'])}: one label is half of it</li>" in page


@pytest.mark.parametrize(
    ("n_jobs", "words"), [(None, "on 2 cores"), (1, "on 1 of 2 cores"), (2, "on 2 cores"), (-1, "on 2 cores")]
)
def test_costs_state_on_how_many_cores_methods_ran(n_jobs, words):
    results = make_results()
    results["settings"]["n_jobs"] = n_jobs
    assert f"wall time {words}, one process per method" in all_tables(results)["cost"].notes[0]
