"""Words, characters and stop words, as scikit-learn counts them, and vectorizers that are rebuilt or refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts
from unmissed import DiSMEC, open_run
from unmissed.data import TextFeatures, load
from unmissed.data.large_text import convert_text
from unmissed.data.store import open_store
from unmissed.errors import InputError
from unmissed.runs import save

TEXTS = ["The cat sat  on the mat", "the Dog ate the cat", "a bird  ate\nit", "dog dog DOG bird"]
WAYS = [
    {"analyzer": "char", "ngram_range": (2, 4)},
    {"analyzer": "char_wb", "ngram_range": (1, 5)},
    {"analyzer": "word", "ngram_range": (2, 3)},
    {"stop_words": "english", "ngram_range": (1, 2)},
    {"stop_words": ["cat", "the"], "ngram_range": (1, 2), "lowercase": False},
    {"sublinear_tf": True, "min_df": 2},
    {"max_features": 3},
]


@pytest.mark.parametrize("way", [{**way, **case} for way in WAYS[:4] for case in ({}, {"lowercase": False})])
@settings(max_examples=25, deadline=None)
@given(text=st.text(st.sampled_from("aB ä9_\n\t.'the")) | st.text())
def test_terms_are_those_of_scikit_learn(way, text):
    analyze = CountVectorizer(**way).build_analyzer()
    names = {"ngrams": way["ngram_range"], **{name: one for name, one in way.items() if name != "ngram_range"}}
    assert sorted(TextFeatures(**names).build_analyzer()(text)) == sorted(analyze(text))


@pytest.mark.parametrize("way", WAYS)
def test_a_vectorizer_is_rebuilt_fitted_or_not(way, tmp_path):
    vectorizer = TfidfVectorizer(**way)
    expected = vectorizer.fit_transform(TEXTS).toarray()
    learned = TextFeatures.from_vectorizer(TfidfVectorizer(**way)).fit(TEXTS)
    taken = TextFeatures.from_vectorizer(vectorizer)
    assert learned.terms_ == taken.terms_ == vectorizer.get_feature_names_out().tolist()
    for text in (learned, taken):
        np.testing.assert_allclose(text.transform(TEXTS).toarray(), expected, rtol=1e-5, atol=1e-7)
    taken.save(tmp_path / "text")
    opened = TextFeatures.load(tmp_path / "text")
    assert (opened.transform(TEXTS) != taken.transform(TEXTS)).nnz == 0
    assert opened.options == taken.options


@pytest.mark.parametrize(
    ("vectorizer", "what"),
    [
        (TfidfVectorizer(tokenizer=str.split, token_pattern=None), "tokenizer=.* a function cannot be stored"),
        (TfidfVectorizer(analyzer=str.split), "a custom analyzer"),
        (TfidfVectorizer(token_pattern=r"(a+)+b"), "token_pattern=.* could take forever"),
        (TfidfVectorizer(norm=None), "norm=None cannot be described: rows are L2-normalized"),
        (TfidfVectorizer(min_df=0.1), "a fraction as min_df"),
        (TfidfVectorizer(max_df=0.5), "max_df=0.5"),
        (TfidfVectorizer(smooth_idf=False), "smooth_idf=False"),
        (TfidfVectorizer(vocabulary=["a"]), "vocabulary=.*the vocabulary is learned"),
        (HashingVectorizer(), "a HashingVectorizer cannot be described"),
        (CountVectorizer(), "a CountVectorizer cannot be described"),
        (3, "a int cannot be described"),
    ],
)
def test_a_vectorizer_that_cannot_be_described_is_refused_with_the_reason(vectorizer, what):
    with pytest.raises(InputError, match=what):
        TextFeatures.from_vectorizer(vectorizer)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"analyzer": "sentence"}, "analyzer is 'sentence'; expected word, char, char_wb"),
        ({"analyzer": "char", "stop_words": "english"}, "stop words require analyzer='word'"),
        ({"stop_words": "klingon"}, "no stop words for 'klingon'"),
        ({"stop_words": [3]}, "a language or a list of words"),
        ({"analyzer": "char", "ngrams": (1, 33)}, "at most 32 characters"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, what):
    with pytest.raises(InputError, match=what):
        TextFeatures(**options)


def test_options_of_before_are_written_as_before_and_later_ones_where_they_differ():
    first = {"ngrams": [1, 1], "min_df": 1, "max_features": None, "smooth": False}
    assert TextFeatures(unicode_normalization="none").options == {**first, "unicode_normalization": "none"}
    assert TextFeatures().options == first
    later = TextFeatures(analyzer="char", sublinear=False).options
    assert {name: later[name] for name in ("analyzer", "sublinear")} == {"analyzer": "char", "sublinear": False}
    english = TextFeatures(stop_words="english").options["stop_words"]
    assert "the" in english, "the words themselves: who opens the run need not have scikit-learn's list"


def test_setting_other_stop_words_forgets_the_old_ones():
    text = TextFeatures(stop_words=["cat"])
    assert text.build_analyzer()("cat mat") == ["mat"]
    assert text.set_params(stop_words=["mat"]).build_analyzer()("cat mat") == ["cat"]


def test_stop_words_that_are_no_terms_are_ignored_without_a_warning():
    text = TextFeatures(stop_words=["don't", "The", "cat", "a"])
    assert text.fit(["The cat don't sit"]).terms_ == ["don", "sit", "the"]
    assert text.options["stop_words"] == ["The", "a", "cat", "don't"]


def test_a_pipeline_with_a_vectorizer_becomes_a_run(tmp_path):
    tags = [["pets"], ["pets", "food"], ["food"], ["pets"]]
    pipeline = Pipeline([("text", TfidfVectorizer()), ("model", DiSMEC(n_jobs=1))]).fit(TEXTS, tags)
    save(pipeline, tmp_path / "run")
    run = open_run(tmp_path / "run")
    expected = pipeline[-1].rank(pipeline[:-1].transform(["dog and cat"]), 2)
    found = run.rank(["dog and cat"], 2)
    assert found.labels.tolist() == expected.labels.tolist()
    assert found.scores == pytest.approx(expected.scores, abs=1e-5)
    other = Pipeline([("text", HashingVectorizer()), ("model", DiSMEC(n_jobs=1))]).fit(TEXTS, tags)
    with pytest.raises(InputError, match="HashingVectorizer cannot be described"):
        save(other, tmp_path / "other")


def test_load_and_blocks_take_the_same_options(tmp_path):
    source = write_texts(tmp_path / "train.jsonl")
    text = TextFeatures(analyzer="char_wb", ngrams=(2, 3), sublinear=False, smooth=True)
    loaded = load(source, text=TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)))
    convert_text(source, tmp_path / "store", text=text)
    assert loaded.digest == open_store(tmp_path / "store").digest == load(source, text=text).digest


def test_the_shell_takes_them_and_remembers_them(tmp_path, capsys):
    source = write_texts(tmp_path / "train.jsonl")
    (tmp_path / "stop.txt").write_text("the\nof\n")
    words = ["train", "dismec", source, "--jobs", 1, "--run"]
    said(capsys, *words, tmp_path / "a", "--stop-words", tmp_path / "stop.txt", "--ngrams", "1-2")
    text = open_run(tmp_path / "a").text
    assert (text.ngrams, sorted(text.stop_words)) == ((1, 2), ["of", "the"])
    assert "the" not in text.terms_
    said(capsys, *words, tmp_path / "b", "--analyzer", "char", "--ngrams", "3-4")
    assert {len(term) for term in open_run(tmp_path / "b").text.terms_} == {3, 4}
    found = json.loads(said(capsys, "data", "stats", source, "--stop-words", "english", "--ngrams", 2, "--json"))
    assert found["n_features"] == load(source, text=TextFeatures(stop_words="english", ngrams=(1, 2))).n_features
    assert "--ngrams must be N or M-N" in refused(capsys, *words, tmp_path / "c", "--ngrams", "2-")
    assert "no such file" in refused(capsys, *words, tmp_path / "c", "--stop-words", tmp_path / "none")
    assert "analyzer is 'sentence'" in refused(capsys, *words, tmp_path / "c", "--analyzer", "sentence")
