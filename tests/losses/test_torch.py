"""The torch modules: the same values as numpy, and the conventions of torch.nn."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from unmissed import losses  # noqa: E402
from unmissed.errors import InputError  # noqa: E402
from unmissed.losses import torch as modules  # noqa: E402

torch.set_num_threads(1)  # tests run one process per core, and threads that wait for one another spin

P = np.array([0.05, 0.3, 0.5, 0.9, 1.0])
PAIRS = {
    "UnbiasedBCEWithLogitsLoss": lambda p, m: losses.unbiased(losses.cross_entropy_from_logits(), p, max_inverse=m),
    "NaiveBCEWithLogitsLoss": lambda p, m: losses.naive(losses.cross_entropy_from_logits(), p, max_inverse=m),
    "UnbiasedHingeLoss": lambda p, m: losses.unbiased(losses.hinge(), p, max_inverse=m),
    "UnbiasedSquaredHingeLoss": lambda p, m: losses.unbiased(losses.squared_hinge(), p, max_inverse=m),
    "ConvexHingeLoss": lambda p, m: losses.convex_bound(losses.hinge(), p, max_inverse=m),
    "ConvexSquaredHingeLoss": lambda p, m: losses.convex_bound(losses.squared_hinge(), p, max_inverse=m),
    "UnbiasedLoss": lambda p, m: losses.unbiased(losses.squared_error(), p, max_inverse=m),
}


def module(name, propensities=P, **settings):
    if name == "UnbiasedLoss":
        return modules.UnbiasedLoss(lambda s: (1 - s) ** 2, torch.square, propensities, **settings)
    return getattr(modules, name)(propensities, **settings)


def problem(dtype=torch.float64, rows=7):
    rng = np.random.default_rng(1)
    scores = torch.tensor(rng.normal(scale=3, size=(rows, len(P))), dtype=dtype)
    Y = (rng.random((rows, len(P))) < 0.4).astype(float)
    return scores, Y


def indices(Y):
    width = int(Y.sum(axis=1).max())
    padded = np.full((len(Y), width + 1), -1)
    for row, line in enumerate(Y):
        present = np.flatnonzero(line)[::-1]
        padded[row, 1 : 1 + len(present)] = present
    return torch.tensor(padded)


@pytest.mark.parametrize("max_inverse", [None, 4.0])
@pytest.mark.parametrize("form", ["dense", "indices"])
@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients_equal_numpy(name, form, max_inverse):
    scores, Y = problem()
    reference = PAIRS[name](P, max_inverse)
    criterion = module(name, torch.tensor(P), reduction="none", max_inverse=max_inverse, targets=form)
    scores.requires_grad_()
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    value = criterion(scores, target)
    np.testing.assert_allclose(value.detach(), reference.value(scores.detach().numpy(), Y), atol=1e-6)
    value.sum().backward()
    np.testing.assert_allclose(scores.grad, reference.gradient(scores.detach().numpy(), sp.csr_array(Y)), atol=1e-6)


@pytest.mark.parametrize("form", ["dense", "indices"])
@pytest.mark.parametrize("name", PAIRS)
def test_reductions_are_those_of_torch(name, form):
    scores, Y = problem()
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    each = module(name, reduction="none", targets=form)(scores, target)
    assert module(name, reduction="sum", targets=form)(scores, target) == pytest.approx(float(each.sum()))
    assert module(name, targets=form)(scores, target) == pytest.approx(float(each.mean()))


@pytest.mark.parametrize("form", ["dense", "indices"])
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_pass_gradcheck(name, form):
    scores, Y = problem()
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    criterion = module(name, torch.tensor(P), targets=form)
    assert torch.autograd.gradcheck(lambda s: criterion(s, target), scores.clone().requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", PAIRS)
def test_the_loss_has_the_dtype_of_the_logits_and_at_least_float32(name, dtype):
    scores, Y = problem(dtype)
    for kind in (torch.tensor(Y), torch.tensor(Y) > 0, torch.tensor(Y).long()):
        loss = module(name)(scores, kind)
        assert loss.dtype == torch.promote_types(dtype, torch.float32)
        assert torch.isfinite(loss)


def exact(name, scores, target, propensities=P, **settings):
    """Return loss and gradient in float64 of logits as they are."""
    leaf = scores.detach().double().requires_grad_()
    loss = module(name, torch.as_tensor(propensities, dtype=torch.float64), **settings)(leaf, target)
    loss.backward()
    return loss.detach(), leaf.grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("form", ["dense", "indices"])
@pytest.mark.parametrize("name", PAIRS)
def test_logits_of_16_bits_give_the_exact_loss_and_gradient_rounded_once(name, form, reduction, dtype):
    scores, Y = problem(dtype, rows=12_000)  # the sum over them exceeds the largest float16
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    value, gradient = exact(name, scores, target, targets=form, reduction=reduction)
    leaf = scores.clone().requires_grad_()
    loss = module(name, targets=form, reduction=reduction)(leaf, target)
    size = scores.double().abs().sum() / (scores.numel() if reduction == "mean" else 1)
    assert loss.item() == pytest.approx(value.item(), rel=1e-5, abs=1e-6 * size.item())
    loss.backward()
    assert leaf.grad.dtype == dtype
    step = torch.finfo(dtype)
    torch.testing.assert_close(leaf.grad.double(), gradient, rtol=step.eps, atol=step.tiny * step.eps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", ["dense", "indices"])
def test_autocast_trains_with_the_exact_loss(form, dtype):
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, len(P))
    rows, (_, Y) = torch.randn(12_000, 3), problem(rows=12_000)
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    with torch.autocast("cpu", dtype=dtype):
        logits = layer(rows)
        loss = module("UnbiasedBCEWithLogitsLoss", targets=form)(logits, target)
    assert logits.dtype == dtype
    assert loss.dtype == torch.float32
    value, _ = exact("UnbiasedBCEWithLogitsLoss", logits, target, targets=form)
    assert loss.item() == pytest.approx(value.item(), rel=1e-5)
    (loss * 65536).backward()  # what GradScaler begins with; no finite float16
    assert torch.isfinite(layer.weight.grad).all()


@pytest.mark.parametrize("name", PAIRS)
def test_half_leaves_small_propensities_as_they_are(name):
    scores, Y = problem(torch.float16)
    criterion = module(name, 1e-8).half()
    assert criterion.propensities == torch.tensor(1e-8)
    value, _ = exact(name, scores, torch.tensor(Y), 1e-8)
    assert float(criterion(scores, torch.tensor(Y))) == pytest.approx(float(value), rel=1e-5)
    assert module(name, torch.tensor([0.1], dtype=torch.float16)).propensities.dtype == torch.float32
    assert criterion.double().propensities.dtype == torch.float64
    assert criterion.to("meta", torch.bfloat16).propensities.device.type == "meta"


def test_a_propensity_that_float32_cannot_hold_is_rejected_unless_it_is_clipped():
    with pytest.raises(InputError, match=r"a propensity is 1e-40, too small for float32; give max_inverse"):
        modules.UnbiasedHingeLoss([0.5, 1e-40])
    scores, Y = problem(torch.float32)
    assert torch.isfinite(modules.UnbiasedHingeLoss(1e-40, max_inverse=100)(scores, torch.tensor(Y)))


@pytest.mark.parametrize("wrong", [2, 0.5, -1, float("nan")])
@pytest.mark.parametrize("name", PAIRS)
def test_a_dense_target_that_is_neither_0_nor_1_is_rejected(name, wrong):
    scores, Y = problem(torch.float32)
    target = torch.tensor(Y)
    target[3, 1] = wrong
    with pytest.raises(InputError, match=f"a dense target is {wrong:g}; expected 0 or 1"):
        module(name)(scores, target)


def test_where_targets_cannot_be_read_a_wrong_one_makes_the_loss_nan():
    torch.compiler.reset()
    scores, Y = problem(torch.float32)
    wrong = torch.tensor(Y)
    wrong[3, 1] = 0.5
    criterion = module("UnbiasedHingeLoss")
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    assert torch.isnan(compiled(scores, wrong))
    each = torch.func.vmap(criterion)(scores, wrong)
    assert torch.isnan(each).nonzero().tolist() == [[3]]


@pytest.mark.parametrize("form", ["dense", "indices"])
def test_vmap_gives_the_gradients_of_each_row(form):
    scores, Y = problem(torch.float32)
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    criterion = module("UnbiasedHingeLoss", targets=form, reduction="sum")
    each = torch.func.vmap(torch.func.grad(criterion))(scores, target)
    leaf = scores.clone().requires_grad_()
    criterion(leaf, target).backward()
    torch.testing.assert_close(each, leaf.grad)


def test_a_device_without_data_takes_the_module_too():
    scores, Y = problem(torch.float32)
    criterion = module("UnbiasedBCEWithLogitsLoss").to("meta")
    assert criterion(scores.to("meta"), torch.tensor(Y, device="meta")).device.type == "meta"
    assert criterion.propensities.device.type == "meta"


@pytest.mark.parametrize("name", PAIRS)
def test_a_state_dict_brings_the_propensities_back(name):
    first, second = module(name, P), module(name, np.full(len(P), 0.5))
    stream = io.BytesIO()
    torch.save(first.state_dict(), stream)
    stream.seek(0)
    second.load_state_dict(torch.load(stream, weights_only=True))
    scores, Y = problem(torch.float32)
    assert torch.equal(first(scores, torch.tensor(Y)), second(scores, torch.tensor(Y)))
    assert list(first.state_dict()) == ["propensities"]


@pytest.mark.parametrize("form", ["dense", "indices"])
@pytest.mark.parametrize("name", PAIRS)
def test_modules_compile_into_one_graph(name, form):
    # "eager" runs the captured graph as it is: it checks the capture without a C++ compiler
    torch.compiler.reset()
    scores, Y = problem(torch.float32)
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    criterion = module(name, targets=form)
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(scores, target), criterion(scores, target))


def test_a_compiled_module_trains_like_an_eager_one():
    # "aot_eager" traces the backward pass too, still without a C++ compiler
    torch.compiler.reset()
    scores, Y = problem(torch.float32)
    criterion = module("UnbiasedBCEWithLogitsLoss", targets="indices", max_inverse=5.0)
    gradients = []
    for run in (criterion, torch.compile(criterion, backend="aot_eager", fullgraph=True)):
        leaf = scores.clone().requires_grad_()
        run(leaf, indices(Y)).backward()
        gradients.append(leaf.grad)
    assert torch.allclose(*gradients)


def test_all_labels_seen_is_torchs_own_cross_entropy():
    scores, Y = problem(torch.float32)
    own = functional.binary_cross_entropy_with_logits(scores, torch.tensor(Y, dtype=torch.float32))
    for name in ("UnbiasedBCEWithLogitsLoss", "NaiveBCEWithLogitsLoss"):
        assert torch.allclose(module(name, 1.0)(scores, torch.tensor(Y)), own)


def test_logits_of_any_size_give_finite_gradients():
    scores = torch.tensor([[-1e4, 1e4]], requires_grad=True)
    modules.UnbiasedBCEWithLogitsLoss(0.1)(scores, torch.ones(1, 2)).backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_any_leading_shape_is_taken(lead):
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(*lead, len(P))), dtype=torch.float32)
    labels = torch.tensor(np.broadcast_to([2, 0, -1], (*lead, 3)).copy())
    dense = torch.zeros(*lead, len(P))
    dense[..., [0, 2]] = 1
    one = modules.UnbiasedHingeLoss(P, targets="indices")(scores, labels)
    assert torch.allclose(one, modules.UnbiasedHingeLoss(P)(scores, dense))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", PAIRS)
def test_a_label_that_is_named_twice_counts_once(name, reduction):
    scores, Y = problem()
    once = indices(Y)
    twice = torch.cat([once.flip(-1), once, once], dim=-1)
    criterion = module(name, targets="indices", reduction=reduction)
    torch.testing.assert_close(criterion(scores, twice), criterion(scores, once))


@pytest.mark.parametrize("wrong", [-2, -100, len(P)])
def test_an_index_that_names_no_label_is_rejected_and_not_taken_for_padding(wrong):
    scores, Y = problem()
    target = indices(Y)
    target[3, 0] = wrong
    criterion = module("UnbiasedHingeLoss", targets="indices")
    with pytest.raises(InputError, match=f"label index {wrong}; expected 0 to 4, or -1 for padding"):
        criterion(scores, target)
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="index"):
        compiled(scores, target)


def test_a_row_of_only_padding_has_no_present_label():
    scores, _ = problem()
    empty = torch.full((len(scores), 2), -1)
    dense = module("ConvexHingeLoss")(scores, torch.zeros_like(scores))
    assert module("ConvexHingeLoss", targets="indices")(scores, empty) == pytest.approx(float(dense))


def test_what_does_not_fit_is_rejected():
    scores, Y = problem(torch.float32)
    with pytest.raises(InputError, match=r"\(0, 1\]"):
        modules.UnbiasedHingeLoss([0.5, 0.0])
    with pytest.raises(InputError, match="reduction"):
        modules.UnbiasedHingeLoss(0.5, reduction="average")
    with pytest.raises(InputError, match="targets"):
        modules.UnbiasedHingeLoss(0.5, targets="sparse")
    with pytest.raises(InputError, match="propensities"):
        modules.UnbiasedHingeLoss([0.5, 0.5])(scores, torch.tensor(Y))
    with pytest.raises(InputError, match="shape"):
        modules.UnbiasedHingeLoss(0.5)(scores, torch.tensor(Y[:, :2]))
    with pytest.raises(InputError, match="integers"):
        modules.UnbiasedHingeLoss(0.5, targets="indices")(scores, torch.tensor(Y))


def test_the_settings_are_printed():
    criterion = modules.ConvexHingeLoss(0.5, reduction="sum", max_inverse=8)
    assert repr(criterion) == "ConvexHingeLoss(reduction='sum', targets='dense', max_inverse=8)"


def cells(Y):
    """Return random propensities of present labels, as a sparse matrix and as a dense one with 0 elsewhere."""
    p = np.random.default_rng(8).uniform(0.05, 1, Y.shape) * Y
    return sp.csr_matrix(p), torch.tensor(p)


@pytest.mark.parametrize("max_inverse", [None, 4.0])
@pytest.mark.parametrize("form", ["dense", "indices"])
@pytest.mark.parametrize("name", PAIRS)
def test_propensities_per_cell_equal_numpy(name, form, max_inverse):
    scores, Y = problem()
    sparse, dense = cells(Y)
    expected = PAIRS[name](sparse, max_inverse).value(scores.numpy(), Y)
    target = torch.tensor(Y) if form == "dense" else indices(Y)
    p = dense if form == "dense" else torch.where(target < 0, -1.0, dense.gather(1, target.clamp(min=0)))
    criterion = module(name, 0.5, reduction="none", max_inverse=max_inverse, targets=form)
    np.testing.assert_allclose(criterion(scores, target, p).numpy(), expected, rtol=1e-6, atol=1e-9)
    one_row = criterion(scores[2], target[2], p[2])
    np.testing.assert_allclose(one_row.numpy(), expected[2], rtol=1e-6, atol=1e-9)


def test_propensities_per_cell_that_do_not_fit_are_refused():
    scores, Y = problem()
    target, (_, p) = torch.tensor(Y), cells(Y)
    criterion = modules.UnbiasedBCEWithLogitsLoss()
    with pytest.raises(InputError, match="expected that of the targets"):
        criterion(scores, target, p[:2])
    with pytest.raises(InputError, match="a present label has the propensity 0; it must lie in"):
        criterion(scores, target, 0 * p)
    assert torch.equal(criterion(scores, target), functional.binary_cross_entropy_with_logits(scores, target))
