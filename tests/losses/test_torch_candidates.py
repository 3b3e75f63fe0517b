"""Losses of candidate labels, sampled negatives, chunks, weights and the non-negative estimate, in torch."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, N812
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from unmissed.errors import InputError  # noqa: E402
from unmissed.losses import torch as modules  # noqa: E402
from unmissed.losses.torch import functional  # noqa: E402

torch.set_num_threads(1)

L = 6
P = np.linspace(0.1, 1, L)
FUNCTIONS = {
    "UnbiasedBCEWithLogitsLoss": functional.unbiased_binary_cross_entropy_with_logits,
    "NaiveBCEWithLogitsLoss": functional.naive_binary_cross_entropy_with_logits,
    "UnbiasedHingeLoss": functional.unbiased_hinge_loss,
    "UnbiasedSquaredHingeLoss": functional.unbiased_squared_hinge_loss,
    "ConvexHingeLoss": functional.convex_hinge_loss,
    "ConvexSquaredHingeLoss": functional.convex_squared_hinge_loss,
}
every_loss = pytest.mark.parametrize("name", FUNCTIONS)


def problem(rows=5, dtype=torch.float64):
    rng = np.random.default_rng(4)
    scores = torch.tensor(rng.normal(scale=2, size=(rows, L)), dtype=dtype)
    Y = rng.random((rows, L)) < 0.4
    Y[:, 5] = False  # a label that the batch does not have
    Y[0] = False
    return scores, Y


def make(name, **settings):
    return getattr(modules, name)(torch.tensor(P), **{"targets": "indices", "reduction": "sum", **settings})


def value_and_gradient(loss, scores):
    leaf = scores.clone().requires_grad_()
    value = loss(leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


class Drawn:
    """A generator whose next numbers are given."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers)

    def random(self, n):
        assert n == len(self.numbers)
        return self.numbers


@pytest.mark.parametrize("power", [0.0, 0.7])
@every_loss
def test_the_mean_over_all_draws_of_negatives_is_the_loss_of_all_labels(name, power):
    scores, Y = problem()
    Y[:, 2] = False
    target = modules.padded_indices(sp.csr_matrix(Y))
    counts, n_draws = np.array([9, 0, 4, 2, 1, 3]), 3
    chances = (counts + 1) ** power / ((counts + 1) ** power).sum()
    middles = np.cumsum(chances) - chances / 2
    sampler = modules.NegativeSampler(counts, n_draws, power=power)
    criterion = make(name)
    total, gradient = torch.zeros(()), torch.zeros_like(scores)
    for drawn in product(range(L), repeat=n_draws):
        labels, weights = sampler.draw(target, Drawn(middles[list(drawn)]))
        assert set(labels.tolist()) == {*drawn, *np.flatnonzero(Y.any(axis=0))}
        value, slope = value_and_gradient(
            lambda s, c=labels, w=weights: criterion(s[:, c], target, labels=c, negative_weight=w), scores
        )
        total, gradient = (
            old + np.prod(chances[list(drawn)]) * new for old, new in ((total, value), (gradient, slope))
        )
    value, slope = value_and_gradient(lambda s: criterion(s, target), scores)
    assert total.item() == pytest.approx(value.item(), rel=1e-6)  # weights are float32
    torch.testing.assert_close(gradient, slope, rtol=1e-6, atol=1e-7)


@every_loss
def test_the_mean_over_independent_negatives_of_each_row_is_the_loss_of_all_labels(name):
    scores, Y = problem(rows=1)
    Y[0, [1, 3]] = True
    target, q = modules.padded_indices(sp.csr_matrix(Y)), np.array([0.2, 0.9, 0.5, 0.7, 0.3, 0.6])
    absent = np.flatnonzero(~Y[0])
    mean = 0.0
    for chosen in product([False, True], repeat=len(absent)):
        labels = torch.tensor([[1, 3, *(label if kept else -1 for label, kept in zip(absent, chosen, strict=True))]])
        weights = torch.tensor(1 / np.concatenate([[0.5, 0.1], q[absent]]))  # those of present labels are ignored
        chance = np.prod(np.where(chosen, q[absent], 1 - q[absent]))
        logits = scores.gather(1, labels.clamp(min=0))
        mean += chance * make(name)(logits, target, labels=labels, negative_weight=weights).item()
    assert mean == pytest.approx(make(name)(scores, target).item())


