"""Rows that a ranking does not have, or that the truth does not have: refused, or counted and said."""

import json

import pytest

from tests.cli.speaking import refused, said
from unmissed.data import load
from unmissed.errors import InputError
from unmissed.models.popularity import Popularity
from unmissed.ranking import Ranking
from unmissed.runs import train
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.runs.prediction import write_ranking

LABELS = ["a", "b", "c"]
TRUE = ["a", "b", "a", "c", "a", "b", "a", "c", "a", "a"]
FORMS = ["csv", "tsv", "jsonl"]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Return a folder with documents and their labels, and a run."""
    folder = tmp_path_factory.mktemp("rows")
    lines = [{"id": f"d{row}", "text": f"word {row}", "labels": [label]} for row, label in enumerate(TRUE)]
    (folder / "test.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder, train(Popularity(), load(folder / "test.jsonl"), folder / "run")


def write(case, name, rows, top="a", ids=True):
    """Rank one label for the given rows of the truth."""
    folder, run = case
    ranking = Ranking.sort([[LABELS.index(top)]] * len(rows), [[1.0]] * len(rows))
    names = [f"d{row}" for row in rows]
    (path,) = write_ranking(run, ranking, folder / name, ids=names if ids else None)
    return path


def measured(case, path, policy="refuse", **options):
    folder, _ = case
    how = Measuring((1,), n_resamples=20, missing_rows=policy)
    return evaluate_ranking(path, folder / "test.jsonl", folder / "run", how, **options)


@pytest.mark.parametrize("form", FORMS)
def test_a_ranking_of_some_rows_is_refused_with_how_many_and_which(case, form):
    path = write(case, f"some.{form}", [0, 1, 4])
    with pytest.raises(InputError, match=r"7 of the 10 rows of the truth are missing, first id 'd2', 'd3'") as error:
        measured(case, path)
    assert "--missing-rows" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("form", FORMS)
def test_missing_rows_count_as_misses_or_are_left_out_and_that_is_said(case, form):
    path = write(case, f"some.{form}", [0, 1, 4])
    miss, skip = measured(case, path, "miss"), measured(case, path, "skip")
    assert (miss["n_samples"], miss["figures"]["P@1"]["value"]) == (10, pytest.approx(2 / 10))
    assert (skip["n_samples"], skip["figures"]["P@1"]["value"]) == (3, pytest.approx(2 / 3))
    for found, policy, words in ((miss, "miss", "count as rows without a suggestion"), (skip, "skip", "are left out")):
        assert found["missing_rows"] == {"policy": policy, "rows": 7}
        assert any("7 of the 10 rows" in warning and words in warning for warning in found["warnings"])


@pytest.mark.parametrize("policy", ["refuse", "miss", "skip"])
@pytest.mark.parametrize("form", FORMS)
def test_a_complete_ranking_is_the_same_whatever_the_policy(case, form, policy):
    found = measured(case, write(case, f"all.{form}", range(10)), policy)
    assert (found["n_samples"], found["figures"]["P@1"]["value"]) == (10, pytest.approx(6 / 10))
    assert found["missing_rows"] == {"policy": policy, "rows": 0}
    assert not any("missing" in warning for warning in found["warnings"])


def test_rows_that_are_listed_without_labels_are_not_missing(case):
    path = write(case, "empty.jsonl", range(9))
    with path.open("a") as stream:
        stream.write('{"id": "d9", "labels": []}\n')
    assert measured(case, path)["figures"]["P@1"]["value"] == pytest.approx(5 / 10)


def test_two_rankings_are_compared_on_the_rows_that_both_have(case):
    first, second = write(case, "first.csv", [0, 1, 2, 3]), write(case, "second.csv", [1, 2, 3, 4], top="b")
    found = measured(case, first, "skip", against=second)
    assert (found["n_samples"], found["missing_rows"]) == (3, {"policy": "skip", "rows": 6, "against": 6})
    assert found["differences"]["P@1"]["value"] == pytest.approx(0)  # of rows 1, 2 and 3 each finds one
    assert any("both rankings" in warning for warning in found["warnings"])


def test_skipping_takes_filtered_pairs_along(case):
    folder, _ = case
    path = write(case, "some.csv", [4, 6, 8])
    (folder / "pairs.txt").write_text("0 0\n6 0\n")
    how = Measuring((1,), filtered=folder / "pairs.txt", n_resamples=0, missing_rows="skip")
    found = evaluate_ranking(path, folder / "test.jsonl", folder / "run", how)
    assert found["figures"]["P@1"]["value"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_the_truth_does_not_have_are_refused_and_counted(case, form):
    path = write(case, f"more.{form}", [*range(10), 77, 78])
    with pytest.raises(InputError, match=r"does not have 2 of the ids of this ranking, first 'd77', 'd78'"):
        measured(case, path, "skip")
    path = write(case, f"more.{form}", range(12), ids=False)
    with pytest.raises(InputError, match=r"does not have 2 of the rows \(it has rows 0 to 9\)"):
        measured(case, path, "skip")


def test_nothing_is_left_to_evaluate(case):
    path = case[0] / "none.csv"
    path.write_text("id,rank,label,score\n")
    with pytest.raises(InputError, match="none of its 10 rows"):
        measured(case, path, "skip")


def test_an_unknown_policy_is_refused():
    with pytest.raises(InputError, match="unknown missing_rows 'ignore'; known: refuse, miss, skip"):
        Measuring(missing_rows="ignore")


def test_the_command_refuses_and_takes_the_policy(case, capsys):
    folder, _ = case
    data = ["--truth", folder / "test.jsonl", "--train", folder / "run"]
    words = ["evaluate", write(case, "some.csv", [0, 1, 4]), *data]
    assert "7 of the 10 rows" in refused(capsys, *words, "-k", 1)
    assert "7 of the 10 rows" in said(capsys, *words, "-k", 1, "--missing-rows", "miss")
    found = json.loads(said(capsys, *words, "-k", 1, "--missing-rows", "skip", "--json"))
    assert found["missing_rows"] == {"policy": "skip", "rows": 7}
