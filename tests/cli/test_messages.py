"""What a newcomer types wrong is answered in one line that says what to do."""

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import write_texts


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from unmissed.data import load
    from unmissed.runs import train

    folder = tmp_path_factory.mktemp("trained")
    train("popularity", load(write_texts(folder / "train.jsonl")), folder / "laws")
    return folder


def train_words(data, folder):
    return ["train", "pw-dismec", data, "--run", folder / "run"]


def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path, capsys):
    for name in ("a.xlsx", "a.ods"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
        assert "save it as CSV (UTF-8) and give that file" in refused(capsys, *train_words(tmp_path / name, tmp_path))


def test_plain_text_is_distinguished_from_xmc_text(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("Cod is a fish.\nThe court is closed.\n")
    line = refused(capsys, *train_words(tmp_path / "a.txt", tmp_path))
    assert "a.txt:1: plain text, but .txt files are XMC text here" in line
    assert "give texts with their labels as .csv, .tsv or .jsonl" in line


@pytest.mark.parametrize("text", ["Fishing quotas for cod", "word " * 200])
def test_a_sentence_is_distinguished_from_a_file(text, trained, tmp_path, capsys):
    line = refused(capsys, *train_words(text, tmp_path))
    assert "a text, and no such file; give the path of a file: " in line
    line = refused(capsys, "predict", trained / "laws", text)
    assert "a text, and no such file; to rank one text, use --text TEXT" in line
    assert "my posts.csv: no such file or folder" in refused(capsys, "predict", trained / "laws", "my posts.csv")


def test_a_mistyped_run_gets_the_name_that_is_most_like_it(trained, capsys):
    for words in (["predict", trained / "lawz", "--text", "x"], ["inspect", trained / "lawz"]):
        assert "lawz: no such run folder; did you mean 'laws'?" in refused(capsys, *words)


def test_a_missing_run_option_is_explained_with_the_command(trained, capsys):
    line = refused(capsys, "train", "pw-dismec", trained / "train.jsonl")
    assert "--run is missing: it names the folder that the trained run is written to" in line
    assert f"unmissed train pw-dismec {trained / 'train.jsonl'} --run DIR" in line


def test_one_label_is_singular(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,labels\ncod fish,fish\nnet cod,fish\nthe court,\n")
    output = said(capsys, *train_words(tmp_path / "a.csv", tmp_path))
    assert "1 label converged to a relative duality gap" in output
    assert "1 label, all trained already" in said(capsys, *train_words(tmp_path / "a.csv", tmp_path))


def test_two_rows_are_too_few_for_propensities(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,labels\ncod fish,fish\nthe court,law\n")
    line = refused(capsys, *train_words(tmp_path / "a.csv", tmp_path))
    assert "2 samples are too few for the jain propensity model, which needs 3; add rows" in line
