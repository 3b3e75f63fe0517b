"""`unmissed train` in partitions, for some time, over a cluster: what it says and how it ends."""

import json

import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.cli.app import run
from unmissed.cli.train import parse_time
from unmissed.data import write_store
from unmissed.errors import InputError


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train"
    write_store(small_corpus()[0], path)
    return path


def words(store, path, *more):
    return ["train", "dismec", store, "--run", path, "--block-size", 8, "--jobs", 1, *more]


def ends_with_3(capsys, *given):
    with pytest.raises(SystemExit) as end:
        run([str(word) for word in given])
    assert end.value.code == 3
    return capsys.readouterr().out


def test_partitions_say_how_far_all_are_and_the_last_one_completes_the_run(store, tmp_path, capsys):
    assert "3 of 5 pieces are finished" in said(capsys, *words(store, tmp_path / "a", "--partition", "1/2"))
    assert "missing: labels/00000008" in ends_with_3(capsys, *words(store, tmp_path / "a", "--finish"))
    metadata = json.loads(ends_with_3(capsys, *words(store, tmp_path / "a", "--finish", "--json")))
    assert metadata["missing"] == ["labels/00000008", "labels/00000024"]
    assert "40 labels trained" in said(capsys, *words(store, tmp_path / "a", "--partition", "2/2"))
    assert "40 labels, all trained already" in said(capsys, *words(store, tmp_path / "a", "--finish"))
    said(capsys, *words(store, tmp_path / "b"))
    assert tree_bytes(tmp_path / "a") == tree_bytes(tmp_path / "b")


def test_a_training_whose_time_is_up_ends_with_3_and_goes_on(store, tmp_path, capsys):
    assert "0 of 5 pieces" in ends_with_3(capsys, *words(store, tmp_path / "run", "--for", "0.000001s"))
    assert "40 labels trained" in said(capsys, *words(store, tmp_path / "run", "--for", "1h"))


def test_times_have_units():
    assert [parse_time(word) for word in ("90", "90s", "1.5m", "2h", "1d")] == [90, 90, 90, 7200, 86400]
    for word in ("", "0", "m", "-5m", "5 m", "1w"):
        with pytest.raises(InputError, match="--for must be a time"):
            parse_time(word)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--partition", "3"], "--partition is I/N"),
        (["--partition", "4/3"], "a partition is one of 1/3 to 3/3"),
        (["--finish", "--partition", "1/2"], "--finish trains nothing"),
        (
            ["--cluster", "somewhere"],
            "unknown executor 'somewhere'; expected threads:N, processes:N, local:N (Dask)",
        ),
        (["--cluster", "process:2"], "did you mean 'processes'?"),
        (["--cluster", "processes:two"], "processes:N has a number of processes, at least 1"),
        (["--cluster", "threads:1", "--tls-cert", "x.pem"], "--tls-cert is no option of threads:1"),
    ],
)
def test_nonsense_is_one_line(more, line, store, tmp_path, capsys):
    assert line in refused(capsys, *words(store, tmp_path / "run", *more))
