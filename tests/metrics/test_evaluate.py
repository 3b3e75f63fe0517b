from dataclasses import replace
from math import log2

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from tests.metrics import naive
from tests.metrics.cases import cases, conventions, corpus
from unmissed.errors import InputError
from unmissed.metrics import AUTHORS, DISMECPP, PYXCLIB, Conventions, evaluate, merge
from unmissed.metrics.builtin import BUILTIN
from unmissed.metrics.metric import RowMetric
from unmissed.ranking import Ranking

KS = (1, 2, 3, 5)


def same(left, right):
    assert left.keys() == right.keys(), f"not in tests/metrics/naive.py: {left.keys() ^ right.keys()}"
    for name in left:
        assert left[name] == pytest.approx(right[name], rel=1e-12, abs=1e-15, nan_ok=True), name


def full(case, convention=PYXCLIB, k=KS, rows=slice(None), filtered=None, metrics=BUILTIN):
    ranking = Ranking(case.ranking.labels[rows], case.ranking.scores[rows])
    return evaluate(
        ranking,
        case.Y[rows],
        case.inverse,
        k,
        metrics=metrics,
        train_counts=case.train_counts,
        filtered=filtered,
        conventions=convention,
    )


@pytest.mark.kernel
@settings(deadline=None, max_examples=150)
@given(cases(), conventions)
def test_every_figure_equals_the_reference_loops_under_every_convention(case, convention):
    found = full(case, convention, filtered=case.filtered)
    expected = naive.evaluate(
        case.ranking.labels.tolist(),
        case.ranking.scores.tolist(),
        case.truths,
        case.Y.shape[1],
        case.inverse,
        KS,
        convention,
        case.train_counts,
        [tuple(pair) for pair in case.filtered.tolist()],
    )
    same(found.figures, expected)


def of_cells(Y, seed=0):
    """Return random inverse propensities with the pattern of Y, some of them equal."""
    return sp.csr_matrix((np.random.default_rng(seed).integers(4, 20, Y.nnz) / 4, Y.indices, Y.indptr), Y.shape)


@pytest.mark.kernel
@settings(deadline=None, max_examples=100)
@given(cases(), conventions)
def test_inverse_propensities_per_cell_equal_the_reference_loops(case, convention):
    convention, inverse = replace(convention, rerank=False), of_cells(case.Y)
    found = full(replace(case, inverse=inverse), convention, filtered=case.filtered)
    expected = naive.evaluate(
        case.ranking.labels.tolist(),
        case.ranking.scores.tolist(),
        case.truths,
        case.Y.shape[1],
        [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in inverse],
        KS,
        convention,
        case.train_counts,
        [tuple(pair) for pair in case.filtered.tolist()],
    )
    same(found.figures, expected)


@settings(deadline=None, max_examples=30)
@given(cases())
def test_the_same_inverse_propensity_in_all_cells_of_a_label_is_that_of_the_label(case):
    cells = sp.csr_matrix((case.inverse[case.Y.indices], case.Y.indices, case.Y.indptr), case.Y.shape)
    per_label, per_cell = full(case), full(replace(case, inverse=cells))
    assert np.array_equal(per_label.terms, per_cell.terms)
    assert per_label.figures.keys() == per_cell.figures.keys()


def test_batches_with_inverse_propensities_per_cell_are_merged():
    ranking, Y = corpus()[:2]
    inverse = of_cells(Y)
    parts = [evaluate(ranking.rows(part), Y[part], inverse[part]) for part in (slice(0, 150), slice(150, None))]
    assert merge(parts)["PSP@5"] == pytest.approx(evaluate(ranking, Y, inverse)["PSP@5"], rel=1e-12)


class PerLabel(RowMetric):
    name, needs = "per label", ("inverse_propensities",)

    def per_row(self, rows):
        return np.full(len(rows.labels), rows.inverse_propensities[0])


