"""`unmissed audit`: plan, read, and the propensities in other commands."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.audit.test_duplicates import write_duplicates
from tests.cli.speaking import refused, said


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with texts and a calibrated run; more labels than are ranked."""
    from unmissed.cli.app import run

    path = tmp_path_factory.mktemp("audited")
    rng = np.random.default_rng(0)
    with open(path / "train.jsonl", "w", encoding="utf-8") as stream:
        for number in range(150):
            labels = rng.choice(70, size=4, replace=False, p=np.arange(1, 71) / 2485)
            words = " ".join(f"w{label}" for label in labels for _ in range(2))
            held = [f"=l{label}" for label in labels if rng.random() < 0.6] or [f"=l{labels[0]}"]
            stream.write(json.dumps({"id": f"r{number}", "text": words, "labels": held}) + "\n")
    with pytest.raises(SystemExit) as end:
        run(["train", "pw-dismec", str(path / "train.jsonl"), "--run", str(path / "run"), "--calibrate"])
    assert end.value.code == 0
    return path


def fill(sheet, answer):
    """Fill in the column answer by a function of the line."""
    with open(sheet, newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    for line in lines:
        line["answer"] = answer(line)
    with open(sheet, "w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(lines[0]))
        table.writeheader()
        table.writerows(lines)
    return lines


def truth(line):
    return "yes" if f"w{line['name'].lstrip(chr(39)).removeprefix('=l')}" in line["text"].split() else "n"


def true_propensity(path, fewest, most):
    """Return observed over true labels, of labels with a number of rows in a range."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    observed = Counter(label for row in rows for label in row["labels"])
    true = Counter(f"=l{word[1:]}" for row in rows for word in set(row["text"].split()))
    inside = [label for label, count in observed.items() if fewest <= count <= most]
    return sum(observed[label] for label in inside) / sum(true[label] for label in inside)


@pytest.fixture(scope="module")
def sheet(folder):
    from unmissed.cli.app import run

    path = folder / "sheet.csv"
    with pytest.raises(SystemExit) as end:
        run(["audit", "plan", str(folder / "run"), "--checks", "600", "--out", str(path)])
    assert end.value.code == 0
    return path


def test_a_sheet_asks_about_empty_cells_and_read_estimates_from_its_answers(folder, sheet, capsys, tmp_path):
    lines = fill(sheet, truth)
    assert list(lines[0]) == ["id", "label", "name", "text", "answer", "stratum", "inclusion_probability"]
    observed = {row["id"]: row["labels"] for row in map(json.loads, (folder / "train.jsonl").read_text().splitlines())}
    assert all(line["label"].removeprefix("'") not in observed[line["id"]] for line in lines)
    out = tmp_path / "p.csv"
    text = said(capsys, "audit", "read", sheet, "--run", folder / "run", "--out", out)
    assert "propensity" in text
    assert f"--propensity audit:{out}" in text
    found = json.loads(said(capsys, "audit", "read", sheet, "--run", folder / "run", "--json"))
    assert found["answered"] == found["cells"] == len(lines)
    assert found["agreement"] is None
    assert all(one["low"] <= one["p"] <= one["high"] for one in found["bands"])
    for band in found["bands"]:
        assert band["low"] <= true_propensity(folder / "train.jsonl", band["fewest"], band["most"]) <= band["high"]
    predicted = said(capsys, "predict", folder / "run", "--text", "w69 w69", "--propensity", f"audit:{out}", "--json")
    assert "true_probability" in json.loads(predicted)[0]["labels"][0]
    words = ("train", "pw-dismec", folder / "train.jsonl", "--run", tmp_path / "run", "--propensity", f"audit:{out}")
    said(capsys, *words)
    from unmissed.propensity import parse
    from unmissed.runs import open_run

    assert open_run(tmp_path / "run").recipe.propensity == parse(f"audit:{out}")


def test_the_same_seed_gives_the_same_sheet(folder, capsys, tmp_path):
    words = ("audit", "plan", folder / "run", "--checks", "400", "--seed", "5", "--out")
    for name in ("a.csv", "b.csv"):
        said(capsys, *words, tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_several_people_answer_and_their_agreement_is_said(folder, sheet, capsys, tmp_path):
    fill(sheet, truth)
    other = tmp_path / "other.csv"
    other.write_bytes(sheet.read_bytes())
    lines = fill(other, lambda line: "unsure" if line["id"] < "r2" else truth(line))
    n_unsure = sum(line["answer"] == "unsure" for line in lines)
    found = json.loads(said(capsys, "audit", "read", sheet, other, "--run", folder / "run", "--json"))
    assert found["unsure"] == 0  # the first person decided
    assert found["agreement"]["agreeing"] == pytest.approx(1 - n_unsure / len(lines))
    plan = ("--plan", f"{sheet}.plan.json")
    single = json.loads(said(capsys, "audit", "read", other, *plan, "--run", folder / "run", "--json"))
    assert single["unsure"] == n_unsure
    assert any("unsure" in line for line in single["warnings"])
    assert "Agreement on" in said(capsys, "audit", "read", sheet, other, "--run", folder / "run")


def test_what_cannot_be_read_is_refused(folder, sheet, capsys, tmp_path):
    lone = tmp_path / "lone.csv"
    lone.write_bytes(sheet.read_bytes())
    lost = ("--plan", tmp_path / "lost.json")
    assert "no such file" in refused(capsys, "audit", "read", lone, *lost, "--run", folder / "run")
    out = ("--out", tmp_path / "p.csv")
    assert "give the plan by --plan" in refused(capsys, "audit", "read", lone, "--run", folder / "run", *out)
    (tmp_path / "first.csv.plan.json").write_bytes(Path(f"{sheet}.plan.json").read_bytes())
    assert "--plan first.csv.plan.json" in refused(capsys, "audit", "read", lone, "--run", folder / "run", *out)
    fill(lone, truth)
    assert "--plan first.csv.plan.json" in said(capsys, "audit", "read", lone, "--run", folder / "run")
    plan = ("--plan", f"{sheet}.plan.json", "--run", folder / "run")
    fill(lone, lambda line: "maybe")
    assert ":2: the answer is 'maybe'; expected yes, no or unsure" in refused(capsys, "audit", "read", lone, *plan)
    fill(lone, lambda line: "")
    assert "no sampled cell has a yes or a no" in refused(capsys, "audit", "read", lone, *plan)
    lone.write_text("a,b\n1,2\n")
    assert "expected the columns row (or id), label and answer" in refused(capsys, "audit", "read", lone, *plan)
    (tmp_path / "plan.json").write_text("{}")
    words = ("--plan", tmp_path / "plan.json", "--run", folder / "run")
    assert "not the plan of an audit" in refused(capsys, "audit", "read", sheet, *words)
    damaged = json.loads(Path(f"{sheet}.plan.json").read_text())
    damaged["cells"]["stratum"][0] = 999
    (tmp_path / "plan.json").write_text(json.dumps(damaged))
    assert "a cell without a stratum" in refused(capsys, "audit", "read", sheet, *words)
    assert "too few" in refused(capsys, "audit", "plan", folder / "run", "--checks", "5", "--out", tmp_path / "s.csv")


def test_duplicates_are_estimated_and_written(capsys, tmp_path):
    data = write_duplicates(tmp_path / "d.jsonl", 200, 0.5)
    text = said(capsys, "audit", "duplicates", data, "--out", tmp_path / "p.csv")
    assert "copied records" in text
    found = json.loads(said(capsys, "audit", "duplicates", data, "--json"))
    assert found["repeated"] == 200
    assert (tmp_path / "p.csv").read_text().startswith("positives,of_rows,p,low,high\n")


def test_evaluate_shows_intervals_with_and_without_the_uncertainty_of_propensities(folder, capsys, tmp_path):
    rows = "20,150,0.5,0.2,0.8\n60,150,0.5,0.2,0.8\n"
    (tmp_path / "wide.csv").write_text("positives,of_rows,p,low,high\n5,150,0.3,0.1,0.6\n" + rows)
    narrow = "5,150,0.3,0.3,0.3\n20,150,0.5,0.5,0.5\n60,150,0.5,0.5,0.5\n"
    (tmp_path / "narrow.csv").write_text("positives,of_rows,p,low,high\n" + narrow)
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    counts = Counter(label for line in lines for label in line["labels"])
    for line in lines[::2]:  # half of the rows have a rare label that is not predicted, so PSP depends on its p
        line["labels"] = [min(counts, key=lambda label: (counts[label], label))]
    truth = tmp_path / "truth.jsonl"
    truth.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said(capsys, "predict", folder / "run", truth, "--out", tmp_path / "best.npz")
    words = ["evaluate", tmp_path / "best.npz", "--truth", truth, "--train", folder / "run"]
    widths = {}
    for name in ("wide", "narrow"):
        found = json.loads(said(capsys, *words, "--propensity", f"audit:{tmp_path / name}.csv", "--json"))
        assert "low_with_p" not in found["figures"]["P@5"]
        one = found["figures"]["PSP@5"]
        widths[name] = (one["high_with_p"] - one["low_with_p"]) / (one["high"] - one["low"])
    assert widths["narrow"] == pytest.approx(1, abs=0.15)
    assert widths["wide"] > 1.5
    text = said(capsys, *words, "--propensity", f"audit:{tmp_path / 'wide.csv'}")
    assert "PSP, p uncertain" in text
    assert "PSnDCG, p uncertain" in text
    assert "p uncertain" not in said(capsys, *words)


def test_answers_without_a_plan_give_the_share_of_accepted_labels(folder, capsys, tmp_path):
    answers = tmp_path / "answers.csv"
    lines = ["id,label,answer,probability,annotator,text"]
    lines += [f'text-{at},=l69,{"accept" if at < 30 else "reject"},0.85,ann,"two\nlines"' for at in range(40)]
    lines += [f"text-{at},=l69,no,0.85,ben,t" for at in range(10)]  # ties with ann
    lines += [f"text-{at},=l3,{'yes' if at == 0 else 'unsure'},,ann,t" for at in range(5)]
    lines += ["text-0,other,no,0.05,ann,t"] * 2
    answers.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = json.loads(said(capsys, "audit", "read", answers, "--run", folder / "run", "--json"))
    assert (found["n_answers"], found["n_questions"], found["n_tied"], found["n_unsure"]) == (57, 46, 10, 4)
    assert (found["overall"]["n_decided"], found["overall"]["n_accepted"]) == (32, 21)
    likely = found["by_probability"][-1]
    assert (likely["low"], likely["high"], likely["n_decided"], likely["n_accepted"]) == (0.8, 0.9, 30, 20)
    assert likely["predicted"] == pytest.approx(0.85)
    # exact binomial tails at the ends of the interval
    from scipy.stats import binom

    assert binom.sf(19, 30, likely["share_low"]) == pytest.approx(0.025, abs=1e-6)
    assert binom.cdf(20, 30, likely["share_high"]) == pytest.approx(0.025, abs=1e-6)
    assert found["n_without_probability"] == 1
    assert found["unknown_labels"] == {"other": 2}
    assert [one["n_decided"] for one in found["by_frequency"]] == [1, 30]
    assert found["by_frequency"][-1]["high"] >= found["by_frequency"][0]["high"]
    assert found["agreement"]["n_cells"] == 11
    text = said(capsys, "audit", "read", answers, "--run", folder / "run")
    assert "propensities cannot be estimated" in text
    assert "labels that the run does not have" in text
