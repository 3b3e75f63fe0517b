"""The candidates of a search."""

import pytest

from tests.models.selection.guesser import Guesser
from unmissed.errors import InputError
from unmissed.models import DiSMEC, PWDiSMEC
from unmissed.models.method_registry import METHODS, make_model
from unmissed.models.parameters import parameters_of
from unmissed.models.selection.search_space import SearchSpace, default_tries
from unmissed.propensity.weighting import CONVEX


def test_the_grid_of_one_vs_rest_is_joint_and_has_the_baseline_and_the_preferred_candidate():
    grid = SearchSpace(PWDiSMEC(), default_tries(PWDiSMEC()))
    assert grid.baseline == {"weighting": "none", "C": 1.0}
    assert grid.preferred == {"weighting": "floored-tail", "C": 0.3}
    every = {(one["weighting"], one["C"]) for one in grid.every}
    assert every == {(weighting, C) for weighting in CONVEX for C in (0.1, 0.3, 0.5, 1.0, 3.0)}
    assert len(grid.every) == 25
    assert default_tries(DiSMEC()) == {"C": [0.1, 0.3, 0.5, 1.0, 3.0]}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_its_default_tries(method):
    model = make_model(method, {})
    known = {one.name: one for one in parameters_of(type(model))}
    for name, values in default_tries(model).items():
        assert all(known[name].takes(value) for value in values)
        assert len(values) > 1


def test_a_coarse_grid_has_every_second_number_and_every_word():
    grid = SearchSpace(PWDiSMEC(), default_tries(PWDiSMEC()))
    coarse = {(one["weighting"], one["C"]) for one in grid.coarse()}
    assert coarse == {(weighting, C) for weighting in CONVEX for C in (0.3, 1.0)}
    middle = [(one["weighting"], one["C"]) for one in grid.coarse(middle=True)]
    assert sorted(middle) == sorted([("none", 1.0), ("floored-tail", 0.3), *((one, 0.5) for one in CONVEX)])
    near = grid.neighbors({"weighting": "tail", "C": 0.3})
    assert near == [{"weighting": "tail", "C": 0.1}, {"weighting": "tail", "C": 0.5}]
    assert grid.neighbors({"weighting": "tail", "C": 3.0}) == [{"weighting": "tail", "C": 1.0}]


def test_values_outside_of_the_tries_are_candidates_if_they_are_the_baseline_or_the_model_s_own():
    grid = SearchSpace(Guesser(tail=0.7), {"tail": [0.1, 0.9]})
    assert grid.every == [{"tail": 0.5}, {"tail": 0.7}, {"tail": 0.1}, {"tail": 0.9}]
    assert grid.neighbors({"tail": 0.5}) == []


def test_too_many_combinations_are_refused():
    values = [number / 100 for number in range(40)]
    with pytest.raises(InputError, match="1,600 combinations"):
        SearchSpace(Guesser(), {"tail": values, "head": values})
    with pytest.raises(InputError, match="0 combinations"):
        SearchSpace(Guesser(), {"tail": []})
