import re
from pathlib import Path

import pytest

from unmissed.metrics import metric_registry as registry

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["metrics.md", "propensity.md"])
def test_the_code_of_the_page_runs(page, monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), page, "exec"), {})
