"""A real service for the tests of the page; its labels have titles that a page must not run, or break at."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest

from tests.reports.test_browser import CHROMIUM
from tests.serve.serving import serving

TEXT = 'The "annual" report; the Court heard a judge on cod, QUOTA\n\nand bread. Café: cod quota.'
ATTACK = "<img src=x onerror=\"document.title='attacked'\">"
TOPICS = {
    "=fish": ("fishing quotas", "cod net quota trawler"),
    "law/court": ('courts, and "appeals"', "court judge appeal verdict"),
    "food": ("food", "bread milk cheese café"),
    "rail": ("railways", "train rail station track"),
    "tax": ("taxes", "tax duty revenue levy"),
    "attack": (ATTACK, "script markup attack onerror"),
    "long": ("a title " + "without-any-end" * 12, "endless title words length"),
    "sea": ("oceans", "sea ocean wave salt"),
    "air": ("air traffic", "plane airport pilot wing"),
    "wood": ("forestry", "forest timber oak saw"),
    "coal": ("mining", "coal mine shaft ore"),
    "art": ("museums", "museum painting sculpture gallery"),
}


def write_topics(folder: Path, n: int = 240, seed: int = 0) -> Path:
    """JSON lines of texts on one to three topics in a new folder, with a file of the labels' titles."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    with open(folder / "train.jsonl", "w", encoding="utf-8") as stream:
        for _ in range(n):
            labels = rng.choice(list(TOPICS), size=rng.integers(1, 4), replace=False).tolist()
            words = [str(rng.choice(TOPICS[label][1].split())) for label in labels for _ in range(5)]
            noise = rng.choice(["report", "annual", "committee", "member", "states"], size=4).tolist()
            text = " ".join(rng.permutation([*words, *noise]).tolist())
            stream.write(json.dumps({"text": text, "labels": labels}) + "\n")
    titles = "".join(f"{name}\t{title}\n" for name, (title, _) in TOPICS.items())
    (folder / "label_names.tsv").write_text(titles, encoding="utf-8")
    return folder / "train.jsonl"


def make_runs(folder: Path) -> dict[str, Path]:
    """Train a run with probabilities and word pairs, one without, one without explanations, and one without texts."""
    from unmissed.cli.app import run

    texts = str(write_topics(folder / "texts"))
    words = {
        "topics": ["pw-dismec", texts, "--calibrate", "--ngrams", "2"],
        "plain": ["pw-dismec", texts],
        "popular": ["popularity", texts],
        "matrix": ["popularity", str(folder / "corpus" / "train")],
    }
    sizes = ["--train", "50", "--test", "1", "--labels", "5", "--features", "20"]
    commands = [["train", *more, "--run", str(folder / name)] for name, more in words.items()]
    for command in [["data", "make", str(folder / "corpus"), *sizes], *commands]:
        with pytest.raises(SystemExit) as end:
            run(command)
        assert end.value.code == 0
    return {name: folder / name for name in words}


@pytest.fixture(scope="session")
def page_runs(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: the page is not looked at")
    return make_runs(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def page_service(page_runs):
    with serving(*page_runs.values()) as running:
        yield running


@pytest.fixture
def visit(browser):
    """Open the page of a service; at the end, nothing failed in it and it asked nobody else."""
    contexts, errors, fetched, expected = [], [], [], []

    def go(service, *, width=1400, scheme="light", fails=(), permissions=(), script=None):
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            accept_downloads=True,
            permissions=permissions,
        )
        contexts.append(context)
        expected.extend(fails)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if script is not None:
            page.add_init_script(script)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda request: fetched.append((request.url, service.url + "/")))
        page.goto(service.url + "/")
        return page

    yield go
    for context in contexts:
        context.close()
    assert fetched
    assert [url for url, own in fetched if not url.startswith((own, "blob:", "data:"))] == []
    assert [error for error in errors if not any(part in error for part in expected)] == []


def ready(page, run="topics"):
    """Choose a run; return the page."""
    page.wait_for_selector("#run:not([disabled])")
    page.select_option("#run", run)
    return page


def suggest(page, text=TEXT):
    """Enter a text and wait for its suggestions; return their titles."""
    wanted = urlencode({"text": text.strip()})
    with page.expect_response(lambda response: (response.request.post_data or "").startswith(wanted + "&")):
        page.fill("#text", text)
    page.wait_for_selector("#rows[aria-busy=false] .row")
    return page.locator("#rows .title").all_inner_texts()


def row(page, name):
    """The row of a label."""
    return page.locator(f'.row[data-uri="{name}"]')


def reply(page, service, path, **data):
    """Return the service's own answer."""
    options = {"form": data} if path.endswith("suggest") else {"data": data}
    return page.request.post(f"{service.url}/{path}", **options).json()
