"""Slice: problems on sampled negatives, their certificates, and the gap to the problem on all rows."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.models.linear.problems import make_problem
from unmissed import DiSMEC, InputError, PWDiSMEC, Slice, load_model, open_run
from unmissed.features import Features
from unmissed.models.linear.slice.near_rows import NearRows
from unmissed.runs import inspection

TIGHT = {"tol": 1e-5, "prune": 0.0, "n_jobs": 1}


def dense_problem(n_samples=400, n_features=24, n_labels=6, seed=0):
    """Return normalized dense rows, and labels that are half-spaces of them, some rare."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ rng.standard_normal((n_features, n_labels)) + 0.2 * rng.standard_normal((n_samples, n_labels))
    cuts = np.quantile(scores, np.linspace(0.99, 0.6, n_labels), axis=0).diagonal()
    return X, sp.csr_matrix((scores > cuts).astype(np.float32))


def mixed_problem():
    X, Y = dense_problem()
    return Features(sp.random(400, 30, 0.1, "csr", np.float32, random_state=0), X), Y


def sparse_problem():
    return make_problem(3, 300, 30, 5)


PROBLEMS = pytest.mark.parametrize("make", [dense_problem, sparse_problem, mixed_problem])


def objectives(model, X, Y, C):
    """Return the objective of each label on all rows, in float64, row by row."""
    scores = model.decision_function(X).astype(np.float64)
    signs = np.where(Y.toarray() > 0, 1.0, -1.0)
    W = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    penalty = 0.5 * (W.astype(np.float64) ** 2).sum(axis=1) + 0.5 * model.intercept_.astype(np.float64) ** 2
    return penalty + C * (np.maximum(0, 1 - signs * scores) ** 2).sum(axis=0)


@PROBLEMS
def test_with_all_rows_as_negatives_it_solves_the_problem_of_dismec(make):
    X, Y = make()
    found = Slice(n_negatives=10_000, **TIGHT).fit(X, Y)
    expected = DiSMEC(**TIGHT).fit(X, Y)
    certificate = found.certificate()
    assert certificate.gap.max() <= 1e-5
    assert certificate.columns["gap on all rows"] == pytest.approx(certificate.gap, abs=1e-6)
    assert found._joined("full_objective", np.float64) == pytest.approx(expected._joined("objective", float), rel=3e-5)
    rows = X if not isinstance(X, Features) else X[np.arange(50)]
    assert found.decision_function(rows) == pytest.approx(expected.decision_function(rows), abs=0.02)


@PROBLEMS
@pytest.mark.parametrize("n_searches", [0, 1, 2])
def test_both_certificates_hold(make, n_searches):
    X, Y = make()
    model = Slice(n_negatives=20, n_searches=n_searches, **TIGHT).fit(X, Y)
    certificate = model.certificate()
    full = model._joined("full_objective", np.float64)
    assert certificate.gap.max() <= 1e-5
    assert full == pytest.approx(objectives(model, X, Y, 0.5), rel=1e-5), "the exact pass"
    optimum = DiSMEC(**TIGHT).fit(X, Y)._joined("objective", np.float64)
    lower = full * (1 - certificate.columns["gap on all rows"])
    assert (lower <= optimum * (1 + 1e-12)).all(), "the bound of the sample is one of all rows"
    assert (full >= optimum * (1 - 1e-5)).all()


def test_near_negatives_and_searches_by_weights_bring_it_closer_to_the_full_problem():
    X, Y = dense_problem(n_samples=3000, n_labels=8)

    def gap(n_searches, n_negatives):
        model = Slice(n_searches=n_searches, n_negatives=n_negatives, **TIGHT).fit(X, Y)
        return model.metadata()["relative gap on all rows"]

    random, centroid, weights = gap(0, 60), gap(1, 30), gap(2, 30)
    assert weights < 0.5 * centroid < 0.5 * random
    assert gap(2, 200) < 0.5 * weights


