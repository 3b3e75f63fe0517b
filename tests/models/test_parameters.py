"""Parameters are declared once: fit, recipes, the command line and help() say and refuse the same."""

import inspect
import pydoc
import re
from typing import Annotated, Literal

import numpy as np
import pytest
from sklearn.base import clone

from tests.cli.speaking import refused, said
from tests.models import own_model
from tests.runs.corpora import small_corpus, write_texts
from unmissed import DiSMEC, Parabel, PWDiSMEC, open_run
from unmissed.data import Dataset
from unmissed.errors import InputError
from unmissed.models import Model, NumberRange, find_model, make_model
from unmissed.models.linear.dismec.solver import SquaredHinge
from unmissed.models.method_registry import METHODS
from unmissed.models.parameters import Cost, Group, Help, Parameter, Tolerance, parameters_of
from unmissed.runs import Recipe, train

TRAIN, TEST = small_corpus(n_labels=20, n_train=80)
QUICK = {"n_jobs": 1, "n_trees": 2, "max_leaf": 8, "n_learners": 2, "n_components": 8}
OUTSIDE = (-1e9, -1, 10**400, float("nan"), "much")
PREDICT = {"beam": 2, "alpha": 0.1, "gamma": 3.0, "candidates": 2, "votes": 3, "power": 1.5}
"""Values that change the ranking of a quick model."""

assert own_model.METHOD in METHODS
every_method = pytest.mark.parametrize("method", sorted(METHODS))


def quick(method, **more):
    known = {one.name for one in parameters_of(find_model(method))}
    return make_model(method, {name: value for name, value in QUICK.items() if name in known} | more)


def in_group(method, group):
    return [one for one in parameters_of(find_model(method)) if one.group is group]


