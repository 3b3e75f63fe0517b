"""Ensemble: fitted members are kept, weights are those of held-out rows, and mistakes are refused in one line."""

import numpy as np
import pytest

from tests.runs.corpora import small_corpus
from unmissed import DiSMEC, Ensemble, InputError, Popularity, load_model
from unmissed.execution import InMemory, Partition, PrefixedPieces, Unfinished, Work
from unmissed.models.ensembles import member_weights
from unmissed.models.ensembles.fusion import Fusion
from unmissed.models.ensembles.member_weights import GreedySearch
from unmissed.models.selection import Goal, HeldOut
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking
from unmissed.runs import Recipe

TRAIN, TEST = small_corpus()


@pytest.fixture(scope="module")
def members():
    return [DiSMEC(n_jobs=1, C=0.1).fit(TRAIN.X, TRAIN.Y), Popularity().fit(TRAIN.X, TRAIN.Y)]


@pytest.fixture(scope="module")
def fitted():
    return Ensemble(members=[DiSMEC(n_jobs=1, C=0.1), Popularity()]).fit(TRAIN.X, TRAIN.Y)


def test_fitted_members_are_kept_and_give_the_same_ensemble(members, fitted, monkeypatch):
    found = Ensemble.of(members)
    monkeypatch.setattr(DiSMEC, "_fit", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(member_weights.WeightsTask, "run", lambda *_: fitted.pieces_.get("weights"))
    found.fit(TRAIN.X, TRAIN.Y)
    assert found.pieces_.listed() == fitted.pieces_.listed()
    assert np.array_equal(found.rank(TEST.X).scores, fitted.rank(TEST.X).scores)


def test_a_member_of_an_opened_ensemble_is_a_model_of_its_own(fitted, members, tmp_path):
    fitted.save(tmp_path / "run")
    one = load_model(tmp_path / "run").members_[0]
    assert np.array_equal(one.rank(TEST.X).scores, members[0].rank(TEST.X).scores)
    one.save(tmp_path / "single")
    assert np.array_equal(load_model(tmp_path / "single").rank(TEST.X).scores, members[0].rank(TEST.X).scores)


def test_members_are_named_models_or_methods(fitted):
    by_name = Recipe.of(Ensemble(members=["dismec", "popularity"])).params["members"]
    assert by_name == Recipe.of(Ensemble(members=(DiSMEC(), Popularity()))).params["members"]
    assert [one["method"] for one in by_name] == ["dismec", "popularity"]
    assert Recipe.of(fitted).constructor_params()["members"][0].C == 0.1


@pytest.mark.parametrize(
    ("members", "line"),
    [
        (["dismec"], "at least 2 members; got 1"),
        ("dismec", "members must be a list of models"),
        (["dismec", 3], "members must be models or names of methods; got 3"),
        (["dismec", "nonsense"], "unknown method 'nonsense'"),
        (["dismec", "ensemble"], "cannot contain an ensemble"),
        ([Ensemble(), "dismec"], "cannot contain an ensemble"),
        (["popularity", DiSMEC(random_state=None)], "member 1 has random_state None"),
    ],
)
def test_wrong_members_are_refused(members, line):
    with pytest.raises(InputError, match=line):
        Ensemble(members=members).fit(TRAIN.X, TRAIN.Y)


def test_members_that_were_fitted_on_other_rows_are_refused(members):
    for X, Y, line in (
        (TRAIN.X[:, :50], TRAIN.Y, "was fitted on 400 features; X has 50"),
        (TRAIN.X, TRAIN.Y[:, :9], "was fitted on 40 labels; Y has 9"),
        (TRAIN.X[:200], TRAIN.Y[:200], "was fitted on other rows"),
    ):
        with pytest.raises(InputError, match=line):
            Ensemble.of(members).fit(X, Y)


def test_members_that_were_fitted_on_other_label_names_are_refused(members):
    names = [[f"l{label}" for label in row.indices] for row in TRAIN.Y]
    named = [Popularity().fit(TRAIN.X, names), Popularity().fit(TRAIN.X, names)]
    other = [[name.upper() for name in row] for row in names]
    with pytest.raises(InputError, match="labels with other names"):
        Ensemble.of(named).fit(TRAIN.X, other)


def test_a_recipe_of_ensembles_in_ensembles_is_refused(fitted):
    recipe = Recipe.of(fitted)
    for members in ([], None, [{"method": "ensemble", "params": {}}], [{"method": 1}], ["dismec"]):
        recipe.params["members"] = members
        with pytest.raises(InputError, match="recipe"):
            recipe.constructor_params()


def held_out_search(rankings, goal):
    """Return a search over members that are given by their rankings of the held-out rows, as equal probabilities."""
    held_out = HeldOut(TrainingData.check(TRAIN.X, TRAIN.Y), goal)
    truth = held_out.truth(0)
    values = np.stack([one(truth.toarray()) for one in rankings]).astype(float)
    labels = np.broadcast_to(np.arange(TRAIN.n_labels, dtype=np.int32), values.shape[1:])
    listed = [Ranking.from_scores(one, TRAIN.n_labels) for one in values]
    return GreedySearch(Fusion(labels, values), listed, held_out, truth)


def test_members_with_different_errors_share_the_weight():
    rng = np.random.default_rng(0)
    noisy = [lambda Y: Y + rng.normal(size=Y.shape), lambda Y: Y + rng.normal(size=Y.shape)]
    weights, best, gains = held_out_search(noisy, Goal("P@5")).choose()
    assert weights.min() > 0.2
    assert weights.sum() == pytest.approx(1)
    assert gains["P@5"].value > 0
    assert best in (0, 1)


def test_a_member_that_adds_nothing_gets_no_weight():
    rng = np.random.default_rng(0)
    weights, best, gains = held_out_search([lambda Y: rng.random(Y.shape), lambda Y: Y], Goal("P@1")).choose()
    assert weights.tolist() == [0, 1]
    assert best == 1
    assert gains["P@1"].value == 0


def test_a_gain_of_the_goal_is_refused_if_another_metric_falls():
    rng = np.random.default_rng(0)

    def head_only(Y):
        return Y * (np.arange(Y.shape[1]) < 3) + rng.normal(size=Y.shape) / 3

    search = held_out_search([head_only, lambda Y: Y + rng.normal(size=Y.shape) / 3], Goal("P@1", keep="PSP@5"))
    weights, best, gains = search.choose()
    assert not search.held_out.goal.falls(gains)
    assert weights[best] > 0


def test_partitions_train_all_members_and_the_last_one_opens_the_ensemble(fitted):
    pieces = InMemory()
    for number in (1, 2):
        model = Ensemble(members=[DiSMEC(n_jobs=1, C=0.1, block_size=8), Popularity()])
        work = Work(pieces, partition=Partition(number, 2))
        if number == 1:
            with pytest.raises(Unfinished) as error:
                model.fit(TRAIN.X, TRAIN.Y, work=work)
            assert all(key.startswith("members/0/labels/") for key in error.value.missing)
            assert "members/1/labels/00000000" in pieces.listed(), "the first partition trains the second member, too"
        else:
            model.fit(TRAIN.X, TRAIN.Y, work=work)
    assert np.array_equal(model.rank(TEST.X).labels, fitted.rank(TEST.X).labels)


def test_pieces_below_a_prefix_keep_their_keys(fitted):
    below = PrefixedPieces(fitted.pieces_, "members/0")
    assert below.listed() == ["labels/00000000"]
    assert below.get("labels/00000000").key == "labels/00000000"
    assert below.get("weights") is None
    every = InMemory()
    copy = PrefixedPieces(every, "members/7")
    copy.put(below.get("labels/00000000"))
    assert every.listed() == ["members/7/labels/00000000"]
    copy.drop("labels/00000000")
    assert every.listed() == []


def test_inspection_shows_weights_and_the_held_out_gain(fitted):
    shown = fitted.metadata()
    assert shown["weight of member 0, dismec"] == round(fitted.weights_[0], 3)
    assert shown["held-out rows"] == 300
    assert set(shown) >= {"best member", "held-out PSP@5, points over the best member"}


def test_depth_bounds_what_each_member_lists(fitted):
    assert ((fitted.rank(TEST.X, 10, depth=3).labels >= 0).sum(axis=1) <= 6).all()
    assert np.array_equal(fitted.rank(TEST.X, 3, depth=40).labels, fitted.rank(TEST.X, 3).labels)


def test_batches_of_rows_do_not_change_the_ranking(fitted, monkeypatch):
    expected = fitted.rank(TEST.X, 4)
    monkeypatch.setattr("unmissed.models.ensembles.estimator._CELLS", 500)
    found = fitted.rank(TEST.X, 4)
    assert isinstance(found, Ranking)
    assert np.array_equal(found.scores, expected.scores)


def test_without_held_out_labels_all_members_have_the_same_weight():
    X, Y = TRAIN.X[:120], TRAIN.Y[:120]
    for model in (
        Ensemble(members=["dismec", "popularity"]).fit(X, 0 * Y),
        Ensemble(members=["dismec", "popularity"]).fit(X[:20], Y[:20]),
    ):
        assert model.weights_.tolist() == [0.5, 0.5]
        assert model.metadata()["held-out rows"] == 0
