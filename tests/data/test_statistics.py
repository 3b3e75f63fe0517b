"""Statistics, surveys of files, the catalog, and the figure of label frequencies."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unmissed.data import Dataset, TextFeatures, catalog, write_store, write_xmc
from unmissed.data.statistics import describe_labels, fit_power_law
from unmissed.data.survey import survey
from unmissed.errors import InputError
from unmissed.reports.data_figures import draw_label_frequencies

Y = sparse.csr_matrix(np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]], np.float32))


def test_statistics_are_those_counted_by_hand():
    found = describe_labels(Y)
    assert (found.n_samples, found.n_labels, found.n_used_labels, found.n_assignments) == (4, 4, 3, 5)
    assert found.n_rows_without_labels == 1
    assert found.points_per_label == pytest.approx(5 / 3)
    assert found.labels_per_point == pytest.approx(5 / 4)


def test_nothing_has_statistics_too():
    found = describe_labels(sparse.csr_matrix((0, 3), dtype=np.float32))
    assert found.points_per_label == found.labels_per_point == 0
    assert found.power_law is None


@settings(deadline=None)
@given(st.floats(0, 3), st.integers(2, 500), st.floats(1, 1e6))
def test_an_exact_power_law_is_found_exactly(exponent, n, first):
    counts = first * np.arange(1, n + 1) ** -exponent
    law = fit_power_law(np.random.default_rng(0).permutation(counts))
    assert law is not None
    assert law.exponent == pytest.approx(exponent, abs=1e-6)
    np.testing.assert_allclose(law(np.arange(1.0, n + 1)), counts, rtol=1e-6)
    assert law.r_squared <= 1 + 1e-9


def test_the_fit_equals_weighted_least_squares():
    counts = np.array([50, 20, 20, 7, 3, 1, 1])
    rank = np.arange(1, 8)
    slope, intercept = np.polyfit(np.log(rank), np.log(counts), 1, w=rank**-0.5)
    law = fit_power_law([*counts, 0, 0])
    assert law is not None
    assert law.exponent == pytest.approx(-slope)
    assert law.intercept == pytest.approx(intercept)


def test_too_few_labels_have_no_power_law():
    assert fit_power_law([0, 5]) is None


def test_a_survey_of_xmc_text_counts_every_file_and_all_together(tmp_path):
    X = sparse.csr_matrix(np.eye(4, 6))
    write_xmc(Dataset(X, Y), tmp_path / "train.txt")
    write_store(Dataset(X[:1], sparse.csr_matrix([[0, 0, 0, 1]])), tmp_path / "test")
    found = survey(tmp_path / "train.txt", [tmp_path / "test", tmp_path / "train.txt"])
    assert found.n_features == 6
    assert found.train == describe_labels(Y)
    assert [one.n_samples for one in found.tests] == [1, 4]
    assert found.together.n_samples == 9
    assert found.together.n_used_labels == 4
    assert found.together.n_assignments == 11
    assert found.n_new_labels == 1
    assert found.label_counts.tolist() == [3, 1, 1, 0]


def test_a_survey_of_texts_joins_labels_by_name_and_counts_terms(tmp_path):
    for name, labels in (("train", [["a"], ["a", "c"]]), ("dev", [["b"]]), ("test", [["b", "c"], ["d"]])):
        lines = [json.dumps({"text": f"{name} word{row} common", "labels": row_}) for row, row_ in enumerate(labels)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    tests = [tmp_path / "dev.jsonl", tmp_path / "test.jsonl"]
    found = survey(tmp_path / "train.jsonl", tests)
    assert found.n_features == 4
    assert found.train.n_labels == 2
    assert found.together.n_used_labels == 4
    assert found.n_new_labels == 2
    assert found.together.n_assignments == 7
    assert survey(tmp_path / "train.jsonl", text=TextFeatures(min_df=2)).n_features == 2
    assert survey(tmp_path / "train.jsonl", count_features=False).n_features is None


def test_a_survey_of_files_that_do_not_fit_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("1 1 1\n0 0:1\n")
    (tmp_path / "b.txt").write_text("1 1 2\n0 0:1\n")
    with pytest.raises(InputError, match=r"b.txt: has 2 labels; the training set has 1"):
        survey(tmp_path / "a.txt", [tmp_path / "b.txt"])


def test_the_catalog_knows_the_papers_six_data_sets():
    assert [entry.name for entry in catalog.known()] == [
        "EURLex-4K", "AmazonCat-13K", "Wikipedia-31K", "WikiLSHTC-325K", "Wikipedia-500K", "Amazon-670K",
    ]  # fmt: skip
    entry = catalog.find("amazon-670k")
    assert (entry.n_labels, entry.n_features, entry.a, entry.b) == (670_091, 135_909, 0.6, 2.6)
    assert (catalog.find("WikiLSHTC-325K").a, catalog.find("WikiLSHTC-325K").b) == (0.5, 0.4)


def test_a_data_set_beyond_the_paper_is_found_by_name_and_is_not_of_its_table():
    entry = catalog.find("amazon-3m")
    assert (entry.n_labels, entry.a, entry.b) == (2_812_281, 0.6, 2.6)
    assert entry not in catalog.known()


@pytest.mark.parametrize("entry", catalog.known(), ids=lambda entry: entry.name)
def test_the_catalogs_figures_agree_with_each_other(entry):
    """Label assignments per label are APpL, counted by the table over the training rows or over all rows."""
    per_label = [
        rows * entry.labels_per_point / entry.n_labels for rows in (entry.n_train, entry.n_train + entry.n_test)
    ]
    assert min(abs(figure / entry.points_per_label - 1) for figure in per_label) < 0.03


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InputError, match=r"unknown data set 'Delicious'.*EURLex-4K.*Amazon-670K"):
        catalog.find("Delicious")


@pytest.mark.parametrize("counts", [[5], [100, 50, 20, 9, 3, 1, 0], [3, 2, 1], [40, 30, 20]])
def test_the_figure_is_drawn_for_any_label_counts(tmp_path, counts):
    draw_label_frequencies(counts, fit_power_law(counts), tmp_path / "a.png", title="some data")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing to draw"):
        draw_label_frequencies([0], None, tmp_path / "a.png")
    with pytest.raises(InputError, match="unknown kind of picture"):
        draw_label_frequencies([1], None, tmp_path / "a.xyz")
