"""What holds for every model in the registry, and for the tests' own model, whatever its family."""

import inspect
import json
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tests.cli.speaking import said
from tests.models import own_model
from tests.runs.corpora import small_corpus, tree_bytes, write_texts
from unmissed import load_model
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Piece, Threads, Work
from unmissed.features import Features
from unmissed.models import Model, find_model, make_model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.method_registry import COMPOSITES, METHODS
from unmissed.models.parameters import parameters_of
from unmissed.propensity import Constant
from unmissed.runs import Recipe, open_run, train

TRAIN, TEST = small_corpus()
QUICK = {"n_jobs": 1, "block_size": 16, "n_trees": 2, "max_leaf": 8, "n_learners": 2, "n_components": 8}
QUICK["members"] = ("dismec", "popularity")
"""Small settings, for the methods that have such parameters."""

assert own_model.METHOD in METHODS
every_method = pytest.mark.parametrize("method", [*sorted(METHODS), *COMPOSITES])


def quick(method, **more):
    """Make a small model of a method; parameters that it does not have are left out."""
    known = find_model(method)._get_param_names()
    return make_model(method, {name: value for name, value in {**QUICK, **more}.items() if name in known})


@pytest.fixture(scope="module")
def fitted():
    """One fitted model per method."""
    made: dict[str, Model] = {}

    def fit(method):
        if method not in made:
            made[method] = quick(method).fit(TRAIN.X, TRAIN.Y)
        return made[method]

    return fit


def assert_same_ranking(found, expected):
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.scores, expected.scores)


def assert_same_pieces(found, expected):
    assert found.listed() == expected.listed()
    for key in expected.listed():
        one, other = found.get(key), expected.get(key)
        assert one.metadata == other.metadata, key
        assert one.arrays.keys() == other.arrays.keys(), key
        for name in other.arrays:
            assert np.array_equal(one.arrays[name], other.arrays[name], equal_nan=True), (key, name)


@every_method
def test_parameters_are_keywords_with_defaults_types_and_a_line_of_help(method):
    cls = find_model(method)
    for one in parameters_of(cls):
        assert one.help, f"{one.name} is not described"
        assert one.default is not inspect.Parameter.empty, one.name
        assert inspect.signature(cls).parameters[one.name].kind is inspect.Parameter.KEYWORD_ONLY, one.name
    assert (METHODS | COMPOSITES)[method].summary


@every_method
def test_parameters_survive_clone_fit_and_the_recipe(method, fitted):
    model = fitted(method)
    before = quick(method).get_params()
    assert model.get_params() == before
    assert clone(model).get_params() == before
    recipe = Recipe.of(model)
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again == recipe
    assert Recipe.of(find_model(method)(**again.constructor_params())) == recipe


@every_method
def test_an_unknown_parameter_is_refused_by_name(method):
    with pytest.raises(InputError, match=f"{method} has no parameter 'nonsense'"):
        make_model(method, {"nonsense": 1})


@every_method
def test_it_ranks_labels_in_order_and_pads_behind_the_last(method, fitted):
    n_labels = TRAIN.n_labels
    ranking = fitted(method).rank(TEST.X, n_labels + 3)
    assert ranking.labels.shape == (TEST.n_samples, n_labels + 3)
    assert ranking.labels.max() < n_labels
    assert (ranking.labels[:, n_labels:] == -1).all()
    best = fitted(method).rank(TEST.X, 2)
    assert np.array_equal(best.labels, ranking.labels[:, :2]), "a longer list begins with the shorter one"


@pytest.fixture(scope="module")
def with_untrained():
    """One model per method, fitted on data in which every third label has no positive."""
    made: dict[str, Model] = {}

    def fit(method):
        if method not in made:
            kept = sp.diags((np.arange(TRAIN.n_labels) % 3 > 0).astype(np.float32))
            made[method] = quick(method).fit(TRAIN.X, TRAIN.Y @ kept)
        return made[method]

    return fit


