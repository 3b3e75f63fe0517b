"""A full disk: one line that says so and names the file, an exit code, and nothing half written."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.full_disk import try_every_verb
from tests.cli.speaking import said
from tests.runs.corpora import write_texts

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mount namespaces and /dev/full")
HERE = Path(__file__).parents[2]
VERBS = 12


def test_every_verb_that_writes_says_that_the_disk_is_full_and_goes_on_when_it_is_not(tmp_path):
    cases = try_every_verb(tmp_path)
    if cases is None:
        pytest.skip("this user may not mount a small file system")
    failed = {}
    for case in cases:
        message = case["said"]
        named = message.startswith(f"unmissed: {case['disk']}/") and message.endswith(": the disk is full\n")
        ended = case["code"] == 2 and named and message.count("\n") == 1 and ".part" not in message
        if not (ended or (case["code"] == 0 and case["left"])) or case["parts"] or case["again"][0]:
            failed[case["verb"], case["left"]] = case
    assert failed == {}
    assert len({case["verb"] for case in cases if case["code"] == 2}) == VERBS


@pytest.mark.parametrize("form", [["--json"], []])
def test_standard_output_on_a_full_disk(form, tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    said(capsys, "train", "popularity", texts, "--run", tmp_path / "run")
    words = ["predict", str(tmp_path / "run"), "--text", "cod net quota", *form]
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "unmissed", *words]
        done = subprocess.run(command, cwd=HERE, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "unmissed: standard output: the disk is full\n"
