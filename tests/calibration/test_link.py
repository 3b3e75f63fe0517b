"""The pooled map, label effects and calibrations: laws, slow references, recovered parameters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from unmissed.calibration import Calibration, Cells, fit_calibration, label_effects, true_probability
from unmissed.calibration.label_effects import fit_label_effects, frequency_terms
from unmissed.calibration.monotone_map import MOST_KNOTS, MonotoneMap, fit_monotone_map
from unmissed.errors import InputError
from unmissed.execution import InMemory, OnDisk, Piece


def draw_cells(n_labels=40, n_rows=400, per_row=15, spread=0.5, seed=0):
    """Draw cells whose probability is expit(a_l u + b_l) with u = 3 score."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n_rows, dtype=np.int32), per_row)
    labels = rng.integers(0, n_labels, len(rows)).astype(np.int32)
    scores = rng.normal(-0.5, 0.7, len(rows)).astype(np.float32)
    pairs = np.array([1.0, 0.0]) + spread * rng.standard_normal((n_labels, 2)) * [0.5, 1.0]
    truth = expit(pairs[labels, 0] * 3 * scores + pairs[labels, 1])
    observed = rng.random(len(rows)) < truth
    ranks = np.tile(np.arange(per_row, dtype=np.int32), n_rows)
    ones = np.ones(len(rows), np.float32)
    cells = Cells(rows, labels, scores, ones, observed, ranks, rows.astype(np.int64), n_labels)
    return cells, truth


def log_loss(p, y):
    return -np.mean(np.where(y, np.log(p), np.log1p(-p)))


def test_the_pooled_map_is_isotonic_regression_at_the_middle_of_its_blocks():
    cells, _ = draw_cells()
    weights = np.random.default_rng(1).integers(1, 4, len(cells))
    found = expit(fit_monotone_map(cells.scores, cells.observed, weights)(cells.scores))
    expected = IsotonicRegression().fit_transform(cells.scores, cells.observed, sample_weight=weights)
    assert np.abs(found - expected).mean() < 0.03
    assert abs(np.average(found - expected, weights=weights)) < 0.01


def test_an_integer_weight_equals_repeated_cells():
    cells, _ = draw_cells(n_rows=50)
    weights = np.random.default_rng(1).integers(1, 4, len(cells))
    one = fit_monotone_map(cells.scores, cells.observed, weights)
    two = fit_monotone_map(np.repeat(cells.scores, weights), np.repeat(cells.observed, weights), np.ones(weights.sum()))
    np.testing.assert_allclose(one.scores, two.scores, rtol=1e-6)
    np.testing.assert_allclose(one.logits, two.logits, rtol=1e-6)


def test_the_pooled_map_is_small_finite_and_defined_everywhere():
    rng = np.random.default_rng(0)
    scores = rng.random(200_000)
    pooled = fit_monotone_map(scores, rng.random(200_000) < scores, np.ones(200_000))
    assert len(pooled.scores) <= MOST_KNOTS
    assert np.abs(expit(pooled(scores)) - scores).mean() < 0.01
    assert np.isfinite(pooled([-np.inf, np.inf, -1e30, 1e30])).all()
    assert len(fit_monotone_map([0.5, 0.5], [True, False], [1, 1]).scores) == 1
    with pytest.raises(InputError, match="no cells"):
        fit_monotone_map([], [], [])


def test_label_effects_are_the_mode_of_the_posterior(monkeypatch):
    monkeypatch.setattr(label_effects, "_WIDTH", 1e-6)
    monkeypatch.setattr(label_effects, "_TOLERANCE", 1e-7)
    cells, _ = draw_cells(n_labels=4, n_rows=60)
    counts = np.array([3, 10, 40, 100])
    logits = 3.0 * cells.scores.astype(np.float64)
    found = fit_label_effects(cells.labels, logits, cells.observed, counts)
    precision, terms = np.linalg.inv(found.covariance), frequency_terms(counts)

    def cost(values):
        B, d = values[:4].reshape(2, 2), values[4:].reshape(4, 2)
        a, b = (terms @ B.T + d)[cells.labels].T
        signs = np.where(cells.observed, 1, -1)
        prior = np.einsum("li,ij,lj->", d, precision, d) + 1e-2 * ((B - [[1, 0], [0, 0]]) ** 2).sum()
        return np.logaddexp(0, -signs * (a * logits + b)).sum() + 0.5 * prior

    best = minimize(cost, np.zeros(12), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.coefficients, best.x[:4].reshape(2, 2), atol=5e-3)
    np.testing.assert_allclose(found.deviations, best.x[4:].reshape(4, 2), atol=5e-3)


def test_the_spread_of_labels_is_recovered():
    for spread in (0.02, 0.8):
        cells, _ = draw_cells(n_labels=100, n_rows=3000, spread=spread)
        logits = 3.0 * cells.scores.astype(np.float64)
        found = fit_label_effects(cells.labels, logits, cells.observed, np.full(100, 50))
        deviation = np.sqrt(np.diag(found.covariance))
        if spread == 0.8:
            np.testing.assert_allclose(deviation, [0.4, 0.8], rtol=0.25)
        else:
            assert (deviation < 0.15).all()


def test_calibration_beats_the_pooled_map_on_new_cells_of_labels_that_differ():
    cells, _ = draw_cells(n_rows=2000)
    fresh, truth = draw_cells(n_rows=2000)
    kept = np.arange(len(cells)) % 2 == 0
    calibration = fit_calibration(cells.select(kept), np.full(40, 30))
    found = calibration.probability(fresh.labels[~kept], fresh.scores[~kept])
    pooled = expit(calibration.pooled(fresh.scores[~kept]))
    assert log_loss(found, fresh.observed[~kept]) < log_loss(pooled, fresh.observed[~kept]) - 0.01
    assert np.abs(found - truth[~kept]).mean() < 0.05


