"""Losses with one propensity per observed positive: Theorem 1 cell by cell."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.errors import InputError
from unmissed.losses import (
    NAMED,
    convex_bound,
    cross_entropy_from_logits,
    hinge,
    loss_variance,
    naive,
    shifted_zero_one,
    squared_hinge,
    unbiased,
)

RNG = np.random.default_rng(3)
TRUTH = sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=float))
P = sp.csr_matrix((RNG.uniform(0.05, 1, TRUTH.nnz), TRUTH.indices, TRUTH.indptr), TRUTH.shape)
SCORES = RNG.uniform(0.05, 0.95, TRUTH.shape)  # in the domain of every loss
CORRECTED = {
    "unbiased": lambda p: unbiased(squared_hinge(), p),
    "convex": lambda p: convex_bound(hinge(), p),
    "naive": lambda p: naive(cross_entropy_from_logits(), p),
    "shifted": shifted_zero_one,
}


def outcomes():
    """Yield every possible matrix of observed labels, and its probability."""
    for kept in product([False, True], repeat=TRUTH.nnz):
        chance = float(np.prod(np.where(kept, P.data, 1 - P.data)))
        Y = TRUTH.copy()
        Y.data[:] = kept
        Y.eliminate_zeros()
        yield Y, chance


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("order", ["value", "gradient"])
def test_the_mean_over_all_observed_labels_is_the_loss_of_the_complete_ones(name, order):
    plain = NAMED[name]()
    if order == "gradient" and plain.positive.terms[0][1].derivative is None:
        pytest.skip("no derivative")
    corrected = unbiased(plain, P)
    mean = sum(chance * getattr(corrected, order)(SCORES, Y) for Y, chance in outcomes())
    np.testing.assert_allclose(mean, getattr(plain, order)(SCORES, TRUTH), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CORRECTED)
def test_the_same_propensity_in_all_cells_of_a_label_is_that_of_the_label(name):
    p = np.array([0.2, 0.6, 1.0])
    per_label, per_cell = CORRECTED[name](p), CORRECTED[name](TRUTH.multiply(p[None, :]))
    for Y in (TRUTH, TRUTH.toarray()):
        assert np.array_equal(per_label.value(SCORES, Y), per_cell.value(SCORES, Y))
    stored = sp.csr_matrix(SCORES * (RNG.random(SCORES.shape) < 0.6))
    assert np.array_equal(per_label.value(stored, TRUTH).toarray(), per_cell.value(stored, TRUTH).toarray())
    assert per_label.total(SCORES, TRUTH) == per_cell.total(SCORES, TRUTH)
    assert per_label.convex == per_cell.convex
    assert per_cell.n_labels == 3


@pytest.mark.parametrize("name", CORRECTED)
def test_chosen_labels_keep_the_propensities_of_their_cells(name):
    labels = [2, 0]
    part = CORRECTED[name](P).take(labels)
    expected_loss = CORRECTED[name](P[:, labels])
    expected = expected_loss.value(SCORES[:, labels], TRUTH[:, labels])
    assert np.array_equal(part.value(SCORES[:, labels], TRUTH[:, labels]), expected)
    assert np.array_equal(CORRECTED[name](P).value(SCORES, TRUTH)[:, labels], expected)


def test_clipping_limits_the_inverse_of_each_cell():
    clipped = unbiased(hinge(), P, max_inverse=4)
    assert np.array_equal(clipped.value(SCORES, TRUTH), unbiased(hinge(), P.maximum(0.25 * TRUTH)).value(SCORES, TRUTH))


def test_what_has_no_propensity_is_refused_in_one_line():
    loss = unbiased(hinge(), P)
    with pytest.raises(InputError, match="no propensity for label 1 of row 0, which is present"):
        loss.value(SCORES, np.ones((4, 3)))
    with pytest.raises(InputError, match=r"made for cells of shape \(4, 3\)"):
        loss.value(SCORES[:2], TRUTH[:2])
    with pytest.raises(InputError, match="propensities is 2 in row"):
        unbiased(hinge(), 2 * TRUTH)
    with pytest.raises(InputError, match="p is a sparse matrix; expected one number, or one per label"):
        loss_variance(hinge(), P, scores=SCORES)