def test_what_needs_one_inverse_propensity_per_label_refuses_a_matrix_of_them():
    ranking, Y = corpus()[:2]
    inverse = of_cells(Y)
    with pytest.raises(InputError, match="per label needs inverse_propensities"):
        evaluate(ranking, Y, inverse, metrics=[PerLabel()])
    with pytest.raises(InputError, match="rerank moves labels by one inverse propensity per label"):
        evaluate(ranking, Y, inverse, conventions=Conventions(rerank=True))
    with pytest.raises(InputError, match=r"inverse_propensities is 0\.25 in row 0, label"):
        evaluate(ranking, Y, 0.25 * Y)
    with pytest.raises(InputError, match="has no value for a label of Y"):
        evaluate(ranking, Y, sp.csr_matrix(Y.shape))


@pytest.mark.kernel
@settings(deadline=None, max_examples=30)
@given(cases())
def test_figures_without_propensities_are_the_same_with_and_without_them(case):
    plain = evaluate(case.ranking, case.Y, k=KS).figures
    assert not any(name.startswith("PS") for name in plain)
    assert plain == pytest.approx({name: full(case).figures[name] for name in plain}, nan_ok=True)


@settings(deadline=None, max_examples=60)
@given(cases(), st.sampled_from(["true", "all"]))
def test_f1_of_listed_sets_is_that_of_scikit_learn(case, macro):
    metrics = ["sample F1", "micro F1", "macro F1"]
    for k in KS:
        found = evaluate(case.ranking, case.Y, k=k, metrics=metrics, conventions=Conventions(macro=macro))
        n_labels = case.Y.shape[1]
        true = np.pad(case.Y.toarray().astype(int), ((0, 0), (0, 1)))  # two columns at least: a multi-label target
        listed = np.zeros_like(true)
        for row, labels in enumerate(case.ranking.labels[:, :k]):
            listed[row, labels[labels >= 0]] = 1
        averaged = np.flatnonzero(true.any(axis=0)) if macro == "true" else np.arange(n_labels)
        assert found[f"sample F1@{k}"] == pytest.approx(f1_score(true, listed, average="samples", zero_division=0))
        if true.any() or listed.any():  # else 0/0: NaN here, 0 there
            assert found[f"micro F1@{k}"] == pytest.approx(f1_score(true, listed, average="micro"))
        if averaged.size:
            expected = f1_score(true, listed, labels=averaged, average="macro", zero_division=0)
            assert found[f"macro F1@{k}"] == pytest.approx(expected)


@pytest.mark.kernel
def test_rows_with_many_true_labels_use_binary_search():
    true = np.arange(0, 400, 3)
    Y = sp.csr_matrix((np.ones(true.size), (np.zeros(true.size, int), true)), shape=(1, 401))
    ranking = Ranking(
        np.array([[0, 1, 3, 198, 399, 400]], dtype=np.int32), np.arange(6, 0, -1)[None].astype(np.float32)
    )
    assert evaluate(ranking, Y, k=6)["P@6"] == 4 / 6


def test_a_case_worked_by_hand():
    # Row 0: true {0, 1}, listed 1, 2, 0. Row 1: true {2}, listed 0, 2, 1. Row 2: nothing true.
    Y = sp.csr_matrix([[1, 1, 0], [0, 0, 1], [0, 0, 0]])
    ranking = Ranking(np.array([[1, 2, 0], [0, 2, 1], [0, 1, 2]], dtype=np.int32), np.array([[3.0, 2, 1]] * 3, "f4"))
    found = evaluate(ranking, Y, [1.0, 2.0, 4.0], k=(1, 2, 3))
    second, third = 1 / log2(3), 1 / log2(4)
    assert found["P@1"] == pytest.approx(1 / 3)
    assert found["P@2"] == pytest.approx((1 / 2 + 1 / 2) / 3)
    assert found["nDCG@2"] == pytest.approx((1 / (1 + second) + second) / 3)
    assert found["recall@3"] == pytest.approx(2 / 3)
    assert found["PSP@1"] == pytest.approx(2 / (2 + 4))
    assert found["PSP@3"] == pytest.approx((3 + 4) / (3 + 4))
    ideal = 1 + second
    assert found["PSnDCG@3"] == pytest.approx(((2 + third) / ideal + 4 * second) / ((2 + second) / ideal + 4))
    assert found["coverage@1"] == pytest.approx(1 / 3)
    assert found["macro precision@1"] == pytest.approx((0 / 2 + 1 / 1 + 0) / 3)
    undivided = evaluate(ranking, Y, [1.0, 2.0, 4.0], k=3, conventions=Conventions(variant="dismecpp"))
    assert undivided["PSnDCG@3"] == pytest.approx((2 + third + 4 * second) / (2 + second + 4))
    means = evaluate(ranking, Y, [1.0, 2.0, 4.0], k=1, conventions=Conventions(variant="row-ratios"))
    assert means["PSP@1"] == pytest.approx((2 / 2 + 0 / 4 + 0) / 3)
    loose = evaluate(ranking, Y, [1.0, 2.0, 4.0], k=3, conventions=Conventions(variant="fastxml"))
    assert loose["PSnDCG@3"] == pytest.approx((2 + third + 4 * second) / (1 + second + third) / 3)


