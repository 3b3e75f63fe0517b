"""Runs and a service that the tests of this folder share."""

import pytest

from tests.reports.test_browser import browser  # noqa: F401, a fixture
from tests.runs.corpora import PARAMS, write_texts
from tests.serve.page_service import page_runs, page_service, visit  # noqa: F401, fixtures
from tests.serve.serving import serving, start_command
from unmissed.data import load
from unmissed.runs import calibrate, train

TITLES = "fish\tFish and fishing\nlaw\tLaw\nfood\tFood\n"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the calibrated run `topics`, the run `raw` without probabilities, and `trees`."""
    folder = tmp_path_factory.mktemp("serve")
    write_texts(folder / "train.jsonl")
    (folder / "label_names.tsv").write_text(TITLES)
    rows = load(folder / "train.jsonl")
    train("dismec", rows, folder / "topics", PARAMS)
    calibrate(folder / "topics", old_rows=[rows])
    train("dismec", rows, folder / "raw", PARAMS)
    train("parabel", rows, folder / "trees", {"n_jobs": 1})
    return folder


@pytest.fixture(scope="session")
def served(folder):
    """A service over three runs with two workers."""
    runs = folder / "topics", folder / "raw", folder / "trees"
    with serving(*runs, "--workers", 2, start=start_command) as found:
        yield found


@pytest.fixture
def client(served):
    with served.client() as client:
        yield client
