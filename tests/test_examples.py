"""The scripts in `examples/` run as they are, and print what their pages say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PAGE = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run a script in an empty folder; return its lines."""
    monkeypatch.chdir(tmp_path)

    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def numbers(line):
    return [float(word.strip("%,;:")) for word in line.split() if word.strip("%,;:").replace(".", "", 1).isdigit()]


def test_every_script_is_on_the_page():
    scripts = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert len(scripts) == 5
    assert all(f"../examples/{name}" in PAGE for name in scripts)


def test_text_to_labels(printed):
    lines = printed("text_to_labels")
    assert lines[0].startswith("8 texts, 5 labels")
    assert {line.split(":")[0] for line in lines[1:]} == {"food", "recipes"}


def test_missing_labels(printed):
    _, header, plain, weighted = printed("missing_labels")
    assert header.split() == ["P@5", "observed", "PSP@5", "observed", "P@5", "complete"]
    for line in (plain, weighted):
        seen, estimated, true = numbers(line)
        assert abs(estimated - true) < abs(seen - true), "the propensity-scored metric is closer to the truth"


def test_probabilities(printed):
    lines = printed("probabilities")
    fractions = [numbers(line)[-1] for line in lines[:3]]
    assert fractions == sorted(fractions)
    top, likely, _ = (numbers(line)[-1] for line in lines[3:])
    assert likely > top, "accepting by probability is more often right than accepting three per row"


def test_find_missing(printed):
    found, random = printed("find_missing")
    n, _, true = numbers(found)
    assert true / n > 10 * numbers(random)[0] / 100


def test_network_loss(printed):
    pytest.importorskip("torch").set_num_threads(1)
    plain, unbiased = (numbers(line) for line in printed("network_loss"))
    assert abs(unbiased[0] - unbiased[1]) < abs(plain[0] - plain[1])
