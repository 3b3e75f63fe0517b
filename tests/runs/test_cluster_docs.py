"""The scripts of the page on many machines: their logic, and that the commands in them exist."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.speaking import said

DOCS = Path(__file__).parents[2] / "docs"
BASH = shutil.which("bash")


def options_of(command):
    return re.findall(r"(?<!\S)--[a-z-]+", command)


@pytest.mark.skipif(BASH is None or sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize(("code", "requeued", "ends"), [(0, False, 0), (3, True, 0), (2, False, 2)])
def test_the_slurm_script_trains_its_partition_and_comes_back_when_there_is_more(code, requeued, ends, tmp_path):
    for name in ("unmissed", "scontrol"):
        (tmp_path / name).write_text(
            f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/calls\nexit {code if name == "unmissed" else 0}\n'
        )
        (tmp_path / name).chmod(0o755)
    slurm = {"ARRAY_TASK_ID": "3", "ARRAY_TASK_COUNT": "16", "ARRAY_JOB_ID": "77", "CPUS_PER_TASK": "8"}
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        **{f"SLURM_{name}": value for name, value in slurm.items()},
    }
    done = subprocess.run([BASH, DOCS / "cluster" / "partitions.sbatch"], env=environment, check=False)
    assert done.returncode == ends
    calls = (tmp_path / "calls").read_text()
    assert "--partition 3/16 --for 50m --jobs 8" in calls
    assert ("requeue 77_3" in calls) == requeued


def test_the_kubernetes_job_has_as_many_partitions_as_indices():
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((DOCS / "cluster" / "partitions.yaml").read_text())
    spec = job["spec"]
    command = spec["template"]["spec"]["containers"][0]["args"][0]
    assert (job["kind"], spec["completionMode"]) == ("Job", "Indexed")
    assert f'--partition "$((JOB_COMPLETION_INDEX + 1))/{spec["completions"]}"' in command
    mounted = {one["name"] for one in spec["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounted == {one["name"] for one in spec["template"]["spec"]["volumes"]}


def test_every_option_that_the_page_and_its_scripts_name_exists(capsys):
    page = (DOCS / "cluster.md").read_text()
    scripts = " ".join(path.read_text().replace("\\\n", " ") for path in (DOCS / "cluster").iterdir())
    shown = {
        verb: said(capsys, *words, "--help")
        for verb, words in {
            "train": ["train", "pw-dismec"],
            "predict": ["predict"],
            "plan": ["plan"],
            "data convert": ["data", "convert"],
        }.items()
    }
    commands = re.findall(r"^(?:exec )?unmissed .*$", page, flags=re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        words = shlex.split(command, comments=True)
        verb = "data convert" if words[1] == "data" else words[1]
        for option in options_of(" ".join(words)):
            assert option in shown[verb], (command, option)
    for option in ("--partition", "--for", "--jobs", "--run", "--finish", "--cluster", "--block-size"):
        assert option in shown["train"]
        assert option in page + scripts
