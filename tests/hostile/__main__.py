"""The campaign by hand: `python -m tests.hostile --cases 100000`; `--only npz --first 1234 --cases 1` for one case."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter

from tests.hostile import files, folders, forged_runs, parquet_files, row_ids
from tests.hostile.campaign import run_format

FEWER = {"flips of a store": 20, "flips of runs": 20, "kills": 100}  # they take longer and need fewer
MODULES = (files, parquet_files, row_ids, folders, forged_runs)  # each has its FORMATS
FORMATS = {kind.name: kind for module in MODULES for kind in module.FORMATS}


def main() -> int:
    """Run what the words say, and print a line per format and its faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="per format; of flips a 20th, of kills a 100th")
    parser.add_argument("--exactly", action="store_true", help="as many flips and kills as other cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--only", action="append", choices=list(FORMATS), help="may be given more than once")
    words = parser.parse_args()
    n_faults = 0
    for name in words.only or FORMATS:
        fewer = 1 if words.exactly else FEWER.get(name, 1)
        report = run_format(FORMATS[name], max(1, words.cases // fewer), words.seed, words.first)
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


if __name__ == "__main__":
    sys.exit(main())
