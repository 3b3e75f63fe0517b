import numpy as np
import pytest
import scipy.sparse as sp

from tests.metrics.cases import corpus
from unmissed.errors import InputError
from unmissed.metrics import Conventions, compare, evaluate, intervals, support, warnings
from unmissed.metrics.bootstrap import resample_sums
from unmissed.metrics.builtin import BUILTIN
from unmissed.metrics.uncertainty import pooled_intervals
from unmissed.ranking import Ranking


@pytest.mark.kernel
def test_a_resample_draws_n_rows_uniformly():
    n_rows, n_resamples = 7, 400
    sums = np.empty((n_resamples, n_rows))
    resample_sums(np.eye(n_rows, dtype=np.float32), np.arange(n_resamples, dtype=np.uint64), sums)
    np.testing.assert_array_equal(sums.sum(axis=1), n_rows)
    np.testing.assert_array_equal(sums, np.round(sums))
    # each count is binomial(7, 1/7): mean 1, variance 6/7
    assert np.abs(sums.mean(axis=0) - 1).max() < 5 * np.sqrt(6 / 7 / n_resamples)
    assert np.abs(sums.var() - 6 / 7) < 0.1


@pytest.mark.kernel
def test_a_resample_depends_only_on_its_seed():
    terms = np.random.default_rng(0).random((9, 2)).astype(np.float32)
    seeds = np.array([3, 1, 2], dtype=np.uint64)
    together, single = np.empty((3, 2)), np.empty((1, 2))
    resample_sums(terms, seeds, together)
    resample_sums(terms, seeds[1:2], single)
    np.testing.assert_array_equal(together[1:2], single)


def test_intervals_contain_the_figure_and_are_reproducible():
    ranking, Y = corpus()
    found = evaluate(ranking, Y, 1 + np.arange(50.0))
    first, again, other = intervals(found), intervals(found), intervals(found, seed=1)
    assert first == again
    assert first != other
    for name, (low, high) in first.items():
        assert low < found[name] < high or low == found[name] == high == 1, name


def test_the_interval_of_precision_has_the_width_of_the_normal_approximation():
    ranking, Y = corpus(2000)
    found = evaluate(ranking, Y)
    low, high = intervals(found, 2000)["P@1"]
    p = found["P@1"]
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(p * (1 - p) / 2000), rel=0.1)


def test_intervals_have_their_nominal_coverage():
    inverse = 1 + np.arange(50) / 5
    population = evaluate(*corpus(40_000, seed=99), inverse)["PSP@3"]
    held = 0
    for seed in range(60):
        low, high = intervals(evaluate(*corpus(300, seed=seed), inverse), 300, level=0.9, seed=seed)["PSP@3"]
        held += low <= population <= high
    assert 45 <= held <= 60  # 54 expected; 45 is 4 standard deviations away


def test_every_figure_has_an_interval():
    found = evaluate(*corpus(50), np.ones(50), metrics=BUILTIN)
    assert list(intervals(found, 10)) == list(found.figures)
    assert list(compare(found, found, 10)) == list(found.figures)


@pytest.mark.parametrize("macro", ["true", "all"])
def test_figures_over_labels_resample_the_labels_that_macro_averages_include(macro):
    ranking, Y = corpus(30)
    found = evaluate(ranking, Y, k=3, conventions=Conventions(macro=macro), metrics=["macro recall", "coverage"])
    true = np.asarray(Y.sum(axis=0)).ravel()
    hits = np.zeros(50)
    for row in range(30):
        for label in ranking.labels[row, :3]:
            hits[label] += Y[row, label]
    chosen = true > 0 if macro == "true" else np.ones(50, dtype=bool)
    assert 30 < (true > 0).sum() < 50
    terms = np.stack([hits / np.maximum(true, 1), hits > 0, true > 0], axis=1)[chosen].astype(np.float32)
    seeds = np.random.default_rng(5).integers(0, 2**64, size=200, dtype=np.uint64)
    drawn = np.empty((200, 3))
    resample_sums(terms, seeds, drawn)
    expected = {"macro recall@3": drawn[:, 0] / chosen.sum(), "coverage@3": drawn[:, 1] / drawn[:, 2]}
    for name, values in expected.items():
        np.testing.assert_allclose(intervals(found, 200, 0.9, seed=5)[name], np.quantile(values, [0.05, 0.95]))


