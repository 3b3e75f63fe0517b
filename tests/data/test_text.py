"""TextFeatures: TF-IDF learned on the training text alone."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from unmissed.data import TextFeatures
from unmissed.data.term_weights import weigh_terms
from unmissed.errors import InputError

TRAIN = ["the cat sat on the mat", "the dog ate the cat", "a bird ate", "dog dog DOG bird", ""]
TEST = ["the the unicorn cat", "bird dog", "unicorn"]


def naive(train: list[str], texts: list[str]) -> tuple[list[str], np.ndarray]:
    """(1 + ln count) ln(N / df), L2-normalized rows, word by word."""
    words = [[word for word in text.lower().split() if len(word) > 1] for text in train]
    terms = sorted({word for row in words for word in row})
    rows = []
    for text in texts:
        found = [word for word in text.lower().split() if len(word) > 1]
        row = []
        for term in terms:
            count = found.count(term)
            df = sum(term in other for other in words)
            row.append((1 + math.log(count)) * math.log(len(train) / df) if count else 0.0)
        length = math.sqrt(sum(value**2 for value in row))
        rows.append([value / length if length else 0.0 for value in row])
    return terms, np.array(rows)


def test_features_equal_the_formula_computed_word_by_word():
    text = TextFeatures()
    X = text.fit_transform(TRAIN)
    terms, expected = naive(TRAIN, TRAIN)
    assert text.terms_ == terms
    np.testing.assert_allclose(X.toarray(), expected, rtol=1e-6)
    np.testing.assert_allclose(text.transform(TEST).toarray(), naive(TRAIN, TEST)[1], rtol=1e-6)


def test_rows_are_canonical_and_l2_normalized_or_empty():
    X = TextFeatures().fit_transform(TRAIN)
    assert isinstance(X, sparse.csr_matrix)
    assert X.dtype == np.float32
    X.check_format(full_check=True)
    assert X.has_canonical_format
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)).A1, [1, 1, 1, 1, 0], rtol=1e-6)


def test_the_test_texts_teach_nothing():
    text = TextFeatures().fit(TRAIN)
    single = text.transform(TEST[:1])
    together = text.transform(TEST)[:1]
    assert single.data.tobytes() == together.data.tobytes()


def test_smooth_equals_scikit_learn():
    options = {"min_df": 2, "max_features": 3}
    expected = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)
    text = TextFeatures(smooth=True, **options)
    np.testing.assert_allclose(
        text.fit_transform(TRAIN).toarray(), expected.fit_transform(TRAIN).toarray(), rtol=1e-6, atol=1e-7
    )
    assert text.terms_ == expected.get_feature_names_out().tolist()
    np.testing.assert_allclose(text.transform(TEST).toarray(), expected.transform(TEST).toarray(), rtol=1e-6, atol=1e-7)


def test_a_word_in_every_document_has_weight_zero():
    text = TextFeatures()
    X = text.fit_transform(["same one", "same two"])
    assert text.terms_ == ["one", "same", "two"]
    assert X.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert X.nnz == 2


def test_ngrams_min_df_and_max_features_choose_the_terms():
    assert TextFeatures(ngrams=(2, 2)).fit(["one two three"]).terms_ == ["one two", "two three"]
    assert TextFeatures(min_df=3).fit([*TRAIN, "dog"]).terms_ == ["dog"]
    assert TextFeatures(max_features=2).fit(TRAIN).terms_ == ["dog", "the"]


@pytest.mark.parametrize("options", [{}, {"min_df": 2}, {"max_features": 2}, {"ngrams": (1, 2)}])
def test_counting_terms_equals_fitting(options):
    assert TextFeatures(**options).count_terms(TRAIN) == len(TextFeatures(**options).fit(TRAIN).terms_)


@pytest.mark.parametrize("options", [{}, {"ngrams": (1, 2), "min_df": 2, "max_features": 4, "smooth": True}])
def test_saved_and_loaded_features_transform_bit_for_bit_alike(tmp_path, options):
    train = [*TRAIN, "Größe naïve 日本語"]
    text = TextFeatures(**options).fit(train)
    text.save(tmp_path / "text")
    again = TextFeatures.load(tmp_path / "text", verify=True)
    assert again.options == text.options
    assert again.terms_ == text.terms_
    one, other = text.transform(train + TEST), again.transform(train + TEST)
    assert one.data.tobytes() == other.data.tobytes()
    assert one.indices.tobytes() == other.indices.tobytes()


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=4), longest=st.integers(1, 3))
@example(texts=["İstanbul l'été ﬁne_print 3,5 co-op", "a\u0301a b", "Straße_1 ΟΔΟΣ"], longest=2)
def test_terms_are_found_and_counted_as_scikit_learn_does(texts, longest):
    text = TextFeatures(ngrams=(1, longest), unicode_normalization="none")
    counter = CountVectorizer(ngram_range=(1, longest), dtype=np.float32)
    try:
        expected = counter.fit_transform([*texts, "known word"])
    except ValueError:
        return
    text.set_terms(counter.get_feature_names_out(), np.ones(expected.shape[1], np.float32))
    found = text.transform([*texts, "known word"])
    assert (found != weigh_terms(expected, text.idf_)).nnz == 0
    assert text.fit([*texts, "known word"]).terms_ == counter.get_feature_names_out().tolist()


def test_a_second_fit_replaces_the_vocabulary():
    text = TextFeatures().fit(TRAIN)
    assert text.transform(TEST).shape == (3, len(text.terms_))
    assert text.fit(["other words", "more"]).transform(["words cat"]).toarray().tolist() == [[0, 0, 1]]
    assert text.get_feature_names_out().tolist() == ["more", "other", "words"]


def test_it_is_a_transformer_in_pipelines_and_columns():
    assert isinstance(TextFeatures(), TransformerMixin)
    with pytest.raises(NotFittedError):
        TextFeatures().get_feature_names_out()
    frame = pd.DataFrame({"title": TRAIN, "body": TRAIN[::-1], "size": range(5)})
    columns = ColumnTransformer(
        [("title", TextFeatures(), "title"), ("body", TextFeatures(ngrams=(1, 2)), "body")], sparse_threshold=1
    )
    X = columns.fit_transform(frame)
    parts = [TextFeatures().fit(TRAIN), TextFeatures(ngrams=(1, 2)).fit(TRAIN)]
    expected = sparse.hstack([parts[0].transform(TRAIN), parts[1].transform(TRAIN[::-1])])
    assert (expected != X).nnz == 0
    names = [f"title__{term}" for term in parts[0].terms_] + [f"body__{term}" for term in parts[1].terms_]
    assert columns.get_feature_names_out().tolist() == names
    pipeline = Pipeline([("text", TextFeatures()), ("scale", MaxAbsScaler())]).fit(TRAIN)
    assert pipeline.get_feature_names_out().tolist() == parts[0].terms_


def test_a_clone_has_the_parameters_and_no_vocabulary():
    text = TextFeatures(ngrams=(1, 2), stop_words=["cat"]).fit(TRAIN)
    again = clone(text)
    assert again.get_params() == text.get_params()
    assert not hasattr(again, "terms_")
    assert repr(again) == "TextFeatures(ngrams=(1, 2), stop_words=['cat'])"
    with pytest.raises(InputError, match="analyzer is 'sentence'"):
        again.set_params(analyzer="sentence").fit(TRAIN)


def test_progress_is_reported():
    calls = []
    TextFeatures().fit(TRAIN * 200, progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (0, 1000)
    assert len(calls) > 2


@pytest.mark.parametrize("options", [{"ngrams": (0, 1)}, {"ngrams": (2, 1)}, {"min_df": 0}, {"max_features": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError, match="expected"):
        TextFeatures(**options)


def test_nothing_to_learn_is_an_error_that_says_so(tmp_path):
    with pytest.raises(InputError, match="no terms to learn from 2 texts"):
        TextFeatures().fit(["", "a"])
    with pytest.raises(InputError, match="min_df=9"):
        TextFeatures(min_df=9).fit(TRAIN)
    with pytest.raises(NotFittedError):
        TextFeatures().transform(TRAIN)
    with pytest.raises(NotFittedError):
        TextFeatures().save(tmp_path / "text")
    with pytest.raises(InputError, match="not a text features folder"):
        TextFeatures.load(tmp_path)


def test_a_single_text_is_no_list_of_texts():
    with pytest.raises(InputError, match="put a single one into a list"):
        TextFeatures().fit(TRAIN).transform(TRAIN[0])
