"""Formats stay readable: a tiny run of each version and family is in `formats/` and ranks as it did when it was new."""

import json

import numpy as np
import pytest

from tests.cli.speaking import said
from tests.runs.golden_runs import FORMATS, RUNS, describe, rank
from unmissed.models.method_registry import METHODS
from unmissed.runs import open_run
from unmissed.runs.inspection import verify
from unmissed.runs.run_folder import DENSE_VERSION

FOLDERS = sorted(path.parent for path in FORMATS.glob("version*/*/manifest.json"))


def test_every_version_has_a_run():
    assert {path.parent.name for path in FOLDERS} == {f"version{number}" for number in range(1, DENSE_VERSION + 1)}
    assert {(path.parent.name, path.name) for path in FOLDERS} == {
        (version, name) for version, runs in RUNS.items() for name in runs
    }


def test_every_family_of_methods_has_a_run():
    modules = [one.import_path for one in METHODS.values() if one.import_path.startswith("unmissed.")]
    families = {name.partition(":")[0].split(".")[2] for name in modules}
    assert {"linear", "label_trees", "instance_trees", "embeddings"} <= families
    assert families <= {type(open_run(path).model).__module__.split(".")[2] for path in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_run_ranks_as_it_did_when_it_was_written(folder, capsys):
    expected = json.loads((folder.parent / "expected.json").read_text())[folder.name]
    found = describe(rank(folder))
    assert found.keys() == expected.keys()
    assert found["labels"] == expected["labels"]
    for name in expected.keys() - {"labels"}:
        assert np.array(found[name]) == pytest.approx(np.array(expected[name]), rel=1e-6)
    assert verify(open_run(folder)) > 0
    assert "3" in said(capsys, "inspect", folder)


def test_golden_runs_are_small_and_name_no_path():
    for path in FORMATS.rglob("*"):
        if path.is_file():
            assert path.stat().st_size < 4096 or path.name == "expected.json", path
            assert b'"path": "' not in path.read_bytes(), path
