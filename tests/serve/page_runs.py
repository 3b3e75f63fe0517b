"""Runs for the tests of the page: texts whose words tell their labels, with titles that a page must not run."""

import json
from pathlib import Path

import numpy as np

ATTACK = '<img src=x onerror="document.title=\'attacked\'">'
TOPICS = {
    "=fish": ("fishing quotas", "cod net quota trawler"),
    "law/court": ("courts, and \"appeals\"", "court judge appeal verdict"),
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
    """JSON lines of texts on one to three topics in a new folder, with the titles of labels in the file next to them."""
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
