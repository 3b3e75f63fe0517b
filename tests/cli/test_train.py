"""`unmissed train` and `unmissed extend`."""

import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus, tree_bytes, write_texts
from unmissed.cli.app import run
from unmissed.data import write_xmc
from unmissed.runs import open_run


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts") / "train.jsonl")


def test_it_trains_on_text_and_says_how_well_labels_were_solved(texts, tmp_path, capsys):
    output = said(capsys, "train", "pw-dismec", texts, "--run", tmp_path / "run", "--min-df", 2, "--jobs", 1)
    assert "pw-dismec, 3 labels trained" in output
    assert "3 labels converged to a relative duality gap of 0.001" in output


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
    terms = {"ngrams": [1, 2], "min_df": 1, "max_features": 50, "smooth": True}
    assert recipe["text"] == terms


def test_it_speaks_json(texts, tmp_path, capsys):
    metadata = json.loads(said(capsys, "train", "popularity", texts, "--run", tmp_path / "run", "--json"))
    sizes = {"n_labels": 3, "n_trained": 3}
    assert metadata == {"run": str(tmp_path / "run"), "method": "popularity", **sizes, "certificate": None}


def test_the_same_command_twice_is_no_error_and_says_that_nothing_was_left_to_do(texts, tmp_path, capsys):
    words = ["train", "dismec", texts, "--run", tmp_path / "run"]
    assert "3 labels trained" in said(capsys, *words)
    assert "3 labels, all trained already" in said(capsys, *words)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["fasttext"], "unknown method 'fasttext'; known: dismec, pw-dismec, "),
        (["pw-dismec", "--weighting", "heavy"], "weighting must be 'none', 'surrogate', 'tail', "),
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
    for part in (
        "--weighting",
        "floored-tail]",
        "--no-normalize",
        "--fit-bias",
        "true|false|free",
        "--max-rounds",
    ):
        assert part in shown
    assert "--weighting" not in said(capsys, "train", "dismec", "--help")


def test_rows_are_normalized_by_default_and_the_bias_can_be_unregularized(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "a")
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "b", "--no-normalize", "--fit-bias", "free")
    kept = [open_run(tmp_path / name).recipe.params for name in "ab"]
    assert [(one["normalize"], one["fit_bias"]) for one in kept] == [(True, True), (False, "free")]


def test_text_options_for_features_are_refused(tmp_path, capsys):
    write_xmc(small_corpus()[0], tmp_path / "train.txt")
    line = refused(capsys, "train", "popularity", tmp_path / "train.txt", "--run", tmp_path / "run", "--min-df", 3)
    assert "train.txt: already has features; leave out --min-df" in line


def test_another_recipe_for_the_same_folder_is_refused(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    assert "C is 0.5 there and 3.0 here" in refused(
        capsys, "train", "dismec", texts, "--run", tmp_path / "run", "--C", 3
    )


def test_extend_adds_the_labels_that_are_new(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    more = write_texts(tmp_path / "more.jsonl", seed=1, extra="mix")
    assert "dismec, 1 label trained; the run has 4 now" in said(capsys, "extend", tmp_path / "run", more)
    before = tree_bytes(tmp_path / "run")
    for words in ([], ["--without-old-rows"]):
        assert "all trained already" in said(capsys, "extend", tmp_path / "run", more, *words)
    assert tree_bytes(tmp_path / "run") == before
    again = write_texts(tmp_path / "again.jsonl", seed=2)
    assert "has all 3 labels" in refused(capsys, "extend", tmp_path / "run", again)


def all_of_one(path):
    """Rows that all carry one new label and say nothing that old rows do not say."""
    lines = [json.dumps({"text": text, "labels": ["new"]}) for text in ("cod of the pier", "the milk of the cow")]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_new_label_on_all_new_rows_is_not_given_to_everything(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    said(capsys, "extend", tmp_path / "run", all_of_one(tmp_path / "more.jsonl"))
    best = open_run(tmp_path / "run").rank(["the court and the judge", "appeal of the court"], 1)
    assert [open_run(tmp_path / "run").label_names[label] for label in best.labels[:, 0]] == ["law", "law"]


def test_without_old_rows_it_warns_and_the_new_label_is_given_to_everything(texts, tmp_path, capsys):
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    words = ["extend", tmp_path / "run", all_of_one(tmp_path / "more.jsonl"), "--without-old-rows"]
    with pytest.raises(SystemExit):
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert "1 new labels are trained only on 2 rows" in captured.err
    assert "1 of them have no negative row" in captured.err
    assert "1 label trained; the run has 4 now" in captured.out
    assert dict(open_run(tmp_path / "run").suggest("judge of the court", 4))["new"] > 0


def test_old_rows_that_moved_must_be_given_and_must_be_the_same(texts, tmp_path, capsys):
    moving, more = write_texts(tmp_path / "train.jsonl"), all_of_one(tmp_path / "more.jsonl")
    said(capsys, "train", "dismec", moving, "--run", tmp_path / "run")
    moving.rename(tmp_path / "moved.jsonl")
    line = refused(capsys, "extend", tmp_path / "run", more)
    assert f"its training data is not where it was, {moving}" in line
    assert "--old-rows" in line
    assert "--without-old-rows" in line
    other = write_texts(tmp_path / "other.jsonl", seed=5)
    assert "was not trained on these old rows" in refused(capsys, "extend", tmp_path / "run", more, "--old-rows", other)
    other.rename(moving)
    assert "is not what" in refused(capsys, "extend", tmp_path / "run", more)
    assert "1 label trained" in said(capsys, "extend", tmp_path / "run", more, "--old-rows", tmp_path / "moved.jsonl")


def test_labels_that_miss_the_tolerance_are_named_on_standard_error(tmp_path, capsys):
    write_xmc(small_corpus()[0], tmp_path / "train.txt")
    words = ["train", "dismec", tmp_path / "train.txt", "--run", tmp_path / "run", "--tol", 1e-6, "--max-rounds", 1]
    with pytest.raises(SystemExit):
        run([str(word) for word in words])
    captured = capsys.readouterr()
    assert "labels did not converge: label" in captured.err


def test_paper_trains_the_literal_objective_with_other_options(texts, tmp_path, capsys):
    said(capsys, "train", "pw-dismec", texts, "--run", tmp_path / "run", "--paper", "--tol", 0.1, "--C", 0.5)
    params = open_run(tmp_path / "run").recipe.params
    assert (params["weighting"], params["C"], params["fit_bias"], params["prune"]) == ("tail", 0.5, "free", 0.01)
    assert params["tol"] == 0.1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["dismec", "--paper"], "--paper: DiSMEC is not the method of the paper"),
        (["pw-dismec", "--paper", "--C", 3], "--paper: C is 0.5 in the paper's objective of PWDiSMEC; got 3.0"),
        (["pw-dismec", "--paper", "--tuned"], "--paper and --tuned both set parameters"),
    ],
)
def test_paper_is_refused_where_it_has_no_meaning(words, line, texts, tmp_path, capsys):
    assert line in refused(capsys, "train", words[0], texts, "--run", tmp_path / "run", *words[1:])


def test_help_shows_paper_with_its_values_for_methods_that_have_it(capsys):
    assert "--paper stands for --weighting tail --C 0.5 --fit-bias free" in " ".join(
        said(capsys, "train", "pw-dismec", "--help").split()
    )
    assert "--paper" not in said(capsys, "train", "dismec", "--help")
