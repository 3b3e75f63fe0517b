"""`unmissed evaluate` of rankings with probabilities: errors, noise floor, deciles, reliability diagram."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cli.speaking import refused, said
from unmissed.data import Dataset, write_xmc
from unmissed.metrics.calibration_error import ErrorSettings, probability_errors
from unmissed.metrics.summary import summarize_probabilities
from unmissed.ranking import Ranking
from unmissed.settings import SETTINGS

N, L, K = 300, 12, 6


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Write a truth whose labels are drawn from a ranking's probabilities; return folder, ranking, truth, counts."""
    folder = tmp_path_factory.mktemp("case")
    rng = np.random.default_rng(0)
    labels = np.stack([rng.choice(L, K, replace=False) for _ in range(N)]).astype(np.int32)
    p = -np.sort(-rng.random((N, K)), axis=1).astype(np.float32)
    dense = np.zeros((N, L), np.float32)
    np.put_along_axis(dense, labels, (rng.random((N, K)) < p).astype(np.float32), 1)
    Y_train = sp.csr_matrix((rng.random((200, L)) < 1 / np.arange(2, L + 2)).astype(np.float32))
    for name, Y in (("train", Y_train), ("test", sp.csr_matrix(dense))):
        write_xmc(Dataset(sp.csr_matrix(np.ones((Y.shape[0], 2), np.float32)), Y), folder / f"{name}.txt")
    ranking = Ranking(labels, p, probabilities=p)
    ranking.save(folder / "ranking.npz")
    Ranking(labels, p).save(folder / "scores.npz")
    return folder, ranking, sp.csr_matrix(dense), np.asarray(Y_train.sum(axis=0)).ravel()


def words(folder, name="ranking.npz", *more):
    return ["evaluate", folder / name, "--truth", folder / "test.txt", "--train", folder / "train.txt", *more]


def as_json(capsys, folder, *more, name="ranking.npz"):
    return json.loads(said(capsys, *words(folder, name, "--json", *more)))


def test_errors_are_those_of_the_library_with_deciles_at_the_largest_k(case, capsys, monkeypatch):
    folder, ranking, Y, counts = case
    settings = ErrorSettings(n_resamples=50, level=0.9, seed=3)
    cells = ranking.labels, ranking.probabilities, Y
    expected = probability_errors(*cells, (1, 5), settings=settings)
    expected += probability_errors(*cells, (5,), train_counts=counts, settings=settings)[1:]
    options = ["-k", "1,5", "--bootstrap", 50, "--level", 0.9, "--seed", 3]
    found = as_json(capsys, folder, *options)["probabilities"]
    assert found == json.loads(json.dumps(summarize_probabilities(expected)))
    assert [(one["k"], one["decile"]) for one in found[:2]] == [(1, None), (5, None)]
    assert all(one["decile"] is not None for one in found[2:])
    first = found[1]
    assert abs(first["ece"]["value"] - first["noise_floor"]) < 0.02  # the probabilities are right
    assert first["log_loss"]["low"] < first["log_loss"]["value"] < first["log_loss"]["high"]
    monkeypatch.setattr("unmissed.runs.measurement.SETTINGS", replace(SETTINGS, evaluated_rows=70))
    assert as_json(capsys, folder, *options)["probabilities"] == found  # whatever the block of rows


def test_tables_show_errors_and_noise_floors(case, capsys):
    out = said(capsys, *words(case[0], "ranking.npz", "--bootstrap", 20))
    for text in ("probabilities that suggested labels are observed", "ECE, noise floor", "Brier score", "log loss"):
        assert text in out
    assert "Errors of the probabilities @5 by label frequency in training" in out


def test_without_resamples_there_are_no_intervals(case, capsys):
    result = as_json(capsys, case[0], "--bootstrap", 0)
    assert result["probabilities"][0]["ece"].keys() == {"value"}
    assert result["probabilities"][0]["noise_floor"] > 0


def test_filtered_pairs_do_not_count(case, capsys, tmp_path):
    folder, ranking, _, _ = case
    (tmp_path / "pairs.txt").write_text(f"0 {ranking.labels[0, 0]}\n7 {ranking.labels[7, 2]}\n")
    options = ["-k", "1,5", "--bootstrap", 0]
    found = as_json(capsys, folder, *options, "--filter", tmp_path / "pairs.txt")["probabilities"]
    plain = as_json(capsys, folder, *options)["probabilities"]
    assert found[0]["n_cells"] == plain[0]["n_cells"] == N  # the next label moves up
    changed = ranking.probabilities[0, 1] - ranking.probabilities[0, 0]
    means = [np.dot(one["curve"]["probability"], one["curve"]["n_cells"]) for one in (found[0], plain[0])]
    assert means[0] - means[1] == pytest.approx(changed, abs=1e-6)


def test_a_table_with_probabilities_gives_the_same_errors(case, capsys, tmp_path):
    folder, ranking, _, _ = case
    lines = ["row\trank\tlabel\tscore\tprobability"] + [
        f"{row}\t{rank + 1}\t{ranking.labels[row, rank]}\t{ranking.scores[row, rank]!r}\t{p!r}"
        for row in range(N)
        for rank, p in enumerate(ranking.probabilities[row].tolist())
    ]
    (folder / "ranking.tsv").write_text("\n".join(lines).replace("np.float32(", "").replace(")", ""))
    options = ["--bootstrap", 0]
    table, arrays = (as_json(capsys, folder, *options, name=f"ranking{suffix}") for suffix in (".tsv", ".npz"))
    assert table["probabilities"] == arrays["probabilities"]


def test_a_ranking_without_probabilities_has_no_errors(case, capsys, tmp_path):
    assert as_json(capsys, case[0], "--bootstrap", 0, name="scores.npz")["probabilities"] is None
    figure = ["--figure", tmp_path / "one.svg"]
    assert "has no probabilities to draw" in refused(capsys, *words(case[0], "scores.npz", *figure))
    assert "expected a name that ends in .svg" in refused(capsys, *words(case[0], "ranking.npz", "--figure", "one.txt"))


def test_the_reliability_diagram_is_written_reproducibly(case, capsys, tmp_path):
    for name in ("one.svg", "two.svg", "three.png"):
        said(capsys, *words(case[0], "ranking.npz", "--bootstrap", 0, "--figure", tmp_path / name))
    ElementTree.parse(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "three.png").read_bytes()[1:4] == b"PNG"