def test_the_working_set_has_the_positives_random_rows_and_the_nearest_negatives_once():
    X, Y = dense_problem()
    near = NearRows(Features.check(X).with_factors(False), "exact")
    own = np.flatnonzero(Y[:, [2]].toarray().ravel()).astype(np.int32)
    centroid = near.centroid(own)
    assert centroid == pytest.approx(X[own].mean(axis=0), abs=1e-6)
    (rows,) = near.nearest(centroid[None], [own], [15])
    order = np.argsort(-(X @ centroid), kind="stable")
    expected = [row for row in order if row not in own][:15]
    assert sorted(expected) == rows.tolist()
    (all_others,) = near.nearest(centroid[None], [own], [10_000])
    assert len(all_others) == len(X) - len(own)


def test_blocks_threads_and_neighbors_in_a_group_do_not_change_a_bit():
    X, Y = dense_problem(n_labels=150, n_samples=600)
    first = Slice(n_negatives=20, block_size=256, n_jobs=1).fit(X, Y)
    for params in ({"block_size": 7, "n_jobs": 1}, {"block_size": 64, "n_jobs": 2}):
        other = Slice(n_negatives=20, **params).fit(X, Y)
        assert np.array_equal(first.coef_, other.coef_)
        assert np.array_equal(first.intercept_, other.intercept_)
        for name in ("objective", "gap", "full_objective"):
            assert np.array_equal(first._joined(name, float), other._joined(name, float)), name


def test_new_labels_get_the_weights_of_a_training_with_all_labels():
    X, Y = dense_problem(n_labels=9)
    full = Slice(n_negatives=20, n_jobs=1).fit(X, Y)
    grown = Slice(n_negatives=20, n_jobs=1).fit(X, Y[:, :5]).fit_labels(X, Y[:, 5:])
    assert np.array_equal(full.coef_, grown.coef_)


def test_weighted_positives_are_those_of_pw_dismec():
    X, Y = dense_problem()
    params = {"weighting": "surrogate", **TIGHT}
    found = Slice(n_negatives=10_000, **params).fit(X, Y)
    expected = PWDiSMEC(**params, C=0.5).fit(X, Y)
    assert found.decision_function(X) == pytest.approx(expected.decision_function(X), abs=0.03)
    assert found._joined("objective", float) == pytest.approx(expected._joined("objective", float), rel=3e-5)


def test_a_run_keeps_both_certificates(tmp_path):
    X, Y = dense_problem()
    model = Slice(n_negatives=20, n_jobs=1).fit(X, Y)
    model.save(tmp_path / "run")
    again = load_model(tmp_path / "run")
    assert again.metadata() == model.metadata()
    kept, expected = (one.certificate().columns["gap on all rows"] for one in (again, model))
    assert np.array_equal(kept, expected)
    shown = inspection.summarize(open_run(tmp_path / "run"))
    assert shown["model"]["relative gap on all rows"] == model.metadata()["relative gap on all rows"]
    assert shown["certificate"]["worst"]
    for one in shown["certificate"]["worst"]:
        assert one["gap on all rows"] == expected[one["number"]] >= one["gap"] - 1e-9


def test_without_the_pass_only_the_sampled_certificate_is_given():
    X, Y = dense_problem()
    model = Slice(n_negatives=20, full_pass=False, n_jobs=1).fit(X, Y)
    assert "gap on all rows" not in model.certificate().columns
    assert "objective on all rows" not in model.metadata()
    with_pass = Slice(n_negatives=20, n_jobs=1).fit(X, Y)
    assert np.array_equal(model.coef_, with_pass.coef_)


def test_hnsw_finds_nearly_the_same_negatives_and_is_deterministic():
    pytest.importorskip("faiss")
    X, Y = dense_problem(n_samples=2000)
    exact, first, second = (
        Slice(n_negatives=50, search=search, n_jobs=1).fit(X, Y) for search in ("exact", "hnsw", "hnsw")
    )
    assert np.array_equal(first.coef_, second.coef_)
    gaps = [model.metadata()["relative gap on all rows"] for model in (exact, first)]
    assert gaps[1] <= gaps[0] + 0.02


def test_hnsw_needs_dense_features():
    with pytest.raises(InputError, match="search='hnsw' needs dense features"):
        Slice(search="hnsw").fit(*sparse_problem())


def test_the_code_of_the_page_runs():
    page = Path(__file__).parents[4] / "docs" / "slice.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(block, names)
    assert names["model"].certificate().gap.max() <= 1e-3
