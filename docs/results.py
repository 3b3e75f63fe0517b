"""Write the page of results from comparisons: `python docs/results.py DIR [--without cost]`.

DIR holds a folder per data set, as `unmissed compare` or `unmissed study paper` leaves them.
"""

import argparse
import shutil
from pathlib import Path

from unmissed.reports.compare_tables import all_tables
from unmissed.reports.grids import to_markdown
from unmissed.runs.compare import read_results

HERE = Path(__file__).parent
TABLES = ("main", "plain", "claims", "published", "cost")
HEAD = """# Results

Made by `unmissed study paper --data DATA --out DIR` and `python docs/results.py DIR`: all methods with their default
parameters, percent, on the observed test labels; labels unknown to training are left out. The best figure is bold; ≈
marks those that are not clearly behind it. What PSP, P and the others mean is in [metrics](metrics.md), how they are
measured in [comparing methods](compare.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[], choices=TABLES)
    options = parser.parse_args()
    parts = [HEAD]
    for path in sorted(options.folder.glob("*/results.json")):
        results = read_results(path.parent)
        name = results["data"]["name"]
        tables = all_tables(results)
        data = results["data"]
        parts.append(f"## {name}\n")
        parts.append(
            f"{data['n_train']:,} rows to train on, {data['n_test']:,} to test on, {data['n_labels']:,} labels, "
            f"{data['points_per_label']:.1f} rows per label, {data['labels_per_point']:.1f} labels per row.\n"
        )
        parts += [to_markdown(tables[one]) for one in TABLES if one in tables and one not in options.without]
        picture = HERE / "img" / f"gains-{name}.svg"
        shutil.copyfile(path.parent / "figures" / "gains.svg", picture)
        parts.append(f"```{{image}} img/{picture.name}\n:alt: Gain over DiSMEC on {name}\n:width: 32rem\n```\n")
    (HERE / "results.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
