"""Labels by prefix, neighbors, and contributions of words."""

import numpy as np
import pytest

from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.calibration import CANDIDATES
from unmissed.data import Dataset, load
from unmissed.errors import InputError
from unmissed.runs import calibrate, open_run, train
from unmissed.runs.exploration import LabelIndex, explain_text, label_neighbors, suggest_labels

TEXT = "the cod in the net of the court"
TRAIN, TEST = small_corpus()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rows = load(write_texts(folder / "train.jsonl"))
    train("dismec", rows, folder / "raw", PARAMS)
    train("dismec", rows, folder / "calibrated", PARAMS)
    calibrate(folder / "calibrated", old_rows=[rows])
    dense = np.random.default_rng(0).normal(size=(TRAIN.X.shape[0], 3)).astype(np.float32)
    train("dismec", Dataset(TRAIN.X, TRAIN.Y, dense=dense), folder / "dense", PARAMS)
    train("parabel", rows, folder / "trees", {"n_jobs": 1})
    return folder


def test_suggested_labels_are_the_ranking_of_the_run(folder):
    raw, calibrated = open_run(folder / "raw"), open_run(folder / "calibrated")
    for run, ranking in ((raw, raw.rank([TEXT], 2)), (calibrated, calibrated.rank([TEXT], 2, rank_by="probability"))):
        (found,) = suggest_labels(run, [TEXT], 2)
        assert [one.label for one in found] == ranking.labels[0].tolist()
        assert [one.score for one in found] == ranking.scores[0].tolist()
    margins = dict(zip(*(values[0].tolist() for values in _pair(calibrated.rank([TEXT], 3))), strict=True))
    assert {one.label: one.margin for one in suggest_labels(calibrated, [TEXT], 3)[0]} == margins
    assert CANDIDATES > 3  # so that all labels are candidates


def _pair(ranking):
    return ranking.labels, ranking.scores


def test_a_threshold_leaves_out_lower_scores_and_zero_leaves_out_none(folder):
    run = open_run(folder / "raw")
    scores = [one.score for one in suggest_labels(run, [TEXT], 3)[0]]
    assert min(scores) < 0 < max(scores)
    assert [one.score for one in suggest_labels(run, [TEXT], 3, scores[1])[0]] == scores[:2]


def test_a_text_without_known_words_has_no_labels(folder):
    first, second = suggest_labels(open_run(folder / "raw"), ["xyzzy", "cod"], 3)
    assert (list(first), first.no_known_words) == ([], True)
    assert (len(second), second.no_known_words) == (3, False)


def test_contributions_bias_and_dense_part_add_up_to_the_score(folder):
    run = open_run(folder / "calibrated")
    for label in range(run.n_labels):
        found = explain_text(run, TEXT, label)
        total = found.bias + sum(one.contribution for one in found.contributions)
        assert total == pytest.approx(run.model.decision_function(run.features_of(TEXT), [label])[0, 0], abs=1e-5)
        assert found.margin == pytest.approx(total, abs=1e-5)
        assert found.score == pytest.approx(run.model.predict_proba(run.features_of(TEXT), [label])[0, 0])
        assert found.dense is None
    assert len(explain_text(run, TEXT, 0, 2).contributions) == 2


def test_a_method_without_weights_cannot_explain_and_has_no_neighbors(folder):
    run = open_run(folder / "trees")
    with pytest.raises(InputError, match="parabel has no weights per feature"):
        explain_text(run, TEXT, 0)
    assert label_neighbors(run, 0) == []


@pytest.mark.parametrize("name", ["raw", "dense"])
def test_neighbors_are_ordered_by_the_cosine_of_their_weights(folder, name):
    run = open_run(folder / name)
    weights = np.asarray(run.model.coef_.todense())
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    for label in (0, 1):
        found = label_neighbors(run, label, 5)
        assert label not in {one.label for one in found}
        for one in found:
            assert one.similarity == pytest.approx(unit[label] @ unit[one.label], abs=1e-5)
        assert [one.similarity for one in found] == sorted((one.similarity for one in found), reverse=True)


class _Labels:
    """What `LabelIndex` reads of a run."""

    def __init__(self, names, titles, counts):
        self.label_names, self.label_titles = names, titles
        self.n_labels, self.label_counts = len(counts), np.array(counts)
        self.notations = None


def test_labels_are_found_by_the_beginning_of_name_or_title_in_any_case():
    index = LabelIndex(_Labels(["a1", "b1", "A2"], ["Éclair", "apple", "Straße"], [1, 5, 9]))
    assert index.search("A", 9) == [2, 1, 0]  # names and a title; the most frequent first
    assert index.search("a", 2) == [2, 1]
    assert index.search("éc", 9) == [0]
    assert index.search("STRASSE", 9) == [2]
    assert index.search("", 9) == [2, 1, 0]
    assert index.search("x", 9) == []
    assert [index.find(name) for name in ("a1", "A2", "apple", "0")] == [0, 2, -1, -1]
    assert (index.name(1), index.title(1)) == ("b1", "apple")


def test_labels_without_names_are_found_by_number():
    index = LabelIndex(_Labels(None, None, [1] * 12))
    assert index.search("1", 9) == [1, 10, 11]
    assert [index.find(name) for name in ("0", "11", "12", "-1", "x", "9" * 30)] == [0, 11, -1, -1, -1, -1]
    assert (index.name(3), index.title(3)) == ("3", "3")
