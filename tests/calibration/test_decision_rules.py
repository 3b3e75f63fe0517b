"""Decision rules: texts, what they choose, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calibration.test_decisions import LABELS, P, random_rows
from unmissed.calibration import (
    DecisionRule,
    choose_above,
    choose_coverage,
    choose_f1,
    choose_macro_f1,
    choose_top,
    threshold_for_precision,
)
from unmissed.errors import InputError
from unmissed.ranking import Ranking


@pytest.mark.parametrize(
    ("texts", "kind", "value"),
    [
        (("top 5", "top5", " Top  5 "), "top", 5),
        (("p>=0.5", "p >= .5", "P≥0.50"), "p", 0.5),
        (("f1", " F1 "), "f1", None),
        (("macro-f1@5", "macro f1 @ 5", "Macro-F1@5"), "macro-f1", 5),
        (("coverage@3", "coverage @3"), "coverage", 3),
        (("precision>=0.8", "precision >= 0.8"), "precision", 0.8),
    ],
)
def test_spaces_and_case_do_not_matter(texts, kind, value):
    for text in texts:
        assert DecisionRule.parse(text) == DecisionRule(kind, value)


@given(
    st.one_of(
        st.builds(DecisionRule, st.sampled_from(["top", "macro-f1", "coverage"]), st.integers(1, 999).map(float)),
        st.builds(DecisionRule, st.sampled_from(["p", "precision"]), st.integers(1, 99).map(lambda n: n / 100)),
        st.just(DecisionRule("f1")),
    )
)
def test_a_rule_is_the_rule_of_its_text(rule):
    assert DecisionRule.parse(str(rule)) == rule


@pytest.mark.parametrize("text", ["", "top", "top -1", "top 2.5", "p>0.5", "p>=", "f1@5", "macro-f1", "recall>=0.5"])
def test_an_unknown_text_lists_the_forms(text):
    with pytest.raises(InputError, match=r"expected one of: top 5, p>=0\.5, f1, macro-f1@5, cov.*, precision>=0\.8"):
        DecisionRule.parse(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DecisionRule.parse("top 0"), "top 0: the number of labels must be at least 1"),
        (lambda: DecisionRule("top", 2.5), "top 2.5: the number of labels"),
        (lambda: DecisionRule.parse("p>=1.5"), "p>=1.5: a probability is between 0 and 1"),
        (lambda: DecisionRule.parse("precision>=1"), "above 0 and below 1"),
        (lambda: DecisionRule("top"), "has the form 'top 5'"),
        (lambda: DecisionRule("f1", 3), "has the form 'f1'"),
        (lambda: DecisionRule("best"), "unknown decision 'best'"),
        (lambda: DecisionRule("precision", 0.8).choose(LABELS, P), "needs the threshold"),
        (lambda: DecisionRule("top", 3).threshold([0.9], [True]), "has no precision to keep"),
        (
            lambda: DecisionRule("precision", 0.8).threshold([0.9], [True]),
            r"no threshold keeps this precision on 1 held-out .* the highest that one keeps is 0.001",
        ),
        (lambda: DecisionRule("f1").decide(Ranking.sort(LABELS, P)), "the ranking has no probabilities"),
    ],
)
def test_wrong_numbers_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_rule_chooses_what_its_function_chooses():
    labels, p = random_rows(n=50, m=6, n_labels=20)
    expected = {
        "top 2": choose_top(labels, p, 2),
        "p>=0.3": choose_above(labels, p, 0.3),
        "f1": choose_f1(labels, p),
        "macro-f1@2": choose_macro_f1(labels, p, 2, seed=4),
        "coverage@2": choose_coverage(labels, p, 2, seed=4),
    }
    for text, chosen in expected.items():
        np.testing.assert_array_equal(DecisionRule.parse(text).choose(labels, p, seed=4), chosen)


def test_the_threshold_of_a_precision_is_that_of_held_out_cells():
    rng = np.random.default_rng(0)
    cells = rng.random(5000)
    observed = rng.random(5000) < cells
    rule = DecisionRule.parse("precision>=0.7")
    assert rule.threshold(cells, observed) == threshold_for_precision(cells, observed, 0.7)


def test_a_decided_ranking_has_the_chosen_labels_in_the_order_of_scores():
    scores = np.array([[3.0, 2, 1, -np.inf], [4, 3, 2, 1]])
    ranking = Ranking(LABELS.astype(np.int32), scores.astype(np.float32), probabilities=P)
    found = DecisionRule.parse("p>=0.5").decide(ranking)
    np.testing.assert_array_equal(found.labels, [[2, -1, -1], [1, 3, 0]])
    np.testing.assert_array_equal(found.scores, np.float32([[2, -np.inf, -np.inf], [4, 3, 1]]))
    np.testing.assert_array_equal(found.probabilities, np.float32([[0.9, 0, 0], [0.5, 0.6, 0.7]]))
    assert DecisionRule.parse("p>=0.99").decide(ranking).labels.tolist() == [[-1], [-1]]


@pytest.mark.parametrize("text", ["top 2", "p>=0.3", "f1", "macro-f1@2", "coverage@2"])
def test_rules_by_row_decide_batches_like_all_rows(text):
    rule = DecisionRule.parse(text)
    labels, p = random_rows(n=50, m=6, n_labels=20)
    parts = [rule.choose(labels[at : at + 10], p[at : at + 10]) for at in range(0, 50, 10)]
    assert rule.by_row == bool((np.concatenate(parts) == rule.choose(labels, p)).all())


def test_there_are_at_least_k_candidates():
    assert [DecisionRule.parse(text).n_candidates for text in ("top 5", "f1", "coverage@80")] == [50, 50, 80]
