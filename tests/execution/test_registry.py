"""Executors are found by address; an installed package adds its own."""

import pytest

from tests.cli.speaking import refused, said
from tests.installed import install
from tests.runs.corpora import small_corpus, tree_bytes
from unmissed.data import write_store
from unmissed.errors import InputError
from unmissed.execution import Processes, Threads, count_jobs, open_executor
from unmissed.execution.executor_registry import EXECUTORS, LISTED, OPTIONS

OWN = """
class Own:
    def __init__(self, address):
        self.address = address

    def map(self, tasks, shared):
        print(f"mapped by {self.address}")
        common = shared()
        return (task.run(common) for task in tasks)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train"
    write_store(small_corpus()[0], path)
    return path


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An executor of an installed package, `own:`."""
    install(tmp_path, monkeypatch, "unmissed.executors", "own", "own_executor", OWN)
    vars(EXECUTORS).pop("_installed", None)
    yield
    vars(EXECUTORS).pop("_installed", None)
    EXECUTORS._found.pop("own", None)


@pytest.mark.parametrize(("address", "cls"), [("threads", Threads), ("processes", Processes)])
def test_an_address_names_the_executor_and_the_number_of_jobs(address, cls):
    for word, n_jobs in ((f"{address}:3", 3), (address, count_jobs(None))):
        with open_executor(word) as executor:
            assert type(executor) is cls
            assert executor.n_jobs == n_jobs
    for word in (f"{address}:0", f"{address}:x", f"{address}:-1"):
        with pytest.raises(InputError, match="at least 1"):
            open_executor(word)


def test_the_command_line_trains_by_any_executor_with_the_same_bytes(own, store, tmp_path, capsys):
    words = ["train", "dismec", store, "--block-size", 8, "--no-check"]
    said(capsys, *words, "--run", tmp_path / "one")
    for number, address in enumerate(("threads:2", "processes:2", "own:somewhere")):
        shown = said(capsys, *words, "--run", tmp_path / str(number), "--cluster", address)
        assert ("mapped by own:somewhere" in shown) == address.startswith("own")
        assert tree_bytes(tmp_path / str(number)) == tree_bytes(tmp_path / "one")
    assert "own:..." in refused(capsys, *words, "--run", tmp_path / "x", "--cluster", "nowhere:1")


def test_help_shows_the_options_that_executors_declare(capsys):
    shown = " ".join(said(capsys, "train", "dismec", "--help").split())
    for name in OPTIONS:
        assert f"--{name.replace('_', '-')}" in shown
    with pytest.raises(InputError, match="--dashboard is no option of threads:2"):
        open_executor("threads:2", dashboard="x")
    assert "dashboard" not in LISTED["tcp"].options
