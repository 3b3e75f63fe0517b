"""Errors of probabilities: loops as reference, laws of the noise floor, intervals."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import brier_score_loss, log_loss

from unmissed.errors import InputError
from unmissed.metrics.calibration_error import ErrorSettings, compare_log_loss, find_observed, probability_errors

QUICK = ErrorSettings(n_bins=10, n_resamples=100, n_draws=20)


def draw(n=400, k=5, n_labels=30, seed=0, power=1.0):
    """Draw rows whose labels are observed with probability p, and report p ** power."""
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.choice(n_labels, k, replace=False) for _ in range(n)]).astype(np.int32)
    p = rng.random((n, k))
    hits = rng.random((n, k)) < p
    Y = sp.csr_matrix((np.ones(hits.sum(), np.float32), (np.nonzero(hits)[0], labels[hits])), (n, n_labels))
    return labels, p**power, Y, hits


def test_figures_are_those_of_loops_and_of_scikit_learn():
    labels, p, Y, hits = draw(power=2)
    np.testing.assert_array_equal(find_observed(labels, Y), hits)
    (found,) = probability_errors(labels, p, Y, (3,), settings=QUICK)
    flat, y = p[:, :3].ravel(), hits[:, :3].ravel()
    order = np.argsort(flat)
    expected = sum(abs((flat[part] - y[part]).sum()) for part in np.array_split(order, 10)) / len(y)
    assert found.ece == pytest.approx(expected, abs=0.005)  # quantiles cut bins within one cell of equal mass
    assert found.log_loss == pytest.approx(log_loss(y, flat))
    assert found.brier == pytest.approx(brier_score_loss(y, flat))
    assert found.n_cells == 1200
    gaps = np.abs(found.curve.probability - found.curve.observed) * found.curve.n_cells
    assert gaps.sum() / 1200 == pytest.approx(found.ece)
    np.testing.assert_allclose(found.curve.n_cells, 120, atol=1)


def test_true_probabilities_stay_at_the_noise_floor_and_wrong_ones_do_not():
    good = [probability_errors(*draw(seed=seed)[:3], (5,), settings=QUICK)[0].excess for seed in range(10)]
    assert abs(np.mean(good)) < 0.005
    (bad,) = probability_errors(*draw(power=2)[:3], (5,), settings=QUICK)
    assert bad.excess > 0.1
    low, high = bad.intervals["floor"]
    assert low < bad.floor < high < bad.ece
    assert bad.intervals["ece"].low < bad.ece < bad.intervals["ece"].high


def test_the_noise_floor_of_groups_is_that_of_labels_which_are_right_or_wrong_together():
    labels, p, Y, _ = draw(n=600)
    (independent,) = probability_errors(labels, p, Y, (5,), settings=QUICK)
    (single,) = probability_errors(labels, p, Y, (5,), groups=np.arange(600), settings=QUICK)
    assert single.floor == pytest.approx(independent.floor, rel=0.15)
    copies = np.repeat(np.arange(600), 9)  # nine equal rows have the ECE of one, but nine times as many cells
    Y9, groups = Y[copies], [f"group {row}" for row in copies]
    (naive,) = probability_errors(labels[copies], p[copies], Y9, (5,), settings=QUICK)
    (grouped,) = probability_errors(labels[copies], p[copies], Y9, (5,), groups=groups, settings=QUICK)
    assert naive.floor == pytest.approx(independent.floor / 3, rel=0.15)
    assert grouped.floor == pytest.approx(independent.floor, rel=0.15)
    assert grouped.ece == naive.ece
    with pytest.raises(InputError, match="one id for each of 600 rows"):
        probability_errors(labels, p, Y, groups=np.arange(5))


def test_intervals_of_the_ece_contain_it_and_cover_its_mean_at_the_noise_floor():
    found = [probability_errors(*draw(seed=seed)[:3], (5,), settings=QUICK)[0] for seed in range(30)]
    mean = np.mean([one.ece for one in found])
    assert all(one.intervals["ece"].low <= one.ece <= one.intervals["ece"].high for one in found)
    assert sum(one.intervals["ece"].low <= mean <= one.intervals["ece"].high for one in found) >= 25


def test_intervals_cover_the_error_that_many_rows_have():
    true = probability_errors(*draw(n=20_000, power=2)[:3], (5,), settings=QUICK)[0]
    covered = {"ece": 0, "log_loss": 0, "brier": 0}
    for seed in range(1, 21):
        found = probability_errors(*draw(power=2, seed=seed)[:3], (5,), settings=QUICK)[0]
        for name in covered:
            low, high = found.intervals[name]
            covered[name] += low <= getattr(true, name) <= high
    assert min(covered.values()) >= 15


def test_deciles_split_the_cells_and_padding_is_ignored():
    labels, p, Y, _hits = draw()
    counts = np.arange(30)
    found = probability_errors(labels, p, Y, (5,), train_counts=counts, settings=QUICK)
    assert [one.decile for one in found] == [None, *range(11)]
    assert sum(one.n_cells for one in found[1:]) == found[0].n_cells
    weighted = sum(one.brier * one.n_cells for one in found[1:]) / found[0].n_cells
    assert weighted == pytest.approx(found[0].brier)
    padded = np.pad(labels, ((0, 0), (0, 2)), constant_values=-1)
    (wide,) = probability_errors(padded, np.pad(p, ((0, 0), (0, 2))), Y, (7,), settings=QUICK)
    assert wide.brier == pytest.approx(found[0].brier)
    (none,) = probability_errors(np.full((2, 1), -1), np.zeros((2, 1)), Y[:2], (1,), settings=QUICK)
    assert none.n_cells == 0
    assert np.isnan(none.ece)


def test_rows_without_cells_change_no_figure():
    labels, p, Y, _hits = draw()
    more = np.vstack([np.full_like(labels, -1), labels])
    (found,) = probability_errors(more, np.vstack([p, p]), sp.vstack([Y, Y], format="csr"), (5,), settings=QUICK)
    (plain,) = probability_errors(labels, p, Y, (5,), settings=QUICK)
    assert found.intervals == plain.intervals
    assert found.ece == plain.ece
    (bare,) = probability_errors(labels, p, Y, (5,), settings=ErrorSettings(n_bins=10, n_resamples=0, n_draws=20))
    assert bare.intervals == {"floor": plain.intervals["floor"]}, "draws need no resamples"
    assert (bare.ece, bare.floor) == (plain.ece, plain.floor)


def test_paired_differences_are_narrower_than_the_intervals():
    labels, p, Y, hits = draw()
    worse = p**1.2
    gap = compare_log_loss(labels, p, worse, Y, 5, QUICK)
    assert gap.value == pytest.approx(log_loss(hits.ravel(), p.ravel()) - log_loss(hits.ravel(), worse.ravel()))
    assert gap.low < gap.value < gap.high
    single = probability_errors(labels, p, Y, (5,), settings=QUICK)[0].intervals["log_loss"]
    assert gap.high - gap.low < 0.5 * (single.high - single.low)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels, p, Y: (labels, p + 0.5, Y), "not between 0 and 1"),
        (lambda labels, p, Y: (labels, p[:, :2], Y), "one shape"),
        (lambda labels, p, Y: (labels + 1, p, Y), "integers below 30"),
        (lambda labels, p, Y: (labels[:, :1], p[:, :1], Y), "has 1 labels per row"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        probability_errors(*change(*draw()[:3]), (1, 5), settings=QUICK)
    with pytest.raises(InputError, match="at least 1"):
        ErrorSettings(n_bins=0)