@every_method
def test_labels_without_a_training_positive_are_never_ranked(method, with_untrained, tmp_path):
    model = with_untrained(method)
    trained = np.flatnonzero(model.label_counts_)
    assert len(trained) < TRAIN.n_labels, "some labels have no positive"
    X = sp.vstack([TEST.X] * 6 + [sp.csr_matrix((1, TEST.n_features))], format="csr")  # enough rows for a scan
    for rows in (X[:1], X[:9], X):
        for k in (1, 5, TRAIN.n_labels + 2):
            found = model.rank(rows, k).labels
            assert found.shape == (rows.shape[0], k)
            assert np.isin(found, [-1, *trained]).all()
    assert not hasattr(model, "predict") or np.isin(model.predict(TEST.X, -1e9).indices, trained).all()
    model.save(tmp_path / "run")
    for again in (open_run(tmp_path / "run"), load_model(tmp_path / "run")):
        assert_same_ranking(again.rank(X, 5), model.rank(X, 5))
    load_model(tmp_path / "run").save(tmp_path / "copy")
    assert_same_ranking(load_model(tmp_path / "copy").rank(X, 5), model.rank(X, 5))


@every_method
def test_untrained_labels_make_way_for_the_next_best_ones(method, with_untrained):
    model = with_untrained(method)
    untrained = model.label_counts_ == 0
    without_counts = type(model).open(model.get_params(), model.pieces_, TRAIN.n_features, TRAIN.n_labels)
    every = without_counts.rank(TEST.X, TRAIN.n_labels)
    for k in (1, 4, 20):
        found = model.rank(TEST.X, k)
        for row in range(TEST.n_samples):
            kept = [
                position for position, label in enumerate(every.labels[row]) if label >= 0 and not untrained[label]
            ][:k]
            best = found.labels[row][found.labels[row] >= 0]
            assert best.tolist() == every.labels[row, kept].tolist()
            assert found.scores[row, : len(kept)] == pytest.approx(every.scores[row, kept], rel=1e-5, abs=1e-6)


@every_method
def test_mixed_features_are_scaled_part_by_part_or_refused(method, tmp_path):
    rng = np.random.default_rng(0)
    rows, held = (Features(one.X, rng.normal(size=(one.n_samples, 5))) for one in (TRAIN, TEST))
    model = quick(method, dense_weight=0.5)
    if model.dense_support is DenseSupport.ONE_PART:
        with pytest.raises(InputError, match=r"X has 400 sparse and 5 dense features; \w+ takes one kind only"):
            model.fit(rows, TRAIN.Y)
        return
    model.fit(rows, TRAIN.Y)
    assert (model.n_features_in_, model.n_dense_in_) == (405, 5)
    found = model.rank(held, 3)
    model.save(tmp_path / "run")
    assert_same_ranking(open_run(tmp_path / "run").rank(held, 3), found)
    for other, message in (
        (TEST.X, "X has 0 dense features, the model was fitted on 5"),
        (held.csr, "X has 0 dense features"),
        (held.csr.toarray(), "X has 405 dense features, the model was fitted on 5"),
        (Features(TEST.X[:, :9], held.dense), "X has 9 sparse features, the model was fitted on 400"),
    ):
        with pytest.raises(InputError, match=message):
            model.rank(other, 3)
    if model.dense_support is DenseSupport.CONVERTED:
        stacked = quick(method, normalize=False).fit(rows.normalized(0.5).csr, TRAIN.Y)
        assert_same_ranking(stacked.rank(held.normalized(0.5).csr, 3), found)


@every_method
def test_a_k_far_beyond_the_labels_is_refused_before_anything_is_allocated(method, fitted):
    with pytest.raises(InputError, match=r"there are 40 labels: padding .* GiB; lower k to 40"):
        fitted(method).rank(TEST.X, 10**9)


