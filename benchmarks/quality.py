"""Compare methods on real data and print the metrics of the test rows: the README's table.

    python -m benchmarks.quality DATA --out DIR [--sets NAME ...] [--methods dismec pw-dismec:weighting=tail ...]

DATA holds a folder per data set, with `train` and `test` as `.txt.gz` in the XMC format or `.jsonl.xz`. Each is
compared as `unmissed compare` does it, into a folder of its own below DIR that keeps runs, rankings and a page; started
again, only what is not finished is trained. Text becomes TF-IDF of words that at least 3 training texts have.
"""

import argparse
from pathlib import Path

from unmissed.data import TextFeatures
from unmissed.data.collections import find_datasets
from unmissed.data.sources import holds_text
from unmissed.reports.comparison_page import write_report
from unmissed.runs.compare.comparison import Comparison, compare
from unmissed.runs.compare.method_specs import read_method_specs

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--methods", nargs="+", default=[])
    options = parser.parse_args()
    print("| data | method | " + " | ".join(COLUMNS) + " | training, s |")
    print("|---|---|" + "---:|" * (len(COLUMNS) + 1))
    for name, (train, test) in find_datasets(options.data).items():
        if options.sets and name not in options.sets:
            continue
        text = TextFeatures(min_df=3, max_features=100_000, smooth=True) if holds_text(train) else None
        comparison = Comparison(read_method_specs(options.methods), name=name)
        results = compare(train, test, options.out / name, comparison, text=text)
        write_report(results, options.out / name)
        for one in results["methods"]:
            figures = one.get("figures", {})
            shown = [f"{100 * figures[column]['value']:.2f}" if figures else "-" for column in COLUMNS]
            seconds = f"{one['seconds']['train']:.1f}" if one.get("seconds") else one["state"]
            print(f"| {name} | {one['title']} | {' | '.join(shown)} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
