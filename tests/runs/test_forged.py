"""Runs whose manifests are forged, with right checksums: every number in them is checked before it sizes anything."""

import json
import math
import tracemalloc
from shutil import copytree

import numpy as np
import pytest

from tests.models import own_model
from tests.runs.corpora import small_corpus, write_texts
from unmissed import load_model
from unmissed.archive import write_manifest
from unmissed.data import Dataset, load
from unmissed.errors import InputError
from unmissed.models.method_registry import COMPOSITES, METHODS, find_model, make_model
from unmissed.models.parameters import parameters_of
from unmissed.runs import open_run, train

TRAIN, TEST = small_corpus(n_labels=20, n_train=80)
QUICK = {"n_jobs": 1, "block_size": 8, "n_trees": 2, "max_leaf": 8, "n_learners": 2, "n_components": 8}
QUICK["members"] = ("dismec", "popularity")
HOSTILE = (0, -1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**64, 10**400, 1e300, math.inf, math.nan)
MOST_BYTES = 2**26

assert own_model.METHOD in METHODS
every_method = pytest.mark.parametrize("method", [*sorted(METHODS), *COMPOSITES])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of one small run per method."""
    made = {}

    def folder(method):
        if method not in made:
            known = find_model(method)._get_param_names()
            made[method] = tmp_path_factory.mktemp("runs") / method
            params = {name: value for name, value in QUICK.items() if name in known}
            train(method, Dataset(TRAIN.X, TRAIN.Y), made[method], params)
        return made[method]

    return folder


@pytest.fixture
def run(trained, tmp_path):
    return lambda method: copytree(trained(method), tmp_path / "run")


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def change(folder, **changes):
    """Change a manifest and make its own checksum right again."""
    write_manifest(folder, {**manifest_of(folder), **changes})


def use(folder, k=3):
    """Open a run and rank by it; fails if that takes much memory."""
    tracemalloc.start()
    try:
        ranking = open_run(folder).rank(TEST.X, k)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    return ranking


@every_method
def test_every_parameter_of_a_recipe_is_checked_by_its_range(method, run):
    folder = run(method)
    expected = use(folder)
    recipe = manifest_of(folder)["recipe"]
    for one in parameters_of(find_model(method)):
        if one.range is None:
            continue
        for value in HOSTILE:
            change(folder, recipe={**recipe, "params": {**recipe["params"], one.name: value}})
            shape, line = tried(folder)
            if line is None:
                assert one.takes(value), (one.name, value)
                assert shape == expected.labels.shape
            else:  # pieces that are not there, or scores that overflow
                assert not one.takes(value) or "missing" in line or "not a number" in line, (one.name, value, line)
                assert "\n" not in line


def tried(folder):
    """Use a run; return the shape of its ranking, or else the refusal."""
    try:
        return use(folder).labels.shape, None
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("method", "name", "value", "expected"),
    [
        ("parabel", "n_trees", 0, "an integer from 1 to"),
        ("fastxml", "n_trees", 0, "an integer from 1 to"),
        ("sleec", "n_learners", 0, "an integer from 1 to"),
        ("bonsai", "beam", 2**63 - 1, "an integer from 1 to"),
        ("sleec", "votes", 2**62, "an integer from 1 to"),
        ("sleec", "votes", 2**32, "an integer from 1 to"),
        ("pfastrexml", "alpha", 1.5, "a number from 0 to 1"),
        ("dismec", "tol", 1e-9, "a number, at least 1e-06"),
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_range(method, name, value, expected, run):
    folder = run(method)
    recipe = manifest_of(folder)["recipe"]
    change(folder, recipe={**recipe, "params": {**recipe["params"], name: value}})
    with pytest.raises(
        InputError, match=rf"run: {name} must be {expected}.*; got {value}; the recipe of {method} is damaged"
    ):
        use(folder)


@pytest.mark.parametrize(("method", "name"), [("parabel", "beam"), ("bonsai", "beam"), ("sleec", "votes")])
def test_a_number_beyond_what_there_is_ranks_as_all_there_is(method, name, run):
    folder = run(method)
    recipe = manifest_of(folder)["recipe"]
    found = {}
    for value in (1000, 2**31 - 1):
        change(folder, recipe={**recipe, "params": {**recipe["params"], name: value}})
        found[value] = use(folder).labels
    assert np.array_equal(found[1000], found[2**31 - 1])


@every_method
@pytest.mark.parametrize("counted", [True, False], ids=["with counts", "without counts"])
@pytest.mark.parametrize("n_labels", [19, 21, 2**20, 2**31 - 1])
def test_a_wrong_number_of_labels_is_refused_before_anything_is_allocated(method, counted, n_labels, run):
    folder = run(method)
    if not counted:
        labels = folder / "labels" / "00000000"
        manifest = json.loads((labels / "manifest.json").read_text())
        del manifest["arrays"]["counts"]
        (labels / "counts.npy").unlink()
        write_manifest(labels, manifest)
    part = {**manifest_of(folder)["parts"][0], "n_labels": n_labels}
    change(folder, parts=[part])
    if not counted and n_labels == 21 and method in ("fastxml", "pfastxml", "sleec"):
        assert use(folder).labels.max() < 20, "nothing tells one label without positives from none"
        return
    with pytest.raises(InputError, match=r"damaged|holds? .* labels"):
        use(folder)


@every_method
def test_a_number_of_features_that_names_contradict_is_refused(method, tmp_path):
    known = find_model(method)._get_param_names()
    params = {name: value for name, value in QUICK.items() if name in known}
    data = load(write_texts(tmp_path / "train.jsonl"))
    train(method, data, tmp_path / "run", params)
    change(tmp_path / "run", n_features=2**31 - 1)
    with pytest.raises(InputError, match="does not name 2147483647 features"):
        load_model_in_little(tmp_path / "run")


def load_model_in_little(folder):
    tracemalloc.start()
    try:
        load_model(folder)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@every_method
def test_fitting_checks_the_same_ranges(method):
    for one in parameters_of(find_model(method)):
        if one.range is not None:
            for value in HOSTILE:
                if not one.takes(value):
                    with pytest.raises(InputError, match=f"^{one.name} must be an? "):
                        make_model(method, {one.name: value}).fit(TRAIN.X, TRAIN.Y)


@every_method
def test_a_k_beyond_the_labels_pads_or_is_refused_but_is_never_allocated(method, run):
    folder = run(method)
    assert (use(folder, 1000).labels[:, 20:] == -1).all()
    with pytest.raises(InputError, match=r"there are 20 labels: padding .* lower k to 20"):
        use(folder, 10**9)
