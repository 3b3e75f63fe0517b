"""Training into a folder: what is refused, what goes on, what is left behind."""

import json
import threading

import numpy as np
import pytest

from tests.runs.corpora import PARAMS, small_corpus, tree_bytes, write_texts
from unmissed.archive import write_manifest
from unmissed.data import Dataset, TextFeatures, load
from unmissed.errors import InputError
from unmissed.models.linear.dismec.estimator import DiSMEC, PWDiSMEC
from unmissed.models.popularity import Popularity
from unmissed.propensity import Constant, FromTable, Jain
from unmissed.runs import extend, open_run, save, train
from unmissed.runs.inspection import strongest_features
from unmissed.settings import SETTINGS

TRAIN, TEST = small_corpus()


class StopError(Exception):
    """An interruption."""


def stop_after(n_labels):
    def tell(done, total):
        if done >= n_labels:
            raise StopError

    return tell


@pytest.mark.parametrize("method", ["dismec", "pw-dismec", "popularity"])
def test_a_run_ranks_bit_for_bit_like_the_model_it_holds(method, tmp_path):
    params = {} if method == "popularity" else PARAMS
    model = {"dismec": DiSMEC, "pw-dismec": PWDiSMEC, "popularity": Popularity}[method](**params)
    expected = model.fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 5)
    run = train(method, TRAIN, tmp_path / "run", params)
    found = open_run(tmp_path / "run").rank(TEST.X, 5)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)
    assert run.label_names == TRAIN.label_names
    assert np.array_equal(run.label_counts, TRAIN.label_counts)


def test_the_manifest_holds_recipe_digest_versions_and_seed(tmp_path):
    train("pw-dismec", TRAIN, tmp_path / "run", {**PARAMS, "weighting": "surrogate", "random_state": 3})
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["kind"] == "run"
    assert manifest["version"] == 1
    recipe = manifest["recipe"]
    assert recipe["method"] == "pw-dismec"
    assert recipe["params"]["random_state"] == 3
    assert recipe["params"]["weighting"] == "surrogate"
    assert recipe["params"]["C"] == 0.5  # defaults are stored, too
    assert "n_jobs" not in recipe["params"]  # it changes nothing
    assert recipe["params"]["propensity"] == {"model": "jain", "a": 0.55, "b": 1.5}
    part = manifest["parts"][0]
    assert part["digest"] == TRAIN.digest
    assert part["status"] == "complete"
    assert {"unmissed", "numpy", "numba"} <= part["versions"][0].keys()


