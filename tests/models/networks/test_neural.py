"""NeuralXMC: its gradient, its sampled negatives, its early stopping, and life without PyTorch."""

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from tests.runs.corpora import small_corpus  # noqa: E402
from unmissed import NeuralXMC  # noqa: E402
from unmissed.errors import InputError  # noqa: E402
from unmissed.execution import Piece, Threads  # noqa: E402
from unmissed.features import Features  # noqa: E402
from unmissed.losses.torch import padded_indices  # noqa: E402
from unmissed.models import method_registry  # noqa: E402
from unmissed.models.networks import weight_tables as network_tables  # noqa: E402
from unmissed.models.networks.epochs import Training  # noqa: E402
from unmissed.models.networks.estimator import EpochTask  # noqa: E402
from unmissed.models.networks.layers import NetworkShape  # noqa: E402
from unmissed.models.networks.weight_tables import DeviceTables, ProcessorTables, make_tables  # noqa: E402
from unmissed.models.training_data import TrainingData  # noqa: E402
from unmissed.runs.compare.method_specs import all_method_specs  # noqa: E402
from unmissed.runs.training import train  # noqa: E402

TRAIN, TEST = small_corpus()
DENSE = np.random.default_rng(0).normal(size=(TRAIN.n_samples, 5)).astype(np.float32)


def small(**params):
    return NeuralXMC(**{"n_hidden": 16, "max_epochs": 4, "n_jobs": 1, **params})


def train_state(model, rows):
    """Return the training of a model before its first epoch."""
    return model._problem(rows)()


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed"])
def test_ranking_in_numpy_gives_the_scores_of_the_network_in_torch(kind, n_layers):
    X = {"sparse": TRAIN.X, "dense": DENSE, "mixed": Features(TRAIN.X, DENSE)}[kind]
    model = small(n_layers=n_layers).fit(X, TRAIN.Y)
    rows = model._checked(X)
    sparse, dense = rows.both
    w = {name: torch.tensor(np.array(array)) for name, array in model.weights_.items()}
    hidden = torch.relu(
        torch.tensor(sparse.toarray()) @ w["sparse_features"] + torch.tensor(dense) @ w["dense_features"] + w["bias"]
    )
    if n_layers == 2:
        hidden = torch.relu(hidden @ w["second"] + w["second_bias"])
    expected = (hidden @ w["labels"].T + w["label_bias"]).numpy()
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-5)
    best = model.rank(X, 1)
    np.testing.assert_allclose(best.scores[:, 0], expected.max(axis=1), rtol=1e-4, atol=1e-5)
    assert model.embed(X).shape == (TRAIN.n_samples, 17)


SHAPE = NetworkShape(n_sparse=9, n_dense=0, n_hidden=3, n_layers=1, n_labels=4)
TABLES = {
    "processor": lambda state: ProcessorTables(state, 0.1, 0, Threads(1)),
    "two threads": lambda state: ProcessorTables(state, 0.1, 0, Threads(2)),
    "device": lambda state: DeviceTables(state, 0.1, 0, torch.device("cpu")),
}


def new_state():
    """Return random weights and empty moments."""
    rng, shapes = np.random.default_rng(1), SHAPE.shapes
    state = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    moments = {f"{name}-{part}": np.zeros(shapes[name], np.float32) for name in shapes for part in ("mean", "square")}
    return state | moments


@pytest.fixture(params=TABLES)
def tables(request, monkeypatch):
    monkeypatch.setattr(network_tables, "ROWS", 1)
    return TABLES[request.param](new_state())


@pytest.mark.kernel
@pytest.mark.parametrize("rows", [None, [2, 0]])
def test_adam_takes_the_steps_of_torch(tables, rows):
    start = new_state()["labels"]
    chosen = slice(None) if rows is None else rows
    expected = torch.tensor(start[chosen], requires_grad=True)
    optimizer, rng = torch.optim.Adam([expected], lr=0.1), np.random.default_rng(0)
    for tables.step in range(1, 5):
        expected.grad = torch.tensor(rng.standard_normal(expected.shape, np.float32))
        optimizer.step()
        leaf = tables.leaf("labels", None if rows is None else np.array(rows))
        assert leaf.tensor.requires_grad
        leaf.update(expected.grad)
    found = tables.weights()["labels"]
    np.testing.assert_allclose(found[chosen], expected.detach(), rtol=1e-5)
    if rows is not None:
        assert np.array_equal(found[[1, 3]], start[[1, 3]]), "other rows stay"