@every_method
def test_rows_are_ranked_one_by_one_as_all_at_once(method, fitted):
    together = fitted(method).rank(TEST.X[:9], 4)
    for row in range(9):
        one = fitted(method).rank(TEST.X[row], 4)
        assert np.array_equal(one.labels[0], together.labels[row])
        assert one.scores[0] == pytest.approx(together.scores[row], rel=1e-5, abs=1e-6)
    assert fitted(method).rank(TEST.X[:0], 4).labels.shape == (0, 4)


@every_method
def test_it_learns_the_rows_it_saw(method, fitted):
    if method in ("popularity", "lexical"):
        pytest.skip("it does not look at rows, or not at labels")
    best = fitted(method).rank(TRAIN.X, 1).labels[:, 0]
    right = np.asarray(TRAIN.Y[np.arange(TRAIN.n_samples), np.maximum(best, 0)]).ravel() * (best >= 0)
    floor = TRAIN.label_counts.max() / TRAIN.n_samples
    assert right.mean() > floor, "it does better on its own rows than naming the most frequent label"


@every_method
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array, lambda M: M.toarray().astype(bool)])
def test_rows_and_labels_of_any_form_give_the_same_model(method, form, fitted):
    X = TRAIN.X if form not in (sp.csr_array, sp.csc_matrix) else form(TRAIN.X)
    model = quick(method).fit(X, form(TRAIN.Y))
    assert_same_pieces(model.pieces_, fitted(method).pieces_)


@every_method
def test_read_only_memory_mapped_input_is_accepted_and_not_changed(method, fitted, tmp_path):
    def mapped(matrix, name):
        parts = []
        for part in ("data", "indices", "indptr"):
            np.save(tmp_path / f"{name}-{part}.npy", getattr(matrix, part))
            parts.append(np.load(tmp_path / f"{name}-{part}.npy", mmap_mode="r"))
        return sp.csr_matrix(tuple(parts), shape=matrix.shape)

    model = quick(method).fit(mapped(TRAIN.X, "X"), mapped(TRAIN.Y, "Y"))
    assert_same_pieces(model.pieces_, fitted(method).pieces_)
    assert_same_ranking(model.rank(mapped(TEST.X, "test"), 3), fitted(method).rank(TEST.X, 3))


@every_method
@pytest.mark.parametrize(
    ("X", "Y"),
    [
        ([[1.0, 0.0]], [[1]]),
        ([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]], [[1], [0], [1]]),
        ([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]], [[0, 0], [0, 0], [0, 0]]),
        ([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[0, 1], [1, 0], [1, 1]]),
    ],
    ids=["one row", "one label", "no positives", "empty rows"],
)
def test_the_smallest_sets_can_be_learned(method, X, Y):
    model = quick(method, propensity=Constant(0.5)).fit(np.array(X), np.array(Y))
    ranking = model.rank(np.array(X), 3)
    assert ranking.labels.shape == (len(X), 3)
    assert (ranking.labels < len(Y[0])).all()


@every_method
def test_any_number_of_threads_gives_the_same_pieces(method, fitted):
    model = quick(method, n_jobs=3).fit(TRAIN.X, TRAIN.Y)
    assert_same_pieces(model.pieces_, fitted(method).pieces_)
    assert_same_ranking(model.rank(TEST.X, 5), fitted(method).rank(TEST.X, 5))


@every_method
@pytest.mark.parametrize("block_size", [1, 7, 1000])
def test_any_cut_into_tasks_gives_the_same_ranking(method, block_size, fitted):
    if "block_size" not in find_model(method)._get_param_names():
        pytest.skip("its work is not cut by a parameter")
    model = quick(method, block_size=block_size).fit(TRAIN.X, TRAIN.Y)
    assert_same_ranking(model.rank(TEST.X, 5), fitted(method).rank(TEST.X, 5))


@dataclass
class Posted:
    """An executor that sends everything through pickle, as a cluster does."""

    def map(self, tasks, shared):
        made = pickle.loads(pickle.dumps(shared))()
        for task in tasks:
            yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task)).run(made)))


