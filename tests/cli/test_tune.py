"""`unmissed tune`, `train --tuned`, `train --weighting auto`, and the warning about a weighting that loses."""

import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus, write_texts
from unmissed.cli.app import run
from unmissed.data import write_xmc
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
    words = ["tune", data, *losing, "--try", "weighting=none,tail", "--try", "C=1,3", "--metric", "PSP@3", "--keep"]
    output = " ".join(said(capsys, *words, "P@1", "--jobs", 1).split())
    assert "weighting none, C 1" in output
    assert "weighting tail, C 1" in output
    assert "PSP@3" in output
    assert "Selected: weighting " in output
    assert f"unmissed train pw-dismec {data} --run DIR --weighting " in output
    assert output.endswith(" ".join(losing))


def test_it_speaks_json_and_writes_what_it_found(data, losing, tmp_path, capsys):
    words = ["tune", data, *losing, "--try", "weighting=none,tail", "--try", "C=1", "--jobs", 1, "--json"]
    found = json.loads(said(capsys, *words, "--out", tmp_path / "out"))
    tail = next(one for one in found["candidates"] if one["params"] == {"weighting": "tail", "C": 1.0})
    assert tail["gains"]["P@1"]["high"] < 0
    assert found["params"] != tail["params"]
    assert (found["metric"], found["keep"]) == (["P@1", "P@5", "PSP@5"], [])
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == found
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "figure.svg",
        "results.json",
        "table.csv",
        "table.md",
    ]


def test_any_parameter_of_any_method_can_be_tried(data, capsys):
    words = ["tune", data, "--method", "dismec", "--try", "fit_bias=true,false", "--try", "block_size=8", "--jobs", 1]
    found = json.loads(said(capsys, *words, "--json"))
    tried = {(one["params"]["fit_bias"], one["params"]["block_size"]) for one in found["candidates"]}
    assert tried == {(True, 8), (False, 8), (True, 256)}


def test_the_printed_command_can_be_run(data, tmp_path, capsys):
    words = ["tune", data, "--method", "dismec", "--try", "fit_bias=true", "--try", "normalize=false,true", "--jobs", 1]
    command = said(capsys, *words).splitlines()[-1].split()
    assert command[:3] == ["unmissed", "train", "dismec"]
    assert "--fit-bias true" in " ".join(command)
    said(capsys, *(tmp_path / "run" if word == "DIR" else word for word in command[1:]))
    recipe = open_run(tmp_path / "run").recipe
    assert recipe.params["normalize"] is ("--normalize" in command)


def test_methods_are_compared_and_one_is_recommended(data, capsys):
    words = ["tune", data, "--methods", "popularity,parabel,dismec", "--metric", "P@1", "--keep", "PSP@5", "--jobs", 1]
    found = json.loads(said(capsys, *words, "--json"))
    assert [one["params"]["method"] for one in found["candidates"]] == ["dismec", "popularity", "parabel"]
    assert found["baseline"] == {"method": "dismec"}
    popularity = found["candidates"][1]
    assert popularity["verdict"] == "P@1 is lower"
    assert found["params"]["method"] in ("dismec", "parabel")
    assert all(one["seconds"] > 0 for one in found["candidates"])
    output = said(capsys, *words, "--fastest-within", 100)
    assert f"unmissed train {found['params']['method']}" in output or "unmissed train" in output
    assert "seconds" in output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--method", "popularity"], "popularity has no values to try by default"),
        (
            ["--try", "depth=1,2"],
            "--try depth=1,2: expected NAME=VALUE,VALUE with a parameter of pw-dismec: weighting, C",
        ),
        (["--try", "C"], "--try C: expected"),
        (["--try", "C=much"], "C must be a number above 0; got 'much'"),
        (["--try", "weighting=auto,tail"], "auto is a search itself"),
        (["--try", "block_size=1.5"], "block_size must be an integer from 1 to 65536; got 1.5"),
        (["--try", "propensity=jain"], "expected NAME=VALUE"),
        (["--metric", "PSP"], "a figure is a metric and a cut-off, such as P@1 or PSP@5; got 'PSP'"),
        (["--keep", "P@0"], "P@0"),
        (["--methods", "dismec"], "at least two methods"),
        (["--methods", "dismec,diskmec"], "unknown method 'diskmec'"),
        (["--methods", "dismec,parabel", "--try", "C=1,2"], "leave out --try"),
        (["--fastest-within", "1"], "--fastest-within needs --methods"),
    ],
)
def test_nonsense_is_one_line(words, line, data, capsys):
    assert line in refused(capsys, "tune", data, *words)


