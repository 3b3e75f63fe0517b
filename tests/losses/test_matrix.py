"""Losses over rows and labels: sparse labels, sparse scores, and invalid input."""

import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmissed.errors import InputError
from unmissed.losses import convex_bound, cross_entropy, hinge, logistic, naive, squared_hinge, unbiased
from unmissed.settings import SETTINGS

METHODS = [("value", "value"), ("gradient", "derivative"), ("curvature", "curvature")]


def reference(loss, order, scores, Y):
    """Reference implementation: a loop over all pairs."""
    out = np.empty_like(scores)
    for i, j in np.ndindex(*scores.shape):
        half = (loss.positive if Y[i, j] else loss.negative).take(np.array([j]))
        out[i, j] = half.evaluate(order, scores[i, j : j + 1])[0]
    return out


def problem(seed, rows=9, labels=6):
    rng = np.random.default_rng(seed)
    Y = sp.csr_array(sp.random(rows, labels, density=0.3, random_state=rng, format="csr"))
    Y.data[:] = 1
    return rng.normal(scale=2, size=(rows, labels)), Y, rng.uniform(0.05, 1, labels)


@pytest.mark.parametrize(("method", "order"), METHODS)
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, lambda Y: Y.toarray(), lambda Y: Y > 0])
def test_every_kind_of_labels_gives_what_a_loop_gives(method, order, kind):
    scores, Y, p = problem(0)
    loss = unbiased(squared_hinge(), p)
    expected = reference(loss, order, scores, Y.toarray())
    np.testing.assert_allclose(getattr(loss, method)(scores, kind(Y)), expected, rtol=1e-12)


@pytest.mark.parametrize(("method", "order"), METHODS)
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_sparse_scores_give_the_loop_at_their_stored_pairs_and_nothing_elsewhere(method, order, seed):
    dense, Y, p = problem(seed)
    scores = sp.coo_array(sp.random(*dense.shape, density=0.5, random_state=seed + 1, format="coo"))
    scores.data[::3] = 0  # a stored zero is a score
    loss = convex_bound(hinge(), p)
    result = getattr(loss, method)(scores, Y)
    expected = reference(loss, order, scores.toarray(), Y.toarray())
    at = scores.tocoo()
    np.testing.assert_allclose(sp.csr_array(result)[at.row, at.col], expected[at.row, at.col])
    assert result.nnz == scores.nnz
    if method == "value":
        total = expected[at.row, at.col].sum()
        assert loss.total(scores, Y) == pytest.approx(total)
        assert loss.total(scores, Y, "mean") == pytest.approx(total / max(scores.nnz, 1))


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_the_total_does_not_depend_on_the_blocks_it_is_added_up_in(monkeypatch, block):
    monkeypatch.setattr(SETTINGS, "loss_scores", block)
    scores, Y, p = problem(3, rows=40)
    loss = unbiased(logistic(), p)
    expected = reference(loss, "value", scores, Y.toarray())
    assert loss.total(scores, Y) == pytest.approx(expected.sum(), rel=1e-12)
    assert loss.total(scores, Y, "mean") == pytest.approx(expected.mean(), rel=1e-12)


def test_the_gradient_is_the_derivative_of_the_total():
    scores, Y, p = problem(4)
    loss = unbiased(logistic(), p)
    gradient = loss.gradient(scores, Y)
    step = 1e-6
    for i, j in [(0, 0), (3, 2), (8, 5)]:
        moved = scores.copy()
        moved[i, j] += step
        assert gradient[i, j] == pytest.approx((loss.total(moved, Y) - loss.total(scores, Y)) / step, abs=1e-4)


def test_a_total_over_a_wide_matrix_needs_no_second_matrix():
    scores = np.zeros((2000, 5000), dtype=np.float32)  # 40 MB
    Y = sp.csr_array((np.ones(3, np.float32), ([0, 5, 1999], [1, 4999, 7])), shape=scores.shape)
    loss = unbiased(hinge(), np.full(5000, 0.5))
    tracemalloc.start()
    total = loss.total(scores, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == scores.size  # at score 0 both halves of the unbiased hinge are 1
    assert peak < 25e6


def test_single_precision_stays_single_and_integers_become_double():
    scores, Y, p = problem(5)
    loss = unbiased(hinge(), p)
    assert loss.gradient(scores.astype(np.float32), Y).dtype == np.float32
    assert loss.gradient(np.ones(scores.shape, dtype=int), Y).dtype == np.float64


def test_read_only_scores_and_labels_are_accepted_and_not_changed():
    scores, Y, p = problem(6)
    scores.setflags(write=False)
    for array in (Y.data, Y.indices, Y.indptr):
        array.setflags(write=False)
    loss = unbiased(logistic(), p)
    before = scores.copy()
    loss.gradient(scores, Y)
    loss.total(scores, Y)
    loss.value(sp.csr_array(scores), Y)
    np.testing.assert_array_equal(scores, before)


def test_stored_zeros_among_labels_are_absent_labels():
    Y = sp.csr_array(([1.0, 0.0], ([0, 0], [0, 1])), shape=(1, 2))
    np.testing.assert_array_equal(hinge().value(np.zeros((1, 2)) + 3, Y), [[0, 4]])


@pytest.mark.parametrize("correct", [unbiased, convex_bound, naive])
def test_a_loss_knows_for_how_many_labels_it_was_made(correct):
    assert correct(hinge(), [0.5, 0.25, 1.0]).n_labels == 3
    assert correct(hinge(), 0.5).n_labels is None


def test_some_labels_of_a_loss_keep_their_shift():
    bound = convex_bound(hinge(), [0.5, 0.25, 1.0])
    assert bound.take([1, 2]).shift.tolist() == [3, 0]
    assert convex_bound(hinge(), 0.5).take([1, 2]).shift == 1


def test_what_cannot_be_a_label_matrix_is_rejected():
    scores = np.zeros((2, 2))
    with pytest.raises(InputError, match="shape"):
        hinge().value(scores, np.zeros((2, 3)))
    with pytest.raises(InputError, match="neither 0 nor 1"):
        hinge().value(scores, np.full((2, 2), 2.0))
    with pytest.raises(InputError, match="twice"):
        hinge().value(scores, sp.csr_array(([1.0, 1.0], [0, 0], [0, 2, 2]), shape=(2, 2)))


def test_what_cannot_be_scores_is_rejected():
    with pytest.raises(InputError, match="matrix"):
        hinge().value(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="made for 2 labels"):
        unbiased(hinge(), [0.5, 0.5]).value(np.zeros((1, 3)), np.zeros((1, 3)))
    for outside in ([[0.5, 1.5]], [[0.5, -0.5]]):
        with pytest.raises(InputError, match=r"\[0, 1\]"):
            cross_entropy().value(np.array(outside), np.ones((1, 2)))
    with pytest.raises(InputError, match="reduction"):
        hinge().total(np.zeros((1, 1)), np.ones((1, 1)), "median")


def test_losses_do_not_pull_torch_in():
    import subprocess

    code = "import sys, unmissed.losses; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
