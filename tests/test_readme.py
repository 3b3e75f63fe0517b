"""The README's commands and code run as they stand there."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.speaking import said

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_and_the_code_of_the_readme_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"## In the shell\n.*?```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines():
        command, *words = shlex.split(line, comments=True)
        assert command == "unmissed"
        last = said(capsys, *words)
    assert "label7" in last
    names = {}
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(code, "README.md", "exec"), names)
    assert names["result"]["PSP@5"] > 0.5, "the model has learned something"
    assert names["loss"].positive.value(0.0) == pytest.approx(1 / 0.3 + (1 - 1 / 0.3))


def test_every_link_of_the_readme_leads_to_a_file():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert len(targets) > 5
    for target in targets:
        path, _, anchor = target.partition("#")
        assert target.startswith("https://") or (ROOT / path).is_file(), target
        headings = re.findall(r"^#+ (.+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}


def test_the_table_of_the_readme_has_the_figures_of_the_results():
    percent = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))["percent"]
    (table,) = re.findall(r"<!-- results -->\n(.*?)<!-- /results -->", README, re.DOTALL)
    header, _, *rows = ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines())
    assert {column.split()[0] for column in header[1:]} == percent.keys()
    assert {title for title, *_ in rows} == {title for methods in percent.values() for title in methods}
    for title, *cells in rows:
        for column, cell in zip(header[1:], cells, strict=True):
            name, metric = column.split()
            figures = percent[name][title]
            assert cell == (figures if isinstance(figures, str) else f"{figures[metric]:.2f}"), (title, column)