def test_the_authors_list_puts_the_rarest_label_above_zero_first_for_weighted_figures_only():
    Y = sp.csr_matrix([[0, 0, 1, 0, 0, 0]])
    ranking = Ranking(np.arange(6, dtype=np.int32)[None], np.array([[5, 4, 3, 0.0, -1, -2]], dtype=np.float32))
    inverse = np.array([1.0, 2.0, 3.0, 9.0, 9.0, 9.0])
    plain, moved = (evaluate(ranking, Y, inverse, 1, conventions=one) for one in (PYXCLIB, AUTHORS))
    assert (plain["PSP@1"], moved["PSP@1"]) == (0.0, 1.0)  # labels 3 and 4 are rarer and do not score above 0
    assert plain["P@1"] == moved["P@1"] == 0.0


@settings(deadline=None, max_examples=50)
@given(cases())
def test_the_authors_list_changes_nothing_at_the_depth_it_permutes(case):
    plain, moved = full(case), full(case, AUTHORS)
    assert plain["PSP@5"] == pytest.approx(moved["PSP@5"], nan_ok=True)
    assert {n: v for n, v in plain.figures.items() if not n.startswith("PS")} == pytest.approx(
        {n: v for n, v in moved.figures.items() if not n.startswith("PS")}, nan_ok=True
    )


@settings(deadline=None, max_examples=50)
@given(cases(), st.sampled_from(["keep", "drop"]))
def test_unseen_labels_are_counted_under_either_policy(case, policy):
    found = full(case, Conventions(unseen_labels=policy)).unseen
    odd = [{label for label in true if case.train_counts[label] == 0} for true in case.truths]
    assert found.n_assignments == sum(map(len, odd))
    assert found.n_labels == len(set().union(*odd))
    assert found.rows == sum(bool(mine) for mine in odd)
    assert found.emptied == sum(bool(mine) and mine == true for mine, true in zip(odd, case.truths, strict=True))


def test_without_training_counts_there_is_no_count_of_unseen_labels():
    assert evaluate(*corpus(10)).unseen is None


@settings(deadline=None, max_examples=50)
@given(cases(), conventions, st.randoms())
def test_the_order_of_rows_does_not_matter(case, convention, random):
    order = list(range(case.Y.shape[0]))
    random.shuffle(order)
    same(full(case, convention).figures, full(case, convention, rows=order).figures)


@settings(deadline=None, max_examples=50)
@given(cases(), conventions, st.randoms())
def test_renaming_labels_does_not_matter(case, convention, random):
    n_labels = case.Y.shape[1]
    new = list(range(n_labels))
    random.shuffle(new)
    new = np.array(new)
    # distinct scores, or ties would be broken by the names
    scores = np.where(case.ranking.labels >= 0, np.arange(6, 0, -1), -np.inf).astype(np.float32)
    labels = np.where(case.ranking.labels >= 0, new[case.ranking.labels], -1)
    renamed = replace(
        case,
        ranking=Ranking(labels, scores),
        Y=sp.csr_matrix(case.Y[:, np.argsort(new)]),
        inverse=case.inverse[np.argsort(new)],
        train_counts=case.train_counts[np.argsort(new)],
    )
    before = replace(case, ranking=Ranking(case.ranking.labels, scores))
    if convention.rerank:  # equal weights are left in the order of the list, which names do not change
        same(full(before, convention).figures, full(renamed, convention).figures)
    else:
        same(full(case, convention).figures, full(renamed, convention).figures)


