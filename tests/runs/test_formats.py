"""Formats stay readable: a small run of each version lies in `formats/` and ranks as it did when it was new."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.speaking import said
from unmissed.runs import open_run
from unmissed.runs.inspection import verify
from unmissed.runs.run_folder import VERSION

FORMATS = Path(__file__).parent / "formats"
RUNS = sorted(path.parent for path in FORMATS.glob("version*/*/manifest.json"))


def test_every_version_has_a_run():
    assert {path.parent.name for path in RUNS} == {f"version{number}" for number in range(1, VERSION + 1)}


@pytest.mark.parametrize("folder", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_run_ranks_as_it_did_when_it_was_written(folder, capsys):
    expected = json.loads((folder.parent / "expected.json").read_text())
    run = open_run(folder)
    found = run.rank(expected["texts"], 3)
    assert found.labels.tolist() == expected[folder.name]["labels"]
    assert found.scores == pytest.approx(np.array(expected[folder.name]["scores"]), rel=1e-6)
    assert verify(run) > 0
    assert "3" in said(capsys, "inspect", folder)