def plain(text):
    """Return text without markup, boxes and line breaks."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│|`]", " ", text).split())


@every_method
def test_every_parameter_has_help_a_type_and_numbers_a_range(method):
    for one in parameters_of(find_model(method)):
        assert one.help, one.name
        assert one.expected, one.name
        is_number = {int, float} & {one.annotation, *getattr(one.annotation, "__args__", ())}
        if is_number and one.changes_result and not one.is_propensity:
            assert one.range is not None, one.name
        assert one.takes(one.default), one.name
        assert not one.takes(object()) or one.is_propensity, one.name


@every_method
def test_help_describes_every_parameter_with_its_values_and_its_default(method):
    shown = plain(pydoc.render_doc(find_model(method), renderer=pydoc.plaintext))
    for one in parameters_of(find_model(method)):
        assert plain(f"{one.name} : {one.expected}, default {one.default!r} {one.sentence}") in shown


@every_method
def test_the_command_line_shows_the_same_help(method, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = plain(said(capsys, "train", method, "--help"))
    for one in parameters_of(find_model(method)):
        words = plain(one.sentence).split()
        assert all(word in shown for word in words), one.name


@every_method
def test_fit_recipe_and_command_line_refuse_a_value_by_the_same_message(method, tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    params = Recipe.of(quick(method)).params
    for one in parameters_of(find_model(method)):
        wrong = next((value for value in OUTSIDE if not one.takes(value)), None)
        if wrong is None or one.group is Group.EXECUTION:
            assert one.is_propensity or one.group is Group.EXECUTION, one.name
            continue
        message = f"{one.name} must be {one.expected}; got {wrong!r}"
        with pytest.raises(InputError, match=re.escape(message)):
            find_model(method)(**{one.name: wrong}).fit(TRAIN.X, TRAIN.Y)
        with pytest.raises(InputError, match=re.escape(message)):
            make_model(method, {one.name: wrong})
        with pytest.raises(InputError, match=re.escape(message)):
            Recipe(method, {**params, one.name: wrong}).constructor_params()
        if isinstance(wrong, float) and one.annotation is float:
            flag = {"C": "--C"}.get(one.name, "--" + one.name.replace("_", "-"))
            assert message in refused(capsys, "train", method, texts, "--run", tmp_path / "run", f"{flag}={wrong}")


@every_method
def test_rank_takes_prediction_parameters_without_retraining(method, tmp_path):
    model = quick(method).fit(TRAIN.X, TRAIN.Y)
    before = model.rank(TEST.X, 5)
    model.save(tmp_path / "run")
    for one in in_group(method, Group.PREDICT):
        value = PREDICT[one.name]
        expected = quick(method, **{one.name: value}).fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 5)
        assert not np.array_equal(expected.scores, before.scores), one.name
        for found in (
            model.rank(TEST.X, 5, **{one.name: value}),
            open_run(tmp_path / "run").rank(TEST.X, 5, **{one.name: value}),
        ):
            assert np.array_equal(found.labels, expected.labels)
            assert np.array_equal(found.scores, expected.scores)
        with pytest.raises(InputError, match=f"^{one.name} must be .*; got 'much'"):
            model.rank(TEST.X, **{one.name: "much"})
    assert np.array_equal(model.rank(TEST.X, 5).scores, before.scores)


@every_method
def test_unknown_prediction_parameters_and_those_of_training_are_refused_by_name(method):
    model = quick(method).fit(TRAIN.X, TRAIN.Y)
    name = find_model(method).__name__
    for wrong in ("nonsense", "C", "n_jobs"):
        with pytest.raises(InputError, match=f"{name} has no prediction parameter '{wrong}'; it has "):
            model.rank(TEST.X, **{wrong: 1})


def test_the_groups_are_those_of_the_papers():
    found = {method: [one.name for one in in_group(method, Group.PREDICT)] for method in METHODS}
    assert {method: names for method, names in found.items() if names} == {
        "parabel": ["beam"],
        "bonsai": ["beam"],
        "pfastrexml": ["gamma", "alpha", "candidates"],
        "sleec": ["votes"],
        "nearest-mean": ["power"],
    }


def test_the_command_predict_sets_prediction_parameters(tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    said(capsys, "train", "sleec", texts, "--run", tmp_path / "run", "--n-components", 4, "--jobs", 1)
    run = open_run(tmp_path / "run")
    words = ["predict", tmp_path / "run", "--text", "fish and cod", "--json"]
    expected = run.rank(["fish and cod"], votes=1).scores[0]
    shown = said(capsys, *words, "--set", "votes=1")
    assert [float(score) for score in re.findall(r'"score": ([0-9.]+)', shown)] == pytest.approx(
        [score for score in expected.tolist() if score > -np.inf], abs=1e-4
    )
    assert run.recipe.params["votes"] == 25
    assert "SLEEC has no prediction parameter 'vote'; it has votes; did you mean 'votes'?" in refused(
        capsys, *words, "--set", "vote=1"
    )
    assert "votes must be an integer from 1 to 2147483647; got 0" in refused(capsys, *words, "--set", "votes=0")
    assert "--set votes: expected NAME=VALUE" in refused(capsys, *words, "--set", "votes")


def test_a_class_can_describe_a_shared_parameter_in_its_own_words():
    found = {one.name: one for one in parameters_of(find_model("fastxml"))}
    assert found["C"].help == "weight of the loss of a separator, relative to its l1 penalty"
    assert found["C"].range == NumberRange(0, above=True), "the range is still that of the shared declaration"
    assert {one.name: one.range for one in parameters_of(find_model("proxml"))}["l1"] == NumberRange(0, above=True)


def test_solvers_refer_to_the_declarations_of_models():
    models = {one.name: one for one in parameters_of(DiSMEC)}
    for one in parameters_of(SquaredHinge):
        if one.name != "random_state":
            assert (one.help, one.range, one.annotation) == (
                models[one.name].help,
                models[one.name].range,
                models[one.name].annotation,
            )


@pytest.mark.parametrize(
    ("annotation", "word", "value"),
    [
        (float, "2", 2),
        (int, "2", 2),
        (bool, "true", True),
        (bool | Literal["free"], "False", False),
        (bool | Literal["free"], "free", "free"),
        (Literal["none", "tail"], "none", "none"),
        (int | None, "None", None),
        (str, "3", "3"),
    ],
)
def test_words_of_the_command_line_become_values_of_the_declared_type(annotation, word, value):
    found = Parameter("one", annotation, None).parse(word)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "word", "message"),
    [
        (float, "much", "one must be a number; got 'much'"),
        (int, "2.5", "one must be an integer; got 2.5"),
        (bool, "free", "one must be True or False; got 'free'"),
        (Literal["a", "b", "c"], "d", "one must be 'a', 'b' or 'c'; got 'd'"),
        (int | np.random.RandomState | None, "x", "one must be an integer, a RandomState or None; got 'x'"),
        (int, "9" * 200 + "x", f"one must be an integer; got '{'9' * 76}..."),
    ],
)
def test_other_words_are_refused_with_what_was_expected(annotation, word, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Parameter("one", annotation, None).parse(word)


def test_numbers_of_numpy_are_numbers():
    weight = next(one for one in parameters_of(DiSMEC) if one.name == "C")
    rounds = next(one for one in parameters_of(DiSMEC) if one.name == "max_rounds")
    assert weight.takes(np.float32(2))
    assert rounds.takes(np.int64(2))
    assert not rounds.takes(np.float64(2))
    assert not weight.takes(True)
    PWDiSMEC(weighting=np.str_("tail"), normalize=np.bool_(True), n_jobs=1).fit(TRAIN.X, TRAIN.Y)


def test_a_written_section_of_parameters_is_not_changed_and_standard_names_are_known():
    class Own(Model):
        """A model.

        Parameters
        ----------
        size : its size
        """

        def __init__(self, *, size: Annotated[int, Help("x")] = 3, n_jobs: int | None = None) -> None:
            self.size, self.n_jobs = size, n_jobs

        _fit = _open = _rank = None

    assert "size : its size" in Own.__doc__
    assert "default 3" not in Own.__doc__
    assert [one.group for one in parameters_of(Own)] == [Group.FIT, Group.EXECUTION]


def test_the_last_of_several_declarations_counts():
    def both(self, *, C: Annotated[Cost, Help("mine"), Group.PREDICT] = 1.0, tol: Tolerance = 1.0):
        pass

    Made = type("Made", (), {"__init__": both})
    first, second = parameters_of(Made)
    assert (first.help, first.group, first.range) == ("mine", Group.PREDICT, NumberRange(0, above=True))
    assert (second.group, second.annotation) == (Group.FIT, float)


SEEDED = [method for method in sorted(METHODS) if "random_state" in find_model(method)._get_param_names()]


@pytest.mark.parametrize("method", SEEDED)
def test_a_random_state_is_drawn_from_in_fit_and_its_seed_is_stored(method, tmp_path):
    seed = int(np.random.RandomState(5).randint(np.iinfo(np.int32).max))
    expected = quick(method, random_state=seed).fit(TRAIN.X, TRAIN.Y)
    given = np.random.RandomState(5)
    model = quick(method, random_state=given)
    assert model.random_state is given
    model.fit(TRAIN.X, TRAIN.Y)
    assert model.random_state is given
    assert model.random_state_ == seed
    for key in expected.pieces_.listed():
        arrays = model.pieces_.get(key).arrays
        assert all(np.array_equal(arrays[name], one) for name, one in expected.pieces_.get(key).arrays.items())
    model.save(tmp_path / "run")
    assert open_run(tmp_path / "run").recipe.params["random_state"] == seed


@pytest.mark.parametrize("method", SEEDED)
def test_without_a_random_state_a_seed_is_drawn_and_a_stopped_run_keeps_it(method, tmp_path):
    model = clone(quick(method, random_state=None))
    assert model.random_state is None
    data = Dataset(TRAIN.X, TRAIN.Y)
    first = train(model, data, tmp_path / "run").recipe.params["random_state"]
    assert isinstance(first, int)
    assert train(model, data, tmp_path / "run").recipe.params["random_state"] == first, "the same command resumes"
    assert train(model, data, tmp_path / "other").recipe.params["random_state"] != first
    assert model.random_state is None


def test_new_labels_are_trained_with_the_seed_of_the_others():
    drawn = DiSMEC(random_state=None, n_jobs=1).fit(TRAIN.X, TRAIN.Y[:, :10])
    same = DiSMEC(random_state=drawn.random_state_, n_jobs=1).fit(TRAIN.X, TRAIN.Y[:, :10])
    for model in (drawn, same):
        model.fit_labels(TRAIN.X, TRAIN.Y[:, 10:])
    assert np.array_equal(drawn.rank(TEST.X).scores, same.rank(TEST.X).scores)


@pytest.mark.parametrize("wrong", [-1, 0.5, "x", np.random.default_rng(0)])
def test_other_random_states_are_refused(wrong):
    with pytest.raises(InputError, match=r"random_state must be an integer from 0 to \d+, a RandomState or None; got "):
        Parabel(random_state=wrong).fit(TRAIN.X, TRAIN.Y)


def test_help_shows_no_internals():
    shown = pydoc.render_doc(PWDiSMEC, renderer=pydoc.plaintext)
    for word in ("Mask", "no_effect", "open_pieces"):
        assert word not in shown


@every_method
def test_constructors_do_nothing_but_store_their_arguments(method):
    cls = find_model(method)
    if cls.__init__ is object.__init__:
        return
    for name in parameters_of(cls):
        marker = object()
        assert getattr(cls(**{name.name: marker}), name.name) is marker
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in inspect.signature(cls).parameters.values())