@settings(deadline=None, max_examples=50)
@given(cases(least_rows=3), conventions, st.permutations([0, 1, 2]))
def test_merging_batches_in_any_order_equals_one_evaluation(case, convention, order):
    n = case.Y.shape[0]
    edges = [0, n // 3, n // 2, n]
    batches = [full(case, convention, rows=slice(edges[at], edges[at + 1])) for at in order]
    merged = merge(batches)
    at_once = full(case, convention)
    same(merged.figures, at_once.figures)
    assert merged.n_samples == at_once.n_samples
    np.testing.assert_array_equal(merged.unseen.true, at_once.unseen.true)
    assert (merged.unseen.rows, merged.unseen.emptied) == (at_once.unseen.rows, at_once.unseen.emptied)


@settings(deadline=None, max_examples=60)
@given(cases(), st.floats(1, 50))
def test_with_equal_propensities_psp_is_the_fraction_of_possible_hits(case, weight):
    # PSP@k = sum hits / sum min(k, true labels of the row), whatever the one weight is
    case = replace(case, inverse=np.full(case.Y.shape[1], weight))
    found = full(case)
    findable = np.minimum(np.diff(case.Y.indptr)[:, None], KS).sum(axis=0)
    for k, most in zip(KS, findable, strict=True):
        expected = found[f"P@{k}"] * k * case.Y.shape[0] / most if most else float("nan")
        assert found[f"PSP@{k}"] == pytest.approx(expected, rel=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=60)
@given(cases())
def test_with_p_one_and_at_least_k_labels_a_row_psp_is_p_and_psndcg_is_ndcg(case):
    rows = np.flatnonzero(np.diff(case.Y.indptr) >= KS[-1])
    found = full(replace(case, inverse=np.ones(case.Y.shape[1])), rows=rows)
    for k in KS:
        assert found[f"PSP@{k}"] == pytest.approx(found[f"P@{k}"], rel=1e-12, nan_ok=True)
        assert found[f"PSnDCG@{k}"] == pytest.approx(found[f"nDCG@{k}"], rel=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=60)
@given(cases(), conventions)
def test_normalized_figures_are_between_zero_and_one(case, convention):
    free = {"fastxml": "PSnDCG", "raw": "PS"}.get(convention.variant, "none")
    for name, value in full(case, convention).figures.items():
        if not name.startswith(free):
            assert np.isnan(value) or -1e-12 <= value <= 1 + 1e-12, name


def test_the_true_labels_ranked_by_rarity_score_one():
    _, Y = corpus()
    inverse = 1 + np.arange(Y.shape[1]) / 7
    best = Ranking.sort(Y.indices.reshape(-1, 4), inverse[Y.indices].reshape(-1, 4))
    found = evaluate(best, Y, inverse, (1, 3, 4))
    for name in ("P@4", "nDCG@3", "PSP@1", "PSP@3", "PSnDCG@3", "recall@4", "coverage@4", "macro F1@4"):
        assert found[name] == pytest.approx(1.0), name


def test_psndcg_of_fastxml_can_exceed_one():
    Y = sp.csr_matrix([[1.0, 0]])
    ranking = Ranking(np.array([[0, 1]], dtype=np.int32), np.array([[2, 1]], dtype=np.float32))
    assert evaluate(ranking, Y, [9.0, 1.0], 1, conventions=Conventions(variant="fastxml"))["PSnDCG@1"] == 9.0


def test_the_terms_of_rows_add_up_to_the_totals():
    ranking, Y = corpus()
    found = evaluate(ranking, Y, 1 + np.arange(50.0))
    assert found.terms.dtype == np.float32
    np.testing.assert_allclose(found.terms.astype(np.float64).sum(axis=0), found.totals, rtol=1e-6)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix])
def test_every_sparse_kind_and_stored_zeros_give_the_same_figures(kind):
    ranking, Y = corpus(60)
    other = kind(Y)
    if kind is sp.coo_array:
        other = sp.coo_array(
            (np.r_[other.data, 0.0], (np.r_[other.row, 0], np.r_[other.col, np.flatnonzero(Y[0].toarray() == 0)[0]])),
            shape=Y.shape,
        )
    assert evaluate(ranking, other).figures == evaluate(ranking, Y).figures


