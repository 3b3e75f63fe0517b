"""The page on ensembles: its code runs."""

import re
from pathlib import Path


def test_the_code_of_the_page_runs():
    page = Path(__file__).parents[3] / "docs" / "ensembles.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(block, {})
