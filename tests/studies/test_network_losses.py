"""The study of networks and missing labels: its grid, its figures, its page, and that it goes on where it stopped."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cli.test_study import call
from tests.runs.corpora import small_corpus
from unmissed.data import write_xmc
from unmissed.errors import InputError
from unmissed.execution import OnDisk
from unmissed.features import Features
from unmissed.losses import logistic, squared_hinge
from unmissed.studies import network_losses
from unmissed.studies.network_losses import VARIANTS, NetworkRows, NetworkStudySettings, NetworkTask, advise, cells_of
from unmissed.studies.network_report import study_network

pytest.importorskip("torch")
SMALL = NetworkStudySettings((0.4, 1.0), seeds=2, epochs=1, hidden=4, rows=60, test_rows=30)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    paths = [folder / "train.txt", folder / "test.txt"]
    for path, part in zip(paths, small_corpus(), strict=True):
        write_xmc(part, path)
    return paths


def test_at_propensity_1_only_the_standard_losses_are_trained():
    names = [(cell.variant, cell.propensity) for cell in cells_of(SMALL) if cell.seed == 0]
    assert names == [*((name, 0.4) for name in VARIANTS), ("logistic", 1.0), ("hinge", 1.0)]


def test_a_study_writes_its_page_and_resumes_where_it_stopped(tmp_path, files, monkeypatch):
    complete, written = study_network(*files, tmp_path / "complete", SMALL, workers=1)
    assert all(path.stat().st_size for path in written)
    page = written[0].read_text()
    assert page.index("has the highest P@1") < page.index("<svg") < page.index("squared hinge, non-convex, 0.4")
    assert complete["data"] | {"name": ""} == {
        "name": "",
        "n_train": 60,
        "n_test": 30,
        "n_labels": small_corpus()[0].n_labels,
    }
    real, calls = NetworkTask.run, []

    def stop_after_five(self, rows):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(self)
        return real(self, rows)

    monkeypatch.setattr(NetworkTask, "run", stop_after_five)
    with pytest.raises(KeyboardInterrupt):
        study_network(*files, tmp_path / "parts", SMALL, workers=1)
    assert len(OnDisk(tmp_path / "parts" / "trainings").listed()) == 5
    monkeypatch.undo()
    resumed, _ = study_network(*files, tmp_path / "parts", SMALL, workers=2)
    assert resumed["summary"] == complete["summary"]
    assert resumed["gains"] == complete["gains"]
    with pytest.raises(InputError, match=r"epochs 1 \(now 2\)"):
        study_network(*files, tmp_path / "parts", NetworkStudySettings((0.4, 1.0), epochs=2), workers=1)


def test_the_figures_are_those_of_all_decisions_on_complete_labels():
    train, test = small_corpus()
    rows = NetworkRows(Features(train.X), train.Y, Features(test.X), test.Y, SMALL)
    seen = []
    real = network_losses._measure

    def keep(model, *rest):
        seen.append(model)
        return real(model, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network_losses, "_measure", keep)
        patch.setattr(network_losses, "_ROWS", 7)
        found = {name: NetworkTask(name, 0.4, 0).run(rows).metadata for name in ("logistic-unbiased", "hinge-convex")}
    truth = test.Y.toarray() > 0
    losses = logistic(), squared_hinge()
    for model, one, (name, metadata) in zip(seen, losses, found.items(), strict=True):
        scores = model.decision_function(test.X)
        assert metadata["test_loss"] == pytest.approx(one.value(scores, sp.csr_matrix(test.Y)).mean(), rel=1e-5)
        assert metadata["accuracy"] == pytest.approx(((scores >= 0) == truth).mean())
        assert (model.loss, model.correction) == VARIANTS[name][2:]
        assert (model.propensity.p, model.validation_fraction) == (0.4, 0.0)


def test_all_losses_of_a_seed_see_the_same_labels(monkeypatch):
    train, test = small_corpus()
    rows, seen = NetworkRows(Features(train.X), train.Y, Features(test.X), test.Y, SMALL), []
    real = network_losses.drop_labels
    monkeypatch.setattr(network_losses, "drop_labels", lambda *words: seen.append(real(*words)) or seen[-1])
    for name, seed in (("logistic", 0), ("hinge-unbiased", 0), ("logistic", 1)):
        NetworkTask(name, 0.4, seed).run(rows)
    assert (seen[0] != seen[1]).nnz == 0
    assert (seen[0] != seen[2]).nnz > 0
    assert seen[0].nnz == pytest.approx(0.4 * train.Y.nnz, rel=0.3)


def test_the_finding_names_the_best_loss_at_the_lowest_propensity():
    def row(label, p, precision, loss=None):
        own = {"family": "cross-entropy", "label": label, "propensity": p}
        return {**own, "P@1_mean": precision, "test_loss_mean": loss}

    summary = [row("standard", 0.1, 0.5), row("naive", 0.1, 0.625, 0.25), row("standard", 1.0, 0.9)]
    gain = {**row("naive", 0.1, 0), **{m: {"value": 0.125, "low": 0.1, "high": 0.15} for m in ("P@1", "P@5")}}
    study = {"settings": {"propensities": [1.0, 0.1]}, "summary": summary, "gains": [gain]}
    first, losses, second = advise(study)
    assert first.startswith("At propensity 0.1, cross-entropy, naive has the highest P@1 on complete labels: 62.5 %")
    assert "cross-entropy, standard 50.0" in first
    assert losses == "Test loss of cross-entropy at propensity 0.1: standard diverged, naive 0.25000."
    assert "P@1 +12.50 [+10.00, +15.00]" in second


def test_nonsense_is_refused_in_one_line(tmp_path, capsys, files):
    for words, reason in (
        (["--propensities", "0"], "(0, 1]"),
        (["--rows", "0"], "rows must be at least 1"),
        (["--epochs", "0"], "epochs must be at least 1"),
    ):
        assert call("network", *files, "--out", tmp_path / "x", *words) == 2
        assert reason in capsys.readouterr().err


def test_the_command_prints_the_finding(tmp_path, capsys, files):
    words = ["--propensities", "0.5", "--epochs", 1, "--hidden", 2, "--workers", 1, "--json"]
    assert call("network", *files, "--out", tmp_path / "x", *words) == 0
    assert "has the highest P@1" in json.loads(capsys.readouterr().out)["advice"][0]
    assert np.isfinite(json.loads((tmp_path / "x" / "study.json").read_text())["summary"][0]["test_loss_mean"])