@pytest.mark.parametrize("dtype", [bool, int, np.float64])
def test_a_dense_truth_gives_the_same_figures(dtype):
    ranking, Y = corpus(60)
    dense = Y.toarray().astype(dtype)
    assert evaluate(ranking, dense).figures == evaluate(ranking, Y).figures
    assert evaluate(ranking, dense.tolist()).figures == evaluate(ranking, Y).figures


@pytest.mark.parametrize("wrong", [np.nan, -1.0, -np.inf, 2.0])
def test_a_truth_with_numbers_that_cannot_be_one_is_refused(wrong):
    ranking, Y = corpus(10)
    Y = Y.copy()
    Y.data[Y.indptr[3]] = wrong
    with pytest.raises(InputError, match=f"Y holds {wrong:g} in row 3"):
        evaluate(ranking, Y)


def test_a_truth_with_indices_out_of_range_is_refused():
    ranking, Y = corpus(10)
    Y = Y.copy()
    Y.indices[-1] = 10**6
    with pytest.raises(InputError, match="Y is not a valid sparse matrix"):
        evaluate(ranking, Y)


def test_read_only_arrays_work():
    ranking, Y = corpus(20)
    before = evaluate(ranking, Y, np.ones(50)).figures
    for array in (ranking.labels, ranking.scores, Y.data, Y.indices, Y.indptr):
        array.setflags(write=False)
    inverse = np.ones(50)
    inverse.setflags(write=False)
    assert evaluate(ranking, Y, inverse).figures == before


@pytest.mark.parametrize("convention", [PYXCLIB, AUTHORS])
@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, sp.csr_matrix, sp.csc_array])
def test_a_score_matrix_has_the_figures_of_its_ranking(form, convention):
    rng = np.random.default_rng(0)
    Y, scores = (rng.random((30, 8)) < 0.3).astype(int), rng.normal(size=(30, 8))
    inverse, filtered = rng.uniform(1, 9, 8), [[0, 1], [0, 2], [4, 4]]
    for k in (1, (1, 3)):
        settings = {"k": k, "filtered": filtered, "conventions": convention}
        found = evaluate(form(scores), Y, inverse, **settings)
        same(found.figures, evaluate(Ranking.from_scores(scores, 8), Y, inverse, **settings).figures)


def test_scores_that_do_not_fit_the_truth_are_refused():
    Y = np.eye(3, dtype=int)
    with pytest.raises(InputError, match="the scores have 2 columns, the truth has 3 labels"):
        evaluate(np.ones((3, 2)), Y)
    with pytest.raises(InputError, match="has 2 rows, the truth has 3"):
        evaluate(np.ones((2, 3)), Y)
    for wrong in (np.ones(3), [[1.0], [1.0, 2.0]], "scores", None):
        with pytest.raises(InputError, match="scores are a matrix of numbers, rows by labels"):
            evaluate(wrong, Y)


def test_a_string_instead_of_inverse_propensities_is_refused_with_an_explanation():
    with pytest.raises(InputError, match=r"inverse propensities are 'jain'; .* such as 1 / Jain\(\)\.estimate"):
        evaluate(np.eye(3), np.eye(3, dtype=int), "jain")


def test_figures_are_in_the_order_of_the_registry():
    figures = evaluate(np.eye(3), np.eye(3, dtype=int), np.ones(3), 2).figures
    names = ["P", "nDCG", "PSP", "PSnDCG", "recall", "coverage", "macro precision", "macro recall", "macro F1"]
    assert list(figures) == [f"{name}@2" for name in names]


def test_the_label_after_a_filtered_one_moves_up():
    Y = sp.csr_matrix([[0, 1.0]])
    ranking = Ranking(np.array([[0, 1]], dtype=np.int32), np.array([[2, 1]], dtype=np.float32))
    assert evaluate(ranking, Y, k=1)["P@1"] == 0.0
    assert evaluate(ranking, Y, k=1, filtered=[[0, 0]])["P@1"] == 1.0
    assert evaluate(ranking, Y, k=1, filtered=[[0, 1]])["recall@1"] == 0.0
    gone = evaluate(ranking, Y, k=1, filtered=[[0, 1]], conventions=Conventions(filtered="both", empty_rows="drop"))
    assert gone.n_samples == 0
    assert np.isnan(gone["P@1"])


