"""`unmissed tune`, `train --weighting auto`, and the warning about a default that loses."""

import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus
from unmissed.cli.app import run
from unmissed.data import write_xmc
from unmissed.reports.choice_tables import choice_sentence, choice_table, warning_sentence
from unmissed.runs import open_run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "train.txt"
    write_xmc(small_corpus(n_labels=20, n_train=600)[0], path)
    return path


@pytest.fixture(scope="module")
def losing(data):
    """Propensities by which `tail` hardly learns the frequent labels."""
    counts = small_corpus(n_labels=20, n_train=600)[0].label_counts
    table = data.with_name("p.txt")
    table.write_text("".join(f"{0.999 if count > 60 else 0.5}\n" for count in counts))
    return ["--propensity", f"table:{table}"]


def heard(capsys, *words):
    with pytest.raises(SystemExit) as end:
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert end.value.code == 0, captured.err
    return captured


def test_it_shows_what_it_tried_and_how_to_train_with_what_it_chose(data, losing, capsys):
    words = ["tune", data, *losing, "--try", "weighting=none,tail", "--try", "C=1,3", "--metric", "PSP@3", "--jobs", 1]
    output = " ".join(said(capsys, *words).split())
    assert "weighting none, C 1" in output
    assert "weighting tail, C 1" in output
    assert "P@1 is lower" in output
    assert "Selected: weighting none, C " in output
    assert f"unmissed train pw-dismec {data} --run DIR --weighting none --C " in output
    assert output.endswith(" ".join(losing))


def test_it_speaks_json(data, losing, capsys):
    found = json.loads(said(capsys, "tune", data, *losing, "--try", "weighting=none,tail", "--jobs", 1, "--json"))
    assert found["params"] == {"weighting": "none"}
    assert [trial["params"]["weighting"] for trial in found["trials"]] == ["none", "tail"]
    assert found["trials"][1]["gains"]["P@1"]["high"] < 0
    assert (found["metric"], found["keep"], found["rows_held_out"]) == ("PSP@5", "P@1", 600)


def test_any_parameter_of_any_method_can_be_tried(data, capsys):
    words = [
        "tune",
        data,
        "--method",
        "dismec",
        "--try",
        "fit_bias=false",
        "--try",
        "block_size=8",
        "--jobs",
        1,
        "--json",
    ]
    found = json.loads(said(capsys, *words))
    assert [trial["params"]["fit_bias"] for trial in found["trials"]][:2] == [True, False]
    assert {trial["params"]["block_size"] for trial in found["trials"]} == {256, 8}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--method", "popularity"], "popularity has neither weightings nor C"),
        (
            ["--try", "depth=1,2"],
            "--try depth=1,2: expected NAME=VALUE,VALUE with a parameter of pw-dismec: weighting, C",
        ),
        (["--try", "C"], "--try C: expected"),
        (["--try", "C=much"], "C must be a number above 0; got 'much'"),
        (["--try", "block_size=1.5"], "block_size must be an integer from 1 to 65536; got 1.5"),
        (["--try", "propensity=jain"], "expected NAME=VALUE"),
        (["--metric", "PSP"], "a figure is a metric and a cut-off, such as P@1 or PSP@5; got 'PSP'"),
    ],
)
def test_nonsense_is_one_line(words, line, data, capsys):
    assert line in refused(capsys, "tune", data, *words)


def test_auto_says_what_it_chose_and_inspect_remembers(data, losing, tmp_path, capsys):
    words = ["train", "pw-dismec", data, "--run", tmp_path / "run", "--weighting", "auto", *losing, "--jobs", 1]
    output = said(capsys, *words)
    chosen = open_run(tmp_path / "run").model.weighting_
    assert f"Selected: weighting {chosen}" in output
    assert "weighting tail" in output
    assert "20 labels trained" in output
    assert chosen in said(capsys, "inspect", tmp_path / "run")
    metadata = json.loads(said(capsys, *words, "--json"))
    assert metadata["choice"]["params"] == {"weighting": chosen}


def test_the_default_warns_with_figures_when_it_loses(data, losing, tmp_path, capsys):
    words = ["train", "pw-dismec", data, *losing, "--jobs", 1]
    heard_first = heard(capsys, *words, "--run", tmp_path / "a")
    assert "warning: weighting tail is worse than weighting none on " in heard_first.err
    assert "P@1 " in heard_first.err
    assert "--weighting auto" in heard_first.err
    for more in (["--no-check"], ["--weighting", "tail"], ["--weighting", "none"]):
        position = tmp_path / "-".join(more)
        assert "warning" not in heard(capsys, *words, *more, "--run", position).err
    again = heard(capsys, *words, "--run", tmp_path / "a")
    assert "warning" not in again.err  # said when it was begun
    assert "all trained already" in again.out
    assert open_run(tmp_path / "a").recipe.params["weighting"] == "tail"


def test_little_data_is_not_checked(losing, tmp_path, capsys):
    write_xmc(small_corpus(n_labels=20, n_train=300)[0], tmp_path / "train.txt")
    words = ["train", "pw-dismec", tmp_path / "train.txt", "--run", tmp_path / "run", *losing, "--jobs", 1]
    assert heard(capsys, *words).err == ""


def a_choice(gain=0.02, cost=-0.001):
    def difference(value):
        return {"value": value, "low": value - 0.01, "high": value + 0.01, "ahead": 0.5}

    trials = [
        {"params": {"w": "none"}, "figures": {"PSP@5": 0.3, "P@1": 0.6}, "gains": {}, "verdict": "baseline"},
        {
            "params": {"w": "tail"},
            "figures": {"PSP@5": 0.3 + gain, "P@1": 0.6 + cost},
            "gains": {"PSP@5": difference(gain), "P@1": difference(cost)},
            "verdict": "chosen",
        },
    ]
    sizes = {"rows_held_out": 1000, "rows_trained_on": 4000, "labels": 20}
    return {"metric": "PSP@5", "keep": "P@1", "level": 0.95, "params": {"w": "tail"}, **sizes, "trials": trials}


def test_the_table_has_figures_gains_and_verdicts():
    table = choice_table(a_choice())
    assert table.columns == ["candidate", "PSP@5", "gain", "P@1", "gain", ""]
    assert table.rows[0] == ["w none", "30.00", "", "60.00", "", "baseline"]
    assert table.rows[1] == ["w tail", "32.00", "+2.00 [+1.00, +3.00]", "59.90", "-0.10 [-1.10, +0.90]", "chosen"]


def test_the_sentence_says_what_the_choice_gains_and_costs():
    choice = a_choice()
    assert choice_sentence(choice) == "Selected: w tail; PSP@5 +2.00 [+1.00, +3.00], P@1 -0.10 [-1.10, +0.90]."
    plain = {**choice, "params": {"w": "none"}}
    assert choice_sentence(plain) == "Selected: w none; no candidate is likely to raise PSP@5 without a drop in P@1."
    assert "too few rows" in choice_sentence({**choice, "trials": []})


def test_the_warning_is_for_a_loss_that_is_sure():
    assert warning_sentence(a_choice(cost=-0.005)) is None
    assert warning_sentence({**a_choice(), "trials": []}) is None
    said_of = warning_sentence(a_choice(cost=-0.02))
    assert said_of == (
        "w tail is worse than w none on 1,000 held-out rows: P@1 58.00 vs. 60.00 (-2.00 [-3.00, -1.00]), "
        "PSP@5 32.00 vs. 30.00 (+2.00 [+1.00, +3.00])"
    )
