"""The model of docs/own_model.md, made by running that page: proof that a model of a user's own fits."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "own_model.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)

for block in BLOCKS[:2]:
    exec(compile(block, str(PAGE), "exec"), globals())

METHOD = "nearest-mean"
