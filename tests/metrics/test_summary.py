"""The summary of an evaluation: everything that a result says, in values that JSON can hold."""

import json

import numpy as np
import pytest

from tests.metrics.cases import corpus
from unmissed.metrics import by_decile, compare, evaluate, intervals, support
from unmissed.metrics.summary import summarise, summarise_difference


@pytest.fixture(scope="module")
def found():
    ranking, Y = corpus(40)
    return evaluate(ranking, Y, 1 + np.arange(50.0), (1, 3), train_counts=np.arange(50))


def test_a_summary_holds_what_the_functions_of_the_room_say(found):
    summary = summarise(found, 20, 0.9, 3)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    ranges = intervals(found, 20, 0.9, 3)
    for name, value in found.figures.items():
        expected = {"value": value, **(ranges[name]._asdict() if name in ranges else {})}
        assert summary["figures"][name] == expected
    assert summary["interval"] == {"level": 0.9, "resamples": 20, "seed": 3}
    assert summary["support"] == {name: rests._asdict() for name, rests in support(found).items()}
    assert (summary["n_samples"], summary["n_labels"], summary["k"]) == (40, 50, [1, 3])
    assert [(group["decile"], group["k"]) for group in summary["deciles"]] == [
        (group.decile, k) for k in (1, 3) for group in by_decile(found, k)
    ]
    assert summary["unseen"]["marks"] == found.unseen.marks > 0


def test_without_resamples_or_counts_a_summary_leaves_out_what_needs_them():
    summary = summarise(evaluate(*corpus(10)), 0)
    assert summary["interval"] is None
    assert summary["figures"]["P@1"].keys() == {"value"}
    assert (summary["deciles"], summary["support"], summary["unseen"]) == ([], {}, None)


def test_what_is_no_number_becomes_null():
    ranking, _ = corpus(10)
    summary = summarise(evaluate(ranking, np.zeros((10, 50)), np.ones(50)), 5)
    assert summary["figures"]["PSP@1"] == {"value": None, "low": None, "high": None}
    assert summary["figures"]["P@1"]["value"] == 0


def test_differences_are_those_of_compare(found):
    ranking, Y = corpus(40)
    other = evaluate(ranking.top(3), Y, 1 + np.arange(50.0), (1, 3), train_counts=np.arange(50))
    differences = summarise_difference(found, other, 20, 0.9, 3)
    assert differences == {name: one._asdict() for name, one in compare(found, other, 20, 0.9, 3).items()}
