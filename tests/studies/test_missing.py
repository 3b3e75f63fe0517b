"""The study of missing labels: what it estimates, what it advises, and that it goes on where it stopped."""

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from tests.runs.corpora import small_corpus
from unmissed.data import write_xmc
from unmissed.errors import InputError
from unmissed.metrics import Difference
from unmissed.propensity import Constant, Jain
from unmissed.ranking import Ranking
from unmissed.studies import missing_labels
from unmissed.studies.estimates import measure_estimates, over_seeds, sensitivity
from unmissed.studies.missing_labels import MEASURES, MissingLabelSettings, advise, beliefs, believe
from unmissed.studies.missing_report import study_missing

SMALL = MissingLabelSettings(seeds=1, weightings=("tail",), factors=(2.0,), n_resamples=30)


@pytest.fixture(scope="module")
def case():
    """Return a truth, two rankings of it, one of them better, and propensities."""
    rng = np.random.default_rng(0)
    truth = sp.csr_matrix((rng.random((300, 12)) < 0.3).astype(np.float32))
    rankings = {}
    for name, skill in (("poor", 0.2), ("good", 1.0)):
        rankings[name] = Ranking.from_scores(rng.random(truth.shape) + skill * truth.toarray(), 3)
    return truth, rankings, np.linspace(0.2, 0.9, 12)


def test_the_right_propensities_estimate_the_true_precision_without_bias(case):
    truth, rankings, p = case
    rows = measure_estimates(rankings, truth, p, {"right": p, "wrong": np.full(12, 0.9)}, 400)
    found = {(row["model"], row["belief"]): row for row in rows}
    for name, ranking in rankings.items():
        hits = np.take_along_axis(truth.toarray(), ranking.labels, axis=1)
        right, plain = found[name, "right"], found[name, "uncorrected"]
        assert right["truth"] == pytest.approx(hits.mean())
        assert abs(right["bias"]) < 4 * right["spread"] / np.sqrt(400)
        kept = p[ranking.labels] * hits
        assert plain["estimate"] == pytest.approx(kept.mean(), abs=0.01)
        assert found[name, "wrong"]["estimate"] == pytest.approx(plain["estimate"] / 0.9)
        assert right["error"] == pytest.approx(np.hypot(right["bias"], right["spread"]))
        assert right["error"] < plain["error"]
    assert found["good", "right"]["right_winner"] == 1
    assert found["poor", "right"]["right_winner"] is None


def test_psp_is_measured_for_other_constants(case):
    truth, rankings, _ = case
    counts = np.asarray(truth.sum(axis=0)).ravel().astype(int)
    rows = sensitivity(rankings, truth, counts, 300, 0.55)
    assert {row["winner"] for row in rows} == {"good"}
    assert len({(row["a"], row["b"]) for row in rows}) == len(rows) == 18


def test_beliefs_are_what_their_names_say():
    counts, left = np.array([1, 10, 100]), np.array([0, 4, 80])
    true = Jain().estimate(counts, 1000)
    assert beliefs(SMALL) == ["right", "fitted to what is left", "A x 2", "B x 2", "one for all", "shuffled"]
    assert believe("right", SMALL, counts, left, 1000).values == pytest.approx(true)
    assert believe("A x 2", SMALL, counts, left, 1000).values == pytest.approx(Jain(1.1, 1.5).estimate(counts, 1000))
    assert believe("B x 2", SMALL, counts, left, 1000).values == pytest.approx(Jain(0.55, 3.0).estimate(counts, 1000))
    assert believe("fitted to what is left", SMALL, counts, left, 1000).values == pytest.approx(
        Jain().estimate(left, 1000)
    )
    assert sorted(believe("shuffled", SMALL, counts, left, 1000).values) == pytest.approx(sorted(true))
    one = believe("one for all", SMALL, counts, left, 1000)
    assert isinstance(one, Constant)
    assert np.sum(counts * true) / one.p == pytest.approx(counts.sum())  # expected observed counts, corrected
    assert 1 / one.p == pytest.approx(np.average(1 / true, weights=counts * true))  # the mean over observed labels


def test_intervals_over_seeds_are_students():
    values = [0.010, 0.013, 0.019]
    rows = [Difference(value, value, value, 1.0) for value in values]  # no spread over rows
    found = over_seeds(rows)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx(tuple(expected))
    assert found["value"] == pytest.approx(0.014)
    single = over_seeds([Difference(0.01, 0.008, 0.012, 1.0)])
    assert (single["low"], single["high"]) == pytest.approx((0.008, 0.012))


def test_the_study_writes_its_page_and_trains_nothing_twice(tmp_path, monkeypatch):
    paths = []
    for name, dataset in zip(("train", "test"), small_corpus(n_labels=15, n_train=80), strict=True):
        paths.append(tmp_path / f"{name}.txt")
        write_xmc(dataset, paths[-1])
    out = tmp_path / "study"
    study, files = study_missing(*paths, out, SMALL, name="tiny", workers=1)
    assert [row["belief"] for row in study["training"]] == beliefs(SMALL)
    assert len(study["advice"]) == 3
    page = files[0].read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert study["advice"][0].split(":")[0] in page
    monkeypatch.setattr(missing_labels.MissingLabelTask, "run", None)  # nothing is trained again
    again, _ = study_missing(*paths, out, SMALL, name="tiny", workers=1)
    assert json.loads(json.dumps(again)) == json.loads((out / "study.json").read_text())
    assert again["training"] == study["training"]
    with pytest.raises(InputError, match="other settings"):
        study_missing(*paths, out, MissingLabelSettings(seeds=2), name="tiny", workers=1)
    monkeypatch.setattr(missing_labels, "VERSION", missing_labels.VERSION + 1)
    with pytest.raises(InputError, match="other settings: version"):
        study_missing(*paths, out, SMALL, name="tiny", workers=1)


def made_up(right, others, *, error=0.01, plain=0.2):
    gain = {name: {"value": right, "low": right - 0.01, "high": right + 0.01} for name in MEASURES}
    rows = [{"weighting": "tail", "belief": "right", "gain": gain}]
    for belief, value in others.items():
        other = {name: {"value": value, "low": value - 0.01, "high": value + 0.01} for name in MEASURES}
        rows.append({"weighting": "tail", "belief": belief, "gain": other})
    errors = {"uncorrected": plain, "right": error, "shuffled": 0.5}
    estimates = [{"model": "tail", "belief": name, "error": value, "spread": 0.01} for name, value in errors.items()]
    return {"training": rows, "estimates": estimates, "focus": "tail", "data": {"n_test": 99}}


def test_advice_follows_the_numbers():
    measuring, training, wrong = advise(made_up(0.05, {"A x 2": 0.04, "shuffled": -0.03}))
    assert measuring.startswith("Correct by 1/p")
    assert "still beat no correction: none" in measuring
    assert training.startswith("Weight positives by tail")
    assert "+5.00 [+4.00, +6.00]" in training
    assert "stays: A x 2; it is lost with: shuffled" in wrong
    measuring, training, wrong = advise(made_up(-0.05, {"A x 2": -0.1}, error=0.3))
    assert measuring.startswith("Do not correct")
    assert training.startswith("Train without weighting")
    assert wrong.startswith("Better propensities are not worth the trouble")
    assert "does not decide" in advise(made_up(0.0, {}))[1]
    assert "leave it" in advise(made_up(0.0, {}))[1]


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"weightings": ()}, {"b": 0.0}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InputError):
        MissingLabelSettings(**wrong)