def test_labels_without_cells_get_the_prior_and_so_do_labels_that_come_later():
    cells, _ = draw_cells()
    wider = replace(cells, n_labels=42)
    calibration = fit_calibration(wider, np.append(np.full(40, 30), [7, 200]))
    extended = fit_calibration(wider, np.append(np.full(40, 30), [7, 200])).extend([7, 200])
    np.testing.assert_array_equal(extended.slopes[-2:], calibration.slopes[-2:])
    np.testing.assert_array_equal(extended.intercepts[-2:], calibration.intercepts[-2:])
    np.testing.assert_array_equal(extended.log_counts[-2:], calibration.log_counts[-2:])
    assert extended.n_labels == 44


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0, 3))
def test_a_probability_never_falls_with_the_score(seed, score, step):
    rng = np.random.default_rng(seed)
    cells, _ = draw_cells(n_labels=3, n_rows=20, seed=seed)
    flipped = Cells(
        *(getattr(cells, name) for name in list(vars(cells))[:4]), ~cells.observed, *list(vars(cells).values())[5:]
    )
    calibration = fit_calibration(flipped if seed % 2 else cells, rng.integers(2, 50, 3))
    assert (calibration.slopes > 0).all()
    for label in range(3):
        low, high = calibration.probability([label, label], [score, score + step])
        assert 0 <= low <= high <= 1


def test_padding_has_probability_0_and_strange_input_is_refused():
    calibration = fit_calibration(draw_cells()[0], np.full(40, 30))
    assert calibration.probability([[0, -1]], [[0.3, -np.inf]])[0, 1] == 0
    with pytest.raises(InputError, match="has 40 labels"):
        calibration.probability([40], [0.0])
    with pytest.raises(InputError, match="not a number"):
        calibration.probability([0], [np.nan])
    with pytest.raises(InputError, match="one shape"):
        calibration.probability([0, 1], [0.0])


def test_a_stored_calibration_is_the_same_and_takes_at_most_16_bytes_per_label(tmp_path):
    calibration = fit_calibration(draw_cells(n_rows=600)[0], np.full(40, 30))
    piece = calibration.to_piece()
    per_label = sum(array.nbytes for array in piece.arrays.values() if len(array) == 40)
    assert per_label <= 16 * 40
    for pieces in (InMemory(), OnDisk(tmp_path)):
        pieces.put(piece)
        opened = Calibration.from_piece(pieces.get("calibration"), 40)
        scores = np.linspace(-2, 2, 40)
        for ranks in (None, np.arange(40)):
            np.testing.assert_array_equal(
                opened.probability(np.arange(40), scores, ranks), calibration.probability(np.arange(40), scores, ranks)
            )


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("slopes", lambda a: -a, "not positive"),
        ("slopes", lambda a: a[1:], "expected 40"),
        ("intercepts", lambda a: a * np.float32(np.nan), "not finite"),
        ("scores", lambda a: a[::-1].copy(), "rise strictly"),
        ("logits", lambda a: a[1:], "as many logits"),
        ("coefficients", lambda a: a[:1], "2 x 2"),
        ("slopes", lambda a: a.astype(np.float64), "float64"),
        ("log_counts", lambda a: a[1:], "expected 40"),
        ("log_counts", lambda a: -a, "negative"),
        ("rank_coefficients", lambda a: a[1:], "7 x 2 x 2"),
        ("rank_scores", lambda a: a[::-1].copy(), "rise strictly"),
    ],
)
def test_a_damaged_piece_is_refused(name, change, message):
    piece = fit_calibration(draw_cells()[0], np.full(40, 30)).to_piece()
    with pytest.raises(InputError, match=message):
        Calibration.from_piece(Piece(piece.key, {**piece.arrays, name: change(piece.arrays[name])}), 40)


def test_true_probabilities_divide_by_the_propensity_and_say_what_was_clipped():
    found = true_probability([[0, 1, -1]], [[0.4, 0.4, 0.0]], [0.8, 0.2])
    np.testing.assert_allclose(found.probability, [[0.5, 1.0, 0.0]])
    assert found.clipped == 0.5
    with pytest.raises(InputError, match="above 0"):
        true_probability([[0]], [[0.5]], [0.0])
    with pytest.raises(InputError, match="2 labels"):
        true_probability([[2]], [[0.5]], [0.5, 0.5])


def test_a_map_must_rise():
    with pytest.raises(InputError, match="must not fall"):
        MonotoneMap(np.array([0.0, 1.0]), np.array([logit(0.5), logit(0.4)]))


def test_a_calibration_of_some_labels_gives_the_others_the_prior_of_their_frequency():
    some = replace(
        Calibration.pooled_only(MonotoneMap(np.zeros(1), np.zeros(1)), 2),
        slopes=np.float32([2, 3]),
        intercepts=np.float32([0.5, 0.25]),
        coefficients=np.array([[1.0, 0.5], [0.0, 1.0]]),
    )
    found = some.among(np.array([3, 1]), [1, 7, 1, 9])
    np.testing.assert_allclose(found.slopes, [1, 3, 1, 2])
    np.testing.assert_allclose(found.intercepts, [0, 0.25, 0, 0.5])
    np.testing.assert_allclose(found.log_counts, np.log([1, 7, 1, 9]))
