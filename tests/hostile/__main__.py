"""The campaign by hand: `python -m tests.hostile --cases 100000`; `--only npz --first 1234 --cases 1` for one case.

`--kills 1000` kills verbs that many times, at random, and nothing else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter

from tests.hostile import files, folders, forged_runs, kills, parquet_files, row_ids
from tests.hostile.campaign import run_format

FEWER = {"flips of a store": 20, "flips of runs": 20, "kills": 100}  # they take longer and need fewer
FEWER |= {kind.name: 500 for kind in kills.FORMATS}
MODULES = (files, parquet_files, row_ids, folders, forged_runs, kills)  # each has its FORMATS
FORMATS = {kind.name: kind for module in MODULES for kind in module.FORMATS}


def main() -> int:
    """Run the campaign and print a line per format and its faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="per format; of flips a 20th, of kills fewer")
    parser.add_argument("--kills", type=int, help="only this number of kills over all commands")
    parser.add_argument("--exactly", action="store_true", help="as many flips and kills as other cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--only", action="append", choices=list(FORMATS), help="repeatable")
    words = parser.parse_args()
    n_faults = 0
    for name, n_cases in _cases(words).items():
        report = run_format(FORMATS[name], n_cases, words.seed, words.first)
        n_faults += len(report.faults)
        sys.stdout.write(report.line(name) + "\n")
        for line in report.group_lines():
            sys.stdout.write(f"  {line}\n")
        seen: Counter[str] = Counter()
        for fault in report.faults:
            alike = re.sub(r"got .*|[0-9]+|\(.*", "", fault.what)[:160]
            seen[alike] += 1
            if seen[alike] <= 2:
                sys.stdout.write(f"  case {fault.case}: {fault.what}\n")
        sys.stdout.flush()
    return 1 if n_faults else 0


def _cases(words: argparse.Namespace) -> dict[str, int]:
    """Return the number of cases of each format."""
    if words.kills is not None:
        return kills.kills_each(words.kills)
    fewer = {name: 1 if words.exactly else FEWER.get(name, 1) for name in words.only or FORMATS}
    return {name: max(1, words.cases // n) for name, n in fewer.items()}


if __name__ == "__main__":
    sys.exit(main())
