"""The public names have types: a type checker finds a misspelled parameter in a user's script."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCRIPT = """
from unmissed import Jain, PWDiSMEC, evaluate, load

reveal_type(load)
reveal_type(evaluate)
reveal_type(Jain)
reveal_type(PWDiSMEC)
PWDiSMEC(weighting="tail")
PWDiSMEC(weighting="tial")
PWDiSMEC(wieghting="tail")
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says of the script, line by line; it reuses the cache of the project's own check."""
    pytest.importorskip("mypy")
    script = tmp_path_factory.mktemp("types") / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", str(script)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return re.sub(r"^.*/script\.py:", "script.py:", said, flags=re.MULTILINE)  # cached: the folder of an earlier run


def test_public_names_are_not_any(found):
    revealed = [line for line in found.splitlines() if "Revealed type" in line]
    assert len(revealed) == 4, found
    assert not [line for line in revealed if '"Any"' in line], found


def test_misspelled_parameters_are_errors(found):
    errors = [line for line in found.splitlines() if line.startswith("script.py") and ": error:" in line]
    assert len(errors) == 2, found
    assert "script.py:9:" in errors[0]
    assert "weighting" in errors[0]
    assert "script.py:10:" in errors[1]
    assert "wieghting" in errors[1]
