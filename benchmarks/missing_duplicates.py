"""Measure `unmissed missing` on real missing labels: labels that one of two records with the same text lacks.

    python -m benchmarks.missing_duplicates RUN DATA [--top 100000 1000000] [--propensity SPEC]

RUN is a calibrated run, trained on DATA (JSON lines or a table with texts). For each group of rows with the same text,
a label that some of them have and others lack is a cell that is probably missing. Printed: which share of these cells
is among the best N of the list, for texts that are exactly equal and for those with the same lower-case words.
"""

import argparse
import re
import resource
import time
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from unmissed.audit import find_missing
from unmissed.data.documents import Documents
from unmissed.data.readers.reader import ReadOptions
from unmissed.runs import open_run

_WORD = re.compile(r"\w\w+")
KEYS = {
    "equal texts": lambda text: " ".join(text.split()),
    "equal words": lambda text: tuple(_WORD.findall(text.lower())),
}


def lacking(groups: dict, names: dict[str, int]) -> Iterator[tuple[int, int]]:
    """Yield the cells (row, label) whose label another row of the group has."""
    for rows in groups.values():
        every = set().union(*(labels for _, labels in rows))
        for row, labels in rows:
            yield from ((row, names[label]) for label in every - labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("data")
    parser.add_argument("--top", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--propensity")
    options = parser.parse_args()
    run, begin = open_run(options.run), time.process_time()
    found = find_missing(run, top=max(options.top), propensity=options.propensity, words=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{len(found):,} of {found.n_candidates:,} cells, {time.process_time() - begin:.1f} s of processor time, ",
        end="",
    )
    print(f"peak {peak:.2f} GB", flush=True)
    listed = found.cells.rows.astype(np.int64) * run.n_labels + found.cells.labels
    names = {name: label for label, name in enumerate(run.label_names or [])}
    for kind, key in KEYS.items():
        groups = defaultdict(list)
        for row, (text, labels) in enumerate(Documents(options.data, ReadOptions()).pairs()):
            groups[key(text)].append((row, set(labels)))
        several = {text: rows for text, rows in groups.items() if text and len(rows) > 1}
        cells = np.array([row * run.n_labels + label for row, label in lacking(several, names)], dtype=np.int64)
        shares = [f"{np.isin(cells, listed[:top]).mean():.1%} among the best {top:,}" for top in options.top]
        print(f"{kind}: {len(several):,} groups, {len(cells):,} cells that a copy has: {', '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
