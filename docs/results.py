"""Write the page of results, and README's table, from comparisons: `python docs/results.py DIR [--without cost]`.

DIR holds a folder per data set, as `unmissed compare` or `unmissed study paper` leaves them.
"""

import argparse
import re
import shutil
from pathlib import Path

from unmissed.reports.compare_tables import all_tables
from unmissed.reports.grids import to_markdown
from unmissed.reports.paper_page import summary
from unmissed.runs.compare.comparison import read_results

HERE = Path(__file__).parent
TABLES = ("main", "plain", "claims", "published", "cost")
HEAD = """# Results

Made by `unmissed study paper --data DATA --out DIR`, or `unmissed compare` for one data set, and then
`python docs/results.py DIR`. Percent, on the observed test labels; labels unknown to training are left out. Parameters
are the defaults where none is named. The best figure is bold; ≈: not clearly behind the best. What PSP, P
and the others mean is in [metrics](metrics.md), how they are measured in [comparing methods](compare.md), and why the
paper's weighting loses on delicious in [propensities](propensity.md#why-the-papers-weighting-loses-on-delicious).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="*", default=[], choices=TABLES)
    options = parser.parse_args()
    parts = [HEAD]
    everything = {}
    for path in sorted(options.folder.glob("*/results.json")):
        results = read_results(path.parent)
        name = results["data"]["name"]
        everything[name] = results
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
    short = to_markdown(summary(everything))
    (HERE / "results.md").write_text("\n".join([parts[0], short, *parts[1:]]), encoding="utf-8")
    readme = HERE.parent / "README.md"
    table = "\n".join(line for line in short.splitlines() if line.startswith("|"))
    marked = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- /results -->)", re.DOTALL)
    readme.write_text(marked.sub(lambda _: table + "\n", readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
