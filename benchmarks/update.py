"""What keeping a run fresh costs: `update` with 1 % new rows, as a share of training on all rows.

    python -m benchmarks.update DATA/debtags/train.jsonl.xz [--rows 20000] [--weeks 1] [--method pw-dismec]

A run is trained on all but the last rows of a sample. Then it is updated --weeks times with 1 % of the rows, with
--vocabulary-growth, and 0.1 % of the old rows are withdrawn each time. Processor times of one thread are printed as
shares of a training on the final rows from the beginning, reading included, and whether both give the same weights.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unmissed.data import TextFeatures, load
from unmissed.data.documents import Documents
from unmissed.runs import open_run, train, update
from unmissed.runs.inspection import certificate

FRACTION, WITHDRAWN = 0.01, 0.001


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor time that it took."""
    begin = time.process_time()
    return call(), time.process_time() - begin


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def report(rows: list[dict[str, Any]], weeks: int, method: str, folder: Path) -> None:
    """Train, update week by week, train on the final rows, and print the shares."""
    text, params = TextFeatures(min_df=2), {"n_jobs": 1}
    size = max(round(FRACTION * len(rows)), 1)
    first = len(rows) - weeks * size
    train(method, load(write(folder / "old.jsonl", rows[:first]), text=text), folder / "run", params)
    gone: list[str] = []
    for week in range(weeks):
        new = write(folder / f"week{week}.jsonl", rows[first + week * size : first + (week + 1) * size])
        ids = [row["id"] for row in rows[week : first : round(1 / WITHDRAWN)]]
        gone += ids

        def week_update(new: Path = new, ids: list[str] = ids) -> Any:
            opened = open_run(folder / "run")
            return update(
                folder / "run", load(new, text=opened.text), vocabulary_growth=True, remove=ids, n_jobs=1
            )  # fmt: skip

        before = open_run(folder / "run").n_features
        fresh, seconds = timed(week_update)
        print(f"week {week + 1}: {size:,} new rows, {len(ids)} withdrawn, {fresh.n_features - before:+,} words, "
              f"{seconds:.1f} s")  # fmt: skip
    last = {row["text"]: number for number, row in enumerate(rows)}  # a new text replaces an equal old one
    kept = [row for number, row in enumerate(rows) if number >= first or last[row["text"]] < first]
    final = write(folder / "final.jsonl", [row for row in kept if row["id"] not in set(gone)])
    scratch, full = timed(lambda: train(method, load(final, text=text), folder / "scratch", params))
    same = _same(fresh, scratch)
    print(f"training from the beginning: {full:.1f} s; the last update takes {seconds / full:.2f} of it; same scores: "
          f"{same}; labels above the tolerance: {certificate(fresh)['missed']}")  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    """Return whether two runs give the same label names and scores to some texts."""
    texts = [" ".join(other.feature_names[begin : begin + 30]) for begin in range(0, 3000, 30)]
    rankings = [run.suggest(texts, 5) for run in (one, other)]
    return [[name for name, _ in row] for row in rankings[0]] == [
        [name for name, _ in row] for row in rankings[1]
    ] and (
        np.allclose([s for row in rankings[0] for _, s in row], [s for row in rankings[1] for _, s in row], atol=1e-5)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--weeks", type=int, default=1)
    parser.add_argument("--method", default="pw-dismec")
    given = parser.parse_args()
    rows = [document for _, document in Documents(given.source).read(["text", "labels"])]
    rows = [rows[one] for one in np.random.default_rng(0).permutation(len(rows))[: given.rows]]
    kept = [{"id": str(number), "text": row["text"], "labels": row["labels"]} for number, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as folder:
        report(kept, given.weeks, given.method, Path(folder))


if __name__ == "__main__":
    main()
