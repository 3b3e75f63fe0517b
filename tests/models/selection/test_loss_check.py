"""The warning before a training with a weighting that loses."""

import warnings

import numpy as np
import pytest

from tests.runs.corpora import small_corpus
from unmissed.models import DiSMEC, PWDiSMEC, WeightingWarning
from unmissed.models.selection import find_loss, loss_check
from unmissed.propensity import FromTable

TRAIN, _ = small_corpus(n_labels=20, n_train=600)
LOSING = FromTable(np.where(TRAIN.label_counts > 60, 0.999, 0.5))  # by which `tail` hardly learns frequent labels


@pytest.fixture(autouse=True)
def nothing_checked(monkeypatch):
    monkeypatch.setattr(loss_check, "_checked", set())


def warnings_of(model, n=None):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(TRAIN.X[:n], TRAIN.Y[:n])
    return [one for one in heard if issubclass(one.category, WeightingWarning)]


def test_fit_warns_once_with_figures_and_how_to_turn_it_off():
    (heard,) = warnings_of(PWDiSMEC(weighting="tail", propensity=LOSING, n_jobs=1))
    text = str(heard.message)
    assert text.startswith("weighting tail is worse than weighting none on 120 held-out rows: P@1 ")
    assert 'weighting="auto"' in text
    assert 'warnings.simplefilter("ignore", unmissed.models.WeightingWarning)' in text
    assert heard.filename == __file__
    assert warnings_of(PWDiSMEC(weighting="tail", propensity=LOSING, n_jobs=1)) == []


def test_what_is_ignored_is_not_checked(monkeypatch):
    monkeypatch.setattr(loss_check, "find_loss", lambda *_: pytest.fail("checked"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeightingWarning)
        PWDiSMEC(weighting="tail", propensity=LOSING, n_jobs=1).fit(TRAIN.X, TRAIN.Y)
    assert not loss_check._checked


@pytest.mark.parametrize(
    "model",
    [
        PWDiSMEC(weighting="none", propensity=LOSING, n_jobs=1),
        PWDiSMEC(weighting="floored-tail", propensity=LOSING, n_jobs=1),
        PWDiSMEC(weighting="surrogate", propensity=1.0, n_jobs=1),  # the same costs
        DiSMEC(n_jobs=1),
    ],
    ids=["none", "floored-tail", "equal", "dismec"],
)
def test_what_does_not_lose_gives_no_warning(model):
    assert warnings_of(model) == []


def test_little_data_is_not_checked():
    assert warnings_of(PWDiSMEC(weighting="tail", propensity=LOSING, n_jobs=1), 300) == []


def test_the_loss_has_the_figures_of_both():
    model = PWDiSMEC(weighting="tail", propensity=LOSING, n_jobs=1)
    found = find_loss(model, model.check_rows(TRAIN.X, TRAIN.Y))
    assert (found.params, found.baseline) == ({"weighting": "tail"}, {"weighting": "none"})
    own, other = found.figures["P@1"]
    assert own - other == pytest.approx(found.gains["P@1"].value)
    assert found.gains["P@1"].high < 0
