"""Method specs: methods and parameters from words."""

import pytest

from unmissed.errors import InputError
from unmissed.models.method_registry import METHODS, find_model
from unmissed.propensity import Constant, Jain
from unmissed.runs.compare.method_specs import MethodSpec, all_method_specs, read_method_specs


def test_no_word_means_every_method_and_each_convex_weighting():
    keys = [one.key for one in read_method_specs()]
    without_names = {name for name in METHODS if not find_model(name).uses_label_terms}
    assert {one.method for one in all_method_specs()} == without_names == set(METHODS) - {"lexical"}
    weighted = ["surrogate", "tail", "floored-tail", "balanced", "auto"]
    assert [key for key in keys if key.startswith("pw-dismec")] == [f"pw-dismec:weighting={word}" for word in weighted]
    assert len(keys) == len(set(keys)) == len(without_names) + len(weighted) - 1


def test_methods_are_split_at_commas_and_blanks_and_keep_their_parameters():
    found = read_method_specs(["dismec,pw-dismec:weighting=tail,C=2 parabel", "dismec"])
    assert found == [
        MethodSpec("dismec"),
        MethodSpec("pw-dismec", {"weighting": "tail", "C": 2}),
        MethodSpec("parabel"),
    ]
    assert found[1].title == "PW-DiSMEC, tail, C 2"
    assert found[1].folder == "pw-dismec_weighting=tail_C=2"
    assert read_method_specs([found[1].key]) == [found[1]]


def test_true_and_false_are_read_as_the_train_command_takes_them():
    (one,) = read_method_specs(["pd-sparse:early_stopping=true,fit_bias=false"])
    assert one.params == {"early_stopping": True, "fit_bias": False}
    assert read_method_specs([one.key]) == [one]


def test_the_comparisons_propensity_goes_to_those_that_take_one_and_name_none():
    (named,) = read_method_specs(["pw-dismec:propensity=constant:0.5"])
    assert named.model(Jain(0.6, 2.6)).propensity == Constant(0.5)
    assert MethodSpec("pw-dismec").model(Jain(0.6, 2.6)).propensity == Jain(0.6, 2.6)
    assert MethodSpec("dismec").model(Jain(0.6, 2.6), 3).n_jobs == 3


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nobody", "unknown method 'nobody'"),
        ("dismec:D=1", "dismec has no parameter 'D'"),
        ("dismec:C=much", "dismec:C=much: C must be a number above 0; got 'much'"),
        ("dismec:C", "NAME=VALUE"),
    ],
)
def test_words_that_mean_nothing_are_refused(word, reason):
    with pytest.raises(InputError, match=reason):
        read_method_specs([word])


def test_an_ensemble_is_a_spec_whose_members_are_joined_by_plus_signs():
    (spec,) = read_method_specs(["ensemble:members=dismec+popularity,depth=9"])
    assert spec.params == {"members": ("dismec", "popularity"), "depth": 9}
    assert spec.title == "Ensemble, dismec+popularity, depth 9"
    assert read_method_specs([spec.key]) == [spec]
    assert "ensemble" not in {one.method for one in all_method_specs()}, "members are methods that are compared anyway"
