"""Runs with a dense part: trained, resumed, updated and extended, and told in one line what they need."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.runs.corpora import PARAMS, small_corpus, tree_bytes, write_texts
from unmissed.archive import write_manifest
from unmissed.data import load, write_store
from unmissed.errors import InputError
from unmissed.execution import Processes
from unmissed.runs import Recipe, extend, open_run, train, update
from unmissed.runs.inspection import strongest_features, summarize, verify
from unmissed.runs.prediction import predict, read_rows
from unmissed.runs.run_folder import RunFolder

RNG = np.random.default_rng(0)
TRAIN, TEST = small_corpus(n_labels=10, n_train=60)
MIXED = replace(TRAIN, dense=RNG.normal(size=(60, 3)).astype(np.float32))
HELD = replace(TEST, dense=RNG.normal(size=(50, 3)).astype(np.float32))


@pytest.fixture
def texts(tmp_path):
    """A folder with texts and embeddings, and a run trained on both."""
    write_texts(tmp_path / "train.jsonl")
    np.save(tmp_path / "E.npy", RNG.normal(size=(60, 3)).astype(np.float16))
    train("dismec", load(tmp_path / "train.jsonl", dense=tmp_path / "E.npy"), tmp_path / "run", PARAMS)
    return tmp_path


def assert_same(found, expected):
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def test_a_run_remembers_its_dense_features(tmp_path):
    run = train("dismec", MIXED, tmp_path / "run", PARAMS)
    again = open_run(tmp_path / "run")
    assert (again.n_features, again.n_dense, again.n_sparse) == (403, 3, 400)
    assert again.model.n_dense_in_ == 3
    assert_same(again.rank(HELD.features), run.rank(HELD.features))
    assert_same(again.rank(HELD.X, dense=HELD.dense), run.rank(HELD.features))
    assert_same(predict(again, HELD.features, batch=7), run.rank(HELD.features))
    assert summarize(again)["n_dense"] == 3
    assert verify(again) > 0
    names = {one.name for one in strongest_features(again, 0, 403) if one.number >= 400}
    assert names <= {"dense 0", "dense 1", "dense 2"}
    assert names
    with pytest.raises(InputError, match="X has 0 dense features, the model was fitted on 3"):
        again.rank(TEST.X)


def test_a_run_without_a_dense_part_is_written_as_before(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS | {"dense_weight": 0.5})
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert "n_dense" not in manifest
    assert "dense_weight" not in manifest["recipe"]["params"]
    train("dismec", MIXED, tmp_path / "mixed", PARAMS | {"dense_weight": 0.5})
    assert Recipe.from_json(RunFolder(tmp_path / "mixed").read().recipe.to_json()).params["dense_weight"] == 0.5
    with pytest.raises(InputError, match=r"dense_weight is 0\.5 there and 1\.0 here"):
        train("dismec", MIXED, tmp_path / "mixed", PARAMS)


def test_a_forged_number_of_dense_features_is_refused(tmp_path):
    train("dismec", MIXED, tmp_path / "run", PARAMS)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    for wrong in (404, -1, "3", None):
        write_manifest(tmp_path / "run", manifest | {"n_dense": wrong})
        with pytest.raises(InputError, match="n_dense is"):
            open_run(tmp_path / "run")
    write_manifest(tmp_path / "run", manifest | {"n_dense": 2})  # the names of sparse features contradict it
    with pytest.raises(InputError, match="the run is damaged"):
        open_run(tmp_path / "run").rank(HELD.features)


def test_an_interrupted_training_resumes_to_the_same_bytes_here_and_in_processes(tmp_path):
    write_store(MIXED, tmp_path / "store")
    rows = load(tmp_path / "store")
    params = PARAMS | {"block_size": 4}
    train("dismec", rows, tmp_path / "whole", params)

    def stop(done, total):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("dismec", rows, tmp_path / "run", params, progress=stop)
    assert 0 < RunFolder(tmp_path / "run").n_finished() < 3
    train("dismec", rows, tmp_path / "run", params, executor=Processes(1))
    assert tree_bytes(tmp_path / "run") == tree_bytes(tmp_path / "whole")


def test_texts_need_their_dense_features(texts):
    run, dense = open_run(texts / "run"), np.load(texts / "E.npy")
    said = [json.loads(line)["text"] for line in (texts / "train.jsonl").read_text().splitlines()]
    expected = run.rank(run.features_of(said, dense))
    assert_same(run.rank(said, dense=dense), expected)
    assert np.array_equal(run.rank(said[0], dense=dense[0]).labels, expected.labels[:1])
    assert [name for name, _ in run.suggest(said[3], dense=dense[3])] == [
        name for name, _ in run.suggest(said, dense=dense)[3]
    ]
    for call in (lambda: run.rank(said), lambda: run.suggest(said[0])):
        with pytest.raises(InputError, match="run: was trained on 3 dense features, too; give them with the texts"):
            call()
    with pytest.raises(InputError, match="sparse part of X has 2 rows and the dense part 3"):
        run.rank(said[:2], dense=dense[:3])
    with pytest.raises(InputError, match="X has 2 dense features, the model was fitted on 3"):
        run.rank(said[:2], dense=dense[:2, :2])


def test_a_text_without_known_words_is_ranked_by_its_dense_features(texts):
    run, dense = open_run(texts / "run"), np.load(texts / "E.npy")
    found = run.rank(["unheard"], 2, dense=dense[:1])
    assert (found.labels >= 0).all()
    assert not run.suggest("unheard", dense=dense[0]).no_known_words


def test_a_run_without_dense_features_refuses_them(tmp_path):
    write_texts(tmp_path / "train.jsonl")
    run = train("dismec", load(tmp_path / "train.jsonl"), tmp_path / "run", PARAMS)
    with pytest.raises(InputError, match="X has 3 dense features, the model was fitted on 0"):
        run.rank(["cod net"], dense=np.ones((1, 3)))


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_files_of_texts_are_ranked_in_batches_with_their_dense_features(texts, batch):
    run = open_run(texts / "run")
    expected = run.rank(load(texts / "train.jsonl", text=run.text, dense=texts / "E.npy").features)
    rows, _ = read_rows(run, texts / "train.jsonl", dense=texts / "E.npy")
    assert_same(predict(run, rows, batch=batch), expected)
    for n_rows in (59, 61):
        np.save(texts / "other.npy", np.ones((n_rows, 3)))
        rows, _ = read_rows(run, texts / "train.jsonl", dense=texts / "other.npy")
        with pytest.raises(InputError, match=rf"other\.npy: has {n_rows} rows; .*train\.jsonl has 60"):
            predict(run, rows, batch=batch)


def test_old_rows_are_read_again_with_their_dense_features(texts):
    write_texts(texts / "more.jsonl", 20, seed=1, extra="new")
    more = RNG.normal(size=(20, 3))
    new = load(texts / "more.jsonl", text=open_run(texts / "run").text, dense=more)
    extended = extend(texts / "run", new, n_jobs=1)
    assert extended.n_labels == 4
    assert extended.model.n_dense_in_ == 3
    with pytest.raises(InputError, match="the data has 0 dense features; the run has 3"):
        update(texts / "run", load(texts / "more.jsonl", text=extended.text), old_rows=[new])
    updated = update(texts / "run", new, n_jobs=1)
    assert updated.parts[0].n_samples == 80


def test_a_later_row_replaces_one_only_if_its_dense_features_are_the_same(tmp_path):
    train("dismec", MIXED, tmp_path / "run", PARAMS)
    changed = MIXED.dense[:10].copy()
    changed[:4] += 1
    new = replace(MIXED, X=TRAIN.X[:10], Y=TRAIN.Y[:10], dense=changed)
    updated = update(tmp_path / "run", new, old_rows=[MIXED])
    assert updated.parts[0].n_samples == 64
