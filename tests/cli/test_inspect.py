"""`unmissed inspect`."""

import json

import numpy as np
import pytest
from scipy import sparse

from tests.cli.speaking import refused, said
from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.data import load
from unmissed.runs import train

TRAIN, _ = small_corpus()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train("pw-dismec", TRAIN, tmp_path_factory.mktemp("runs") / "run", PARAMS)


def test_it_shows_method_labels_certificates_and_size(run, capsys):
    output = said(capsys, "inspect", run.folder)
    for part in (
        "pw-dismec",
        "weighting",
        "tail",
        "40 of 40 labels",
        "Largest duality gaps",
        "kB in 3 pieces",
        "300 rows",
    ):
        assert part in output


def test_json_has_the_summary(run, capsys):
    metadata = json.loads(said(capsys, "inspect", run.folder, "--json", "--verify"))
    assert metadata["n_labels"] == 40
    assert metadata["verified"] is True
    assert metadata["certificate"]["met"] == 40
    assert len(metadata["certificate"]["worst"]) == 5
    assert metadata["certificate"]["worst"][0]["gap"] <= 1e-3
    assert metadata["model"]["weights"] == sum(shard.weights.size for shard in run.model.shards_)
    assert metadata["bytes"] > 4 * metadata["model"]["weights"]


def test_labels_that_missed_the_tolerance_are_named(tmp_path, capsys):
    train("dismec", TRAIN, tmp_path / "run", {**PARAMS, "tol": 1e-6, "max_rounds": 1})
    metadata = json.loads(said(capsys, "inspect", tmp_path / "run", "--json"))
    solved = metadata["certificate"]
    assert solved["missed"] > 0
    assert solved["met"] + solved["missed"] == 40
    assert set(solved["missed_names"]) <= set(TRAIN.label_names)
    assert solved["missed_names"][0] in said(capsys, "inspect", tmp_path / "run")


def test_the_strongest_features_of_a_label_are_named(tmp_path, capsys):
    train("dismec", load(write_texts(tmp_path / "train.jsonl")), tmp_path / "run", PARAMS)
    metadata = json.loads(said(capsys, "inspect", tmp_path / "run", "--label", "fish", "--top", 3, "--json"))
    assert {feature["name"] for feature in metadata["features"]} == {"cod", "net", "quota"}
    sizes = [abs(feature["weight"]) for feature in metadata["features"]]
    assert sizes == sorted(sizes, reverse=True)
    assert "cod" in said(capsys, "inspect", tmp_path / "run", "--label", "0")


def test_strongest_features_are_those_of_the_label_in_its_shard(run, capsys):
    metadata = json.loads(said(capsys, "inspect", run.folder, "--label", 20, "--top", 5, "--json"))
    one_word = sparse.identity(400, format="csr", dtype=np.float32)
    weights = run.model.decision_function(one_word, [20])[:, 0] - metadata["constant"]
    assert [feature["number"] for feature in metadata["features"]] == np.argsort(-np.abs(weights))[:5].tolist()
    for feature in metadata["features"]:
        assert feature["weight"] == pytest.approx(weights[feature["number"]], abs=1e-5)


def test_an_unknown_label_is_one_line(run, capsys):
    assert "has no label 'nothing'" in refused(capsys, "inspect", run.folder, "--label", "nothing")


def test_damage_is_found_by_verify(tmp_path, capsys):
    train("popularity", TRAIN, tmp_path / "run")
    path = tmp_path / "run" / "labels" / "00000000" / "counts.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes(8))
    said(capsys, "inspect", tmp_path / "run")
    assert "checksum" in refused(capsys, "inspect", tmp_path / "run", "--verify")
