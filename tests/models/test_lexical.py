"""Lexical: labels whose names a text contains, word by word, whether they have training rows or not."""

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.data import Concept, Dataset, TextFeatures, Vocabulary
from unmissed.errors import InputError
from unmissed.execution import Piece
from unmissed.models import DiSMEC, Ensemble, Lexical
from unmissed.models.lexical import _read
from unmissed.runs import open_run, train

TEXTS = ["the north sea cod", "cod quota and cod", "a judge of the court", "bread and milk", "the sea"] * 30
NAMES = ["fishing", "law", "food", "whale", "sea"]
CONCEPTS = [
    Concept("fishing", {"en": "North Sea fishing"}, [("en", "cod quota"), ("en", "cod")]),
    Concept("law", {"en": "court"}, [("de", "Gericht")]),
    Concept("food", {"en": "bread"}),
    Concept("whale", {"en": "whales"}, [("en", "blue whale")]),
    Concept("sea", {"en": "sea"}, [("en", "the sea")]),
    Concept("old", {"en": "milk"}, deprecated=True),
]


def corpus(**options):
    """Texts about fishing, law and food, with a vocabulary that has more concepts."""
    vocabulary = Vocabulary.of(CONCEPTS, language="en")
    text = TextFeatures(**options)
    X = text.fit_transform(TEXTS, words=["blue", "whale"])
    Y = sp.csr_matrix(np.tile([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], (30, 1)).astype(np.float32))
    return Dataset(X, Y, NAMES[:3], text.terms_, text).with_vocabulary(vocabulary, unseen=True)


@pytest.fixture(scope="module")
def model():
    return Lexical().fit(corpus())


def suggest(model, text, k=4):
    X = corpus().text.transform([text])
    ranking = model.rank(X, k)
    pairs = zip(ranking.labels[0].tolist(), ranking.scores[0].tolist(), strict=True)
    return {NAMES[label]: score for label, score in pairs if label >= 0}


def test_a_label_needs_all_words_of_one_of_its_names(model):
    assert set(suggest(model, "the blue boat")) == set()
    assert set(suggest(model, "a blue sea whale")) == {"whale", "sea"}, "names are found in any order, with gaps"
    assert set(suggest(model, "a quota")) == set(), "cod is missing"


def test_the_score_is_the_sum_of_the_values_of_the_words_of_the_best_name(model):
    text = corpus().text
    row = dict(zip(text.terms_, text.transform(["cod quota court"]).toarray()[0], strict=True))
    found = suggest(model, "cod quota court")
    assert found["fishing"] == pytest.approx(row["cod"] + row["quota"]), "the longer name counts"
    assert found["law"] == pytest.approx(row["court"])


def test_labels_without_a_training_row_are_ranked_and_others_are_not_learned(model):
    assert model.label_counts_.tolist() == [90, 30, 30, 0, 0]
    assert set(suggest(model, "the blue whale")) == {"whale"}
    assert "food" not in suggest(model, "milk"), "milk occurs in the rows of food only, and is no name of it"


def test_stems_are_compared_if_the_text_features_stem():
    stemmed = corpus(stemmer="english")
    found = Lexical().fit(stemmed).rank(stemmed.text.transform(["whale watching"]), 1)
    assert found.labels.tolist() == [[3]], "the name is whales"


def test_a_large_batch_is_the_same_as_rows_one_by_one(model, monkeypatch):
    X = corpus().X
    together = model.rank(X, 3)
    monkeypatch.setattr("unmissed.models.lexical._CELLS", 3)
    parts = model.rank(X, 3)
    assert np.array_equal(parts.labels, together.labels)
    assert np.array_equal(parts.scores, together.scores)
    assert np.array_equal(model.rank(X[3], 3).labels[0], together.labels[3])


def test_an_ensemble_with_it_suggests_what_no_classifier_has_seen(tmp_path):
    dataset = corpus()
    both = Ensemble(members=(DiSMEC(n_jobs=1), Lexical()), n_jobs=1)
    run = train(both, dataset, tmp_path / "both")
    run.model.weights_ = np.array([0.5, 0.5])  # the choice of weights is tested elsewhere
    found = run.rank(["the blue whale and a judge"], 5).labels[0]
    assert {1, 3} <= set(found.tolist())
    assert open_run(tmp_path / "both").model.ranks_untrained
    assert not DiSMEC().ranks_untrained
    single = DiSMEC(n_jobs=1).fit(dataset).rank(dataset.X, 5).labels
    assert not np.isin(single, [3, 4]).any()


@pytest.mark.parametrize(
    "damage",
    [
        {"labels": np.array([1, 0], np.int32)},
        {"labels": np.array([0, 9], np.int32)},
        {"words": np.array([0, 99, 1], np.int32)},
        {"words": np.array([2, 1, 1], np.int32)},
        {"ends": np.array([2, 9], np.int64)},
        {"ends": np.array([2], np.int64)},
    ],
)
def test_a_damaged_piece_is_refused(damage):
    sound = {"labels": np.array([0, 1], np.int32), "ends": np.array([2, 3], np.int64)}
    sound["words"] = np.array([1, 2, 1], np.int32)
    assert _read(Piece("labels/0", sound, {"n_labels": 2}), 5)[0] == 2
    with pytest.raises(InputError, match="damaged"):
        _read(Piece("labels/0", {**sound, **damage}, {"n_labels": 2}), 5)
