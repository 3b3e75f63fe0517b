"""Compare text options on held-out training rows by recall@5, size of the run and processor time.

    python -m benchmarks.text_options DATA/tibkat/train.jsonl.xz [--rows 4000] [--held 2000] [--results FILE]
        [--only NAME ...]

Each setting trains DiSMEC with one thread on the same --rows documents and ranks the same --held others; test rows are
not read. Differences are to the first setting, words, with paired 95 % intervals. --results keeps each measurement as a
JSON line: a benchmark that was stopped continues there.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from unmissed.data import Columns, TextFeatures, load
from unmissed.data.documents import Documents
from unmissed.data.readers.reader import ReadOptions
from unmissed.metrics import compare, evaluate
from unmissed.models.method_registry import make_model
from unmissed.runs import train

WORDS: dict[str, Any] = {"min_df": 2}
CHARACTERS: dict[str, Any] = {"analyzer": "char_wb", "min_df": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "words": WORDS,
    "words, German stems": {**WORDS, "stemmer": "german"},
    "words, title 3": {**WORDS, "fields": "title:3,text:1"},
    "char_wb 4, prune 0.03": {**CHARACTERS, "ngrams": (4, 4), "prune": 0.03},
    "words, German and English stop words": {**WORDS, "stop_words": "german,english"},
    "char_wb 5, min_df 5": {**CHARACTERS, "ngrams": (5, 5), "min_df": 5},
    "words, prune 0.03": {**WORDS, "prune": 0.03},
    "char_wb 4": {**CHARACTERS, "ngrams": (4, 4)},
    "words, without accents": {**WORDS, "strip_accents": "unicode"},
    "char_wb 4, 15,000 terms": {**CHARACTERS, "ngrams": (4, 4), "max_features": 15_000},
    "words, all terms": {"min_df": 1},
    "char_wb 3-5": {**CHARACTERS, "ngrams": (3, 5)},
}


def split(source: str, n_rows: int, n_held: int, folder: Path) -> tuple[Path, Path]:
    """Write two samples of the training rows as JSON lines and return their paths."""
    rows = [document for _, document in Documents(source, ReadOptions()).read(["text", "labels"])]
    order = np.random.default_rng(0).permutation(len(rows))[: n_rows + n_held]
    paths = folder / "fit.jsonl", folder / "held.jsonl"
    for path, chosen in zip(paths, (order[:n_rows], order[n_rows:]), strict=True):
        path.write_text("".join(json.dumps(rows[row]) + "\n" for row in np.sort(chosen)))
    return paths


def measure(options: dict[str, Any], fit: Path, held: Path, folder: Path) -> tuple[dict[str, Any], Any]:
    """Train with a setting and return its figures and its evaluation."""
    options = dict(options)
    params = {"n_jobs": 1, **({"prune": options.pop("prune")} if "prune" in options else {})}
    columns = Columns(text=options.pop("fields", "text"))
    begin = time.process_time()
    training = load(fit, columns=columns, text=TextFeatures(**options))
    run = train(make_model("dismec", params), training, folder)
    seconds = time.process_time() - begin
    test = load(held, like=training, columns=columns)
    begin = time.process_time()
    ranking = run.model.rank(test.X, 5)
    found = evaluate(ranking, test.Y, k=(1, 5), metrics=["P", "recall", "nDCG"])
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    figures = {
        "recall@5": 100 * found["recall@5"],
        "P@1": 100 * found["P@1"],
        "features": training.n_features,
        "megabytes": size / 1e6,
        "training_seconds": seconds,
        "ranking_seconds": time.process_time() - begin,
    }
    return figures, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--held", type=int, default=2000)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--only", nargs="*", help="names of settings; the first setting is always measured")
    words = parser.parse_args()
    done: dict[str, Any] = {}
    if words.results is not None and words.results.exists():
        lines = map(json.loads, words.results.read_text().splitlines())
        done = {line["setting"]: line for line in lines}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit, held = split(words.data, words.rows, words.held, folder)
        first = None
        for number, (setting, options) in enumerate(SETTINGS.items()):
            if number and (setting in done or (words.only and setting not in words.only)):
                continue
            figures, found = measure(options, fit, held, folder / str(number))
            first = first or found
            difference = compare(found, first)["recall@5"]
            figures |= {"difference": [100 * difference.value, 100 * difference.low, 100 * difference.high]}
            print(setting, {key: np.round(value, 2).tolist() for key, value in figures.items()}, flush=True)
            if words.results is not None:
                with open(words.results, "a") as stream:
                    stream.write(json.dumps({"setting": setting, **figures}) + "\n")


if __name__ == "__main__":
    main()
