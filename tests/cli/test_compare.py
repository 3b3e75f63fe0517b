"""`unmissed compare`."""

import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus
from unmissed.cli.compare import parse_memory
from unmissed.data import write_xmc
from unmissed.errors import InputError

FEW = ["--methods", "popularity", "--bootstrap", 20, "--jobs", 1]


@pytest.fixture
def data(tmp_path):
    for name, dataset in zip(("train", "test"), small_corpus(n_labels=12, n_train=60), strict=True):
        write_xmc(dataset, tmp_path / f"{name}.txt")
    return tmp_path / "train.txt", tmp_path / "test.txt"


def test_a_comparison_prints_its_table_and_names_its_page(data, tmp_path, capsys):
    output = said(capsys, "compare", *data, "--out", tmp_path / "out", "--name", "tiny", *FEW)
    assert "60 training rows, 12 labels" in output
    assert "Popularity" in output
    assert str(tmp_path / "out" / "index.html") in output
    assert "Propensities: jain a=0.55 b=1.5." in output
    assert "unseen labels keep" in output
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["methods"][0]["key"] == "popularity"
    assert results["settings"]["interval"]["resamples"] == 20


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--time-limit", "soon"], "--time-limit must be a time"),
        (["--memory-limit", "much"], "--memory-limit must be an amount"),
        (["--scores", "file.npz"], "--scores must be NAME=FILE"),
        (["--methods", "nobody"], "unknown method"),
        (["--min-df", "2"], "already has features"),
    ],
)
def test_nonsense_is_refused_in_one_line(data, tmp_path, capsys, words, reason):
    assert reason in refused(capsys, "compare", *data, "--out", tmp_path / "out", *words)


def test_amounts_of_memory_are_read():
    assert [parse_memory(word) for word in ("7", "2k", "1.5M", "4G", "4GiB")] == [7, 2048, 1572864, 2**32, 2**32]
    with pytest.raises(InputError):
        parse_memory("0G")