def test_presets_differ_from_the_defaults_as_documented():
    assert AUTHORS.describe() == {**PYXCLIB.describe(), "rerank": True}
    assert Conventions(**DISMECPP.describe()) == DISMECPP
    with pytest.raises(InputError, match=r"unknown convention variant='pyxlib'; known: pyxclib, dismecpp"):
        Conventions(variant="pyxlib")
    for name in PYXCLIB.describe():
        with pytest.raises(InputError, match=f"unknown convention {name}='some'; known: "):
            Conventions(**{name: "some"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 7}, r"k = 7 exceeds the ranking, which has 6 labels per row"),
        ({"k": 0}, r"k must be one or more integers of at least 1"),
        ({"k": ()}, r"k must be"),
        ({"k": [2.7]}, r"k must be one or more integers of at least 1, not \[2\.7\]"),
        ({"k": 2.0}, r"k must be .* not 2\.0"),
        ({"k": True}, r"k must be .* not True"),
        ({"k": "35"}, r"k must be .* not '35'"),
        ({"inverse_propensities": np.ones(3)}, r"shape \(3,\); 50 of them"),
        ({"inverse_propensities": np.full(50, 0.5)}, r"label 0 has the inverse propensity 0\.5"),
        ({"inverse_propensities": np.full(50, np.inf)}, r"label 0 has the inverse propensity inf"),
        ({"train_counts": [1, 2]}, r"training counts must be 50 numbers"),
        ({"conventions": Conventions(unseen_labels="drop")}, r"needs training counts"),
        ({"train_counts": np.r_[np.ones(49), -1]}, r"training counts must be 50 numbers"),
        ({"filtered": [[0, 50]]}, r"filtered pair 0 is \(0, 50\)"),
        ({"filtered": [[0, 0], [10, 0]]}, r"filtered pair 1 is \(10, 0\)"),
        ({"filtered": [[0, -1]]}, r"filtered pair 0 is \(0, -1\)"),
        ({"filtered": [0, 1]}, r"filtered pairs must be"),
        ({"filtered": [[0.5, 1]]}, r"filtered pairs must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    ranking, Y = corpus(10)
    with pytest.raises(InputError, match=message):
        evaluate(ranking, Y, **arguments)


def test_rankings_that_do_not_fit_the_truth_are_refused():
    ranking, Y = corpus(10)
    with pytest.raises(InputError, match="10 rows, the truth has 9"):
        evaluate(ranking, Y[:9])
    with pytest.raises(InputError, match=r"row \d of the ranking lists label \d+, the truth has only 5 labels"):
        evaluate(ranking, Y[:, :5])
    with pytest.raises(InputError, match="re-ranking needs 5 labels per row"):
        evaluate(ranking.top(3), Y, np.ones(50), 3, conventions=AUTHORS)


def test_evaluations_with_different_settings_do_not_merge():
    ranking, Y = corpus(10)
    one = evaluate(ranking, Y, np.ones(50))
    with pytest.raises(InputError, match="cut-offs or conventions"):
        merge([one, evaluate(ranking, Y, np.ones(50), k=1)])
    for inverse in (None, np.full(50, 2.0)):
        with pytest.raises(InputError, match="inverse propensities"):
            merge([one, evaluate(ranking, Y, inverse)])
    counted = evaluate(ranking, Y, np.ones(50), train_counts=np.ones(50))
    for counts in (None, np.full(50, 2)):
        with pytest.raises(InputError, match="train counts"):
            merge([counted, evaluate(ranking, Y, np.ones(50), train_counts=counts)])
    with pytest.raises(InputError, match="differ in their metrics"):
        merge([one, evaluate(ranking, Y, np.ones(50), metrics=["P"])])
    with pytest.raises(InputError, match="number of labels"):
        merge([one, evaluate(ranking, sp.csr_matrix((10, 60)), np.ones(60))])
    with pytest.raises(InputError, match="at least one evaluation"):
        merge([])
