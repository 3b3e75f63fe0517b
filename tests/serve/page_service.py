"""A real service for the tests of the page; its labels have titles that a page must not run, or break at."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

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


class Service:
    """`unmissed serve` in a process, from entering to leaving.

    Parameters
    ----------
    runs : folders of runs
    port : where it listens; a free port if None
    token_file : the file of the bearer token, or None
    """

    def __init__(self, *runs: Path, port: int | None = None, token_file: Path | None = None) -> None:
        if port is None:
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                port = listener.getsockname()[1]
        self.port, self.address = port, f"http://127.0.0.1:{port}/"
        self.command = [sys.executable, "-m", "unmissed", "serve", *map(str, runs), "--port", str(port)]
        if token_file is not None:
            self.command += ["--token-file", str(token_file)]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            assert self.process.poll() is None, f"{self.command} ended with {self.process.returncode}"
            try:
                with urlopen(self.address + "health/ready") as answer:
                    if answer.status == 200:
                        return self
            except URLError:
                time.sleep(0.2)
        raise TimeoutError(self.address)

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(60)


def ready(page, run="topics"):
    """Choose a run; return the page."""
    page.wait_for_selector("#run:not([disabled])")
    page.select_option("#run", run)
    return page


def suggest(page, text=TEXT):
    """Enter a text and wait for its suggestions; return their titles."""
    with page.expect_response(lambda response: response.url.endswith("/suggest")):
        page.fill("#text", text)
    page.wait_for_selector("#rows[aria-busy=false] .row")
    return page.locator("#rows .title").all_inner_texts()


def row(page, name):
    """The row of a label."""
    return page.locator(f'.row[data-uri="{name}"]')


def ask(page, service, path, **data):
    """Return the service's own answer."""
    options = {"form": data} if path.endswith("suggest") else {"data": data}
    return page.request.post(service.address + path, **options).json()
