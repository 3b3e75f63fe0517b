"""`unmissed calibrate`, and the commands that show probabilities."""

import csv
import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts
from unmissed.ranking import Ranking
from unmissed.runs import open_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts, a run without and a run with probabilities."""
    from unmissed.cli.app import run

    path = tmp_path_factory.mktemp("calibrated")
    texts = write_texts(path / "train.jsonl")
    for name, more in (("plain", []), ("run", ["--calibrate"])):
        with pytest.raises(SystemExit) as end:
            run(["train", "pw-dismec", str(texts), "--run", str(path / name), *more])
        assert end.value.code == 0
    return path


def test_calibrate_and_train_calibrate_give_the_same_probabilities(folder, capsys, tmp_path):
    said(capsys, "train", "pw-dismec", folder / "train.jsonl", "--run", tmp_path / "run")
    output = said(capsys, "calibrate", tmp_path / "run")
    assert "the probability that a label is observed" in output
    text = "cod net bread judge"
    first, second = (open_run(path / "run").suggest(text, 3) for path in (folder, tmp_path))
    assert first.probabilities == second.probabilities
    found = json.loads(said(capsys, "calibrate", tmp_path / "run", "--json"))["calibration"]
    assert (found["probability"], found["groups"], found["n_samples"]) == ("observed", "nearly equal rows", 60)


def test_every_output_format_has_the_probability(folder, capsys, tmp_path):
    for suffix in ("npz", "tsv", "csv", "jsonl"):
        said(capsys, "predict", folder / "run", folder / "train.jsonl", "--out", tmp_path / f"best.{suffix}")
    expected = Ranking.load(tmp_path / "best.npz").probabilities
    assert expected is not None
    with open(tmp_path / "best.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert float(rows[0]["probability"]) == pytest.approx(expected[0, 0], rel=1e-5)
    assert (tmp_path / "best.tsv").read_text().splitlines()[0].split("\t") == [
        *("row", "rank", "label", "score", "probability")
    ]
    line = json.loads((tmp_path / "best.jsonl").read_text().splitlines()[0])
    assert line["labels"][0]["probability"] == pytest.approx(expected[0, 0])
    for suffix in ("tsv", "csv", "jsonl"):  # evaluate reads them again
        words = ("evaluate", tmp_path / f"best.{suffix}", "--truth", folder / "train.jsonl", "--train", folder / "run")
        said(capsys, *words)


def test_labels_are_ranked_by_probability_and_true_ones_are_named(folder, capsys):
    words = ("predict", folder / "run", "--text", "cod net bread", "--json", "--top", "3")
    labels = json.loads(said(capsys, *words, "--rank-by", "probability"))[0]["labels"]
    values = [one["probability"] for one in labels]
    assert values == sorted(values, reverse=True) == [one["score"] for one in labels]
    labels = json.loads(said(capsys, *words, "--propensity", "constant:0.5"))[0]["labels"]
    assert all(one["true_probability"] == pytest.approx(min(1, 2 * one["probability"])) for one in labels)
    kept = json.loads(said(capsys, *words, "--rank-by", "probability", "--threshold", "0.5"))[0]["labels"]
    assert all(one["probability"] >= 0.5 for one in kept)


def test_inspect_says_how_probabilities_were_made(folder, capsys):
    assert "that labels are observed; 60 rows, nearly equal rows held out" in said(capsys, "inspect", folder / "run")
    assert "`unmissed calibrate` makes them" in said(capsys, "inspect", folder / "plain")
    assert "every file matches its checksum" in said(capsys, "inspect", folder / "run", "--verify")


def test_extend_and_update_say_what_becomes_of_probabilities(folder, capsys, tmp_path):
    texts = write_texts(tmp_path / "train.jsonl")
    more = write_texts(tmp_path / "more.jsonl", n=20, seed=1, extra="new")
    for number, options in enumerate(([], ["--groups", tmp_path / "groups.txt"])):
        (tmp_path / "groups.txt").write_text("".join(f"{row}\n" for row in range(60)))
        run = tmp_path / f"run{number}"
        said(capsys, "train", "dismec", texts, "--run", run)
        said(capsys, "calibrate", run, *options)
        if not options:
            extended = said(capsys, "extend", run, more)
            assert f"those of 1 new labels are approximate: `unmissed calibrate {run}` makes new ones" in extended
            assert "1 labels were added later" in said(capsys, "inspect", run)
            assert "probabilities of 4 labels\n" in said(capsys, "update", run, more)
        else:
            said(capsys, "update", run, more)
            assert "`unmissed calibrate` makes them" in said(capsys, "inspect", run)


@pytest.mark.parametrize("option", [["--rank-by", "probability"], ["--true-probability"], ["--propensity", "jain"]])
def test_a_run_without_probabilities_is_refused_with_the_command_that_makes_them(option, folder, capsys):
    line = refused(capsys, "predict", folder / "plain", "--text", "cod", *option)
    assert f"`unmissed calibrate {folder / 'plain'}`" in line


def test_groups_are_read_from_a_file_or_a_column_and_checked(folder, capsys, tmp_path):
    (tmp_path / "groups.txt").write_text("".join(f"{row // 2}\n" for row in range(60)))
    said(capsys, "train", "popularity", folder / "train.jsonl", "--run", tmp_path / "run")
    assert "given groups" in said(capsys, "calibrate", tmp_path / "run", "--groups", tmp_path / "groups.txt")
    (tmp_path / "few.txt").write_text("1\n")
    assert "one id for each of 60 rows" in refused(
        capsys, "calibrate", tmp_path / "run", "--groups", tmp_path / "few.txt"
    )
    both = ("--groups", tmp_path / "few.txt", "--group-column", "source")
    assert "leave one of them out" in refused(capsys, "calibrate", tmp_path / "run", *both)
    assert "'shelf'" in refused(capsys, "calibrate", tmp_path / "run", "--group-column", "shelf")
