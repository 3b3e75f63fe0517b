"""`unmissed train` and `unmissed extend`."""

import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus, write_texts
from unmissed.cli.app import run
from unmissed.data import write_xmc
from unmissed.runs import open_run


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts") / "train.jsonl")


def test_it_trains_on_text_and_says_how_well_labels_were_solved(texts, tmp_path, capsys):
    output = said(capsys, "train", "pw-dismec", texts, "--run", tmp_path / "run", "--min-df", 2, "--jobs", 1)
    assert "pw-dismec, 3 labels trained" in output
    assert "3 labels met the relative duality gap 0.001" in output


def test_options_reach_the_recipe(texts, tmp_path, capsys):
    words = ["--weighting", "surrogate", "--propensity", "constant:0.5", "--C", 2, "--prune", 0.1, "--tol", 0.01]
    words += [
        "--seed",
        7,
        "--ngrams",
        2,
        "--max-features",
        50,
        "--smooth-idf",
        "--fit-bias",
        "false",
        "--block-size",
        64,
    ]
    said(capsys, "train", "pw-dismec", texts, "--run", tmp_path / "run", *words)
    recipe = json.loads((tmp_path / "run" / "manifest.json").read_text())["recipe"]
    params = recipe["params"]
    assert (params["weighting"], params["C"], params["prune"], params["tol"]) == ("surrogate", 2.0, 0.1, 0.01)
    assert (params["fit_bias"], params["block_size"], params["random_state"]) == (False, 64, 7)
    assert params["propensity"] == {"model": "constant", "p": 0.5}
    assert recipe["text"] == {"ngrams": [1, 2], "min_df": 1, "max_features": 50, "smooth": True}


def test_it_speaks_json(texts, tmp_path, capsys):
    facts = json.loads(said(capsys, "train", "popularity", texts, "--run", tmp_path / "run", "--json"))
    assert facts == {"run": str(tmp_path / "run"), "method": "popularity", "n_labels": 3, "certificate": None}


def test_the_same_command_twice_is_no_error(texts, tmp_path, capsys):
    for _ in range(2):
        said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["fasttext"], "unknown method 'fasttext'; known: dismec, pw-dismec, "),
        (["pw-dismec", "--weighting", "heavy"], "--weighting is one of none, surrogate, tail"),
        (["pw-dismec", "--propensity", "guess"], "unknown propensity 'guess'"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(words, line, texts, tmp_path, capsys):
    assert line in refused(capsys, "train", words[0], texts, "--run", tmp_path / "run", *words[1:])


def test_an_option_that_a_method_does_not_have_is_named(texts, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        run(["train", "dismec", str(texts), "--run", str(tmp_path / "run"), "--weighting", "tail"])
    assert end.value.code == 2
    assert "No such option: --weighting" in capsys.readouterr().err


def test_help_shows_the_parameters_of_the_method_and_their_defaults(capsys):
    shown = " ".join(said(capsys, "train", "pw-dismec", "--help").split())
    for part in ("--weighting", "[default: tail]", "--raw-rows", "--fit-bias", "true|false|free", "--max-rounds"):
        assert part in shown
    assert "--weighting" not in said(capsys, "train", "dismec", "--help")


def test_rows_are_scaled_unless_told_otherwise_and_the_bias_can_be_free(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "a")
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "b", "--raw-rows", "--fit-bias", "free")
    kept = [open_run(tmp_path / name).recipe.params for name in "ab"]
    assert [(one["unit_rows"], one["fit_bias"]) for one in kept] == [(True, True), (False, "free")]


def test_text_options_for_features_are_refused(tmp_path, capsys):
    write_xmc(small_corpus()[0], tmp_path / "train.txt")
    line = refused(capsys, "train", "popularity", tmp_path / "train.txt", "--run", tmp_path / "run", "--min-df", 3)
    assert "--min-df is for text" in line


def test_another_recipe_for_the_same_folder_is_refused(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    assert "C is 1.0 there and 3.0 here" in refused(
        capsys, "train", "dismec", texts, "--run", tmp_path / "run", "--C", 3
    )


def test_extend_adds_the_labels_that_are_new(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    more = write_texts(tmp_path / "more.jsonl", seed=1, extra="mix")
    assert "dismec, 4 labels trained" in said(capsys, "extend", tmp_path / "run", more)
    assert "has all 4 labels" in refused(capsys, "extend", tmp_path / "run", more)


def test_labels_that_miss_the_tolerance_are_named_on_standard_error(tmp_path, capsys):
    write_xmc(small_corpus()[0], tmp_path / "train.txt")
    words = ["train", "dismec", tmp_path / "train.txt", "--run", tmp_path / "run", "--tol", 1e-6, "--max-rounds", 1]
    with pytest.raises(SystemExit):
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert "labels did not: label" in captured.err
