"""The rows that a run was trained on: remembered, found again, and joined with new ones."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.archive import write_manifest
from unmissed.data import Columns, Dataset, TextFeatures, load, write_store, write_xmc
from unmissed.data import save as save_data
from unmissed.errors import InputError
from unmissed.runs import extend, open_run, save, train
from unmissed.runs.training_sources import join, read_old_rows, sources_of

TRAIN, TEST = small_corpus(n_labels=12, n_train=80)


def renamed(dataset: Dataset, prefix: str) -> Dataset:
    names = [f"{prefix} {name}" for name in dataset.label_names]
    return Dataset(dataset.X, dataset.Y, label_names=names, feature_names=dataset.feature_names)


@pytest.mark.parametrize("form", ["store", "xmc", "npz", "csv", "text"])
def test_a_run_finds_its_rows_again_whatever_file_they_are_in(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if form == "store":
        write_store(TRAIN, "train")
        data = load("train")
    elif form == "xmc":
        write_xmc(TRAIN, "train.txt")
        data = load("train.txt")
    elif form == "npz":
        save_data(TRAIN, "X.npz,Y.npz")
        data = load("X.npz,Y.npz")
    elif form == "csv":
        (tmp_path / "train.csv").write_text("words,tags\ncod net,fish|sea\ncod judge,law|fish\n")
        data = load("train.csv", columns=Columns("words", "tags", "|"))
    else:
        data = load(write_texts(tmp_path / "train.jsonl"), text=TextFeatures(min_df=2))
    train("popularity", data, "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (found,) = read_old_rows(open_run(tmp_path / "run"))
    assert found.digest == data.digest


def test_options_of_reading_are_remembered(tmp_path):
    (tmp_path / "train.txt").write_text("1 1:1\n2 2:1\n1,2 1:1 2:1\n")
    data = load(tmp_path / "train.txt", header=False, one_based=True)
    run = train("popularity", data, tmp_path / "run")
    assert sources_of(run)[0].options.items() >= {"header": False, "one_based": True}.items()
    assert read_old_rows(run)[0].digest == data.digest


def test_a_run_of_data_in_memory_wants_it_again(tmp_path):
    run = train("popularity", TRAIN, tmp_path / "run")
    with pytest.raises(InputError, match="does not know where"):
        read_old_rows(run)
    assert read_old_rows(run, [TRAIN]) == [TRAIN]


def test_an_older_run_knows_its_rows_by_their_digest(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    del manifest["parts"][0]["sources"]
    write_manifest(tmp_path / "run", manifest)
    run = open_run(tmp_path / "run")
    assert sources_of(run) == []
    assert read_old_rows(run, [TRAIN]) == [TRAIN]
    with pytest.raises(InputError, match="was not trained on these old rows"):
        read_old_rows(run, [TEST])


def test_a_model_that_was_saved_has_no_rows(tmp_path):
    from unmissed.models import Popularity

    run = save(Popularity().fit(TRAIN.X, TRAIN.Y), tmp_path / "run")
    with pytest.raises(InputError, match="does not know where"):
        read_old_rows(run)


@pytest.mark.parametrize(
    "source",
    [
        {"path": 3},
        {"digest": None},
        {"n_samples": -1},
        {"options": {"header": []}},
        {"options": {"without": "a"}},
        {"options": {"without": [3]}},
        {"options": 7},
        {"more": 1},
        {"options": {"columns": {"text": []}}},
    ],
)
def test_a_source_that_no_training_writes_is_refused(source, tmp_path):
    write_store(TRAIN, tmp_path / "train")
    train("popularity", load(tmp_path / "train"), tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["parts"][0]["sources"][0] |= source
    write_manifest(tmp_path / "run", manifest)
    with pytest.raises(InputError):
        open_run(tmp_path / "run")


def test_an_option_that_load_does_not_have_is_refused_when_rows_are_read(tmp_path):
    write_store(TRAIN, tmp_path / "train")
    train("popularity", load(tmp_path / "train"), tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    for options, named in (({"progress": "x"}, "'progress'"), ({"columns": {"sums": "x"}}, "'sums'")):
        manifest["parts"][0]["sources"][0]["options"] = options
        write_manifest(tmp_path / "run", manifest)
        with pytest.raises(InputError, match=f"unknown .*option.*{named}"):
            read_old_rows(open_run(tmp_path / "run"))


def test_joined_rows_have_old_labels_first_and_each_row_its_own(tmp_path):
    run = train("popularity", TRAIN, tmp_path / "run")
    more = Dataset(TEST.X, TEST.Y[:, ::-1], label_names=[*TEST.label_names[:0:-1], "new"])
    joined = join(run, [TRAIN], more).dataset
    assert joined.label_names == [*TRAIN.label_names, "new"]
    expected = sp.vstack([TRAIN.Y, TEST.Y]).toarray()
    expected = np.column_stack([expected, np.zeros(len(expected))])
    expected[80:, 12], expected[80:, 0] = expected[80:, 0], 0
    assert np.array_equal(joined.Y.toarray(), expected)
    assert np.array_equal(joined.X.toarray(), sp.vstack([TRAIN.X, TEST.X]).toarray())


def test_a_new_row_replaces_an_old_one_with_the_same_features_and_empty_rows_stay(tmp_path):
    X = np.array([[1, 0, 2], [0, 0, 0], [1, 0, 3], [1, 0, 2]], np.float32)
    old = Dataset(sp.csr_matrix(X), sp.csr_matrix(np.ones((4, 1), np.float32)), label_names=["a"])
    new = Dataset(sp.csr_matrix(X[[0, 1]]), sp.csr_matrix(np.ones((2, 1), np.float32)), label_names=["b"])
    run = train("popularity", old, tmp_path / "run")
    joined = join(run, [old], new)
    assert joined.n_replaced == 2
    assert np.array_equal(joined.dataset.X.toarray(), X[[1, 2, 0, 1]])
    assert np.array_equal(joined.dataset.Y.toarray(), [[1, 0], [1, 0], [0, 1], [0, 1]])


def test_new_labels_learn_from_the_rows_of_all_parts(tmp_path):
    second, third = renamed(small_corpus(12, 50, seed=1)[0], "second"), renamed(small_corpus(12, 60, 2)[0], "third")
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    extend(tmp_path / "run", second, old_rows=[TRAIN])
    run = extend(tmp_path / "run", third, old_rows=[TRAIN, second])
    assert [part.n_samples for part in run.parts] == [80, 130, 190]
    assert [source.n_samples for source in sources_of(run)] == [80, 50, 60]
    assert run.n_trained == 12
    Y = sp.vstack([sp.csr_matrix((130, 12), dtype=np.float32), third.Y])
    rows = Dataset(sp.vstack([TRAIN.X, second.X, third.X]), Y)
    third_only = train("dismec", rows, tmp_path / "third_only", PARAMS)
    weights = run.model.coef_[24:]
    assert abs(weights - third_only.model.coef_).max() < 0.05
    assert np.array_equal(run.label_counts[24:], third.label_counts)


def test_rows_of_other_features_are_refused(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    wrong = Dataset(TRAIN.X, TRAIN.Y, label_names=[f"x{label}" for label in range(12)], feature_names=["f"] * 400)
    with pytest.raises(InputError, match="other names"):
        extend(tmp_path / "run", wrong, old_rows=[TRAIN])
    with pytest.raises(InputError, match="exclude each other"):
        extend(tmp_path / "run", renamed(TRAIN, "x"), old_rows=[TRAIN], without_old_rows=True)
