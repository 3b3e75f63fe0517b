"""The guides to runs: their code runs, and says what they say."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest

from tests.runs.corpora import write_texts

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def kept_logging():
    """Restore the handlers and the level that the code of a page sets."""
    root, ours = logging.getLogger(), logging.getLogger("unmissed")
    handlers, level = list(root.handlers), ours.level
    yield
    root.handlers[:] = handlers
    ours.setLevel(level)


@pytest.mark.usefixtures("kept_logging")
def test_the_code_of_the_guides_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "train.jsonl")
    write_texts(tmp_path / "new.jsonl", n=20, seed=1)
    names: dict[str, object] = {}
    for page, n_blocks in (("encoders.md", 1), ("guide.md", 5), ("runs.md", 1)):
        blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        assert len(blocks) == n_blocks
        for block in blocks:
            exec(block, names)
    assert capsys.readouterr().out.startswith("fish ")  # the text about cod
    run, test, W = names["run"], names["test"], names["W"]
    best = np.asarray(test.X @ W + names["bias"]).argmax(axis=1)  # scores as the page defines them
    assert np.array_equal(best, run.rank(test.X, 1).labels[:, 0])


def test_the_page_names_the_files_that_a_run_has(tmp_path, monkeypatch):
    from unmissed.data import load
    from unmissed.runs import train

    train("dismec", load(write_texts(tmp_path / "train.jsonl")), tmp_path / "run", {"n_jobs": 1})
    page = (DOCS / "runs.md").read_text(encoding="utf-8")
    for entry in (tmp_path / "run").iterdir():
        assert entry.name == ".lock" or f"{entry.name}" in page
    for entry in (tmp_path / "run" / "pieces" / "labels" / "00000000").glob("*.npy"):
        assert f"| `{entry.stem}` |" in page