@pytest.mark.kernel
def test_the_sparse_layer_is_a_matrix_product_and_updates_the_rows_that_the_batch_has(tables):
    rng = np.random.default_rng(1)
    X = sp.random(7, 9, 0.1, format="csr", dtype=np.float32, random_state=rng)
    start = new_state()["sparse_features"]
    weights, upstream = torch.tensor(start, requires_grad=True), torch.randn(7, 3)
    expected = torch.tensor(X.toarray()) @ weights
    optimizer = torch.optim.Adam([weights], lr=0.1)
    (expected * upstream).sum().backward()
    optimizer.step()
    tables.step = 1
    product, leaf = tables.sparse_layer(X)
    np.testing.assert_allclose(product.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
    leaf.update(torch.autograd.grad((product * upstream).sum(), leaf.tensor)[0])
    found, present = tables.weights()["sparse_features"], np.unique(X.indices)
    assert 0 < len(present) < 9
    np.testing.assert_allclose(found, weights.detach(), rtol=1e-4)
    assert not np.isclose(found[present], start[present]).any()
    for part in ("mean", "square"):
        assert np.flatnonzero(tables.arrays()[f"sparse_features-{part}"].any(axis=1)).tolist() == present.tolist()


@pytest.mark.parametrize(
    "params", [{}, {"n_negatives": 5, "n_layers": 2, "loss": "logistic", "correction": "unbiased"}]
)
def test_a_training_on_a_device_is_that_on_the_processor(params, monkeypatch):
    X = Features(TRAIN.X, DENSE)
    expected = small(**params).fit(X, TRAIN.Y)
    monkeypatch.setattr("unmissed.models.networks.epochs.make_tables", on_a_device)
    found = small(**params).fit(X, TRAIN.Y)
    assert expected.epochs_ == found.epochs_
    for name, weights in expected.weights_.items():
        np.testing.assert_allclose(found.weights_[name], weights, rtol=1e-3, atol=1e-4)
    assert any(not np.array_equal(found.weights_[name], weights) for name, weights in expected.weights_.items())


@pytest.mark.parametrize("n_negatives", [None, 5])
def test_a_batch_takes_all_its_tensors_to_the_device(n_negatives, monkeypatch):
    """The device "meta" computes shapes only, and refuses tensors of the processor as an accelerator does."""
    monkeypatch.setattr(
        "unmissed.models.networks.epochs.make_tables",
        lambda state, rate, step, device, threads: DeviceTables(state, rate, step, torch.device("meta")),
    )
    data = TrainingData.check(Features(TRAIN.X, DENSE), TRAIN.Y)
    training = train_state(small(n_layers=2, n_negatives=n_negatives), data)
    updated = []
    update = training.tables._update
    training.tables._update = lambda name, *rest: update(name, *rest) or updated.append(name)
    with pytest.raises(RuntimeError, match="meta tensors"):  # the loss has no value
        training._batch(np.arange(5), np.random.default_rng(0))
    assert sorted(updated) == sorted(training.settings.shape.shapes)


def on_a_device(state, rate, step, device, threads):
    """Return the tables that a device would have, on the processor."""
    return DeviceTables(state, rate, step, torch.device("cpu"))


def test_the_device_is_cuda_if_there_is_one_and_can_be_chosen(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch, "device", lambda name: chosen.append(name) or "cpu")
    for available in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        network_tables.chosen_device("auto")
    network_tables.chosen_device("cuda:1")
    assert chosen == ["cuda", "cpu", "cuda:1"]


@pytest.mark.parametrize("device", ["meta", "no-such-device", "cuda:x"])
def test_a_device_that_cannot_be_used_is_an_error_before_training(device):
    with pytest.raises(InputError, match=f"device='{device}' cannot be used: .*"):
        small(device=device).fit(TRAIN.X, TRAIN.Y)


@pytest.mark.kernel
def test_tables_on_the_processor_are_updated_by_all_threads():
    assert isinstance(make_tables(new_state(), 0.1, 0, "cpu", Threads(2)), ProcessorTables)


def test_a_step_with_sampled_negatives_has_the_gradient_of_their_weighted_loss():
    data = TrainingData.check(TRAIN.X, TRAIN.Y, normalize=True)
    training = train_state(small(n_negatives=5, dropout=0.0, validation_fraction=0.0), data)
    np.random.default_rng(0).standard_normal(out=training.tables.weights()["labels"], dtype=np.float32)
    before = {name: torch.tensor(array, requires_grad=True) for name, array in training.tables.weights().items()}
    drawn, gradients = [], {}
    draw = training.sampler.draw
    training.sampler.draw = lambda *given: drawn.append(draw(*given)) or drawn[0]
    training.tables._update = lambda name, rows, gradient: gradients.update({name: (rows, gradient)})
    training._batch(np.arange(5), np.random.default_rng(0))
    (labels, weights), Y = drawn[0], data.Y[:5]
    assert (weights > 1.5).any()
    hidden = torch.relu(torch.tensor(data.features.csr[:5].toarray()) @ before["sparse_features"] + before["bias"])
    scale = torch.zeros(TRAIN.n_labels).index_copy(0, labels, weights)  # labels that were not drawn count nothing
    logits = hidden @ before["labels"].T + before["label_bias"]
    loss = training.criterion(logits, padded_indices(Y), negative_weight=scale) / 5
    for name in ("sparse_features", "bias", "labels", "label_bias"):
        rows, gradient = gradients[name]
        expected = torch.autograd.grad(loss, before[name], retain_graph=True)[0]
        np.testing.assert_allclose(gradient, expected if rows is None else expected[rows], rtol=1e-4, atol=1e-6)
        assert expected.abs().max() > 0


@pytest.mark.parametrize("correction", ["none", "naive", "unbiased", "non-negative", "convex"])
def test_every_correction_learns(correction):
    loss = "squared-hinge" if correction == "convex" else "logistic"
    model = small(loss=loss, correction=correction, max_epochs=15, learning_rate=0.01).fit(TRAIN.X, TRAIN.Y)
    assert model.score(TRAIN.X, TRAIN.Y) > TRAIN.label_counts.max() / TRAIN.n_samples
    assert 1 <= model.epochs_ <= 15


def test_training_stops_after_epochs_without_gain_and_keeps_the_best(monkeypatch):
    scores = iter([0.2, 0.5, 0.4, 0.4, 0.4, 0.4])
    monkeypatch.setattr(Training, "held_out_score", lambda self: next(scores))
    weights = []
    run = EpochTask.run

    def recorded(self, training):
        piece = run(self, training)
        weights.append(np.array(piece.arrays["bias"]))
        return piece

    monkeypatch.setattr(EpochTask, "run", recorded)
    model = small(patience=2, max_epochs=9).fit(TRAIN.X, TRAIN.Y)
    assert len(weights) == 4
    assert model.epochs_ == 2
    assert np.array_equal(model.weights_["bias"], weights[1])
    assert not np.array_equal(weights[1], weights[3])


def test_at_most_so_many_rows_are_held_out(monkeypatch):
    data = TrainingData.check(TRAIN.X, sp.csr_matrix(np.ones((TRAIN.n_samples, 2))))
    assert train_state(small(), data).held_out.n_samples == TRAIN.n_samples // 10
    monkeypatch.setattr("unmissed.models.networks.estimator._HELD_OUT", 3)
    assert train_state(small(), data).held_out.n_samples == 3


def test_a_row_with_the_only_positive_of_a_label_is_not_held_out():
    Y = sp.csr_matrix(np.arange(TRAIN.n_samples)[:, None] // 2 == np.arange(TRAIN.n_samples // 2), dtype=np.float32)
    training = train_state(small(validation_fraction=0.5), TrainingData.check(TRAIN.X[: Y.shape[0]], Y))
    assert (training.rows.label_counts > 0).all()
    assert training.held_out.n_samples > 0
    assert training.held_out.n_samples + training.rows.n_samples == TRAIN.n_samples


def test_labels_without_a_positive_are_ranked_last_in_training_and_after_it():
    Y = TRAIN.Y.tolil()
    Y[:, : TRAIN.n_labels // 2] = 0
    model = small().fit(TRAIN.X, Y.tocsr())
    untrained = np.flatnonzero(model.untrained_)
    assert len(untrained) >= TRAIN.n_labels // 2
    ranking = model._rank_features(model._checked(TRAIN.X), TRAIN.n_labels)
    assert (np.isin(ranking.labels, untrained) == (ranking.scores == -np.inf)).all()
    training = train_state(small(), TrainingData.check(TRAIN.X, Y.tocsr()))
    training.run(1)
    score = training.held_out_score()
    training.tables.weights()["label_bias"][untrained] = 100
    assert training.held_out_score() == score > 0


@pytest.mark.parametrize(
    "setting",
    [
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.no_grad,
        torch.inference_mode,
        lambda: default_dtype(torch.float64),
    ],
)
def test_training_does_not_depend_on_settings_of_the_caller(setting):
    expected = small(max_epochs=1).fit(TRAIN.X, TRAIN.Y).weights_
    with setting():
        found = small(max_epochs=1).fit(TRAIN.X, TRAIN.Y).weights_
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("validation_fraction", [0.0, 0.1])
def test_a_training_that_diverges_says_so_and_stores_nothing(validation_fraction, tmp_path):
    model = small(learning_rate=1e20, validation_fraction=validation_fraction)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(InputError, match="diverged in epoch 1"):
        train(model, TRAIN, tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*state*"))


def test_without_held_out_rows_all_epochs_are_trained():
    assert small(validation_fraction=0.0).fit(TRAIN.X, TRAIN.Y).epochs_ == 4


def test_equal_propensities_of_cells_and_labels_train_the_same_network():
    p = TRAIN.Y.astype(np.float64) * 0.4
    fitted = [
        small(validation_fraction=0.0, propensity=0.4).fit(TRAIN.X, TRAIN.Y),
        small(validation_fraction=0.0).fit(TRAIN.X, TRAIN.Y, cell_propensity=p),
    ]
    plain = small(validation_fraction=0.0, propensity=1.0).fit(TRAIN.X, TRAIN.Y)
    first, second = (model.weights_["labels"] for model in fitted)
    scale = np.abs(first).max()
    np.testing.assert_allclose(first, second, atol=1e-3 * scale)
    assert np.abs(first - plain.weights_["labels"]).max() > 0.1 * scale


def test_the_logistic_loss_has_no_convex_correction():
    with pytest.raises(InputError, match="correction='convex' needs loss='hinge' or 'squared-hinge'"):
        small(loss="logistic").fit(TRAIN.X, TRAIN.Y)


def test_a_damaged_state_is_reported():
    data = TrainingData.check(TRAIN.X, TRAIN.Y)
    training = train_state(small(), data)
    arrays = training.tables.arrays() | {"bias": np.full(16, np.nan, np.float32)}
    with pytest.raises(InputError, match="bias contains infinite or nan values"):
        Training(training.settings, data, None, training.p, Threads(1), Piece("state/1", arrays, {"step": 1}))


WITHOUT_TORCH = """
import sys


class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)


sys.meta_path.insert(0, WithoutTorch())
import numpy as np
from unmissed import NeuralXMC, load_model
model = load_model(sys.argv[1])
print(model.rank(np.ones((1, model.n_features_in_)), 3).labels.tolist())
try:
    NeuralXMC().fit(np.ones((3, 2)), np.ones((3, 1)))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_ranking_works_without_torch_and_training_names_the_extra(tmp_path):
    model = small().fit(TRAIN.X, TRAIN.Y)
    model.save(tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    expected = model.rank(np.ones((1, TRAIN.n_features)), 3).labels.tolist()
    assert done.stdout.splitlines() == [
        str(expected),
        "UnmissedError neural needs PyTorch to train: pip install 'unmissed[torch]'",
    ]


def test_commands_over_all_methods_leave_it_out_without_torch(monkeypatch):
    assert "neural" in {spec.method for spec in all_method_specs()}
    monkeypatch.setattr(method_registry, "find_spec", lambda name: None)
    assert "neural" not in {spec.method for spec in all_method_specs()}
