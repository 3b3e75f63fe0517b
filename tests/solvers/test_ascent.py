"""Rows packed into words of 32 bits, and coordinate ascent over them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.solvers.problems import make_problem, solve
from unmissed.kernels.ascent import ascend, pack
from unmissed.solvers import packed
from unmissed.solvers.design import lay_out
from unmissed.solvers.packed import Packed
from unmissed.solvers.squared_hinge import SquaredHinge


@pytest.mark.kernel
@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n_bits=st.integers(1, 19), scale=st.sampled_from([1e-38, 1e-3, 1.0, 1e18]))
def test_a_word_is_a_feature_and_read_as_a_number_nearly_its_value(seed, n_bits, scale):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 2**n_bits, 30).astype(np.uint32)
    values = (rng.standard_normal(30) * scale).astype(np.float32)
    words = np.empty(30, np.uint32)
    pack(features, values.view(np.uint32), n_bits, words)
    assert np.array_equal(words & np.uint32(2**n_bits - 1), features)
    off = np.abs(words.view(np.float32).astype(np.float64) - values)
    assert (off <= 2.0 ** (n_bits - 24) * np.abs(values) + 2.0 ** (n_bits - 149)).all()  # half of the last bit left


@pytest.mark.kernel
@pytest.mark.parametrize("exact", [True, False])
def test_an_epoch_solves_for_one_variable_after_the_other(exact):
    X, _ = make_problem(3, n_samples=40, n_features=14, n_labels=1)
    design = lay_out(X, bias=True, seed=0)
    laid = Packed(design)
    rows, signs, hs = np.arange(40, dtype=np.int32), np.ones(40, np.float32), np.full(40, 0.5, np.float32)
    signs[5:] = -1
    a, w = np.zeros(40, np.float32), np.zeros(design.n_features, np.float32)
    arguments = (design.norms, design.use_bias, rows, signs, hs, a, w, np.float32(0), 0.0, 200, 1)
    bias, _ = ascend(*(laid.exact if exact else laid.rows), *arguments)
    dense = np.zeros((40, design.n_features))
    dense[np.repeat(np.arange(40), np.diff(design.indptr)), design.indices] = design.values
    gradient = signs * (dense @ (dense.T @ (a * signs)) + np.sum(a * signs)) - 1 + hs * a
    assert bias == pytest.approx(np.sum(a * signs), abs=1e-4)
    limit = 1e-4 if exact else 1e-3
    assert np.abs(np.where(a > 0, gradient, np.minimum(gradient, 0))).max() < limit
    assert (a > 0).any()


def test_too_many_features_for_words_are_solved_as_they_are(monkeypatch):
    X, Y = make_problem(4, n_samples=60, n_features=12, n_labels=3)
    before = solve(SquaredHinge(tol=1e-5), X, Y)
    monkeypatch.setattr(packed, "_MOST_BITS", 2)
    design = lay_out(X, bias=True, seed=0)
    assert Packed(design).rows[1] is design.indices
    after = solve(SquaredHinge(tol=1e-5), X, Y)
    assert (after.gap <= 1e-5).all()
    assert after.objective == pytest.approx(before.objective, rel=2e-5)
