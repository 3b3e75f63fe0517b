"""LEML and SLEEC: behavior beyond the common contract of models."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from tests.runs.corpora import small_corpus
from unmissed import LEML, SLEEC
from unmissed.errors import InputError
from unmissed.execution import InMemory, Work
from unmissed.propensity import Constant

TRAIN, TEST = small_corpus()
HAS_FAISS = importlib.util.find_spec("faiss") is not None


@pytest.fixture(scope="module")
def leml():
    return LEML(n_components=8).fit(TRAIN.X, TRAIN.Y)


def test_scores_are_products_of_embedded_rows_and_label_factors(leml):
    dense = leml.embed(TEST.X) @ leml.labels_.T
    np.testing.assert_allclose(leml.decision_function(TEST.X, [3, 0, 7]), dense[:, [3, 0, 7]], atol=1e-5)
    assert np.array_equal(leml.predict(TEST.X, 0.25).toarray() > 0, dense >= 0.25)
    ranking = leml.rank(TEST.X, 4)
    np.testing.assert_allclose(ranking.scores, -np.sort(-dense, axis=1)[:, :4], atol=1e-5)
    found = leml.explain(5)
    unit = sp.csr_matrix(TEST.X / np.maximum(np.sqrt(TEST.X.multiply(TEST.X).sum(axis=1)), 1e-30))
    np.testing.assert_allclose(unit @ found.weights + found.constant, dense[:, 5], atol=1e-4)


def test_the_constant_feature_is_learned_or_left_out(leml):
    assert leml.constant_.any()
    assert not LEML(n_components=4, fit_bias=False).fit(TRAIN.X, TRAIN.Y).constant_.any()


def test_only_the_entries_inside_the_mask_matter():
    rng = np.random.default_rng(0)
    observed = rng.random(TRAIN.Y.shape) < 0.5
    other = np.where(observed, TRAIN.Y.toarray(), rng.random(TRAIN.Y.shape) < 0.3)

    def fit(Y, mask):
        return LEML(n_components=4, max_alternations=2).fit(TRAIN.X, Y, observed=mask).labels_

    expected = fit(TRAIN.Y, observed)
    np.testing.assert_array_equal(fit(other.astype(float), sp.csc_matrix(observed.astype(float))), expected)
    assert not np.array_equal(fit(other.astype(float), None), expected)
    np.testing.assert_allclose(fit(TRAIN.Y, np.ones(TRAIN.Y.shape)), fit(TRAIN.Y, None), atol=0.1)


def test_the_unbiased_loss_recovers_the_label_frequencies_from_known_propensities():
    rng = np.random.default_rng(0)
    n, n_labels = 4000, 6
    truth = sp.csr_matrix((np.ones(n), (np.arange(n), rng.integers(0, n_labels, n))), shape=(n, n_labels))
    p = np.array([1.0, 0.2, 1.0, 0.2, 1.0, 0.2])
    seen = truth.multiply(rng.random((n, n_labels)) < p)
    X = np.ones((n, 1))  # uninformative features: scores are label frequencies

    def score(**more):
        model = LEML(n_components=3, penalty=1e-3, fit_bias=False, tol=1e-9, max_alternations=30, **more)
        return model.fit(X, sp.csr_matrix(seen)).decision_function(X[:1], np.arange(n_labels))[0]

    from unmissed.propensity import FromTable

    np.testing.assert_allclose(
        score(weighting="unbiased", propensity=FromTable(p)), np.full(n_labels, 1 / 6), atol=0.03
    )
    np.testing.assert_allclose(score(), p / 6, atol=0.02)


def test_an_interrupted_training_resumes_from_its_last_state():
    class StopError(Exception):
        pass

    def stop(done, total):
        if done == 2:
            raise StopError

    model = LEML(n_components=4, max_alternations=4, tol=1e-12)
    pieces = InMemory()
    with pytest.raises(StopError):
        model.fit(TRAIN.X, TRAIN.Y, work=Work(pieces, progress=stop))
    assert pieces.listed()[-1] == "state/00002"
    progress = []
    model.fit(TRAIN.X, TRAIN.Y, work=Work(pieces, progress=lambda done, total: progress.append(done)))
    assert progress[0] == 2
    assert pieces.listed() == ["factors"]
    assert len(model.objectives_) == 8


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "cubic"}, "loss must be 'squared', 'logistic' or 'squared-hinge'; got 'cubic'"),
        ({"weighting": "tail"}, "weighting must be 'none' or 'unbiased'; got 'tail'"),
        ({"weighting": "unbiased", "loss": "logistic"}, "needs the squared loss"),
        ({"n_components": 0}, "n_components must be an integer"),
        ({"penalty": 0}, "penalty must be a number above 0"),
        ({"max_alternations": 1.5}, "max_alternations must be"),
        ({"tol": -1}, "tol must be"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_leml_rejects_invalid_parameters(params, message):
    with pytest.raises(InputError, match=message):
        LEML(**params).fit(TRAIN.X, TRAIN.Y)


def test_a_mask_of_another_shape_or_together_with_propensities_is_rejected():
    with pytest.raises(InputError, match="observed has the shape"):
        LEML().fit(TRAIN.X, TRAIN.Y, observed=np.ones((2, 2)))
    with pytest.raises(InputError, match="cannot be combined with a mask"):
        LEML(weighting="unbiased", propensity=Constant(0.5)).fit(TRAIN.X, TRAIN.Y, observed=np.ones(TRAIN.Y.shape))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"votes": 0}, "votes must be"),
        ({"n_learners": True}, "n_learners must be"),
        ({"cluster_size": -5}, "cluster_size must be"),
        ({"penalty": "much"}, "penalty must be"),
        ({"sparsity": -1}, "sparsity must be"),
        ({"search": "guess"}, "search must be 'exact' or 'hnsw'; got 'guess'"),
        ({"random_state": 0.5}, "random_state must be"),
    ],
)
def test_sleec_rejects_invalid_parameters(params, message):
    with pytest.raises(InputError, match=message):
        SLEEC(**params).fit(TRAIN.X, TRAIN.Y)


def test_scores_are_fractions_of_votes_within_the_cluster_of_the_row():
    model = SLEEC(n_components=6, n_learners=2, cluster_size=30, votes=4).fit(TRAIN.X, TRAIN.Y)
    assert len(model.learners_) == 2
    assert min(len(learner.clusters) for learner in model.learners_) > 1
    ranking = model.rank(TEST.X, 3)
    assert set(np.unique(ranking.scores[ranking.labels >= 0])) <= {np.float32(votes / 8) for votes in range(1, 9)}
    for learner in model.learners_:
        assert sorted(np.concatenate([one.members for one in learner.clusters])) == list(range(TRAIN.n_samples))
    assert model.metadata()["clusters"] == sum(len(learner.clusters) for learner in model.learners_)


def test_learners_differ_and_depend_on_the_seed():
    one = SLEEC(n_components=6, n_learners=2, cluster_size=30).fit(TRAIN.X, TRAIN.Y)
    first, second = (learner.clusters[0].members for learner in one.learners_)
    assert not np.array_equal(first, second)
    other = SLEEC(n_components=6, n_learners=2, cluster_size=30, random_state=1).fit(TRAIN.X, TRAIN.Y)
    assert not np.array_equal(other.learners_[0].clusters[0].members, first)


def test_hnsw_without_faiss_is_rejected_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(InputError, match=r"needs faiss; install unmissed\[neighbors\]"):
        SLEEC(search="hnsw").fit(TRAIN.X, TRAIN.Y)


@pytest.mark.skipif(not HAS_FAISS, reason="faiss is not installed")
def test_hnsw_search_is_close_to_exact_search_and_reproducible():
    params = {"n_components": 6, "n_learners": 2, "votes": 5}
    exact = SLEEC(**params).fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 1).labels
    graph = [SLEEC(search="hnsw", **params).fit(TRAIN.X, TRAIN.Y).rank(TEST.X, 1) for _ in range(2)]
    assert (graph[0].labels == exact).mean() > 0.9
    np.testing.assert_array_equal(graph[0].scores, graph[1].scores)


FORKED = """
import os
import numpy as np
import scipy.sparse as sp
from unmissed import SLEEC

