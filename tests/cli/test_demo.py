"""`unmissed demo`."""

import json
import re

from tests.cli.speaking import refused, said


def test_the_demo_prints_observed_and_true_figures_and_writes_a_page(tmp_path, capsys):
    output = said(capsys, "demo", "--quick", "--out", tmp_path / "demo", "--jobs", 1)
    for part in ("P@1 (observed)", "P@1 (truth)", "PSP@5 (observed)", "DiSMEC", "PW-DiSMEC tail", "Popularity", "±"):
        assert part in output
    assert str(tmp_path / "demo" / "index.html") in output
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("<svg") == 3
    assert not re.search(r'(src|href)="(?!#)', page)  # it needs no other file
    again = json.loads(said(capsys, "demo", "--quick", "--out", tmp_path / "demo", "--json", "--jobs", 1))
    rows = {(line["measure"], line["source"]): [cell["value"] for cell in line["cells"]] for line in again["lines"]}
    floor, dismec, *_ = rows["P@5", "truth"]
    assert floor < dismec
    assert all(seen < true for seen, true in zip(rows["P@5", "observed"], rows["P@5", "truth"], strict=True))
    corrected = again["corrected"][1]["cells"]
    for cell, true in zip(corrected, rows["P@5", "truth"], strict=True):
        assert cell["low"] - 0.02 < true < cell["high"] + 0.02  # weighing by 1/p estimates the truth
    assert len(again["verdicts"]) == 3
    assert "These labels are probably missing" in output
    assert "These labels are probably missing" in page
    missing = again["missing"]
    assert missing["n_dropped"] > 0.8 * missing["n_cells"]
    assert len({line["label"] for line in missing["lines"]}) == len(missing["lines"]) == 10
    assert "another seed" in refused(capsys, "demo", "--quick", "--seed", 1, "--out", tmp_path / "demo")
