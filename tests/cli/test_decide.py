"""`unmissed predict --decide`: sets of labels from the probabilities of a calibrated run."""

import io
import json

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.calibration import DecisionRule, threshold_for_precision
from unmissed.cli.app import run as app_run
from unmissed.data import load, write_store
from unmissed.ranking import Ranking
from unmissed.runs import calibrate, train

TRAIN, TEST = small_corpus()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_store(TRAIN, folder / "train")
    train("dismec", load(folder / "train"), folder / "run", PARAMS)
    return calibrate(folder / "run")


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train("dismec", load(write_texts(folder / "train.jsonl")), folder / "run", PARAMS)
    return calibrate(folder / "run")


@pytest.fixture
def rows(tmp_path):
    write_store(TEST, tmp_path / "test")
    return tmp_path / "test"


@pytest.mark.parametrize("rule", ["top 2", "p>=0.3", "f1", "macro-f1@2", "coverage@2"])
def test_it_writes_the_labels_that_the_rule_chooses_among_the_50_best(rule, run, rows, tmp_path, capsys):
    said(capsys, "predict", run.folder, rows, "--decide", rule, "--out", tmp_path / "best")
    ranking = run.rank(TEST.X, min(50, run.n_labels))
    expected = DecisionRule.parse(rule).decide(ranking)
    found = Ranking.load(tmp_path / "best.npz")
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    assert (found.labels >= 0).any()
    lines = (tmp_path / "best.tsv").read_text().splitlines()
    assert lines[0] == "row\trank\tlabel\tscore\tprobability"
    assert len(lines) == 1 + (expected.labels >= 0).sum()


def test_a_precision_takes_the_threshold_of_ranked_held_out_cells(run, rows, tmp_path, capsys):
    cells = run.held_out_cells()
    cells = cells.select(cells.ranks >= 0)
    p = run.model.calibration_.probability(cells.labels, cells.scores, cells.ranks)
    expected = threshold_for_precision(p, cells.observed, 0.3, groups=cells.groups)
    assert np.isfinite(expected.threshold)
    words = ["--decide", "precision >= 0.3", "--out", tmp_path / "best.npz"]
    with pytest.raises(SystemExit):
        app_run([str(word) for word in ("predict", run.folder, rows, *words)])
    note = capsys.readouterr().err
    assert f"precision>=0.3: labels with a probability of at least {expected.threshold:.4g}; on held-out" in note
    found = Ranking.load(tmp_path / "best.npz")
    ranking = run.rank(TEST.X, min(50, run.n_labels))
    assert (found.labels >= 0).sum() == (ranking.probabilities >= expected.threshold).sum()
    assert "no threshold keeps this precision on" in refused(
        capsys, "predict", run.folder, rows, "--decide", "precision>=0.9999"
    )


@pytest.mark.parametrize("rule", ["p>=0.2", "macro-f1@1"])
def test_lines_of_standard_input_are_decided_like_a_file(rule, text_run, tmp_path, capsys, monkeypatch):
    texts = ["cod and net", "judge and court", "net net"]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    table = said(capsys, "predict", text_run.folder, tmp_path / "rows.jsonl", "--decide", rule)
    stdin = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert said(capsys, "predict", text_run.folder, "-", "--decide", rule) == table
    assert len(table.splitlines()) > 1


def test_a_decided_set_is_evaluated_by_its_f1(run, rows, tmp_path, capsys):
    said(capsys, "predict", run.folder, rows, "--decide", "f1", "--out", tmp_path / "best")
    width = Ranking.load(tmp_path / "best.npz").k
    words = ["--truth", rows, "--train", run.folder, "-k", width, "--metrics", "sample F1", "--bootstrap", 0]
    result = json.loads(said(capsys, "evaluate", tmp_path / "best.npz", *words, "--json"))
    listed = np.zeros(TEST.Y.shape, dtype=bool)
    for row, labels in enumerate(Ranking.load(tmp_path / "best.npz").labels):
        listed[row, labels[labels >= 0]] = True
    true = TEST.Y.toarray() > 0
    expected = np.mean(2 * (listed & true).sum(axis=1) / np.maximum(listed.sum(axis=1) + true.sum(axis=1), 1))
    assert result["figures"][f"sample F1@{width}"]["value"] == pytest.approx(expected)


def test_what_cannot_be_decided_is_refused(run, rows, tmp_path, capsys):
    plain = train("popularity", TRAIN, tmp_path / "plain")
    message = refused(capsys, "predict", plain.folder, rows, "--decide", "f1")
    assert f"`unmissed calibrate {tmp_path / 'plain'}`" in message
    assert "expected one of: top 5, p>=0.5" in refused(capsys, "predict", run.folder, rows, "--decide", "best")
    for more in (["--top", 3], ["--threshold", 0.5]):
        words = ["predict", run.folder, rows, "--decide", "f1", *more]
        assert "leave out --top and --threshold" in refused(capsys, *words)
