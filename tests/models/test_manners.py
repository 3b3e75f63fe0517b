"""scikit-learn's manners: frames and names in, model selection over pipelines, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context, exceptions
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from tests.runs.corpora import small_corpus
from unmissed import LEML, DiSMEC, LogisticOVR, Popularity, PWDiSMEC, load_model, open_run, scorer
from unmissed.data import TextFeatures
from unmissed.errors import InputError
from unmissed.execution import Work
from unmissed.metrics import evaluate
from unmissed.models.method_registry import find_model, known_methods, make_model
from unmissed.models.parameters import parameters_of
from unmissed.propensity import Constant, FromTable, Jain
from unmissed.runs import save
from unmissed.settings import SETTINGS

TRAIN, TEST = small_corpus()
TEXTS = ["cod net", "court judge", "cod quota", "milk bread", "judge appeal", "bread cheese"] * 3
TAGS = [["fish"], ["law"], ["fish", "trade"], ["food"], ["law"], ["food", "trade"]] * 3


def test_lists_of_names_become_classes():
    X = TextFeatures().fit_transform(TEXTS)
    model = DiSMEC(n_jobs=1).fit(X, TAGS)
    assert model.classes_.tolist() == ["fish", "food", "law", "trade"]
    best = model.rank(X[:2], 1).labels[:, 0]
    assert model.classes_[best].tolist() == ["fish", "law"]
    assert model.score(X, TAGS) == 1.0
    with pytest.raises(InputError, match="does not know the label 'sport'"):
        model.score(X, [["sport"]] * len(TEXTS))


def test_a_name_that_only_held_out_rows_have_counts_as_not_found():
    X = TextFeatures().fit_transform(TEXTS)
    model = DiSMEC(n_jobs=1).fit(X, TAGS)
    some = [*TAGS[:-2], ["sport"], ["food", "sport"]]
    assert model.score(X, some) == pytest.approx(17 / 18)
    names = [*model.classes_, "sport"]
    padded = DiSMEC(n_jobs=1).fit(X, np.array([[name in tags for name in names] for tags in TAGS]))
    Y = np.array([[name in tags for name in names] for tags in some])
    for metric in ("P@1", "PSP@3"):
        assert scorer(metric)(model, X, some) == pytest.approx(scorer(metric)(padded, X, Y))
    with pytest.raises(InputError):
        scorer("P@1")(model, X, Y)  # a matrix has to have the model's columns
    found = cross_val_score(DiSMEC(n_jobs=1), X, [*TAGS[:-1], ["sport"]], scoring=scorer("PSP@3"), cv=KFold(3))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("row", [list, tuple, lambda tags: np.array(tags, dtype=object)])
def test_a_series_of_lists_of_names_is_taken(row):
    X = TextFeatures().fit_transform(TEXTS)
    tags = pd.Series([row(tags) for tags in TAGS], index=range(100, 100 + len(TAGS)))
    model, same = DiSMEC(n_jobs=1).fit(X, tags), DiSMEC(n_jobs=1).fit(X, TAGS)
    assert model.classes_.tolist() == same.classes_.tolist()
    assert np.array_equal(model.rank(X, 3).scores, same.rank(X, 3).scores)
    assert model.score(X, tags) == 1.0
    assert scorer("PSP@3")(model, X, tags) == scorer("PSP@3")(same, X, TAGS)


@pytest.mark.parametrize("name", known_methods())
def test_no_row_is_nothing_to_learn_from(name):
    with pytest.raises(InputError, match="there are 0 rows to train on"):
        make_model(name, {}).fit(TRAIN.X[:0], TRAIN.Y[:0])


TAKES_PROPENSITY = [name for name in known_methods() if any(p.is_propensity for p in parameters_of(find_model(name)))]


@pytest.mark.parametrize("name", TAKES_PROPENSITY)
def test_a_propensity_is_a_model_a_word_a_number_or_an_array(name, tmp_path):
    p = np.linspace(0.2, 0.9, TRAIN.n_labels)
    weighted = {"weighting": "unbiased"} if name == "leml" else {}
    for number, (given, means) in enumerate(
        [("jain:0.6,2.6", Jain(0.6, 2.6)), (0.4, Constant(0.4)), (p, FromTable(p))]
    ):
        model, same = (
            clone(make_model(name, {"propensity": one, **weighted})).fit(TRAIN.X, TRAIN.Y) for one in (given, means)
        )
        best = same.rank(TEST.X, 3)
        assert np.array_equal(model.rank(TEST.X, 3).scores, best.scores)
        model.save(tmp_path / str(number))
        run = open_run(tmp_path / str(number))
        assert np.array_equal(run.rank(TEST.X, 3).scores, best.scores)
        assert run.recipe.propensity == means
        assert np.array_equal(run.propensities(given), run.propensities())


def test_words_and_arrays_of_propensities_are_treated_as_the_models_that_they_mean():
    model = PWDiSMEC(n_jobs=1, propensity="jain:0.6,2.6").set_params(propensity__a=0.5)
    assert model.propensity == Jain(0.5, 2.6)
    p = np.full(TRAIN.n_labels, 0.5)
    fitted = PWDiSMEC(n_jobs=1, propensity=p).fit(TRAIN.X, TRAIN.Y)
    with pytest.raises(InputError, match="no entry for new labels"):
        fitted.fit_labels(TRAIN.X, TRAIN.Y[:, :1])
    assert scorer("PSP@3", p)(fitted, TEST.X, TEST.Y) == scorer("PSP@3", Constant(0.5))(fitted, TEST.X, TEST.Y)
    chosen = PWDiSMEC(n_jobs=1, weighting="auto", propensity=p).fit(TRAIN.X, TRAIN.Y)
    assert chosen.weighting_ == PWDiSMEC(n_jobs=1, weighting="auto", propensity=0.5).fit(TRAIN.X, TRAIN.Y).weighting_
    with pytest.raises(InputError, match="unknown propensity 'jane'; expected jain"):
        PWDiSMEC(propensity="jane").fit(TRAIN.X, TRAIN.Y)


@pytest.mark.parametrize("make", [lambda: DiSMEC(n_jobs=1), lambda: LEML(n_components=2, n_jobs=1)])
def test_labels_are_taken_under_scikit_learns_name_too(make):
    X = TextFeatures().fit_transform(TEXTS)
    model, same = make().fit(X, y=TAGS), make().fit(X, TAGS)
    assert np.array_equal(model.rank(X, 3).scores, same.rank(X, 3).scores)
    assert model.score(X, y=TAGS) == same.score(X, TAGS)
    with pytest.raises(InputError, match="given twice, as Y and as y"):
        make().fit(X, TAGS, y=TAGS)


def test_frames_name_features_and_labels_and_other_columns_are_refused():
    X = pd.DataFrame(TextFeatures().fit_transform(TEXTS).toarray(), columns=list("abcdefghi"))
    Y = pd.DataFrame({name: [name in tags for tags in TAGS] for name in ("fish", "food", "law", "trade")})
    model = DiSMEC(n_jobs=1).fit(X, Y)
    assert model.feature_names_in_.tolist() == list("abcdefghi")
    assert model.classes_.tolist() == ["fish", "food", "law", "trade"]
    plain = DiSMEC(n_jobs=1).fit(X.to_numpy(), Y.to_numpy())
    assert np.array_equal(model.rank(X, 3).scores, plain.rank(X.to_numpy(), 3).scores)
    with pytest.raises(InputError, match="in another order"):
        model.rank(X[list("ihgfedcba")])
    with pytest.raises(InputError, match="no column 'a'"):
        model.rank(X.rename(columns={"a": "z"}))
    assert not hasattr(model.fit(X.to_numpy(), Y), "feature_names_in_"), "names of an earlier fit are forgotten"


def test_sparse_frames_are_taken():
    X = TextFeatures().fit_transform(TEXTS)
    frame = pd.DataFrame.sparse.from_spmatrix(X, columns=[f"f{j}" for j in range(X.shape[1])])
    found = DiSMEC(n_jobs=1).fit(frame, TAGS).rank(frame, 2)
    assert np.array_equal(found.scores, DiSMEC(n_jobs=1).fit(X, TAGS).rank(X, 2).scores)


def test_names_and_counts_that_fit_saw_are_saved(tmp_path):
    X = TextFeatures().fit_transform(TEXTS)
    DiSMEC(n_jobs=1).fit(X, TAGS).save(tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert run.label_names == ["fish", "food", "law", "trade"]
    assert run.label_counts.tolist() == [6, 6, 6, 6]
    assert run.propensities(Constant(0.5)).tolist() == [0.5] * 4


def test_new_labels_bring_their_names():
    X = TextFeatures().fit_transform(TEXTS)
    model = DiSMEC(n_jobs=1).fit(X, TAGS)
    model.fit_labels(X, [["new"] if position % 2 else [] for position in range(len(TEXTS))])
    assert model.classes_.tolist() == ["fish", "food", "law", "trade", "new"]
    assert model.label_counts_.tolist() == [6, 6, 6, 6, 9]
    with pytest.raises(InputError, match="all have names"):
        model.fit_labels(X, np.ones((len(TEXTS), 1)))


def test_weights_and_all_scores_come_on_request(monkeypatch):
    model = DiSMEC(n_jobs=1, normalize=False, block_size=16).fit(TRAIN.X, TRAIN.Y)
    scores = model.decision_function(TEST.X)
    assert scores.shape == (TEST.n_samples, TRAIN.n_labels)
    assert scores == pytest.approx(TEST.X @ model.coef_.T + model.intercept_, abs=1e-4)
    monkeypatch.setattr(SETTINGS, "decision_bytes", 4 * TEST.n_samples * TRAIN.n_labels - 1)
    with pytest.raises(InputError, match=r"would take .* GiB"):
        model.decision_function(TEST.X)


def test_scikit_learn_knows_what_it_is_and_sets_parameters_inside_the_propensity():
    model = PWDiSMEC(n_jobs=1)
    assert is_classifier(model)
    assert clone(model.set_params(propensity__a=0.6)).propensity == Jain(0.6, 1.5)
    assert model.get_params()["propensity__b"] == 1.5
    for name in ("nonsense", "nonsense__a"):
        with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
            model.set_params(**{name: 1})
    with pytest.raises(InputError, match=r"Jain\(a=0.6, b=1.5\) has no parameter 'nonsense'"):
        model.set_params(propensity__nonsense=1)
    with pytest.raises(InputError, match="a must be a finite number of at least 0"):
        model.set_params(propensity__a=-1)
    with pytest.raises(ValueError, match="Invalid parameter 'propensity'"):
        DiSMEC().set_params(propensity__a=1)
    table = PWDiSMEC(propensity=FromTable(np.full(3, 0.5)))
    assert clone(table).propensity is table.propensity, "immutable"
    assert list(table.propensity.get_params()) == ["values"]
    assert repr(model) == "PWDiSMEC(n_jobs=1, propensity=Jain(a=0.6, b=1.5))"
    assert repr(Popularity()) == "Popularity()"


@pytest.mark.parametrize("metric", ["P@1", "PSP@3", "nDCG@5", "macro F1@3", "MRR@5"])
def test_a_scorer_is_the_metric_with_the_propensities_of_the_rows_that_were_fitted(metric):
    model = DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y)
    cut = int(metric[-1])
    inverse = 1 / Jain().estimate(TRAIN.label_counts, TRAIN.n_samples)
    expected = evaluate(model.rank(TEST.X, cut), TEST.Y, inverse, cut, metrics=[metric[:-2]])[metric]
    assert scorer(metric)(model, TEST.X, TEST.Y) == expected
    if metric == "PSP@3":
        assert scorer(metric, Constant(0.5))(model, TEST.X, TEST.Y) != expected


def test_scorers_refuse_what_is_no_metric_or_no_model():
    for name in ("precision", "F1@5", "p@1", 5):
        with pytest.raises(InputError, match=f"unknown metric {name!r}; known metrics: P@k, nDCG@k, PSP@k"):
            scorer(name)
    for name in ("P", "P@0", "P@-1", "P@ten"):
        with pytest.raises(InputError, match="P@1 or PSP@5"):
            scorer(name)
    with pytest.raises(InputError, match="unknown propensity 'jane'"):
        scorer("PSP@5", "jane")
    with pytest.raises(InputError, match="fitted model of this package"):
        scorer()(DiSMEC(), TEST.X, TEST.Y)


def test_grid_search_chooses_over_a_pipeline_that_can_be_saved_as_a_run(tmp_path):
    pipeline = Pipeline([("text", TextFeatures()), ("model", PWDiSMEC(n_jobs=1))])
    grid = {"model__C": [0.1, 1.0], "model__weighting": ["none", "tail"], "text__min_df": [1]}
    Y = np.array([[name in tags for name in ("fish", "food", "law", "trade")] for tags in TAGS], float)
    search = GridSearchCV(pipeline, grid, scoring=scorer("PSP@1"), cv=2, refit=True, error_score="raise")
    search.fit(TEXTS, Y)
    assert set(search.best_params_) == set(grid)
    assert 0 <= search.best_score_ <= 1
    save(search.best_estimator_, tmp_path / "run", label_names=["fish", "food", "law", "trade"])
    assert open_run(tmp_path / "run").suggest("cod quota net", 1)[0][0] == "fish"
    assert isinstance(load_model(tmp_path / "run"), PWDiSMEC)


def test_a_pipeline_of_other_steps_is_refused_as_a_run(tmp_path):
    pipeline = Pipeline([("model", DiSMEC(n_jobs=1))]).fit(TRAIN.X, TRAIN.Y)
    with pytest.raises(InputError, match="cannot save a pipeline of DiSMEC"):
        save(pipeline, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_cross_validation_works_on_a_model_without_a_pipeline():
    assert len(cross_val_score(DiSMEC(n_jobs=1), TRAIN.X, TRAIN.Y.toarray(), cv=2, scoring=scorer("P@1"))) == 2
    assert len(cross_val_score(DiSMEC(n_jobs=1), TRAIN.X, TRAIN.Y.toarray(), cv=2)) == 2, "its own score"


def test_a_weight_is_how_often_a_row_counts():
    weights = np.random.default_rng(0).integers(0, 4, TRAIN.n_samples)
    kept = np.repeat(np.arange(TRAIN.n_samples), weights)
    for model in (LogisticOVR(n_jobs=1), Popularity()):
        found = clone(model).fit(TRAIN.X, TRAIN.Y, sample_weight=weights)
        expected = clone(model).fit(TRAIN.X[kept], TRAIN.Y[kept])
        assert np.array_equal(found.rank(TEST.X, 3).scores, expected.rank(TEST.X, 3).scores)
        assert np.array_equal(found.label_counts_, expected.label_counts_)
    assert has_fit_parameter(DiSMEC(), "sample_weight")
    with pytest.raises(InputError, match="cannot be given together"):
        LEML().fit(TRAIN.X, TRAIN.Y, sample_weight=weights, observed=TRAIN.Y)


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        ([1.0, 0.5], "is 0.5 for row 1; expected non-negative integers"),
        ([1, -1], "is -1 for row 1"),
        ([1, np.nan], "is nan for row 1"),
        ([1], "one number for each of 2 rows"),
        ([2**31, 1], "adds up to 2147483649; expected 1 to"),
        ([1e31, 1], "is 1e\\+31 for row 0; expected a number from 0 to 1e\\+30"),
        ([0, 0], "adds up to zero"),
    ],
)
def test_weights_that_are_no_counts_are_refused(weights, what):
    with pytest.raises(InputError, match=what):
        Popularity().fit(np.eye(2), np.eye(2), sample_weight=weights)


def test_weights_go_through_a_pipeline():
    pipeline = Pipeline([("text", TextFeatures()), ("model", Popularity())])
    Y = np.array([[1, 0], [0, 1], [0, 1]])
    pipeline.fit(["a cod", "a net", "a net"], Y, model__sample_weight=[3, 1, 1])
    assert pipeline[-1].label_counts_.tolist() == [3, 2]


def test_weights_are_routed_as_metadata():
    weights = np.random.default_rng(0).integers(1, 3, TRAIN.n_samples)
    with config_context(enable_metadata_routing=True):
        model = Popularity().set_fit_request(sample_weight=True)
        search = GridSearchCV(Pipeline([("model", model)]), {}, scoring=scorer("P@1"), cv=2, error_score="raise")
        search.fit(TRAIN.X, TRAIN.Y.toarray(), sample_weight=weights)
    assert np.array_equal(search.best_estimator_[-1].label_counts_, TRAIN.Y.T @ weights)


def test_a_model_that_is_not_fitted_says_so_in_scikit_learns_way_too():
    with pytest.raises(exceptions.NotFittedError, match="not fitted yet"):
        DiSMEC().rank(TEST.X)


def test_an_evaluation_is_shown_in_one_line():
    model = Popularity().fit(TRAIN.X, TRAIN.Y)
    found = evaluate(model.rank(TEST.X, 3), TEST.Y, np.ones(TRAIN.n_labels), (1, 3))
    values = ", ".join(f"{name} {found[name]:.4f}" for name in ("P@3", "nDCG@3", "PSP@3", "PSnDCG@3"))
    assert repr(found) == f"Evaluation(50 rows, 40 labels: {values})"


@pytest.mark.parametrize("cls", [DiSMEC, LEML, Popularity])
def test_fit_prints_its_progress_and_calls_back(cls, capsys):
    params = {name: value for name, value in {"n_jobs": 1, "n_components": 4}.items() if name in cls().get_params()}
    calls, of_work = [], []
    cls(**params).fit(TRAIN.X, TRAIN.Y)
    assert capsys.readouterr().err == ""
    work = Work(progress=lambda *at: of_work.append(at))
    model = cls(**params).fit(TRAIN.X, TRAIN.Y, verbose=1, progress=lambda *at: calls.append(at), work=work)
    total = calls[-1][1]
    assert calls == of_work
    assert calls[-1] == (total, total)
    printed = capsys.readouterr()
    assert f"{cls.__name__}: {total} of {total} {cls.unit} (100 %) after" in printed.err
    assert printed.out == ""
    work.tell(0)
    assert len(of_work) == len(calls) + 1, "callbacks of fit end with fit"
    assert np.array_equal(model.rank(TEST.X, 3).labels, cls(**params).fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 3).labels)


def test_new_labels_report_progress_too(capsys):
    model, calls = DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y[:, :30]), []
    model.fit_labels(TRAIN.X, TRAIN.Y[:, 30:], verbose=True, progress=lambda *at: calls.append(at))
    assert calls[-1] == (10, 10)
    assert "DiSMEC: 10 of 10 labels (100 %)" in capsys.readouterr().err


@pytest.mark.parametrize("verbose", [-1, 2, "yes", None])
def test_verbose_is_0_or_1(verbose):
    with pytest.raises(InputError, match="verbose must be 0 or 1"):
        DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y, verbose=verbose)


def test_training_and_preparing_are_logged_and_silent_by_default(caplog, capsys):
    DiSMEC(n_jobs=1).fit(TRAIN.X, TRAIN.Y)
    assert not capsys.readouterr().err
    with caplog.at_level("DEBUG", logger="unmissed"):
        DiSMEC(n_jobs=1, block_size=16).fit(TRAIN.X, TRAIN.Y).prepare()
    said = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    sizes = f"40 labels on {TRAIN.n_samples} rows with {TRAIN.n_features} features"
    assert said[0] == ("unmissed.models.base", "INFO", f"DiSMEC: training {sizes}")
    assert said[1] == ("unmissed.execution.work", "INFO", "0 of 3 pieces are there, 3 are made here")
    assert [level for _, level, _ in said[2:5]] == ["DEBUG"] * 3
    assert said[5][2].startswith("DiSMEC: trained 40 labels in ")
    assert said[6][0] == "unmissed.execution.once"
    assert said[6][2].startswith("prepared quantized weights, ")