rng = np.random.default_rng(0)
X = sp.random(300, 30, density=0.3, random_state=0, format="csr", dtype=np.float32)
model = SLEEC(n_components=6, n_learners=1, search="hnsw").fit(X, rng.random((300, 8)) < 0.3)
before = model.rank(X, 3)
child = os.fork()
if not child:
    after = model.rank(X, 3)
    os._exit(0 if np.array_equal(before.labels, after.labels) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not HAS_FAISS, reason="faiss is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_ranks_with_the_graph_search_of_its_parent():
    two = os.environ | {"OMP_NUM_THREADS": "2"}
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", FORKED], env=two, start_new_session=True)
    try:
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.skipif(not HAS_FAISS, reason="faiss is not installed")
def test_a_model_with_a_graph_can_be_pickled_and_keeps_to_its_threads(monkeypatch):
    model = SLEEC(n_components=4, n_learners=1, search="hnsw", n_jobs=1).fit(TRAIN.X, TRAIN.Y).prepare()
    import faiss  # after fit, which hides the warnings of its import

    before, used = faiss.omp_get_max_threads(), []
    search = faiss.IndexHNSWFlat.search

    def count(*arguments, **options):
        used.append(faiss.omp_get_max_threads())
        return search(*arguments, **options)

    monkeypatch.setattr(faiss.IndexHNSWFlat, "search", count)
    found = model.rank(TRAIN.X, 3)
    for n_jobs in (1, 2):
        again = pickle.loads(pickle.dumps(model)).set_params(n_jobs=n_jobs).rank(TRAIN.X, 3)
        assert np.array_equal(again.scores, found.scores)
        assert set(used) == {n_jobs}
        used.clear()
    assert faiss.omp_get_max_threads() == before
