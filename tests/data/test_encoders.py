"""Encoders: embeddings of texts by a function, and the files of a model; no model is loaded here."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from tests.runs.corpora import tree_bytes, write_texts
from unmissed import DiSMEC
from unmissed.data import TextFeatures, load, open_store, save, write_store
from unmissed.data.encoders import BLOCK, EncoderIdentity, SentenceEncoder, digest_folder, embed, find_model_folder
from unmissed.data.large_text import convert_text
from unmissed.data.survey import survey
from unmissed.errors import InputError
from unmissed.features import Features

IDENTITY = EncoderIdentity("tiny", "0" * 64, 3, 8, "mean")


def encode(texts):
    """Return three numbers per text that do not depend on the other texts."""
    return np.array([[len(text), text.count("o"), 1] for text in texts], dtype=np.float32)


def test_text_features_have_the_words_and_the_embeddings():
    texts = ["cod and bread", "court of law", ""]
    text = TextFeatures(encoder=encode)
    both = text.fit_transform(texts)
    assert isinstance(both, Features)
    words = TextFeatures().fit(texts)
    assert (both.sparse != words.transform(texts)).nnz == 0
    np.testing.assert_array_equal(both.dense, encode(texts))
    np.testing.assert_array_equal(text.transform(["milk"]).dense, encode(["milk"]))
    assert sparse.issparse(text.without_encoder().transform(texts))
    assert text.transform([]).shape[0] == 0


def test_a_function_is_not_stored():
    text = TextFeatures(encoder=encode).fit(["cod", "law"])
    assert "encoder" not in text.options
    assert TextFeatures.from_arrays(text.options, text.to_arrays(), "here").encoder is None


def test_clones_keep_the_encoder():
    assert clone(TextFeatures(encoder=encode)).encoder is not None
    stored = SentenceEncoder.stored(IDENTITY, "here")
    assert clone(TextFeatures(encoder=stored)).encoder is stored


def test_blocks_of_texts_give_the_embeddings_of_all_of_them_in_order():
    texts = [f"text {'o' * (number % 7)}" for number in range(2 * BLOCK + 5)]
    seen, sizes = [], []

    def count(block):
        sizes.append(len(block))
        return encode(block)

    found = np.concatenate(list(embed(texts, count, n_texts=len(texts), progress=lambda *now: seen.append(now))))
    np.testing.assert_array_equal(found, encode(texts))
    assert sizes == [BLOCK, BLOCK, 5]
    assert seen == [(BLOCK, len(texts)), (2 * BLOCK, len(texts)), (len(texts), len(texts))]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda texts: encode(texts)[:-1], "expected numbers, one row for each of 2 texts"),
        (lambda texts: encode(texts)[0], "expected numbers, one row for each of 2 texts"),
        (lambda texts: np.array([["a"], ["b"]]), "expected numbers, one row for each of 2 texts"),
        (lambda texts: np.zeros((2, 0)), "expected numbers, one row for each of 2 texts"),
        (lambda texts: encode(texts) * np.array([[1], [np.nan]]), "the embedding of text 1 is not finite"),
    ],
)
def test_an_encoder_that_returns_something_else_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        TextFeatures(encoder=wrong).fit_transform(["one", "two"])


def test_an_encoder_that_changes_its_mind_is_refused():
    texts = ["text"] * (BLOCK + 1)
    with pytest.raises(InputError, match="1 numbers per text; expected 128 as before"):
        list(embed(texts, lambda block: np.ones((len(block), len(block)))))


def test_other_things_are_no_encoder_and_no_text():
    with pytest.raises(InputError, match="encoder must be a name, a folder or a function; got int"):
        TextFeatures(encoder=7)
    with pytest.raises(InputError, match="text 1 is a int; expected a string"):
        TextFeatures(encoder=encode).fit_transform(["one", 2])


def test_a_store_converted_in_blocks_is_the_one_of_load_and_save(tmp_path, monkeypatch):
    monkeypatch.setattr("unmissed.settings.SETTINGS.text_block", 500)  # many blocks, unlike those of embeddings
    source = write_texts(tmp_path / "train.jsonl", n=BLOCK + 40)
    direct = load(source, text=TextFeatures(encoder=encode))
    assert direct.n_dense == 3
    assert direct.origin is None  # a function cannot be called again by whoever opens the run
    write_store(direct, tmp_path / "direct")
    convert_text(source, tmp_path / "blocks", text=TextFeatures(encoder=encode))
    assert tree_bytes(tmp_path / "blocks") == tree_bytes(tmp_path / "direct")
    test = write_texts(tmp_path / "test.jsonl", n=9, seed=1)
    rows = load(test, like=direct)
    convert_text(test, tmp_path / "like", like=direct)
    assert open_store(tmp_path / "like").digest == rows.digest
    assert rows.n_dense == 3


def test_dense_features_and_an_encoder_exclude_each_other_in_training_only(tmp_path):
    source, E = write_texts(tmp_path / "train.jsonl", n=5), np.full((5, 3), 2.0, np.float32)
    for call in (
        lambda: load(source, text=TextFeatures(encoder=encode), dense=E),
        lambda: convert_text(source, tmp_path / "store", text=TextFeatures(encoder=encode), dense=E),
    ):
        with pytest.raises(InputError, match="give one of them"):
            call()
    fitted = TextFeatures(encoder=encode).fit(["cod bread", "court"])
    np.testing.assert_array_equal(load(source, text=fitted, dense=E).dense, E)


def test_formats_without_a_dense_part_are_refused(tmp_path):
    rows = load(write_texts(tmp_path / "train.jsonl", n=5), text=TextFeatures(encoder=encode))
    with pytest.raises(InputError, match="holds no dense features"):
        save(rows, tmp_path / "train.txt")


def test_a_survey_counts_the_embeddings_of_a_stored_encoder_without_loading_it(tmp_path):
    source = write_texts(tmp_path / "train.jsonl", n=20)
    text = TextFeatures(encoder=SentenceEncoder.stored(IDENTITY, "here"))
    assert survey(source, text=text).n_dense == 3
    assert survey(source, text=text).n_features == survey(source).n_features + 3


def test_a_pipeline_with_an_encoder_fits_and_ranks():
    texts = ["cod net", "court judge", "cod quota", "judge appeal"]
    Y = sparse.csr_matrix(np.array([[1, 0], [0, 1], [1, 0], [0, 1]]))
    pipeline = Pipeline([("text", TextFeatures(encoder=encode)), ("model", DiSMEC())]).fit(texts, Y)
    assert pipeline["model"].n_dense_in_ == 3
    assert pipeline.predict(["cod"]).shape == (1, 2)


def test_models_are_found_in_folders_and_in_installed_packages(tmp_path, monkeypatch):
    package = tmp_path / "some_tiny_model" / "model"
    package.mkdir(parents=True)
    with pytest.raises(InputError, match="is not a sentence-transformers model: it has no modules"):
        SentenceEncoder(package)
    (package / "modules.json").write_text("[]")
    assert find_model_folder(str(package)) == package.resolve()
    monkeypatch.chdir(package.parent)
    assert SentenceEncoder("model").name == str(package.resolve())  # a run is used from other folders, too
    monkeypatch.syspath_prepend(tmp_path)
    assert SentenceEncoder("some-tiny-model").name == "some-tiny-model"
    assert find_model_folder("some-tiny-model") == package.resolve()
    with pytest.raises(InputError, match="there is no encoder 'some-other-model'"):
        TextFeatures(encoder="some-other-model")
    with pytest.raises(InputError, match="max_tokens must be a positive integer"):
        SentenceEncoder(package, max_tokens=0)


def test_the_digest_changes_with_names_and_contents_but_not_with_hidden_files(tmp_path):
    folders = [tmp_path / name for name in "abcd"]
    for folder, (name, content) in zip(folders, [("x", "1"), ("x", "2"), ("y", "1"), ("x", "1")], strict=True):
        folder.mkdir()
        (folder / name).write_text(content)
    (folders[3] / ".cache").write_text("anything")
    first, content, name, hidden = map(digest_folder, folders)
    assert first == hidden
    assert len({first, content, name}) == 3


@pytest.mark.parametrize(
    "damage", [{"n_dense": 0}, {"n_dense": "3"}, {"digest": None}, {"max_tokens": 0}, {"more": 1}, {"n_dense": True}]
)
def test_damaged_identities_are_refused(damage):
    stored = IDENTITY.to_json()
    assert EncoderIdentity.from_json(json.loads(json.dumps(stored)), "here") == IDENTITY
    with pytest.raises(InputError, match="here: not readable as an encoder"):
        EncoderIdentity.from_json({**stored, **damage}, "here")


def test_a_stored_encoder_is_missed_when_a_text_is_embedded_and_not_before():
    text = TextFeatures(encoder=SentenceEncoder.stored(IDENTITY, "the run")).fit(["cod", "law"])
    opened = TextFeatures.from_arrays(text.options, text.to_arrays(), "the run")
    assert opened.identity == IDENTITY
    assert opened.options == text.options
    with pytest.raises(InputError, match="the run: was made with the encoder tiny: there is no encoder 'tiny'"):
        opened.transform(["cod"])
