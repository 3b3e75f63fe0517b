"""`unmissed data stats`, `convert`, `verify` and `make`."""

import json

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import tree_bytes
from unmissed.data import load, make_recommendations, open_store
from unmissed.propensity import FromTable


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("4 6 3\n0,1 0:0.5 5:1\n0 1:1\n 2:1\n0,1 3:2\n")
    return path


@pytest.fixture
def texts(tmp_path):
    rows = [("red apples and pears", ["fruit"]), ("red cars", ["car", "fruit"]), ("blue cars", ["car"])]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows))
    return path


def test_stats_prints_the_columns_of_the_papers_table(train, capsys):
    printed = said(capsys, "data", "stats", train)
    for part in ("Training", "Test", "Labels", "Features", "APpL", "ALpP", "2.50", "1.25", "exponent"):
        assert part in printed
    assert "labels without training positives: 1" in printed
    assert "training rows without labels: 1" in printed


def test_stats_with_test_sets_counts_each_and_all_together(train, capsys):
    printed = said(capsys, "data", "stats", train, "--test", train, "--test", train)
    assert "together" in printed
    assert "12" in printed  # rows of the three
    figures = json.loads(said(capsys, "data", "stats", train, "--test", train, "--json"))
    assert figures["n_features"] == 6
    assert figures["train"]["n_samples"] == 4
    assert figures["train"]["points_per_label"] == 2.5
    assert figures["train"]["power_law"]["exponent"] == pytest.approx(np.log2(3 / 2))
    assert figures["together"]["n_assignments"] == 10
    assert len(figures["tests"]) == 1


def test_stats_of_texts_counts_terms_by_default(texts, capsys):
    assert json.loads(said(capsys, "data", "stats", texts, "--json"))["n_features"] == 6
    assert json.loads(said(capsys, "data", "stats", texts, "--min-df", 2, "--json"))["n_features"] == 2
    assert json.loads(said(capsys, "data", "stats", texts, "--ngrams", 2, "--json"))["n_features"] == 11
    assert json.loads(said(capsys, "data", "stats", texts, "--labels-only", "--json"))["n_features"] is None


def test_stats_draws_the_label_frequencies(train, tmp_path, capsys):
    said(capsys, "data", "stats", train, "--figure", tmp_path / "labels.png")
    assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")
    assert "unknown kind of picture" in refused(capsys, "data", "stats", train, "--figure", tmp_path / "labels.gif7")


def test_stats_refuses_a_bad_line_with_its_number(tmp_path, capsys):
    path = tmp_path / "bad.txt"
    path.write_text("1 2 2\n0 0:1 7:1\n")
    assert f"{path}:2:7: feature 7 is out of range" in refused(capsys, "data", "stats", path)
    assert "no such file" in refused(capsys, "data", "stats", tmp_path / "none.txt")


def test_every_form_converts_into_every_other(train, tmp_path, capsys):
    source = load(train)
    pair = f"{tmp_path}/X.npz,{tmp_path}/Y.npz"
    for begin, end in ((train, tmp_path / "store"), (tmp_path / "store", pair), (pair, tmp_path / "again.txt.xz")):
        metadata = json.loads(said(capsys, "data", "convert", begin, end, "--json"))
        assert metadata["digest"] == source.digest
        assert load(end).digest == source.digest


