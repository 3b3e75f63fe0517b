"""Folds that keep groups and similar rows together."""

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.calibration import folds as folds_module
from unmissed.calibration.folds import group_similar_rows, make_folds
from unmissed.errors import InputError
from unmissed.features import Features


def random_rows(n_samples=300, n_features=500, n_words=20, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.choice(n_features, n_words, replace=False) for _ in range(n_samples)])


def as_features(words, n_features=500):
    rows = np.repeat(np.arange(len(words)), [len(row) for row in words])
    columns = np.concatenate([np.asarray(row, dtype=int) for row in words])
    return Features.check(sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(words), n_features)))


def test_equal_and_nearly_equal_rows_share_a_group_and_others_do_not():
    words = random_rows(n_words=40)
    near = words.copy()
    near[:, 0] = (near[:, 0] + 1) % 500  # one of 40 features differs: similarity 39/41
    group = group_similar_rows(as_features([*words, *words, *near]))
    assert len(np.unique(group)) == 300
    np.testing.assert_array_equal(group[:300], group[300:600])
    np.testing.assert_array_equal(group[:300], group[600:])


def test_rows_without_features_are_groups_of_their_own():
    words = [*random_rows(5), [], [], []]
    assert len(np.unique(group_similar_rows(as_features(words)))) == 8


def test_rows_that_share_most_but_not_nearly_all_features_are_not_similar():
    words = random_rows(n_words=20)
    other = random_rows(n_words=20, seed=1)
    half = [[*row[:14], *new[:6]] for row, new in zip(words, other, strict=True)]  # 14 of 26 features are common
    group = group_similar_rows(as_features([*words, *half]))
    assert (group[:300] != group[300:]).mean() > 0.95


def test_a_long_chain_of_similar_rows_is_split_unless_its_rows_are_equal():
    words = [[*range(start, start + 200)] for start in range(240)]  # neighbors share 199 of 201 features
    group = group_similar_rows(as_features(words))
    assert 5 < len(np.unique(group)) < 240
    assert len(np.unique(group_similar_rows(as_features([words[0]] * 240)))) == 1


def test_dense_rows_are_grouped_by_direction_and_not_by_their_non_zero_features():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100, 16)).astype(np.float32)
    near = rows + 0.001 * rng.standard_normal(rows.shape).astype(np.float32)
    for features in (Features(dense=np.vstack([rows, near])), Features.check(np.vstack([rows, near]))):
        group = group_similar_rows(features)
        np.testing.assert_array_equal(group[:100], group[100:])
        assert len(np.unique(group)) > 80


def test_groups_do_not_depend_on_the_blocks_of_rows(monkeypatch):
    features = as_features([*random_rows(60), [], *random_rows(60)])
    expected = group_similar_rows(features)
    monkeypatch.setattr(folds_module, "_CELLS", 64)
    np.testing.assert_array_equal(group_similar_rows(features), expected)


def test_folds_are_balanced_and_split_no_group():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 40, 300)
    folds = make_folds(as_features(random_rows()), groups.astype(str))
    assert folds.n_folds == 3
    assert folds.n_groups == 40
    for group in range(40):
        assert len(np.unique(folds.fold[groups == group])) == 1
    sizes = np.bincount(folds.fold)
    assert sizes.max() - sizes.min() <= np.bincount(groups).max()
    for fold in range(3):
        assert len(folds.training(fold)) + len(folds.held_out(fold)) == 300


def test_large_data_holds_out_one_tenth(monkeypatch):
    monkeypatch.setattr(folds_module, "LARGE", 100)
    folds = make_folds(as_features(random_rows()))
    assert folds.n_folds == 1
    assert len(folds.held_out(0)) == 30
    assert set(folds.fold) == {0, -1}


@pytest.mark.parametrize(
    ("groups", "n_folds", "message"),
    [
        (np.zeros(299), None, "one id for each of 300 rows"),
        (np.zeros(300), None, "form 1 groups"),
        (np.full(300, np.nan), None, "not a number"),
        (None, 1, "n_folds is 1"),
    ],
)
def test_wrong_groups_and_numbers_of_folds_are_refused(groups, n_folds, message):
    with pytest.raises(InputError, match=message):
        make_folds(as_features(random_rows()), groups, n_folds=n_folds)
