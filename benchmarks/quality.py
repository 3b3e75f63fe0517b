"""Train methods on real data and print the metrics of the test rows: the README's table.

    python -m benchmarks.quality DATA [--sets NAME ...] [--methods dismec pw-dismec:weighting=tail ...] [--cache DIR]

DATA holds a folder per data set, with `train` and `test` as `.txt.gz` in the XMC format or `.jsonl.xz`. A method is a
name of the registry, with parameters behind a colon (`name=value`, commas between); by default all methods with their
default parameters, and pw-dismec with both weightings of the paper. Labels unknown to the training rows are dropped;
inverse propensities come from the training counts with A = 0.55, B = 1.5; PSP and PSnDCG follow pyxclib.
"""

import argparse
import ast
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import load_corpus
from unmissed.metrics import evaluate
from unmissed.models import Model, UncertifiedWarning, make_model
from unmissed.models.registry import METHODS
from unmissed.propensity import Jain

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")


def default_methods() -> Iterator[str]:
    """Every method of the registry, the floor first."""
    yield "popularity"
    for name in METHODS:
        if name == "pw-dismec":
            yield from ("pw-dismec:weighting=surrogate", "pw-dismec:weighting=tail")
        elif name != "popularity":
            yield name


def parse(words: str) -> tuple[str, Model]:
    """Make a model of `name:parameter=value,...`; the title leaves out the names of parameters that are words."""
    name, _, rest = words.partition(":")
    params: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        try:
            params[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            params[key] = value
    told = [value if isinstance(value, str) else f"{key} {value}" for key, value in params.items()]
    return ", ".join([name, *told]), make_model(name, params)


def find_sets(data: Path) -> list[str]:
    """Return the folders of DATA that hold a training and a test part."""
    found = [
        entry.name
        for entry in sorted(data.iterdir())
        if any((entry / f"train{suffix}").is_file() for suffix in (".txt.gz", ".jsonl.xz"))
    ]
    if not found:
        raise SystemExit(f"{data}: no folder with train.txt.gz or train.jsonl.xz")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(default_methods()))
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UncertifiedWarning)
    print("| data | method | " + " | ".join(COLUMNS) + " | training, s |")
    print("|---|---|" + "---:|" * (len(COLUMNS) + 1))
    for name in options.sets or find_sets(options.data):
        corpus = load_corpus(options.data / name, options.cache)
        counts = np.asarray(corpus.Y.sum(axis=0)).ravel()
        inverse = 1 / Jain().fit(counts, corpus.Y.shape[0])
        for words in options.methods:
            title, model = parse(words)
            begin = time.perf_counter()
            model.fit(corpus.X, corpus.Y)
            seconds = time.perf_counter() - begin
            figures = evaluate(model.rank(corpus.X_test, 5), corpus.Y_test, inverse).figures
            shown = " | ".join(f"{100 * figures[column]:.2f}" for column in COLUMNS)
            print(f"| {name} | {title} | {shown} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
