"""Older formats stay readable: a small run of each version lies in `formats/` and ranks as it did when it was new."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.speaking import said
from unmissed.errors import InputError
from unmissed.runs import extend, open_run, train
from unmissed.runs.folder import VERSION
from unmissed.runs.inspection import verify

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
    if run.manifest.version > 1:  # the first version has no checksums of manifests
        assert verify(run) > 0
    assert "3" in said(capsys, "inspect", folder)


@pytest.mark.parametrize("folder", [path for path in RUNS if path.parent.name != f"version{VERSION}"], ids=str)
def test_an_older_run_is_read_but_not_added_to(folder, tmp_path):
    from shutil import copytree

    from tests.runs.corpora import write_texts
    from unmissed.data import load

    copytree(folder, tmp_path / "run")
    run = open_run(tmp_path / "run")
    more = load(write_texts(tmp_path / "more.jsonl", extra="mix"), text=run.text)
    with pytest.raises(InputError, match="can be read, not changed"):
        extend(tmp_path / "run", more)
    assert open_run(tmp_path / "run").n_labels == 3
    with pytest.raises(InputError):
        train("popularity", more, tmp_path / "run")
