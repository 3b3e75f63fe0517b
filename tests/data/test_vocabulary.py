"""Vocabularies: every format gives the same concepts, a stored one is the one that was read, damage is refused."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.archive import open_archive
from unmissed.data import Concept, Dataset, TextFeatures, Vocabulary, read_vocabulary
from unmissed.data.checks import check_vocabulary
from unmissed.data.label_terms import find_label_terms
from unmissed.data.vocabulary import KIND
from unmissed.errors import InputError

SKOS = "http://www.w3.org/2004/02/skos/core#"
TURTLE = f"""
@prefix skos: <{SKOS}> . @prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix e: <http://e/> .
e:1 a skos:Concept ; skos:prefLabel "Fisch"@de, "fish"@en ; skos:altLabel "Speisefisch"@de ; skos:notation "A1" .
e:2 a skos:Concept ; skos:prefLabel "Hering"@de-AT, "herring"@en ; skos:broader e:1, e:9 .
e:3 a skos:Concept ; skos:prefLabel "Kabeljau"@de ; skos:hiddenLabel "Dorsch"@de ; owl:deprecated true .
e:1 skos:narrower e:3 .
"""
TABLE = """uri,label_de,label_en,alt_label_de,notation,broader,deprecated
<http://e/1>,Fisch,fish,Speisefisch,A1,,
http://e/2,,herring,,,http://e/1 http://e/9,false
http://e/3,Kabeljau,,Dorsch,,http://e/1,true
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same vocabulary in every format."""
    from rdflib import Graph

    folder = tmp_path_factory.mktemp("vocabularies")
    graph = Graph().parse(data=TURTLE, format="turtle")
    for suffix, syntax in (("ttl", "turtle"), ("rdf", "xml"), ("jsonld", "json-ld"), ("nt", "nt")):
        (folder / f"fish.{suffix}").write_bytes(graph.serialize(format=syntax, encoding="utf-8"))
    (folder / "fish.ttl.gz").write_bytes(gzip.compress((folder / "fish.ttl").read_bytes()))
    (folder / "fish.csv").write_text(TABLE, encoding="utf-8")
    (folder / "fish.tsv").write_text("<http://e/1>\tFisch\tA1\nhttp://e/2\tHering\n\nhttp://e/1\tSpeisefisch\n")
    return folder


@pytest.mark.parametrize("suffix", ["ttl", "rdf", "jsonld", "nt", "ttl.gz"])
def test_every_syntax_of_skos_gives_the_same_concepts(files, suffix):
    found = read_vocabulary(files / f"fish.{suffix}", language="de")
    assert found.uris == ["http://e/1", "http://e/2", "http://e/3"]
    assert found.titles == ["Fisch", "Hering", "Kabeljau"], "de-AT is German"
    assert found.notations == ["A1", "", ""]
    assert found.deprecated.tolist() == [False, False, True]
    assert found.broader.tolist() == [[1, 0], [2, 0]], "narrower is the inverse of broader; http://e/9 is unknown"
    assert found.forms(0) == ["Fisch", "Speisefisch"]
    assert found.forms(2) == ["Kabeljau", "Dorsch"]


def test_titles_fall_back_to_other_languages_and_forms_do_not(files):
    english = read_vocabulary(files / "fish.ttl", language="EN")
    assert english.titles == ["fish", "herring", "Kabeljau"]
    assert english.forms(2) == []
    every = read_vocabulary(files / "fish.ttl")
    assert every.titles == ["fish", "herring", "Kabeljau"], "English before others"
    assert set(every.forms(0)) == {"Fisch", "fish", "Speisefisch"}
    with pytest.raises(InputError, match=r"no label in the language 'fi'; its languages are de, de-at, en"):
        read_vocabulary(files / "fish.ttl", language="fi")


def test_tables_are_those_of_annif_with_further_columns(files):
    found = read_vocabulary(files / "fish.csv", language="de")
    assert found.titles == ["Fisch", "herring", "Kabeljau"]
    assert (found.uris[0], found.notations[0], found.forms(0)) == ("http://e/1", "A1", ["Fisch", "Speisefisch"])
    assert found.broader.tolist() == [[1, 0], [2, 0]]
    assert found.deprecated.tolist() == [False, False, True]
    lines = read_vocabulary(files / "fish.tsv")
    assert (lines.titles, lines.notations) == (["Fisch", "Hering"], ["A1", ""])
    assert lines.forms(0) == ["Fisch", "Speisefisch"], "a further line is an alternative label"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "http://e/1\n", r"a.tsv:1: expected an identifier, a tab and a label"),
        ("a.tsv", "", r"empty|no concepts"),
        ("a.csv", "id,label\n1,x\n", r"a.csv:1: expected the columns uri and label"),
        ("a.csv", "uri,label\n1\n", r"a.csv:2: 1 fields; the first line has 2"),
        ("a.csv", "uri,label\n1,\n", r"a.csv:2: expected an identifier and a label"),
        ("a.csv", "uri,label,deprecated\n1,x,maybe\n", r"a.csv:2: deprecated is 'maybe'; expected true or false"),
        ("a.csv", "uri,label\n1,x\n1,y\n", r"a.csv: the concept '1' occurs twice"),
        ("a.csv", 'uri,label\n1,"x\n', r"a.csv:\d: a record cannot be read"),
        ("a.ttl", "no turtle", r"a.ttl: not readable as turtle: "),
        ("a.ttl", "@prefix e: <http://e/> .\n", r"a.ttl: holds no concepts"),
        (
            "a.jsonld",
            '{"@context": "http://e/context"}',
            r"refers to the context 'http://e/context', which is not",
        ),
        ("a.jsonld", '[{"x": {"@context": {"@import": "http://e/c"}}}]', r"refers to the context 'http://e/c'"),
        ("a.jsonld", "{", r"a.jsonld:1:2: not readable as JSON"),
        ("a.rdf", '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]><r>&x;</r>', r"entities that are files"),
        ("a.rdf", '<!DOCTYPE r [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><r/>', r"entities that are files or nested"),
        ("a.docx", "", r"no format of vocabularies has the suffix '.docx'; known: .tsv, .tab, .csv, .rdf"),
    ],
)
def test_files_that_are_no_vocabularies_are_refused_with_what_is_wrong(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_vocabulary(tmp_path / name)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"none.ttl: no such file"):
        read_vocabulary(tmp_path / "none.ttl")


def test_a_stored_vocabulary_is_the_same_and_damage_is_refused(files, tmp_path):
    found = read_vocabulary(files / "fish.ttl", language="de")
    found.save(tmp_path / "stored")
    found.save(tmp_path / "stored")  # the same one is kept
    with pytest.raises(InputError):
        found.in_language("en").save(tmp_path / "stored")
    metadata, arrays = open_archive(tmp_path / "stored", KIND)
    again = Vocabulary.from_arrays(metadata["language"], arrays, "stored")
    assert (again.titles, again.uris, again.language) == (found.titles, found.uris, "de")
    assert [again.forms(one) for one in range(3)] == [found.forms(one) for one in range(3)]
    for name, array in (
        ("concepts", np.array([0, 0, 0, 0, 1, 1, 7], np.int32)[: arrays["concepts"].size]),
        ("languages", np.full_like(arrays["languages"], 9)),
        ("broader", np.array([[1, 5]], np.int32)),
        ("broader", np.zeros(3, np.int32)),
        ("deprecated", arrays["deprecated"][:1]),
    ):
        with pytest.raises(InputError, match="stored: not readable as a vocabulary"):
            Vocabulary.from_arrays(None, {**arrays, name: array}, "stored")


def small(names=("http://e/1", "http://e/3", "x")):
    """A data set of two texts."""
    text = TextFeatures()
    X = text.fit_transform(["der fisch und der hering", "dorsch"])
    Y = sp.csr_matrix(np.array([[1, 0, 1], [0, 1, 0]], np.float32))
    return Dataset(X, Y, list(names), text.terms_, text)


def test_labels_get_titles_and_concepts_without_rows_become_labels(files):
    vocabulary = read_vocabulary(files / "fish.ttl", language="de")
    named = small().with_vocabulary(vocabulary)
    assert (named.label_names, named.label_titles) == (["http://e/1", "http://e/3", "x"], ["Fisch", "Kabeljau", "x"])
    every = small().with_vocabulary(vocabulary, unseen=True)
    assert every.label_names == ["http://e/1", "http://e/3", "x", "http://e/2"]
    assert every.label_titles[-1] == "Hering"
    assert every.label_counts.tolist() == [1, 1, 1, 0]
    assert every.source_digest == small().digest != every.digest
    without = small(("http://e/2", "y", "x")).with_vocabulary(vocabulary, unseen=True)
    assert without.label_names == ["http://e/2", "y", "x", "http://e/1"], "deprecated concepts are not added"
    assert check_vocabulary(every) == [
        "1 labels (1 assignments) are not in the vocabulary: 'x'",
        "1 labels (1 assignments) are deprecated in the vocabulary: 'http://e/3'",
    ]
    with pytest.raises(
        InputError, match=r"none of the 3 labels .* the first label is 'a', the first concept 'http://e/1'"
    ):
        small(("a", "b", "c")).with_vocabulary(vocabulary)


def test_names_are_sets_of_words_that_are_features(files):
    vocabulary = read_vocabulary(files / "fish.ttl", language="de")
    dataset = small().with_vocabulary(vocabulary, unseen=True)
    terms = find_label_terms(dataset)
    words = [[dataset.feature_names[one] for one in row.indices] for row in terms.forms]
    assert list(zip(terms.labels.tolist(), words, strict=True)) == [(0, ["fisch"]), (1, ["dorsch"]), (3, ["hering"])]
    assert terms.among(np.array([1, 3])).labels.tolist() == [0, 1]


def test_text_features_keep_the_words_of_names_whatever_min_df_says():
    texts = ["cod cod net", "cod net quota", "cod judge"]
    text, plain = TextFeatures(min_df=2), TextFeatures(min_df=2)
    X, expected = text.fit_transform(texts, words=["quota", "whale"]), plain.fit_transform(texts)
    assert text.terms_ == ["cod", "net", "quota", "whale"]
    assert text.idf_ == pytest.approx(np.log([1, 1.5, 3, 3]).astype(np.float32))
    assert X[:, 1].toarray().ravel()[0] == expected[:, 1].toarray().ravel()[0] == 1
    assert text.transform(["the whale"]).toarray().tolist() == [[0, 0, 0, 1]]
    most = TextFeatures(max_features=1)
    most.fit_transform(texts, words=["whale"])
    assert most.terms_ == ["cod", "whale"]


def test_a_concept_in_memory_needs_a_label():
    with pytest.raises(InputError, match="the concept 'a' has no label"):
        Vocabulary.of([Concept("a", {"de": " "})])
    assert json.dumps(Vocabulary.of([Concept("a", {}, [("de", "b")])]).titles) == '["b"]'