def test_the_interval_of_a_macro_average_has_the_width_of_the_normal_approximation():
    found = evaluate(*corpus(2000, 400), k=5, metrics=["macro recall"])
    recalls = found.labels.hits[:, 0] / np.maximum(found.labels.true, 1)
    recalls = recalls[found.labels.true > 0]
    low, high = intervals(found, 2000)["macro recall@5"]
    assert high - low == pytest.approx(2 * 1.96 * recalls.std() / np.sqrt(recalls.size), rel=0.1)


def test_intervals_of_macro_averages_hold_the_figure_of_the_population():
    population = evaluate(*corpus(40_000, seed=99), metrics=["macro recall"])["macro recall@3"]
    held = 0
    for seed in range(60):
        found = evaluate(*corpus(400, seed=seed), metrics=["macro recall"])
        low, high = intervals(found, 300, level=0.9, seed=seed)["macro recall@3"]
        held += low <= population <= high
    assert held >= 45  # 54 expected of other labels and rows; here the labels are the same, so more


def test_progress_reaches_its_end():
    reports = []
    intervals(evaluate(*corpus(20)), 120, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(done, 240) for done in (50, 100, 120, 170, 220, 240)]
    reports.clear()
    rows_only = evaluate(*corpus(20), metrics=["P"])
    intervals(rows_only, 120, progress=lambda done, total: reports.append((done, total)))
    assert reports == [(50, 120), (100, 120), (120, 120)]


def test_a_ranking_does_not_differ_from_itself():
    found = evaluate(*corpus(), 1 + np.arange(50.0))
    for difference in compare(found, found, 50).values():
        assert tuple(difference) == (0, 0, 0, 0.5)


def test_a_paired_difference_is_narrower_than_two_intervals_and_sees_what_they_do_not():
    ranking, Y = corpus(1500, skill=0.3)
    rng = np.random.default_rng(4)
    labels, scores = ranking.labels.copy(), ranking.scores
    worse = rng.random(len(labels)) < 0.04  # the best label of few rows swapped with the last
    labels[worse] = labels[worse][:, [5, 1, 2, 3, 4, 0]]
    first, second = evaluate(ranking, Y), evaluate(Ranking(labels, scores), Y)
    difference = compare(first, second)["P@1"]
    assert difference.value == first["P@1"] - second["P@1"]
    assert difference.low <= difference.value <= difference.high
    assert difference.low > 0
    assert difference.ahead > 0.95
    one, two = intervals(first)["P@1"], intervals(second)["P@1"]
    assert one.low < two.high  # the two intervals overlap
    assert difference.high - difference.low < 0.5 * ((one.high - one.low) + (two.high - two.low))


def test_evaluations_of_different_rows_cannot_be_compared():
    first = evaluate(*corpus(50))
    with pytest.raises(InputError, match="same rows"):
        compare(first, evaluate(*corpus(50, seed=1)))
    with pytest.raises(InputError, match="same rows"):
        compare(first, evaluate(*corpus(40)))


def test_invalid_resampling_arguments_are_refused():
    found = evaluate(*corpus(5))
    with pytest.raises(InputError, match="n_resamples must be at least 1"):
        intervals(found, 0)
    with pytest.raises(InputError, match=r"level between 0 and 1, not 1000 and 1\.5"):
        intervals(found, level=1.5)
    empty = evaluate(Ranking(np.empty((0, 5), np.int32), np.empty((0, 5), np.float32)), sp.csr_matrix((0, 3)))
    with pytest.raises(InputError, match="no row"):
        intervals(empty)


def test_equal_weights_make_the_effective_sample_size_the_number_of_assignments():
    found = evaluate(*corpus(), np.full(50, 3.0))
    for each in support(found).values():
        assert each.effective == pytest.approx(each.assignments)


