"""Out-of-core conversion writes the same store as an in-memory one, in bounded memory."""

import json
import lzma
import subprocess
import sys

import numpy as np
import pytest

from tests.cli.speaking import said
from tests.runs.corpora import tree_bytes
from unmissed.data import TextFeatures, load, open_store, save
from unmissed.data.large_text import convert_text
from unmissed.errors import InputError
from unmissed.settings import SETTINGS


def write(path, n, seed=0, extra=()):
    rng = np.random.default_rng(seed)
    words = [f"wörd{number}" for number in range(300)]
    odds = 1 / np.arange(1, 301)
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        for row in range(n):
            text = " ".join(rng.choice(words, size=rng.integers(0, 30), p=odds / odds.sum()))
            labels = rng.choice([*"abcdefgh", *extra], size=rng.integers(0, 4)).tolist()
            stream.write(json.dumps({"text": text, "labels": labels}) + ("\n\n" if row % 7 == 0 else "\n"))
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(SETTINGS, "text_block", 2000)
    monkeypatch.setattr(SETTINGS, "read_bytes", 1000)


@pytest.mark.parametrize(
    "options",
    [{}, {"min_df": 3}, {"max_features": 40}, {"ngrams": (1, 2), "min_df": 2, "max_features": 100, "smooth": True}],
    ids=str,
)
def test_the_store_has_the_bytes_of_one_that_was_read_at_once(options, tmp_path):
    source = write(tmp_path / "train.jsonl", 200)
    (tmp_path / "label_names.tsv").write_text("a\tThe first\n")
    save(load(source, text=TextFeatures(**options)), tmp_path / "whole")
    convert_text(source, tmp_path / "blocks", text=TextFeatures(**options))
    assert tree_bytes(tmp_path / "blocks") == tree_bytes(tmp_path / "whole")
    assert open_store(tmp_path / "blocks").label_titles[0] == "The first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks", "label_names.tsv", "train.jsonl", "whole"]


def test_a_test_set_gets_the_columns_of_the_training_set_by_processes_too(tmp_path, capsys):
    train = write(tmp_path / "train.jsonl", 60)
    test = write(tmp_path / "test.jsonl", 60, seed=1, extra=["unknown"])
    said(capsys, "data", "convert", train, tmp_path / "train")
    save(load(test, like=open_store(tmp_path / "train")), tmp_path / "whole")
    shown = said(capsys, "data", "convert", test, tmp_path / "blocks", "--like", tmp_path / "train", "--jobs", 2)
    assert "assignments of unknown labels dropped" in shown
    assert tree_bytes(tmp_path / "blocks") == tree_bytes(tmp_path / "whole")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("\n\n", "holds no documents"),
        ('{"text": "a", "labels": []}\n' * 300 + "{nonsense}\n", r"train\.jsonl:301:2: expected a JSON object"),
        ('{"text": "a", "labels": []}\n', "no terms to learn from 1 texts"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_left(content, line, tmp_path):
    (tmp_path / "train.jsonl").write_text(content)
    with pytest.raises(InputError, match=line):
        convert_text(tmp_path / "train.jsonl", tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]


PEAK = """
import resource, sys
from unmissed.data.large_text import convert_text
from unmissed.data import open_store
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
convert_text(sys.argv[1], sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ru_maxrss in KiB")
def test_memory_does_not_grow_with_the_file(tmp_path):
    row = json.dumps({"text": " ".join(f"word{n}" for n in range(400)), "labels": ["a"]}) + "\n"
    peaks = {}
    for n in (1_000, 10_000):  # 3 and 34 MB of text
        with lzma.open(tmp_path / f"{n}.jsonl.xz", "wt", preset=0) as stream:
            for _ in range(n // 1000):
                stream.write(row * 1000)
        command = [sys.executable, "-c", PEAK, str(tmp_path / f"{n}.jsonl.xz"), str(tmp_path / f"{n}")]
        peaks[n] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peaks[10_000] < peaks[1_000] + 50, peaks