@pytest.mark.parametrize("form", ["dense", "indices"])
@every_loss
def test_candidates_in_any_order_shared_or_per_row_give_the_same_loss(name, form):
    scores, Y = problem()
    settings = {"weight": np.linspace(1, 2, L), "pos_weight": np.linspace(3, 1, L), "targets": form}
    settings["reduction"] = "none"
    target = torch.tensor(Y) if form == "dense" else modules.padded_indices(sp.csr_matrix(Y))
    expected = make(name, **settings)(scores, target)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shared = make(name, **settings)(scores[:, order], target[:, order] if form == "dense" else target, labels=order)
    torch.testing.assert_close(shared, expected[:, order])
    rng = np.random.default_rng(0)
    each = torch.tensor(rng.permuted(np.tile(np.arange(L), (len(Y), 1)), axis=1))
    own = target.gather(1, each) if form == "dense" else target
    found = make(name, **settings)(scores.gather(1, each), own, labels=each)
    torch.testing.assert_close(found, expected.gather(1, each))


@pytest.mark.parametrize("form", ["dense", "indices"])
def test_padded_candidates_count_nothing(form):
    scores, Y = problem()
    target = torch.tensor(Y) if form == "dense" else modules.padded_indices(sp.csr_matrix(Y))
    criterion = make("UnbiasedHingeLoss", targets=form)
    more = torch.cat([scores, torch.full((len(Y), 2), 9.0)], dim=1)
    labels = torch.cat([torch.arange(L), torch.tensor([-1, -1])]).expand(len(Y), -1)
    if form == "dense":
        padded = torch.cat([target, torch.ones(len(Y), 2, dtype=torch.bool)], dim=1)
    else:
        padded = target
    assert criterion(more, padded, labels=labels).item() == pytest.approx(criterion(scores, target).item())


@every_loss
def test_functions_equal_modules(name):
    scores, Y = problem()
    target, p = torch.tensor(Y), torch.rand(Y.shape, dtype=torch.float64) * 0.9 + 0.1
    settings = {"weight": P, "pos_weight": 1 / P, "max_inverse": 4.0, "targets": "dense", "reduction": "mean"}
    expected = make(name, **settings)(scores, target)
    assert FUNCTIONS[name](scores, target, P, **settings).item() == pytest.approx(expected.item(), rel=1e-6)
    labels, negative_weight = torch.tensor([4, 1]), torch.tensor([2.0, 3.0])
    cells = {"labels": labels, "negative_weight": negative_weight}
    expected = make(name, **settings)(scores[:, labels], target[:, labels], p[:, labels], **cells)
    found = FUNCTIONS[name](
        scores[:, labels], target[:, labels], P, cell_propensities=p[:, labels], **cells, **settings
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)


def test_weights_are_those_of_torch_if_all_labels_are_observed():
    scores, Y = problem()
    target = torch.tensor(Y, dtype=torch.float64)
    pos_weight, weight = torch.rand(L, dtype=torch.float64), torch.rand(len(Y), 1, dtype=torch.float64)
    own = F.binary_cross_entropy_with_logits(scores, target, weight, pos_weight=pos_weight)
    for form, given in (("dense", target), ("indices", modules.padded_indices(sp.csr_matrix(Y)))):
        for name in ("UnbiasedBCEWithLogitsLoss", "NaiveBCEWithLogitsLoss"):
            criterion = getattr(modules, name)(1.0, weight=weight, pos_weight=pos_weight, targets=form)
            torch.testing.assert_close(criterion(scores, given), own)
            assert list(criterion.state_dict()) == ["propensities", "weight", "pos_weight"]


def test_the_weighted_loss_of_present_labels_is_unbiased_too():
    s, p, pos_weight = torch.tensor([[0.7]], dtype=torch.float64), 0.3, 2.5
    criterion = modules.UnbiasedSquaredHingeLoss(p, pos_weight=[pos_weight])
    seen, unseen = (criterion(s, torch.tensor([[y]])).item() for y in (1.0, 0.0))
    assert p * seen + (1 - p) * unseen == pytest.approx(pos_weight * (1 - 0.7) ** 2)


