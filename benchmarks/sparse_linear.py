"""PPD-Sparse and PD-Sparse beside our DiSMEC on whole data sets.

    python -m benchmarks.sparse_linear DATA/bibtex [--methods dismec ppd-sparse ...] [--cache DIR]

Trains models on all labels with all cores and prints test metrics, wall seconds, weights and the bytes of the saved
model, with the settings that benchmarks.choose chose (SETTINGS).
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import load_corpus
from unmissed.metrics import evaluate
from unmissed.models import make_model
from unmissed.propensity import Jain

COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {}
"""Parameters by method and data set, where they are not the defaults."""


def compare(options: Any) -> None:
    corpus = load_corpus(options.data, options.cache)
    inverse = 1 / Jain().fit(np.asarray(corpus.Y.sum(axis=0)).ravel(), corpus.Y.shape[0])
    print(
        "| data | model | settings | "
        + " | ".join(COLUMNS)
        + " | training, s | weights per label | MB on disk | worst gap |"
    )
    print("|---|---|---|" + "---:|" * (len(COLUMNS) + 4))
    for method in options.methods:
        settings = SETTINGS.get((method, options.data.name), {})
        begin = time.perf_counter()
        model = make_model(method, settings).fit(corpus.X, corpus.Y)
        seconds = time.perf_counter() - begin
        figures = evaluate(model.rank(corpus.X_test, 5), corpus.Y_test, inverse).figures
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        shown = " | ".join(f"{100 * figures[column]:.2f}" for column in COLUMNS)
        said = ", ".join(f"{name} {value:g}" for name, value in settings.items()) or "defaults"
        gap = model.certificate().gap.max()
        print(
            f"| {options.data.name} | {method} | {said} | {shown} | {seconds:.1f} | "
            f"{model.facts()['weights per label']} | {size / 1e6:.1f} | {gap:.1e} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--methods", nargs="+", default=["dismec", "ppd-sparse", "pd-sparse"])
    parser.add_argument("--cache", type=Path)
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
