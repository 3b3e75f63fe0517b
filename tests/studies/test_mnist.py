"""The MNIST study: its grid, its folder, and what must be seen in it."""

import csv
import json
import pickle

import numpy as np
import pytest

from tests.studies.test_idx import write_mnist
from unmissed.archive import read_json, write_manifest
from unmissed.errors import InputError
from unmissed.execution import OnDisk
from unmissed.studies import mnist as study_module
from unmissed.studies.idx import Digits, embedded_digits
from unmissed.studies.mnist import VARIANTS, MnistSettings, MnistState, MnistTask, run_cell, run_study, summarize

QUICK = MnistSettings(propensities=(0.3, 1.0), seeds=2, epochs=2, hidden=8, batch=16)


@pytest.fixture
def folder(tmp_path):
    return write_mnist(tmp_path / "data")


def test_a_study_leaves_a_training_a_cell_and_tables_over_them(tmp_path, folder):
    seen = []
    study = run_study(tmp_path / "out", QUICK, folder, workers=1, progress=lambda done, total: seen.append(done))
    assert seen == list(range(25))
    assert len(OnDisk(tmp_path / "out" / "trainings").listed()) == 6 * 2 * 2
    with open(tmp_path / "out" / "summary.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 6 * 2
    assert {row["seeds"] for row in rows} == {"2"}
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    assert stored["settings"]["propensities"] == [0.3, 1.0]
    assert stored["settings"]["data"] == "MNIST"
    assert stored["summary"] == study["summary"]
    accuracies = [t["epochs"][-1]["accuracy"] for t in study["trainings"] if t["variant"] == "bce"]
    assert stored["summary"][0]["accuracy_mean"] == pytest.approx(np.mean([accuracies[0], accuracies[2]]))


def test_two_processes_and_a_stop_in_the_middle_change_no_number(tmp_path, folder, monkeypatch):
    complete = run_study(tmp_path / "whole", QUICK, folder, workers=1)
    real, calls = study_module.run_cell, []

    def stop_after_five(*arguments):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(study_module, "run_cell", stop_after_five)
    with pytest.raises(KeyboardInterrupt):
        run_study(tmp_path / "parts", QUICK, folder, workers=1)
    assert len(OnDisk(tmp_path / "parts" / "trainings").listed()) == 5
    monkeypatch.undo()
    resumed = run_study(tmp_path / "parts", QUICK, folder, workers=2)
    assert resumed["summary"] == complete["summary"]


def test_a_finished_study_trains_nothing_again(tmp_path, folder, monkeypatch):
    first = run_study(tmp_path / "out", QUICK, folder, workers=1)
    monkeypatch.setattr(study_module, "run_cell", lambda *_: pytest.fail("trained again"))
    assert run_study(tmp_path / "out", QUICK, folder, workers=1)["summary"] == first["summary"]


def test_a_folder_of_other_settings_or_data_is_refused(tmp_path, folder):
    run_study(tmp_path / "out", QUICK, folder, workers=1)
    with pytest.raises(InputError, match="hidden 8"):
        run_study(tmp_path / "out", MnistSettings((0.3, 1.0), seeds=2, epochs=2, hidden=9, batch=16), folder)
    with pytest.raises(InputError, match="data_digest"):
        run_study(tmp_path / "out", QUICK, write_mnist(tmp_path / "other", seed=5))


@pytest.mark.parametrize(
    "wrong",
    [{"propensities": ()}, {"propensities": (0.0,)}, {"propensities": (0.5, 0.5)}, {"seeds": 0}, {"rate": 0.0}],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        MnistSettings(**wrong)


def test_with_all_labels_kept_the_corrected_losses_train_the_standard_network():
    digits = embedded_digits()
    quick = MnistSettings(epochs=1, hidden=8)
    for names in (["bce", "bce-unbiased", "bce-naive"], ["hinge", "hinge-convex", "hinge-unbiased"]):
        ends = [run_cell(digits, quick, MnistTask(name, 1.0, 0))["epochs"] for name in names]
        assert ends[0] == ends[1] == ends[2]


def test_on_the_small_digits_the_corrections_help_where_labels_are_missing():
    digits = embedded_digits()
    settings = MnistSettings(epochs=40, hidden=32, batch=16, rate=0.003)
    accuracy = {
        name: run_cell(digits, settings, MnistTask(name, 0.3, 0))["epochs"][-1]["accuracy"]
        for name in ("bce", "bce-unbiased", "hinge", "hinge-convex")
    }
    assert accuracy["bce-unbiased"] > accuracy["bce"] + 0.02
    assert accuracy["hinge-convex"] > accuracy["hinge"] + 0.02


def test_the_training_loss_of_the_non_convex_hinge_falls_below_zero_and_its_scores_grow():
    digits = embedded_digits()
    settings = MnistSettings(epochs=60, hidden=32, batch=16, rate=0.003)
    loose = run_cell(digits, settings, MnistTask("hinge-unbiased", 0.3, 0))["epochs"]
    bounded = run_cell(digits, settings, MnistTask("hinge-convex", 0.3, 0))["epochs"]
    assert loose[-1]["train_loss"] < 0 <= bounded[-1]["train_loss"]
    assert loose[-1]["largest_score"] > 3 * bounded[-1]["largest_score"]


def test_a_training_that_ran_away_is_written_as_null_and_summed_up_as_unknown():
    end = {"train_loss": None, "test_loss": None, "accuracy": 0.1, "largest_score": None}
    calm = {"train_loss": 0.1, "test_loss": 0.2, "accuracy": 0.9, "largest_score": 2.0}
    cells = [
        {"variant": "hinge-unbiased", "propensity": 0.1, "seed": s, "epochs": [e]} for s, e in enumerate([end, calm])
    ]
    (row,) = summarize(cells)
    assert (row["test_loss_mean"], row["test_loss_min"], row["test_loss_max"]) == (None, 0.2, None)
    assert row["accuracy_mean"] == pytest.approx(0.5)


def softplus(s):
    return np.logaddexp(0, s)


@pytest.mark.parametrize(
    ("name", "positive", "negative"),
    [
        ("bce", lambda s, p: softplus(-s), softplus),
        ("bce-unbiased", lambda s, p: softplus(s) - s / p, softplus),
        ("bce-naive", lambda s, p: softplus(-s) / p, softplus),
        ("hinge", lambda s, p: np.maximum(0, 1 - s), lambda s: np.maximum(0, 1 + s)),
        ("hinge-convex", lambda s, p: (2 / p - 1) * np.maximum(0, 1 - s), lambda s: np.maximum(0, 1 + s)),
        (
            "hinge-unbiased",
            lambda s, p: np.maximum(0, 1 - s) / p + (1 - 1 / p) * np.maximum(0, 1 + s),
            lambda s: np.maximum(0, 1 + s),
        ),
    ],
)
def test_every_variant_is_trained_with_the_loss_that_its_name_says(name, positive, negative):
    s = np.linspace(-6, 6, 25)
    for p in (0.2, 0.7, 1.0):
        loss = VARIANTS[name].trained(p, 1e-7)
        np.testing.assert_allclose(loss.positive.value(s), positive(s, p), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(loss.negative.value(s), negative(s), rtol=1e-12, atol=1e-12)
    assert set(VARIANTS) == {"bce", "bce-unbiased", "bce-naive", "hinge", "hinge-convex", "hinge-unbiased"}


@pytest.mark.parametrize(("score", "decided"), [(-1e-6, 0), (0.0, 1), (0.25, 1), (0.75, 1), (-0.75, 0)])
def test_a_score_of_at_least_zero_decides_present(monkeypatch, score, decided):
    digits = embedded_digits()
    monkeypatch.setattr(study_module.Network, "score", lambda self, X: np.full((len(X), 10), score, np.float32))
    seen = run_cell(digits, MnistSettings(epochs=1, hidden=2), MnistTask("bce", 1.0, 0))["epochs"][0]
    assert seen["accuracy"] == pytest.approx(0.1 if decided else 0.9)  # one of ten labels is true


def test_trainings_and_what_they_share_can_be_sent():
    cell, state = pickle.loads(pickle.dumps((MnistTask("bce", 0.3, 1), MnistState(QUICK))))
    assert (cell.key, cell.size) == ("bce/p0.3000/seed1", 1)
    digits, settings = state()
    assert settings == QUICK
    piece = cell.run((digits, MnistSettings(epochs=1, hidden=2)))
    assert piece.key == cell.key
    assert len(piece.metadata["epochs"]) == 1


def test_every_variant_is_tested_with_the_plain_loss_of_its_family():
    for name, variant in VARIANTS.items():
        plain = variant.tested(1e-7)
        again = variant.trained(1.0, 1e-7)
        s = np.linspace(-5, 5, 11)
        np.testing.assert_array_equal(plain.positive.value(s), again.positive.value(s), err_msg=name)


def test_digits_know_their_contents():
    digits = embedded_digits()
    changed = Digits(*[digits.name, digits.train_images + 1, *digits[2:]])
    assert digits.digest != changed.digest


@pytest.mark.parametrize("content", ["{}", "[]", "7", '{"epochs": []}', '{"variant": "bce", "variant": "bce"}'])
@pytest.mark.parametrize("file", ["trainings/bce/p*/seed0/manifest.json", "settings.json"])
def test_a_study_over_damaged_files_is_refused_in_one_line(tmp_path, file, content):
    settings = MnistSettings((1.0,), seeds=1, epochs=1, hidden=4)
    run_study(tmp_path, settings, workers=1)
    (damaged,) = tmp_path.glob(file)
    damaged.write_text(content)
    with pytest.raises(InputError, match=r"damaged|not a piece|not a readable JSON file|other settings"):
        run_study(tmp_path, settings, workers=1)


@pytest.mark.parametrize("change", [{"epochs": []}, {"epochs": [{}]}, {"seconds": "1"}, {"seed": 7}, {"epochs": None}])
def test_a_training_that_holds_something_else_is_refused(tmp_path, change):
    settings = MnistSettings((1.0,), seeds=1, epochs=1, hidden=4)
    run_study(tmp_path, settings, workers=1)
    (folder,) = tmp_path.glob("trainings/bce/p*/seed0")
    manifest = read_json(folder / "manifest.json")
    write_manifest(folder, {**manifest, "metadata": {**manifest["metadata"], **change}})
    with pytest.raises(InputError, match="seed0: damaged; remove it"):
        run_study(tmp_path, settings, workers=1)
