"""What keeping a run fresh costs: `update` with 1 % new rows a week, as a share of training on all rows.

    python -m benchmarks.update DATA/debtags/train.jsonl.xz [--test DATA/debtags/test.jsonl.xz] [--rows 20000]
        [--weeks 4] [--method pw-dismec] [--growth] [--remove] [--from-scratch]

A run is trained on all but the last rows of a sample, then updated --weeks times with 1 % of the rows, with
--vocabulary-growth if --growth is given. --remove also withdraws 0.1 % of the old rows each time. The run keeps its
dual variables and its rows, unless --from-scratch is given. Processor times of one thread are printed as shares of a
training on the final rows from the beginning, reading included, with the quality of both on the test rows.
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


def report(rows: list[dict[str, Any]], given: argparse.Namespace, folder: Path) -> None:
    """Train, update week by week, train on the final rows, and print the shares."""
    text, weeks = TextFeatures(min_df=2), given.weeks
    params = {"n_jobs": 1} if given.from_scratch else {"n_jobs": 1, "keep_dual": True}
    size = max(round(FRACTION * len(rows)), 1)
    first = len(rows) - weeks * size
    old = write(folder / "old.jsonl", rows[:first])
    _, before = timed(lambda: train(given.method, load(old, text=text), folder / "run", params))
    print(f"{first:,} rows: {before:.1f} s, {megabytes(folder / 'run')}")
    gone: list[str] = []
    spent = []
    for week in range(weeks):
        new = write(folder / f"week{week}.jsonl", rows[first + week * size : first + (week + 1) * size])
        ids = [row["id"] for row in rows[week : first : round(1 / WITHDRAWN)]] if given.remove else []
        gone += ids

        def week_update(new: Path = new, ids: list[str] = ids) -> Any:
            opened = open_run(folder / "run")
            options = {"vocabulary_growth": given.growth, "remove": ids, "keep_rows": not given.from_scratch}
            return update(folder / "run", load(new, text=opened.text), n_jobs=1, **options)

        known = open_run(folder / "run").n_features
        fresh, seconds = timed(week_update)
        spent.append(seconds)
        print(f"week {week + 1}: {size:,} new rows, {len(ids)} withdrawn, {fresh.n_features - known:+,} words, "
              f"{seconds:.1f} s, {megabytes(folder / 'run')}")  # fmt: skip
    last = {row["text"]: number for number, row in enumerate(rows)}  # a new text replaces an equal old one
    kept = [row for number, row in enumerate(rows) if number >= first or last[row["text"]] < first]
    final = write(folder / "final.jsonl", [row for row in kept if row["id"] not in set(gone)])
    scratch, full = timed(lambda: train(given.method, load(final, text=text), folder / "scratch", {"n_jobs": 1}))
    shares = ", ".join(f"{seconds / full:.2f}" for seconds in spent)
    print(f"training from the beginning: {full:.1f} s, {megabytes(folder / 'scratch')}; updates take {shares} of it; "
          f"same scores: {_same(fresh, scratch)}; labels above the tolerance: {certificate(fresh)['missed']}, "
          f"largest gap {certificate(fresh)['worst'][0]['gap']:.5f}")  # fmt: skip
    if given.test is not None:
        for name, run in (("updated", fresh), ("from the beginning", scratch)):
            print(f"{name}: {quality(run, given.test)}")


def megabytes(folder: Path) -> str:
    """Return the size of a folder."""
    return f"{sum(one.stat().st_size for one in folder.rglob('*') if one.is_file()) / 1e6:.1f} MB"


def quality(run: Any, test: str) -> str:
    """Return precision at 1 and 5 on test rows."""
    texts, truth = zip(*Documents(test).pairs(), strict=True)
    names = np.array(run.label_names, dtype=object)
    hits = [np.isin(names[row], mine) for row, mine in zip(run.rank(list(texts), 5).labels, truth, strict=True)]
    return f"P@1 {100 * np.mean([one[0] for one in hits]):.2f}, P@5 {100 * np.mean(hits):.2f}"


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
    parser.add_argument("--test")
    parser.add_argument("--weeks", type=int, default=4)
    parser.add_argument("--method", default="pw-dismec")
    for name in ("--growth", "--remove", "--from-scratch"):
        parser.add_argument(name, action="store_true")
    given = parser.parse_args()
    rows = [document for _, document in Documents(given.source).read(["text", "labels"])]
    rows = [rows[one] for one in np.random.default_rng(0).permutation(len(rows))[: given.rows]]
    kept = [{"id": str(number), "text": row["text"], "labels": row["labels"]} for number, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as folder:
        report(kept, given, Path(folder))


if __name__ == "__main__":
    main()
