"""The figures of `annif eval`: recorded by Annif itself (annif/record.py), and computed here from the same files."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cli.speaking import refused, said
from unmissed.errors import InputError
from unmissed.metrics import ANNIF, ANNIF_METRICS, annif_figures, evaluate
from unmissed.ranking import Ranking

FOLDER = Path(__file__).parent / "annif"
RECORDED = json.loads((FOLDER / "figures.json").read_text())
WORDS = ["evaluate", FOLDER / "suggestions.tsv", "--truth", FOLDER / "truth.tsv", "--train", FOLDER / "train.tsv"]
WORDS += ["--convention", "annif", "--missing-rows", "miss", "--bootstrap", "0"]


def as_json(capsys, *words):
    return json.loads(said(capsys, *words, "--json"))


def test_every_figure_equals_what_annif_printed_for_the_same_files(capsys):
    found = as_json(capsys, *WORDS, "--n-subjects", RECORDED["n_subjects"])["annif"]
    assert list(found) == list(RECORDED["figures"])
    assert found == pytest.approx(RECORDED["figures"], abs=2e-7)  # Annif's nDCG has float32


def test_figures_are_shown_by_annifs_names(capsys):
    shown = said(capsys, *WORDS)
    assert "Figures of annif eval, limit 10" in shown
    for name in ("Precision (doc avg)", "F1@5", "NDCG@10", "False negatives"):
        assert name in shown
    assert f"{RECORDED['figures']['F1@5']:.6f}" in shown


def test_the_limit_is_the_largest_cut_off_and_others_are_left_out(capsys):
    found = as_json(capsys, *WORDS, "-k", "3,5")["annif"]
    assert "Precision@1" not in found
    assert found["NDCG"] == found["NDCG@5"] == pytest.approx(RECORDED["figures"]["NDCG@5"], abs=2e-7)
    assert found["True positives"] < RECORDED["figures"]["True positives"]


def test_options_that_contradict_annif_are_refused(capsys):
    for words in (["--macro", "true"], ["--metrics", "P"], ["--empty-rows", "drop"]):
        assert "--convention annif chooses metrics and conventions" in refused(capsys, *WORDS, *words)
    assert "--n-subjects needs --convention annif" in refused(capsys, *WORDS[:6], "--n-subjects", 20)
    assert "a vocabulary of 3 subjects; there are 14 labels already" in refused(capsys, *WORDS, "--n-subjects", 3)


def test_figures_need_the_conventions_of_annif():
    ranking, Y = Ranking.sort(np.array([[0]]), np.array([[1.0]])), sp.csr_matrix(np.array([[1.0, 0]]))
    assert annif_figures(evaluate(ranking, Y, k=1, metrics=ANNIF_METRICS, conventions=ANNIF))["Precision@1"] == 1
    with pytest.raises(InputError, match="need an evaluation with its conventions"):
        annif_figures(evaluate(ranking, Y, k=1, metrics=ANNIF_METRICS))