@every_method
def test_tasks_and_what_they_share_can_be_sent(method, fitted):
    model = quick(method).fit(TRAIN.X, TRAIN.Y, work=Work(executor=Posted()))
    assert_same_pieces(model.pieces_, fitted(method).pieces_)


@every_method
def test_tasks_hold_no_matrix(method):
    sizes = []

    class Weighing(Threads):
        def map(self, tasks, shared):
            tasks = list(tasks)
            sizes.extend(len(pickle.dumps(task)) for task in tasks)
            return super().map(tasks, shared)

    quick(method).fit(TRAIN.X, TRAIN.Y, work=Work(executor=Weighing(1)))
    assert all(size < 2000 for size in sizes), "a task is keys, numbers and paths"


@every_method
def test_saved_or_trained_into_a_folder_and_opened_it_ranks_the_same(method, fitted, tmp_path):
    expected = fitted(method).rank(TEST.X, 5)
    fitted(method).save(tmp_path / "saved")
    for model in (load_model(tmp_path / "saved"), type(fitted(method)).load(tmp_path / "saved")):
        assert_same_ranking(model.rank(TEST.X, 5), expected)
    trained = train(quick(method), TRAIN, tmp_path / "run")
    assert_same_ranking(trained.rank(TEST.X, 5), expected)
    assert_same_ranking(open_run(tmp_path / "run", verify=True).rank(TEST.X, 5), expected)
    assert tree_bytes(tmp_path / "run" / "pieces") == tree_bytes(tmp_path / "saved" / "pieces")
    assert "state" not in {entry.name for entry in (tmp_path / "run" / "pieces").iterdir()}


class StopError(Exception):
    """An interruption."""


