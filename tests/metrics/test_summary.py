"""The summary of an evaluation: all results as JSON-serializable values."""

import json

import numpy as np
import pytest

from tests.metrics.cases import corpus
from unmissed.metrics import by_decile, compare, evaluate, intervals, support
from unmissed.metrics.summary import summarize, summarize_difference


@pytest.fixture(scope="module")
def found():
    ranking, Y = corpus(40)
    return evaluate(ranking, Y, 1 + np.arange(50.0), (1, 3), train_counts=np.arange(50))


def test_a_summary_has_the_results_of_the_metrics_functions(found):
    summary = summarize(found, 20, 0.9, 3)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    ranges = intervals(found, 20, 0.9, 3)
    for name, value in found.figures.items():
        expected = {"value": value, **(ranges[name]._asdict() if name in ranges else {})}
        assert summary["figures"][name] == expected
    assert summary["interval"] == {"level": 0.9, "resamples": 20, "seed": 3}
    assert summary["support"] == {name: each._asdict() for name, each in support(found).items()}
    assert (summary["n_samples"], summary["n_labels"], summary["k"]) == (40, 50, [1, 3])
    assert [(group["decile"], group["k"]) for group in summary["deciles"]] == [
        (group.decile, k) for k in (1, 3) for group in by_decile(found, k)
    ]
    assert summary["unseen"]["assignments"] == found.unseen.n_assignments > 0


def test_a_summary_without_resamples_or_counts_omits_intervals_and_deciles():
    summary = summarize(evaluate(*corpus(10)), 0)
    assert summary["interval"] is None
    assert summary["figures"]["P@1"].keys() == {"value"}
    assert (summary["deciles"], summary["support"], summary["unseen"]) == ([], {}, None)


def test_nan_becomes_null():
    ranking, _ = corpus(10)
    summary = summarize(evaluate(ranking, np.zeros((10, 50)), np.ones(50)), 5)
    assert summary["figures"]["PSP@1"] == {"value": None, "low": None, "high": None}
    assert summary["figures"]["P@1"]["value"] == 0


def test_differences_are_those_of_compare(found):
    ranking, Y = corpus(40)
    other = evaluate(ranking.top(3), Y, 1 + np.arange(50.0), (1, 3), train_counts=np.arange(50))
    differences = summarize_difference(found, other, 20, 0.9, 3)
    assert differences == {name: one._asdict() for name, one in compare(found, other, 20, 0.9, 3).items()}
