"""Features that float32 cannot tell apart, or cannot hold, are reported; all others pass in silence."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from unmissed.errors import InputError
from unmissed.matrices import check_X
from unmissed.models import Popularity
from unmissed.precision import PrecisionWarning
from unmissed.settings import SETTINGS

FORMS = [np.asarray, sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array]


def timestamps(n):
    """Rows that differ by one second in a number of ten digits."""
    return np.column_stack([1.7e9 + np.arange(n), np.ones(n)])


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_become_equal_are_counted(form):
    X = np.vstack([timestamps(6), [[1.0, 2.0], [3.0, 4.0]]])
    rounded = X.astype(np.float32)
    _, groups, sizes = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    merged = (sizes[groups.ravel()] > 1).sum()
    assert merged
    with pytest.warns(PrecisionWarning, match=rf"^X is rounded .* {merged} rows that differ become equal; ") as caught:
        check_X(form(X))
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_change_are_counted(form):
    X = np.array([[1.0, 1e-50], [1e-43, 1e-45], [0.0, 1e-300], [1e-30, 0.0]])
    with pytest.warns(PrecisionWarning, match=r": 2 rows change by more than 0.001 of their length; "):
        check_X(form(X))


def test_integers_are_rounded_too():
    with pytest.warns(PrecisionWarning, match="X is rounded from int64 to float32: 2 rows that differ become equal"):
        check_X(np.array([[2**24], [2**24 + 1]]))
    check_X(np.array([[2**24], [2**24 - 1]]))


@pytest.mark.parametrize("entries", [1, 7, 1 << 18])
def test_the_size_of_pieces_changes_nothing(entries, monkeypatch):
    monkeypatch.setattr(SETTINGS, "precision_entries", entries)
    X = np.vstack([np.zeros((3, 2)), timestamps(50), np.zeros((2, 2))])
    for form in FORMS:
        with pytest.warns(PrecisionWarning, match="50 rows that differ become equal"):
            check_X(form(X))


@pytest.mark.parametrize("form", FORMS)
def test_ordinary_features_pass_in_silence(form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30)) * (rng.random((200, 30)) < 0.3)
    X = np.vstack([X, X[:50], np.zeros((3, 30))])  # the same row twice was equal before
    scaled = X[:100] * 3.7 / 3.7  # the same rows but for the rounding of float64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_X(form(np.vstack([X, scaled])))
        check_X(form(1e-30 * X))
        check_X(form(np.zeros((0, 4))))
        check_X(timestamps(50).astype(np.float32))


def test_a_model_warns_once_per_call():
    X, Y = timestamps(20), np.eye(20, 3)
    with pytest.warns(PrecisionWarning) as caught:
        model = Popularity().fit(X, Y)
    assert len(caught) == 1
    with pytest.warns(PrecisionWarning) as caught:
        model.rank(X, 2)
    assert len(caught) == 1


def test_what_overflows_float32_is_refused():
    with pytest.raises(InputError, match="row 1 that is infinite or not a number in float32"):
        check_X(np.array([[1.0, 2.0], [1e39, 0.0]]))