def test_convert_reads_headerless_and_one_based_text(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("1 2:1\n")
    assert "1 rows, 2 features, 1 labels" in said(
        capsys, "data", "convert", tmp_path / "a.txt", tmp_path / "store", "--no-header", "--one-based"
    )


def test_convert_gives_a_test_set_the_columns_of_its_training_set(texts, tmp_path, capsys):
    said(capsys, "data", "convert", texts, tmp_path / "train", "--smooth-idf", "--max-features", 4)
    (tmp_path / "test.jsonl").write_text('{"text": "blue apples", "labels": ["car", "new", "newer"]}\n')
    printed = said(capsys, "data", "convert", tmp_path / "test.jsonl", tmp_path / "test", "--like", tmp_path / "train")
    assert "2 assignments of unknown labels dropped" in printed
    test, train = open_store(tmp_path / "test"), open_store(tmp_path / "train")
    assert test.label_names == train.label_names == ["car", "fruit"]
    assert test.X.shape == (1, 4)
    assert train.text is not None
    assert train.text.smooth


def test_convert_refuses_what_it_cannot_write(train, tmp_path, capsys):
    assert "exists already" in refused(capsys, "data", "convert", train, train)
    assert "cannot write .csv" in refused(capsys, "data", "convert", train, tmp_path / "a.csv")
    assert "exists already" in refused(capsys, "data", "convert", train, tmp_path)


@pytest.mark.parametrize("form", [[], ["--xmc"]])
def test_make_writes_observed_and_complete_labels(tmp_path, capsys, form):
    size = ["--train", 400, "--test", 100, "--labels", 30, "--features", 200]
    said(capsys, "data", "make", tmp_path / "one", *size, "--propensity", "jain", *form)
    suffix = ".txt" if form else ""
    observed, complete = load(tmp_path / "one" / f"train{suffix}"), load(tmp_path / "one" / f"train-complete{suffix}")
    assert complete.X.shape == (400, 200)
    assert (observed.X != complete.X).nnz == 0
    assert 0 < observed.Y.nnz < complete.Y.nnz
    assert (observed.Y > complete.Y).nnz == 0  # only true labels are observed
    p = FromTable(tmp_path / "one" / "propensities.txt").values
    assert p.size == 30
    kept = observed.label_counts.sum() / complete.label_counts.sum()
    assert kept == pytest.approx((p * complete.label_counts).sum() / complete.label_counts.sum(), abs=0.1)
    assert load(tmp_path / "one" / f"test{suffix}").Y.nnz <= load(tmp_path / "one" / f"test-complete{suffix}").Y.nnz


def test_make_is_repeatable_by_its_seed(tmp_path, capsys):
    size = ["--train", 50, "--test", 10, "--labels", 10, "--features", 50, "--seed", 5]
    said(capsys, "data", "make", tmp_path / "one", *size)
    metadata = json.loads(said(capsys, "data", "make", tmp_path / "two", *size, "--json"))
    assert 0 < metadata["kept"]["train"] < 1
    for name in ("train", "test", "train-complete", "test-complete"):
        assert load(tmp_path / "one" / name).digest == load(tmp_path / "two" / name).digest


def test_make_generates_users_and_items(tmp_path, capsys):
    size = ["--train", 90, "--test", 10, "--labels", 40, "--exponent", 0]
    said(capsys, "data", "make", tmp_path / "shop", "--kind", "recommendation", *size)
    made = make_recommendations(90, 10, 40, labels_per_row=3.0, exponent=0.0, rng=0)
    assert load(tmp_path / "shop" / "train-complete").digest == made.train.digest
    assert load(tmp_path / "shop" / "test-complete").digest == made.test.digest
    options = ["--kind", "recommendation", "--features", 50]
    assert "use --labels" in refused(capsys, "data", "make", tmp_path / "other", *options)
    assert not (tmp_path / "other").exists()


def test_make_refuses_what_cannot_be_and_leaves_nothing(tmp_path, capsys):
    assert "exists already" in refused(capsys, "data", "make", tmp_path)
    refused(capsys, "data", "make", tmp_path / "new", "--propensity", "nonsense")
    refused(capsys, "data", "make", tmp_path / "new", "--train", 2)  # ln N < 1: the model has no propensities
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["stats", "convert", "make"])
def test_help_teaches_with_an_example(capsys, verb):
    assert "Example: unmissed data" in " ".join(said(capsys, "data", verb, "--help").split())


def test_verify_finds_a_flipped_byte_in_any_file_of_a_store(texts, tmp_path, capsys):
    said(capsys, "data", "convert", texts, tmp_path / "store")
    assert "every file matches its checksum" in said(capsys, "data", "verify", tmp_path / "store")
    assert json.loads(said(capsys, "data", "verify", tmp_path / "store", "--json"))["verified"] is True
    for file in sorted((tmp_path / "store").iterdir()):
        content = file.read_bytes()
        position = content.index(b'"n_samples"') + 3 if file.suffix == ".json" else len(content) - 1
        file.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        assert file.name in refused(capsys, "data", "verify", tmp_path / "store")
        file.write_bytes(content)


def test_a_path_that_looks_like_a_formula_is_drawn_as_text(train, tmp_path, capsys):
    folder = tmp_path / "$\\frac$"
    folder.mkdir()
    (folder / "train.txt").write_bytes(train.read_bytes())
    said(capsys, "data", "stats", folder / "train.txt", "--figure", tmp_path / "labels.png")


@pytest.mark.parametrize("option", [["--labels-per-row", "1e308"], ["--train", str(10**30)], ["--labels", str(2**40)]])
def test_a_corpus_that_nothing_can_hold_is_refused(tmp_path, capsys, option):
    assert "at most" in refused(capsys, "data", "make", tmp_path / "corpus", *option)
    assert not (tmp_path / "corpus").exists()


def test_a_conversion_or_a_corpus_that_is_there_already_is_left_and_another_is_refused(texts, tmp_path, capsys):
    said(capsys, "data", "convert", texts, tmp_path / "store")
    pair = f"{tmp_path / 'X.npz'},{tmp_path / 'Y.npz'}"
    size = ["--train", 50, "--test", 10, "--labels", 10, "--features", 50]
    commands = [
        ["data", "convert", texts, tmp_path / "one.jsonl"],
        ["data", "convert", texts, tmp_path / "store"],
        ["data", "convert", tmp_path / "store", tmp_path / "train.txt.gz"],
        ["data", "convert", tmp_path / "store", pair],
        ["data", "make", tmp_path / "corpus", *size],
    ]
    for words in commands:
        first = said(capsys, *words)
        before = tree_bytes(tmp_path)
        assert said(capsys, *words) == first, "as after a kill that came too late"
        assert tree_bytes(tmp_path) == before
    (tmp_path / "Y.npz").unlink()  # a kill between the two files
    said(capsys, *commands[3])
    assert tree_bytes(tmp_path).keys() == before.keys()
    assert "exists already" in refused(capsys, *commands[-1], "--seed", 1)
    assert "exists already" in refused(capsys, *commands[1], "--smooth-idf")
    more = tmp_path / "more.jsonl"
    more.write_text('{"text": "other apples", "labels": ["car"]}\n')
    assert "exists already" in refused(capsys, "data", "convert", more, tmp_path / "one.jsonl")
    assert {name for name in tree_bytes(tmp_path) if name.endswith(".part")} == set()