class LargestLogits(TorchDispatchMode):
    """Records the largest number of columns of tensors with as many rows as the batch."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.columns = rows, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, torch.Tensor) and one.ndim == 2 and one.shape[0] == self.rows:
                self.columns = max(self.columns, one.shape[1])
        return result


@pytest.mark.parametrize(
    "settings", [{}, {"reduction": "mean"}, {"non_negative": True}, {"weight": P, "pos_weight": P}]
)
@every_loss
def test_chunks_give_the_same_loss_and_gradient_without_all_logits(name, settings):
    torch.manual_seed(0)
    n, width, n_labels = 7, 3, 20
    _, Y = problem(rows=n)
    Y = np.concatenate([Y, Y[:, ::-1], Y[:, 1:3], np.zeros((n, 6), bool)], axis=1)
    settings = {key: np.resize(value, n_labels) if value is P else value for key, value in settings.items()}
    target = modules.padded_indices(sp.csr_matrix(Y))
    cells = torch.rand(target.shape, dtype=torch.float64) * 0.9 + 0.1
    criterion = getattr(modules, name)(
        torch.tensor(np.resize(P, n_labels)), **{"targets": "indices", "reduction": "sum", **settings}
    )
    leaves = [
        torch.randn(shape, dtype=torch.float64).requires_grad_()
        for shape in ((n, width), (n_labels, width), (n_labels,))
    ]
    for p in (None, cells):
        expected_loss = criterion(F.linear(*leaves), target, p)
        expected = torch.autograd.grad(expected_loss, leaves)
        with LargestLogits(n) as seen:
            found = modules.chunked_loss(criterion, *leaves, target, p, chunk_size=8)
            slopes = torch.autograd.grad(found, leaves)
        assert seen.columns == 8
        torch.testing.assert_close(found, expected_loss)
        for one, other in zip(slopes, expected, strict=True):
            torch.testing.assert_close(one, other)
    bare = modules.chunked_loss(criterion, *leaves[:2], None, target, chunk_size=100)
    torch.testing.assert_close(bare, criterion(F.linear(*leaves[:2]), target))


@pytest.mark.parametrize("per_row", [False, True])
def test_candidates_compile_into_one_graph_and_map_over_rows(per_row):
    torch.compiler.reset()
    scores, Y = problem(dtype=torch.float32)
    target, weights = modules.padded_indices(sp.csr_matrix(Y)), torch.tensor([1.0, 2, 3, 4, 5])
    labels = torch.tensor([4, 1, 0, 3, 2])
    candidates = labels.expand(len(Y), -1) if per_row else labels
    criterion = make("UnbiasedBCEWithLogitsLoss")
    compiled = torch.compile(criterion, backend="aot_eager", fullgraph=True)

    def gradient(run):
        leaf = scores[:, labels].clone().requires_grad_()
        run(leaf, target, labels=candidates, negative_weight=weights).backward()
        return leaf.grad

    torch.testing.assert_close(gradient(compiled), gradient(criterion))
    each = torch.func.vmap(
        torch.func.grad(lambda s, t, c: criterion(s, t, labels=c, negative_weight=weights)),
        in_dims=(0, 0, 0 if per_row else None),
    )(scores[:, labels], target, candidates)
    torch.testing.assert_close(each, gradient(criterion))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_candidates_of_16_bits_give_the_exact_gradient_rounded_once(dtype):
    scores, Y = problem(rows=64, dtype=dtype)
    target, weights = modules.padded_indices(sp.csr_matrix(Y)), torch.tensor([1.0, 1, 1, 1, 1, 30])
    criterion = make("UnbiasedBCEWithLogitsLoss")
    call = {"labels": torch.arange(L), "negative_weight": weights}
    value, slope = value_and_gradient(lambda s: criterion(s, target, **call), scores)
    exact_value, exact = value_and_gradient(lambda s: criterion(s, target, **call), scores.double())
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(exact_value.item(), rel=1e-5)
    torch.testing.assert_close(slope.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-6)


def naive_non_negative(scores, Y, p):
    """Return the non-negative estimate and its gradient, label by label, for the squared hinge."""
    value, gradient = 0.0, torch.zeros_like(scores)
    for label in range(scores.shape[1]):
        s = scores[:, label].clone().requires_grad_()
        y = torch.tensor(Y[:, label].astype(float))
        risk = (y / p[label] * F.relu(1 - s) ** 2).sum()
        rest = ((1 - y / p[label]) * F.relu(1 + s) ** 2).sum()
        below = rest.item() < 0
        value += risk.item() + max(rest.item(), 0)
        gradient[:, label] = torch.autograd.grad(-rest if below else risk + rest, s)[0]
    return value, gradient


@pytest.mark.parametrize("form", ["dense", "indices"])
def test_the_non_negative_estimate_follows_its_definition(form):
    scores, Y = problem(rows=12)
    scores[:, 0] = torch.where(torch.tensor(Y[:, 0]), 3.0, -2.0)  # fitted: its negative part is below zero
    target = torch.tensor(Y) if form == "dense" else modules.padded_indices(sp.csr_matrix(Y))
    criterion = make("UnbiasedSquaredHingeLoss", non_negative=True, targets=form)
    value, gradient = value_and_gradient(lambda s: criterion(s, target), scores)
    expected, slopes = naive_non_negative(scores, Y, P)
    assert value.item() == pytest.approx(expected)
    torch.testing.assert_close(gradient, slopes)
    plain = make("UnbiasedSquaredHingeLoss", targets=form)(scores, target)
    assert plain.item() < value.item() - 1, "a label is corrected"
    assert value.item() >= 0


def test_the_non_negative_estimate_does_not_diverge_where_the_unbiased_one_does():
    target = torch.tensor([[0], [-1], [-1]])
    ends = {}
    for kept in (False, True):
        logits = torch.zeros(3, 1, requires_grad=True)  # a free logit per row: the rows can be memorized
        criterion = modules.UnbiasedBCEWithLogitsLoss(0.2, non_negative=kept, targets="indices")
        optimizer = torch.optim.SGD([logits], lr=1.0)
        for _ in range(200):
            optimizer.zero_grad()
            loss = criterion(logits, target)
            loss.backward()
            optimizer.step()
        ends[kept] = loss.item()
    assert ends[False] < -50
    assert 0 <= ends[True] < 5


def test_labels_become_padded_and_packed_indices():
    Y = sp.csr_matrix(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    assert modules.padded_indices(Y).tolist() == [[1, 2], [-1, -1], [0, -1]]
    labels, p = modules.padded_indices(Y, Y.multiply([0.5, 0.25, 0.125]))
    assert labels.tolist() == [[1, 2], [-1, -1], [0, -1]]
    assert p.tolist() == [[0.25, 0.125], [1, 1], [0.5, 1]]
    indices, offsets = modules.packed_indices(Y)
    assert (indices.tolist(), offsets.tolist()) == ([1, 2, 0], [0, 2, 2])
    assert modules.padded_indices(Y[:0]).shape == (0, 0)
    assert modules.join_labels(labels).tolist() == [0, 1, 2]


def test_candidates_that_do_not_fit_are_refused():
    scores, Y = problem()
    target, criterion = modules.padded_indices(sp.csr_matrix(Y)), make("UnbiasedHingeLoss")
    for labels, message in (
        (torch.arange(3), r"labels have shape \(3,\); expected integers"),
        (torch.arange(L).double(), "expected integers"),
        (torch.tensor([0, 1, 2, 3, 4, 4]), "the candidate label 4 is given twice"),
        (torch.tensor([0, 1, 2, 3, 4, -2]), "a candidate label is -2"),
        (torch.tensor([0, 1, 2, 3, 4, 6]), "a candidate label is 6, but there are 6 propensities"),
        (torch.tensor([0, 1, 2, 3, -1, 5]), "the present label 4 is not among the candidates"),
    ):
        with pytest.raises(InputError, match=message):
            criterion(scores, target, labels=labels)
    with pytest.raises(InputError, match="negative_weight must be finite"):
        criterion(scores, target, labels=torch.arange(L), negative_weight=torch.tensor(-1.0))
    with pytest.raises(InputError, match="it needs candidates that all rows share"):
        make("UnbiasedHingeLoss", non_negative=True)(scores, target, labels=torch.arange(L).expand(len(Y), -1))
    with pytest.raises(InputError, match="it needs the reduction"):
        make("UnbiasedHingeLoss", non_negative=True, reduction="none")(scores, target)
    with pytest.raises(InputError, match="pos_weight must be finite and at least 0"):
        make("UnbiasedHingeLoss", pos_weight=[-1.0])
    with pytest.raises(InputError, match="needs a criterion with targets='indices'"):
        modules.chunked_loss(make("UnbiasedHingeLoss", targets="dense"), scores, scores, None, target)
    with pytest.raises(InputError, match="unknown correction 'best'; known: none, naive, unbiased, convex"):
        functional.propensity_loss(scores, target, correction="best")
    with pytest.raises(InputError, match="unknown loss 'huber'"):
        functional.propensity_loss(scores, target, loss="huber")
    with pytest.raises(InputError, match="not a convex bound of the 0-1 loss"):
        functional.propensity_loss(scores, target, correction="convex")
    with pytest.raises(InputError, match="n_draws is 0"):
        modules.NegativeSampler([1, 2], 0)
    with pytest.raises(InputError, match="not one of the 2 labels"):
        modules.NegativeSampler([1, 2], 1).draw([2], np.random.default_rng(0))
