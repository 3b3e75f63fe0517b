"""The page on networks: its code runs."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).parents[3] / "docs" / "networks.md"


def test_the_code_of_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["ranking"].labels.shape == (100, 5)
    assert names["output"].weight.grad[names["labels"]].abs().sum() > 0