def test_nothing_in_the_folder_needs_pickle(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    kinds = {entry.suffix for entry in (tmp_path / "run").rglob("*") if entry.is_file() and entry.name != ".lock"}
    assert kinds == {".json", ".npy"}
    for entry in (tmp_path / "run").rglob("*.npy"):
        np.load(entry, allow_pickle=False)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("n_labels", [1, 17, 40])
def test_training_interrupted_and_resumed_leaves_the_same_bytes(n_labels, n_jobs, tmp_path):
    train("dismec", TRAIN, tmp_path / "whole", PARAMS)
    params = {**PARAMS, "n_jobs": n_jobs}
    with pytest.raises(StopError):
        train("dismec", TRAIN, tmp_path / "broken", params, progress=stop_after(n_labels))
    with pytest.raises(InputError, match="not finished"):
        open_run(tmp_path / "broken")
    train("dismec", TRAIN, tmp_path / "broken", params)
    assert tree_bytes(tmp_path / "broken") == tree_bytes(tmp_path / "whole")


def test_a_finished_training_is_not_done_again(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    before = tree_bytes(tmp_path / "run")
    train("dismec", TRAIN, tmp_path / "run", PARAMS, progress=stop_after(0))
    assert tree_bytes(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("dismec", {"C": 2.0}, "C is 0.5 there and 2.0 here"),
        ("dismec", {"random_state": 1}, "random_state is 0 there and 1 here"),
        ("pw-dismec", {}, "method is 'dismec' there and 'pw-dismec' here"),
    ],
)
def test_another_recipe_is_refused_and_named(method, params, named, tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    before = tree_bytes(tmp_path / "run")
    with pytest.raises(InputError, match=named):
        train(method, TRAIN, tmp_path / "run", {**PARAMS, **params})
    assert tree_bytes(tmp_path / "run") == before


def test_another_propensity_is_another_recipe(tmp_path):
    train("pw-dismec", TRAIN, tmp_path / "run", {**PARAMS, "propensity": Constant(0.5)})
    with pytest.raises(InputError, match="propensity is"):
        train("pw-dismec", TRAIN, tmp_path / "run", {**PARAMS, "propensity": Jain()})


def test_other_data_is_refused(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    with pytest.raises(InputError, match="other data"):
        train("popularity", small_corpus(seed=1)[0], tmp_path / "run")


def test_the_number_of_threads_is_no_part_of_the_recipe(tmp_path):
    with pytest.raises(StopError):
        train("dismec", TRAIN, tmp_path / "run", PARAMS, progress=stop_after(1))
    run = train("dismec", TRAIN, tmp_path / "run", {**PARAMS, "n_jobs": 2})
    assert run.n_labels == 40


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        train("popularity", TRAIN, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_unknown_method_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"known: dismec, pw-dismec, .*popularity"):
        train("fasttext", TRAIN, tmp_path / "run")


def test_a_parameter_that_the_method_does_not_have_is_refused(tmp_path):
    with pytest.raises(InputError, match="popularity has no parameter 'C'"):
        train("popularity", TRAIN, tmp_path / "run", {"C": 1.0})
    with pytest.raises(InputError, match="dismec has no parameter 'weighting'"):
        train("dismec", TRAIN, tmp_path / "run", {"weighting": "tail"})


def test_a_recipe_that_cannot_be_trained_leaves_the_folder_free(tmp_path):
    with pytest.raises(InputError):
        train("dismec", TRAIN, tmp_path / "run", {**PARAMS, "C": -1.0})
    assert train("dismec", TRAIN, tmp_path / "run", PARAMS).n_labels == 40


def test_what_a_killed_writer_left_is_cleaned_on_resuming(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(StopError):
        train("dismec", TRAIN, folder, PARAMS, progress=stop_after(1))
    torn = folder / "pieces" / "labels" / ".00000016.abc.part"
    torn.mkdir()
    (torn / "weights.npy").write_bytes(b"half")
    (folder / ".manifest.json.xyz.part").write_text("{")
    train("dismec", TRAIN, folder, PARAMS)
    assert not list(folder.rglob("*.part"))


def test_what_a_lost_worker_left_is_gone_when_training_ends(tmp_path):
    def lose(done, total):
        torn = tmp_path / "run" / "pieces" / "labels" / ".00000000.lost.part"
        torn.mkdir(parents=True, exist_ok=True)
        (torn / "weights.npy").write_bytes(b"half")

    train("dismec", TRAIN, tmp_path / "run", PARAMS, progress=lose)
    assert not list((tmp_path / "run").rglob("*.part"))


def test_two_trainings_into_one_folder_are_refused(tmp_path):
    seen = []

    def intrude(done, total):
        if not seen:
            with pytest.raises(InputError, match="another process"):
                train("dismec", TRAIN, tmp_path / "run", PARAMS)
            seen.append(done)

    thread = threading.Thread(
        target=train, args=("dismec", TRAIN, tmp_path / "run", PARAMS), kwargs={"progress": intrude}
    )
    thread.start()
    thread.join()
    assert seen
    assert open_run(tmp_path / "run").n_labels == 40  # the lock is gone with the training


def test_a_damaged_shard_is_noticed_by_its_size_and_by_its_checksum(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    weights = tmp_path / "run" / "pieces" / "labels" / "00000016" / "weights.npy"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert open_run(tmp_path / "run").model.n_labels_ == 40  # sizes agree
    with pytest.raises(InputError, match="checksum"):
        _ = open_run(tmp_path / "run", verify=True).model
    weights.write_bytes(content[:-1])
    with pytest.raises(InputError, match="bytes"):
        _ = open_run(tmp_path / "run").model


def test_a_missing_shard_is_noticed(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    (tmp_path / "run" / "pieces" / "labels" / "00000016").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="00000016"):
        _ = open_run(tmp_path / "run").model


def test_a_run_of_a_later_format_is_refused(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    write_manifest(tmp_path / "run", {**manifest, "version": 9})
    with pytest.raises(InputError, match="version 9"):
        open_run(tmp_path / "run")


def test_arrays_of_a_run_are_mapped_and_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "mapped_bytes", 0)
    run = train("dismec", TRAIN, tmp_path / "run", PARAMS)
    for model in (run.model, open_run(tmp_path / "run").model):
        assert isinstance(model.shards_[0].weights, np.memmap)
        assert not model.shards_[0].weights.flags.writeable


def test_saving_counts_without_the_number_of_rows_is_refused(tmp_path):
    model = Popularity().fit(TRAIN.X, TRAIN.Y)
    with pytest.raises(InputError, match="label_counts need n_samples"):
        save(model, tmp_path / "run", label_counts=TRAIN.label_counts)
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_extended_takes_a_table_of_all_propensities(tmp_path):
    some = parts_of(TRAIN, range(24))
    train("dismec", some, tmp_path / "run", PARAMS)
    run = extend(tmp_path / "run", TRAIN, old_rows=[some])
    table = np.linspace(0.1, 1, 40)
    assert np.array_equal(run.propensities(FromTable(table)), table)
    with pytest.raises(InputError, match="39 labels, the data has 40"):
        run.propensities(FromTable(table[:39]))


def test_a_model_fitted_in_memory_can_be_saved_and_ranks_the_same(tmp_path):
    model = PWDiSMEC(**PARAMS).fit(TRAIN.X, TRAIN.Y)
    run = save(model, tmp_path / "run", label_names=TRAIN.label_names, label_counts=TRAIN.label_counts, n_samples=300)
    expected, found = model.rank(TEST.X, 5), open_run(tmp_path / "run").rank(TEST.X, 5)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)
    assert np.array_equal(run.propensities(), Jain().estimate(TRAIN.label_counts, 300))
    with pytest.raises(InputError, match="exists already"):
        save(model, tmp_path / "run")


def test_texts_are_ranked_by_a_run_that_was_trained_on_text(tmp_path):
    data = load(write_texts(tmp_path / "train.jsonl"), text=TextFeatures(min_df=2))
    run = train("dismec", data, tmp_path / "run", PARAMS)
    terms = {"ngrams": [1, 1], "min_df": 2, "max_features": None, "smooth": False}
    assert run.recipe.text == terms
    best = open_run(tmp_path / "run").rank(["cod quota net cod", "cheese and milk"], 1)
    assert [run.label_names[label] for label in best.labels[:, 0]] == ["fish", "food"]
    assert run.rank("appeal to the court", 1).n_samples == 1


def test_a_run_without_text_refuses_text(tmp_path):
    run = train("popularity", TRAIN, tmp_path / "run")
    with pytest.raises(InputError, match="not trained on text"):
        run.rank("cod")


def parts_of(dataset: Dataset, labels: range) -> Dataset:
    names = [dataset.label_names[label] for label in labels]
    return Dataset(dataset.X, dataset.Y[:, list(labels)], label_names=names, feature_names=dataset.feature_names)


@pytest.mark.parametrize("method", ["dismec", "popularity"])
def test_extending_keeps_old_shards_and_gives_the_same_as_training_at_once(method, tmp_path):
    params = {} if method == "popularity" else PARAMS
    some = parts_of(TRAIN, range(24))
    train(method, some, tmp_path / "run", params)
    before = tree_bytes(tmp_path / "run" / "pieces")
    run = extend(tmp_path / "run", TRAIN, old_rows=[some])
    after = tree_bytes(tmp_path / "run" / "pieces")
    assert before.items() <= after.items()
    assert run.n_labels == 40
    assert run.label_names == TRAIN.label_names
    assert np.array_equal(run.label_counts, TRAIN.label_counts)
    at_once = train(method, TRAIN, tmp_path / "at-once", params)
    assert np.array_equal(run.rank(TEST.X, 40).scores, at_once.rank(TEST.X, 40).scores)
    if method == "dismec":
        assert np.array_equal(run.model.certificate().gap, at_once.model.certificate().gap)
        for label in range(40):
            parts, once = (strongest_features(one, label, top=400) for one in (run, at_once))
            assert parts == once
    assert np.array_equal(run.propensities(), Jain().estimate(TRAIN.label_counts, 300))


def test_an_interrupted_extension_leaves_the_run_usable_and_goes_on(tmp_path):
    some = parts_of(TRAIN, range(5))
    for name in ("broken", "whole"):
        train("dismec", some, tmp_path / name, PARAMS)
    extend(tmp_path / "whole", TRAIN, old_rows=[some], n_jobs=1)
    with pytest.raises(StopError):
        extend(tmp_path / "broken", TRAIN, old_rows=[some], n_jobs=1, progress=stop_after(1))
    assert open_run(tmp_path / "broken").n_labels == 5
    with pytest.raises(InputError, match="other data"):
        extend(tmp_path / "broken", parts_of(TRAIN, range(30)), old_rows=[some])
    extend(tmp_path / "broken", TRAIN, old_rows=[some], n_jobs=1)
    assert tree_bytes(tmp_path / "broken") == tree_bytes(tmp_path / "whole")


def test_extending_a_model_that_cannot_add_labels_is_refused_before_training(tmp_path):
    some = parts_of(TRAIN, range(30))
    train("parabel", some, tmp_path / "run", {"n_trees": 1, "n_jobs": 1})
    before = tree_bytes(tmp_path / "run")
    with pytest.raises(InputError, match="Parabel cannot add labels; train it again"):
        extend(tmp_path / "run", TRAIN, old_rows=[some])
    assert tree_bytes(tmp_path / "run") == before


def test_extending_without_a_new_label_is_refused(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    with pytest.raises(InputError, match="has all 40 labels"):
        extend(tmp_path / "run", TRAIN)


def test_without_names_columns_after_the_last_label_are_new(tmp_path):
    bare = Dataset(TRAIN.X, TRAIN.Y)
    some = Dataset(TRAIN.X, TRAIN.Y[:, :30])
    train("popularity", some, tmp_path / "run")
    assert extend(tmp_path / "run", bare, old_rows=[some]).n_labels == 40
    with pytest.raises(InputError, match="cannot be matched"):
        extend(tmp_path / "run", TRAIN)
