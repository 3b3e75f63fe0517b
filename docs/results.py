"""Write the page of results, `results.json` and README's table: `python docs/results.py DIR --commit COMMIT`.

DIR is the folder that `unmissed study paper` wrote, COMMIT the commit that computed it. `tests/test_readme.py` compares
README's table with `results.json`.
"""

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from unmissed.reports.compare_tables import all_tables
from unmissed.reports.grids import Grid, GridCell, number, to_markdown
from unmissed.reports.paper_page import joined_claims, short_title, summary
from unmissed.runs.compare.comparison import read_results

HERE = Path(__file__).parent
TABLES = ("main", "plain", "claims", "published", "cost")
HEAD = """# Results

For readers who choose a method, or who want to check the paper. All methods on five data sets, in percent, on the
observed test labels; {policy}. Parameters are the defaults where none is named. The best
figure is bold; ≈: not significantly worse. What PSP, P and the others mean is in [metrics](metrics.md), how they
are measured in [comparing methods](compare.md), and why the paper's weighting loses on delicious in
[propensities](propensity.md#why-the-papers-weighting-loses-on-delicious).

```sh
unmissed study paper --data DATA --out DIR {jobs}--time-limit {limit} --unseen-labels {unseen}   # commit {commit}
python docs/results.py DIR --commit {commit}
```

A method that takes longer than {limit} is stopped, and its cells say so. The figures of the page in one file:
[results.json](results.json).
"""
PROXIMAL = (
    "That PW-DiSMEC trains more than a hundred times as fast as a proximal gradient method is measured in "
    "[sparse linear systems](sparse_linear.md).\n"
)
POLICY = {"drop": "labels unknown to training are left out", "keep": "labels unknown to training count as not found"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument(
        "--again", nargs="*", default=[], metavar="METHOD=COMMIT", help="methods that a later commit computed again"
    )
    parser.add_argument("--without", nargs="*", default=[], choices=TABLES)
    options = parser.parse_args()
    everything = {}
    for path in sorted(options.folder.glob("*/results.json")):
        results = read_results(path.parent)
        everything[results["data"]["name"]] = results
        shutil.copyfile(path.parent / "figures" / "gains.svg", HERE / "img" / f"gains-{results['data']['name']}.svg")
    some = next(iter(everything.values()))
    unseen, seconds = some["data"]["unknown_policy"], some["settings"]["limits"]["seconds"]
    if seconds is None:
        parser.error("the page states a time limit: run the study with --time-limit")
    limit, n_jobs = f"{seconds / 60:g}m", some["settings"]["n_jobs"]
    jobs = f"--jobs {n_jobs} " if n_jobs else ""
    again = dict(each.split("=") for each in options.again)
    head = HEAD.format(commit=options.commit, limit=limit, jobs=jobs, unseen=unseen, policy=POLICY[unseen])
    head += "".join(
        f"\n{method} was computed again by commit {commit}, which corrects it.\n" for method, commit in again.items()
    )
    short = to_markdown(summary(everything))
    shutil.copyfile(options.folder / "mnist" / "mnist.svg", HERE / "img" / "mnist.svg")
    parts = [
        head,
        short,
        to_markdown(joined_claims(everything)),
        PROXIMAL,
        digits_part(json.loads((options.folder / "mnist" / "study.json").read_text(encoding="utf-8"))),
        *(part for name in everything for part in page_parts(name, everything[name], options.without)),
    ]
    (HERE / "results.md").write_text("\n".join(parts), encoding="utf-8")
    made_by = {"commit": options.commit, "again": again, "time_limit_seconds": seconds, "unseen_labels": unseen}
    figures = {name: plain_figures(each) for name, each in everything.items()}
    (HERE / "results.json").write_text(json.dumps({**made_by, "percent": figures}, indent=1) + "\n", encoding="utf-8")
    readme = HERE.parent / "README.md"
    table = "\n".join(line for line in short.splitlines() if line.startswith("|"))
    marked = re.compile(r"(?<=<!-- results -->\n).*?(?=<!-- /results -->)", re.DOTALL)
    readme.write_text(marked.sub(lambda _: table + "\n", readme.read_text(encoding="utf-8")), encoding="utf-8")


def digits_part(study: dict[str, Any]) -> str:
    """Return the section on the paper's figure 3: the figure, and the accuracy by loss and propensity."""
    found: dict[str, dict[float, float]] = {}
    for row in study["summary"]:
        title = f"{row['family']}, {row['label']}"
        found.setdefault(title, {})[row["propensity"]] = row["accuracy_mean"]
    propensities = sorted(study["settings"]["propensities"])
    rows = [[GridCell(name), *(number(100 * own[p]) for p in propensities)] for name, own in found.items()]
    columns = ["loss", *(f"p = {p:g}" for p in propensities)]
    settings = study["settings"]
    note = f"Means of {settings['seeds']} seeds" if settings["seeds"] > 1 else "One seed"
    notes = [f"{note}, {settings['epochs']} epochs, {settings['hidden']} hidden units, batches of {settings['batch']}."]
    title = f"{settings['data']}: accuracy on complete labels, percent"
    return "\n".join(
        [
            "## Figure 3: networks on digits with missing labels\n",
            "Each true label is observed with probability p. What the figure shows is in "
            "[losses](losses.md#the-papers-figures).\n",
            "```{image} img/mnist.svg\n:alt: Test loss and accuracy against the propensity, for six losses\n"
            ":width: 100%\n```\n",
            to_markdown(Grid("digits", title, columns, rows, notes)),
        ]
    )


def page_parts(name: str, results: dict, without: list[str]) -> list[str]:
    """Return the sections of a data set."""
    tables, data = all_tables(results), results["data"]
    return [
        f"## {name}\n",
        f"{data['n_train']:,} rows to train on, {data['n_test']:,} to test on, {data['n_labels']:,} labels, "
        f"{data['points_per_label']:.1f} rows per label, {data['labels_per_point']:.1f} labels per row.\n",
        *(to_markdown(tables[one]) for one in TABLES if one in tables and one not in without),
        f"```{{image}} img/gains-{name}.svg\n:alt: Gain over DiSMEC on {name}\n:width: 32rem\n```\n",
    ]


def plain_figures(results: dict) -> dict[str, dict[str, float] | str]:
    """Return the figures of each method in percent, or why it did not finish."""
    return {
        short_title(one): {metric: round(100 * each["value"], 2) for metric, each in one["figures"].items()}
        if one["state"] == "finished"
        else one["state"]
        for one in results["methods"]
    }


if __name__ == "__main__":
    main()