def test_support_equals_that_of_the_reference_loops():
    ranking, Y = corpus(100)
    inverse = 1 + np.arange(50.0) ** 2
    found = support(evaluate(ranking, Y, inverse, k=3))
    hits = [label for row in range(100) for label in ranking.labels[row, :3] if Y[row, label]]
    best = [label for row in Y for label in sorted(row.indices, key=lambda label: -inverse[label])[:3]]
    for name, labels in (("hits", hits), ("best", best)):
        weights = inverse[labels]
        each = found[f"PSP@3 {name}"]
        assert each.assignments == len(labels)
        assert each.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        by_label = sorted((sum(inverse[x] for x in labels if x == label) for label in set(labels)), reverse=True)
        expected = next(n for n in range(1, 51) if sum(by_label[:n]) >= sum(by_label) / 2)
        assert each.labels_of_half == expected


def test_intervals_are_the_middle_of_the_resampled_figures():
    found = evaluate(*corpus(30), k=1, metrics=["P"])
    terms = found.terms.reshape(30, -1)
    drawn = np.empty((200, terms.shape[1]))
    seeds = np.random.default_rng(5).integers(0, 2**64, size=200, dtype=np.uint64)
    resample_sums(terms, seeds, drawn)
    for level in (0.5, 0.95):
        expected = np.quantile(drawn[:, 0] / 30, [(1 - level) / 2, (1 + level) / 2])
        np.testing.assert_allclose(intervals(found, 200, level, seed=5)["P@1"], expected, rtol=1e-12)


def test_a_figure_undefined_in_every_resample_has_no_interval():
    ranking, Y = corpus(10)
    low, high = intervals(evaluate(ranking, sp.csr_matrix(Y.shape), np.ones(50)), 5)["PSP@1"]
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize(("n_labels", "warned"), [(17, True), (18, True), (19, False)])
def test_nine_labels_that_make_up_half_cause_a_warning_and_ten_do_not(n_labels, warned):
    # each label is true and found once, with the same weight: half of them, rounded up, make half of the sum
    listed = Ranking(np.arange(n_labels, dtype=np.int32)[:, None], np.ones((n_labels, 1), dtype=np.float32))
    found = warnings(evaluate(listed, np.eye(n_labels), np.ones(n_labels), k=1))
    assert found == (
        [f"PSP@1: 9 labels make up half of the {part}" for part in ("numerator", "denominator")] if warned else []
    )


def test_an_empty_sum_has_no_support_and_no_warning():
    listed = Ranking(np.zeros((20, 1), dtype=np.int32), np.ones((20, 1), dtype=np.float32))
    Y = np.roll(np.eye(21), 1, axis=1)[:20]  # label 0 is never true
    found = evaluate(listed, Y, np.ones(21), k=1)
    assert support(found)["PSP@1 hits"] == (0, 0, 0)
    assert warnings(found) == []


def test_few_labels_that_dominate_psp_cause_a_warning():
    ranking, Y = corpus()
    inverse = np.ones(50)
    inverse[0] = 1000.0
    assert "PSP@1: 1 label makes up half of the numerator" in warnings(evaluate(ranking, Y, inverse))
    many = sp.csr_matrix(np.eye(50, dtype=np.float32))
    listed = Ranking(np.arange(50, dtype=np.int32)[:, None], np.ones((50, 1), dtype=np.float32))
    assert warnings(evaluate(listed, many, np.ones(50), k=1)) == []
    assert warnings(evaluate(ranking, Y)) == []


def test_pooled_intervals_are_those_of_rows_if_propensities_agree_and_wider_if_they_differ():
    ranking, Y = corpus()
    same, steep = evaluate(ranking, Y, np.full(50, 2.0)), evaluate(ranking, Y, 1 + np.arange(50.0) ** 2)
    by_rows, pooled = intervals(same, 2000)["PSP@5"], pooled_intervals([same] * 20, 2000)["PSP@5"]
    assert pooled == pytest.approx(by_rows, abs=0.2 * (by_rows.high - by_rows.low))
    both = pooled_intervals([same, steep], 2000)["PSP@5"]
    middle = sorted((same["PSP@5"], steep["PSP@5"]))
    assert both.low < middle[0] < middle[1] < both.high
    with pytest.raises(InputError, match="at least one evaluation"):
        pooled_intervals([])