def test_auto_says_what_it_chose_and_inspect_remembers(data, losing, tmp_path, capsys):
    words = ["train", "pw-dismec", data, "--run", tmp_path / "run", "--weighting", "auto", *losing, "--jobs", 1]
    output = said(capsys, *words)
    model = open_run(tmp_path / "run").model
    assert f"Selected: weighting {model.weighting_}, C {model.C_:g}" in output
    assert "weighting tail" in output
    assert "20 labels trained" in output
    shown = said(capsys, "inspect", tmp_path / "run")
    assert f"{model.weighting_} (chosen on held-out rows)" in shown
    assert f"{model.C_} (chosen on held-out rows)" in shown
    metadata = json.loads(said(capsys, *words, "--json"))
    assert metadata["choice"]["params"] == {"weighting": model.weighting_, "C": model.C_}


def test_tuned_trains_with_what_tune_finds_and_resumes_without_a_search(data, tmp_path, capsys, monkeypatch):
    words = ["train", "dismec", data, "--run", tmp_path / "run", "--tuned", "--jobs", 1]
    found = json.loads(said(capsys, "tune", data, "--method", "dismec", "--jobs", 1, "--json"))
    output = said(capsys, *words)
    assert f"Selected: C {found['params']['C']:g}" in output
    assert open_run(tmp_path / "run").recipe.params["C"] == found["params"]["C"]
    monkeypatch.setattr("unmissed.runs.tuning.tune", lambda *_, **__: pytest.fail("searched again"))
    assert "all trained already" in said(capsys, *words)


def test_a_parameter_that_is_given_is_not_tuned(data, losing, tmp_path, capsys):
    words = ["train", "pw-dismec", data, "--run", tmp_path / "run", "--tuned", "--C", 7, *losing, "--jobs", 1]
    output = said(capsys, *words)
    assert "Selected: weighting " in output
    assert open_run(tmp_path / "run").recipe.params["C"] == 7.0
    assert "popularity has no values to try" in refused(
        capsys, "train", "popularity", data, "--run", tmp_path / "other", "--tuned"
    )


def test_a_weighting_that_loses_is_reported_with_figures(data, losing, tmp_path, capsys):
    words = ["train", "pw-dismec", data, "--weighting", "tail", *losing, "--jobs", 1]
    heard_first = heard(capsys, *words, "--run", tmp_path / "a")
    assert "warning: weighting tail is worse than weighting none on " in heard_first.err
    assert "P@1 " in heard_first.err
    assert "--weighting auto" in heard_first.err
    assert "--no-check" in heard_first.err
    for more in (["--no-check"], ["--weighting", "floored-tail"], ["--weighting", "none"]):
        position = tmp_path / "-".join(more)
        assert "warning" not in heard(capsys, *words, *more, "--run", position).err
    again = heard(capsys, *words, "--run", tmp_path / "a")
    assert "warning" not in again.err  # said when it was begun
    assert "all trained already" in again.out


def test_little_data_is_not_checked(losing, tmp_path, capsys):
    write_xmc(small_corpus(n_labels=20, n_train=300)[0], tmp_path / "train.txt")
    words = ["train", "pw-dismec", tmp_path / "train.txt", "--run", tmp_path / "run", "--weighting", "tail", *losing]
    assert heard(capsys, *words, "--jobs", 1).err == ""


def test_text_options_are_compared_on_the_same_rows(tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl", 150)
    words = ["tune", texts, "--method", "dismec", "--min-df", "2", "--jobs", "1"]
    tried = ["--try-text", "--ngrams 2-2", "--try-text", "--analyzer=char_wb --ngrams 3-3"]
    found = json.loads(said(capsys, *words, *tried, "--json"))
    names = [one["params"]["text options"] for one in found["candidates"]]
    assert set(names) == {
        "--min-df 2",
        "--ngrams 2-2 --min-df 2",
        "--ngrams 3-3 --min-df 2 --analyzer char_wb",
    }
    assert found["baseline"] == {"text options": "--min-df 2"}
    command = said(capsys, *words, *tried).splitlines()[-1]
    assert command.startswith("unmissed train dismec ")
    assert found["params"]["text options"] in command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--try-text", "--stem german"], "unknown option '--stem'; known: --ngrams, --min-df"),
        (["--try-text", "--min-df two"], "--min-df needs a value, got 'two'"),
        (["--try-text", "--stemmer"], "--stemmer needs a value, got ''"),
        (["--try-text", "--min-df 2", "--try", "C=1,2"], "leave out --methods and --try"),
    ],
)
def test_text_options_that_do_not_exist_are_refused(tmp_path, capsys, options, message):
    assert message in refused(capsys, "tune", write_texts(tmp_path / "train.jsonl"), *options)
