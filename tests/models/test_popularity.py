"""Popularity: the floor."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unmissed.errors import InputError
from unmissed.execution import Work
from unmissed.models.popularity import Popularity
from unmissed.runs.inspection import describe_label, draw
from unmissed.runs.run import open_run

Y = sparse.csr_matrix([[1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]], dtype=np.float32)
X = sparse.csr_matrix(np.eye(4, 3, dtype=np.float32))


def test_every_row_gets_the_most_frequent_labels_with_ties_by_number():
    ranking = Popularity().fit(X, Y).rank(X[:2], k=3)
    assert ranking.labels.tolist() == [[0, 2, 1], [0, 2, 1]]
    assert ranking.scores.tolist() == [[3, 3, 1], [3, 3, 1]]


def test_a_k_above_the_number_of_labels_with_a_positive_is_padded():
    ranking = Popularity().fit(X, Y).rank(X[:1], k=6)
    assert ranking.labels.tolist() == [[0, 2, 1, -1, -1, -1]]
    assert ranking.scores.tolist() == [[3, 3, 1, -np.inf, -np.inf, -np.inf]]


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, lambda M: M.toarray().astype(bool)])
def test_labels_may_come_in_any_form(form):
    assert Popularity().fit(X, form(Y)).counts_.tolist() == [3, 1, 3, 0]


def test_rows_may_be_none():
    assert Popularity().fit(X, Y).rank(X[:0], k=2).labels.shape == (0, 2)


def test_new_labels_are_numbered_after_the_old_ones():
    model = Popularity().fit(X, Y[:, :2])
    model.fit_labels(X, Y[:, 2:])
    assert model.n_labels_ == 4
    assert model.counts_.tolist() == [3, 1, 3, 0]
    assert model.pieces_.listed() == ["labels/00000000", "labels/00000002"]


def test_it_keeps_counts_and_nothing_else():
    piece = Popularity().fit(X, Y).pieces_.get("labels/00000000")
    assert {name: array.tolist() for name, array in piece.arrays.items()} == {"counts": [3, 1, 3, 0]}


def test_a_finished_count_is_not_made_again():
    work = Work()
    Popularity().fit(X, Y, work=work)
    other = Popularity().fit(X, sparse.csr_matrix((4, 4), dtype=np.float32), work=Work(work.pieces))
    assert other.counts_.tolist() == [3, 1, 3, 0]


def test_it_has_no_method_for_what_it_cannot_do_and_a_run_says_so_in_one_line(tmp_path):
    model = Popularity().fit(X, Y)
    assert model.certificate() is None
    assert [hasattr(model, name) for name in ("explain", "draw", "predict", "decision_function")] == [False] * 4
    assert hasattr(model, "fit_labels")
    model.save(tmp_path / "run")
    with pytest.raises(InputError, match="Popularity cannot list the features"):
        describe_label(open_run(tmp_path / "run"), 0)
    with pytest.raises(InputError, match="Popularity cannot be drawn"):
        draw(open_run(tmp_path / "run"))


def test_it_has_the_manners_of_scikit_learn():
    assert clone(Popularity()).get_params() == {}
    with pytest.raises(NotFittedError, match="fit"):
        Popularity().rank(X)


def test_rows_with_other_features_and_a_k_of_zero_are_refused():
    model = Popularity().fit(X, Y)
    with pytest.raises(InputError):
        model.rank(sparse.csr_matrix((2, 5), dtype=np.float32))
    with pytest.raises(InputError, match="k must be an integer from 1"):
        model.rank(X, k=0)