@every_method
def test_interrupted_wherever_it_tells_its_progress_it_goes_on_to_the_same_bytes(method, tmp_path):
    calls = []
    train(quick(method), TRAIN, tmp_path / "uninterrupted", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1], "progress ends with everything done"
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    for moment in range(0, len(calls), max(1, len(calls) // 6)):
        reports = []

        def stop(done, total, reports=reports, moment=moment):
            reports.append(done)
            if len(reports) == moment + 1:
                raise StopError

        folder = tmp_path / f"stopped-{moment}"
        with pytest.raises(StopError):
            train(quick(method), TRAIN, folder, progress=stop)
        train(quick(method), TRAIN, folder)
        assert tree_bytes(folder) == tree_bytes(tmp_path / "uninterrupted")


@every_method
def test_text_goes_in_and_names_come_out_of_the_command_line(method, tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    known = find_model(method)._get_param_names()
    jobs = ["--jobs", 1] if "n_jobs" in known else []
    output = said(capsys, "train", method, texts, "--run", tmp_path / "run", *jobs)
    assert f"{method}, 3 labels trained" in output
    (tmp_path / "one.jsonl").write_text('{"text": "cod quota net cod"}\n')
    rows = json.loads(
        said(capsys, "predict", tmp_path / "run", tmp_path / "one.jsonl", "--top", 3, "--jobs", 1, "--json")
    )
    assert {one["label"] for one in rows[0]["labels"]} <= {"fish", "law", "food"}
    if method not in ("popularity", "lexical"):
        assert rows[0]["labels"][0]["label"] == "fish"
    said(capsys, "predict", tmp_path / "run", texts, "--out", tmp_path / "best", "--jobs", 1)
    evaluated = said(
        capsys, "evaluate", tmp_path / "best.npz", "--truth", texts, "--train", tmp_path / "run", "--bootstrap", 0
    )
    assert "P@1" in evaluated
    assert method in said(capsys, "inspect", tmp_path / "run", "--verify")


@every_method
def test_the_shell_trains_what_the_class_trains(method, tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    said(capsys, "train", method, texts, "--run", tmp_path / "run")
    recipe = open_run(tmp_path / "run").recipe
    assert recipe.params == Recipe.of(find_model(method)()).params


@every_method
def test_an_unfitted_model_raises_not_fitted_error(method):
    for name, arguments in {"rank": (TEST.X,), "fit_labels": (TRAIN.X, TRAIN.Y), **OPTIONAL}.items():
        if hasattr(find_model(method)(), name):
            with pytest.raises(NotFittedError, match="not fitted"):
                getattr(quick(method), name)(*arguments)


OPTIONAL = {"predict": (TEST.X,), "decision_function": (TEST.X, [0, 1]), "explain": (0,), "draw": (str, str)}
"""Methods that only some models have, with arguments."""


@every_method
def test_the_optional_methods_that_it_has_work(method, fitted):
    model = fitted(method)
    found = {name: getattr(model, name)(*given) for name, given in OPTIONAL.items() if hasattr(model, name)}
    assert ("predict" in found) == ("decision_function" in found)
    if "predict" in found:
        assert found["predict"].shape == (TEST.n_samples, TRAIN.n_labels)
        assert found["decision_function"].shape == (TEST.n_samples, 2)
    assert "explain" not in found or found["explain"].features.size == found["explain"].weights.size
    assert "draw" not in found or found["draw"].strip()
    assert model.certificate() is None or model.certificate().gap.size
    assert isinstance(model.metadata(), dict)


@every_method
def test_new_labels_join_the_old_ones_where_that_is_possible(method, fitted):
    model = quick(method).fit(TRAIN.X, TRAIN.Y[:, :30])
    if not hasattr(model, "fit_labels"):
        pytest.skip("it has to be trained again")
    model.fit_labels(TRAIN.X, TRAIN.Y[:, 30:])
    assert_same_ranking(model.rank(TEST.X, 5), fitted(method).rank(TEST.X, 5))


@every_method
def test_it_is_shown_as_html_without_computing_its_weights(method, fitted):
    assert type(fitted(method)).__name__ in fitted(method)._repr_html_()
    assert "coef_" not in dir(fitted(method))


@every_method
def test_bad_matrices_are_refused_in_one_line(method, fitted):
    for X, Y in (
        (TRAIN.X, TRAIN.Y[:10]),
        (TRAIN.X, 2 * TRAIN.Y),
        (np.full((3, 2), np.nan), np.ones((3, 1))),
        (np.ones(3), np.ones((3, 1))),
    ):
        with pytest.raises(InputError):
            quick(method).fit(X, Y)
    with pytest.raises(InputError, match="features"):
        fitted(method).rank(np.ones((1, 3)))
    for k in (0, 2.5, None):
        with pytest.raises(InputError, match="k must be an integer"):
            fitted(method).rank(TEST.X, k)


@every_method
def test_pieces_that_are_not_its_own_are_refused_in_one_line(method, fitted, tmp_path):
    fitted(method).save(tmp_path / "run")
    original = OnDisk(tmp_path / "run" / "pieces")
    params = fitted(method).get_params()
    for key in fitted(method).pieces_.listed():
        piece = original.get(key)
        for spoiled in spoil(piece):
            pieces = Replaced(original, key, spoiled)
            with pytest.raises(InputError):
                type(fitted(method)).open(params, pieces, TRAIN.n_features, TRAIN.n_labels)


def spoil(piece):
    """Yield damaged or foreign versions of a piece, which must not be opened."""
    yield None
    for name, array in piece.arrays.items():
        rest = {other: values for other, values in piece.arrays.items() if other != name}
        yield Piece(piece.key, rest, piece.metadata)
        yield Piece(piece.key, {**rest, name: array.astype(np.complex64)}, piece.metadata)
        yield Piece(piece.key, {**rest, name: array[None]}, piece.metadata)


@dataclass
class Replaced:
    """Pieces of which one is replaced or missing."""

    original: OnDisk
    key: str
    piece: Piece | None

    def get(self, key):
        return self.piece if key == self.key else self.original.get(key)

    def listed(self):
        return [key for key in self.original.listed() if key != self.key or self.piece is not None]
