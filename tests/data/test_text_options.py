"""Options of texts in many languages: accents, stop words, stems, and fields with weights."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from unmissed.data import Columns, TextFeatures, load, open_store, read_texts, write_store
from unmissed.data.large_text import convert_text
from unmissed.data.readers.reader import ReadOptions
from unmissed.data.text_analysis import StemmedWords, list_stop_words, stemmer_languages, stop_word_languages
from unmissed.data.text_fields import SEPARATOR, join_fields, parse_fields
from unmissed.errors import InputError

GERMAN = ["Die Häuser der Städte", "ein Haus und eine Stadt", "Café crème für die Häuser"]


def terms(**options):
    return TextFeatures(**options).fit(GERMAN).terms_


def test_accents_are_stripped_as_scikit_learn_does():
    for kind in ("unicode", "ascii"):
        expected = TfidfVectorizer(strip_accents=kind, sublinear_tf=True).fit(GERMAN)
        assert terms(strip_accents=kind) == list(expected.get_feature_names_out())
        same = TextFeatures.from_vectorizer(expected)
        assert same.strip_accents == kind
        assert np.allclose(same.transform(GERMAN).toarray(), expected.transform(GERMAN).toarray(), atol=1e-6)
    assert "hauser" in terms(strip_accents="unicode")
    with pytest.raises(InputError, match="a function as strip_accents"):
        TextFeatures.from_vectorizer(TfidfVectorizer(strip_accents=str.lower))


def test_stop_words_are_those_of_each_named_language():
    assert {"die", "der", "und", "ein"}.isdisjoint(terms(stop_words="german"))
    assert "häuser" in terms(stop_words="german")
    both = list_stop_words("german,english")
    assert {"und", "the"} <= set(both)
    assert list_stop_words("english") == sorted(TfidfVectorizer(stop_words="english").get_stop_words())
    assert "für" in terms()
    assert "fur" not in terms(stop_words="german", strip_accents="unicode")  # the list is stripped, too


def test_words_become_stems_after_stop_words_are_dropped():
    assert terms(stemmer="german", stop_words="german", strip_accents="unicode") == ["caf", "crem", "haus", "stadt"]
    with_pairs = terms(stemmer="german", stop_words="german", ngrams=(1, 2))
    assert "haus stadt" in with_pairs  # "Häuser der Städte", "Haus und eine Stadt"


def test_stemmers_are_those_of_snowball_and_survive_pickle():
    import snowballstemmer

    for language in ("german", "finnish", "dutch_porter"):
        words = pickle.loads(pickle.dumps(StemmedWords(language, ["the"])))
        plain = snowballstemmer.stemmer(language)
        text = "the houses häuser talojen lopende"
        assert words(text) == [plain.stemWord(word) for word in text.split()[1:]]
    assert {"german", "finnish", "swedish"} <= set(stemmer_languages())
    assert {"german", "finnish", "english"} <= set(stop_word_languages())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"stemmer": "klingon"}, "no stemmer 'klingon'; known stemmers: arabic"),
        ({"stemmer": "deutsch"}, "turkish, yiddish; did you mean 'german'?"),
        ({"stemmer": "germn"}, "did you mean 'german'"),
        ({"stemmer": "german", "analyzer": "char"}, "a stemmer requires analyzer='word'"),
        ({"stop_words": "klingon"}, "no stop words for 'klingon'; known languages: arabic"),
        ({"stop_words": 7}, "stop_words must be a language or a list of words"),
        ({"strip_accents": "all"}, "strip_accents is 'all'; expected ascii, unicode"),
        ({"fields": "a:0,b"}, "expected names with integer weights from 1 to 100"),
    ],
)
def test_unknown_options_are_refused_with_what_is_known(options, what):
    with pytest.raises(InputError) as error:
        TextFeatures(**options)
    assert what in str(error.value)


def test_options_are_stored_and_transform_the_same(tmp_path):
    text = TextFeatures(stemmer="german", stop_words="german", strip_accents="unicode", fields="a:2,b")
    X = text.fit_transform([join_fields([one, "Stadt"]) for one in GERMAN])
    text.save(tmp_path / "text")
    same = TextFeatures.load(tmp_path / "text")
    assert same.options == text.options
    assert (same.transform([join_fields([one, "Stadt"]) for one in GERMAN]) != X).nnz == 0


def test_names_and_weights_of_fields_are_parsed():
    assert parse_fields("title:3,abstract:1") == (("title", 3), ("abstract", 1))
    assert parse_fields("a, b:12") == (("a", 1), ("b", 12))
    assert parse_fields("dc:title,x") == (("dc:title", 1), ("x", 1))
    assert parse_fields("title:3") == (("title:3", 1),)  # one column, whatever its name
    for wrong in ("a,a", "a:101,b", ",b", "a:99999,b", ",".join(map(str, range(30)))):
        with pytest.raises(InputError, match="text column"):
            parse_fields(wrong)


def test_a_term_of_a_field_counts_as_often_as_its_weight_says():
    text = TextFeatures(fields="title:3,body:1", ngrams=(1, 2), sublinear=False, smooth=True)
    text.fit([join_fields(["cod net", "net law"]), "law"])
    assert "net net" not in text.terms_  # n-grams do not cross fields
    row = text.transform([join_fields(["cod net", "net law"])])
    counts = dict(zip(text.terms_, (row.toarray()[0] / text.idf_).tolist(), strict=True))
    assert counts["net"] / counts["law"] == pytest.approx(4)
    assert counts["cod"] / counts["law"] == pytest.approx(3)
    with pytest.raises(InputError, match="a text of 3 fields; the text features were fitted on 2"):
        text.transform([SEPARATOR.join("abc")])


def rows(folder, *, suffix):
    table = [("Cod", "the net", "fish"), ("Law", None, "law"), (None, "cod and law", "fish;law")]
    path = folder / f"rows{suffix}"
    if suffix == ".jsonl":
        objects = [
            {**({"title": title} if title else {}), "body": body, "labels": labels.split(";")}
            for title, body, labels in table
        ]
        path.write_text("".join(json.dumps(one) + "\n" for one in objects))
        return path
    frame = pd.DataFrame(table, columns=["title", "body", "labels"])
    if suffix == ".parquet":
        frame.to_parquet(path)
        return path
    if suffix == ".csv":
        frame.to_csv(path, index=False)
        return path
    return frame


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", "frame"])
def test_fields_are_read_from_every_table_and_may_be_empty(suffix, tmp_path):
    columns = Columns(text="title:2,body")
    source = rows(tmp_path, suffix=suffix)
    assert read_texts(source, columns=columns) == [
        f"Cod{SEPARATOR}the net", f"Law{SEPARATOR}", f"{SEPARATOR}cod and law",
    ]  # fmt: skip
    dataset = load(source, columns=columns)
    assert dataset.text.fields == "title:2,body"
    assert dataset.digest == load(rows(tmp_path, suffix=".jsonl"), columns=columns).digest


def test_a_row_without_any_of_the_fields_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"title": "x", "labels": []}\n{"labels": []}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: has none of the text columns 'title', 'body'"):
        load(tmp_path / "a.jsonl", columns=Columns(text="title,body"))
    (tmp_path / "b.jsonl").write_text('{"title": 7, "labels": []}\n')
    with pytest.raises(InputError, match=r"b\.jsonl:1: expected 'title' to be a string, found a number"):
        load(tmp_path / "b.jsonl", columns=Columns(text="title,body"))
    (tmp_path / "c.csv").write_text("title,labels\nx,y\n")
    with pytest.raises(InputError, match=r"no column 'body'; .*--text-column names one"):
        load(tmp_path / "c.csv", columns=Columns(text="title,body"))


def test_conversion_in_blocks_has_the_same_options(tmp_path):
    source, columns = rows(tmp_path, suffix=".jsonl"), Columns(text="title:2,body")
    text = TextFeatures(stemmer="english", strip_accents="ascii")
    write_store(load(source, columns=columns, text=text), tmp_path / "loaded")
    convert_text(source, tmp_path / "converted", text=text, options=ReadOptions(columns=columns), n_jobs=2)
    assert open_store(tmp_path / "loaded").digest == open_store(tmp_path / "converted").digest
    assert open_store(tmp_path / "converted").text.options == open_store(tmp_path / "loaded").text.options
    assert text.fields is None  # the caller's options do not change
