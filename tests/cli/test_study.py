"""`unmissed study` from the command line."""

import json

import pytest

from unmissed.cli.app import run
from unmissed.studies import paper

QUICK = ["--seeds", "1", "--epochs", "1", "--hidden", "4", "--propensities", "0.5,1", "--workers", "1"]


def call(*words):
    with pytest.raises(SystemExit) as end:
        run(["study", *map(str, words)])
    return end.value.code


def test_the_sketch_is_drawn_and_its_files_are_named(tmp_path, capsys):
    assert call("losses", "--out", tmp_path, "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [path.rsplit("/")[-1] for path in files] == ["losses.png", "losses.svg", "losses.csv"]


def test_the_study_of_the_small_digits_says_what_it_is(tmp_path, capsys):
    out = tmp_path / "study"
    assert call("mnist", "--out", out, *QUICK) == 0
    said = capsys.readouterr().out
    assert "scikit-learn digits" in said
    assert "re-weighted (convex)" in said
    assert "not MNIST" in (out / "mnist.svg").read_text(encoding="utf-8")
    assert json.loads((out / "study.json").read_text())["settings"]["data"] == "scikit-learn digits"
    for name in ("mnist.png", "mnist.svg", "epochs.png", "trainings.csv", "summary.csv", "study.json"):
        assert (out / name).stat().st_size > 0


def test_other_settings_in_the_same_folder_end_as_one_line(tmp_path, capsys):
    out = tmp_path / "study"
    call("mnist", "--out", out, *QUICK)
    capsys.readouterr()
    assert call("mnist", "--out", out, *QUICK, "--rate", "0.5") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "rate 0.001 (now 0.5)" in error


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--propensities", "a,b"], "numbers separated by commas"),
        (["--propensities", "0"], "(0, 1]"),
        (["--workers", "0"], "Invalid value for '--workers'"),
        (["--data", "nowhere"], "neither"),
    ],
)
def test_nonsense_is_refused_in_one_line(tmp_path, capsys, words, reason):
    assert call("mnist", "--out", tmp_path / "x", *words) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["missing", "train.txt", "test.txt", "--seeds", "0"], "at least 1 seed"),
        (["missing", "train.txt", "test.txt", "--min-df", "2"], "already has features; leave out --min-df"),
        (["missing", "train.txt", "test.txt", "--b", "0"], "b must be"),
        (["paper", "--data", ".", "--parts", "figures"], "unknown part 'figures'"),
        (["paper", "--data", ".", "--parts", "compare"], "no folder in it has a training and a test part"),
        (["paper", "--data", ".", "--time-limit", "soon"], "--time-limit must be a time"),
    ],
)
def test_nonsense_for_the_larger_studies_is_refused_in_one_line(tmp_path, capsys, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("1 1 1\n0 0:1\n")
    assert call(*words, "--out", tmp_path / "x") == 2
    assert reason in capsys.readouterr().err


def test_the_study_of_missing_labels_ends_with_its_advice(tmp_path, capsys, monkeypatch):
    from unmissed.studies import missing_report

    study = {"advice": ["Correct.", "Weight.", "Mind."], "training": []}
    monkeypatch.setattr(missing_report, "study_missing", lambda *_, **__: (study, [tmp_path / "index.html"]))
    (tmp_path / "train.txt").touch()
    assert call("missing", tmp_path / "train.txt", "test.txt", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[:3] == ["Correct.", "Weight.", "Mind."]
    assert "index.html" in said


def test_the_study_of_the_paper_passes_its_limits_and_the_policy_of_unseen_labels_on(tmp_path, monkeypatch):
    comparisons = []

    def pretend(data, out, comparison, **rest):
        comparisons.append(comparison)
        return {}, []

    monkeypatch.setattr(paper, "study_paper", pretend)
    words = ["--time-limit", "2m", "--memory-limit", "1G", "--unseen-labels", "drop", "--methods", "popularity"]
    assert call("paper", "--data", tmp_path, "--out", tmp_path / "out", *words) == 0
    (comparison,) = comparisons
    assert (comparison.limits.seconds, comparison.limits.memory) == (120, 2**30)
    assert comparison.unseen_labels == "drop"
    assert [spec.key for spec in comparison.specs] == ["popularity"]
