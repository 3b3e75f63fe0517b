import json
import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.cli.app import run
from unmissed.cli.evaluate import VariantName
from unmissed.data import Dataset, write_xmc
from unmissed.metrics import AUTHORS, DISMECPP, PYXCLIB, Conventions, evaluate
from unmissed.metrics.conventions import Variant as LibraryVariant
from unmissed.propensity import Constant, Jain
from unmissed.ranking import Ranking


def marks(n_samples, n_labels, seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((n_samples, n_labels)) < 1 / np.arange(2, n_labels + 2)
    return sp.csr_matrix(dense.astype(np.float32))


@pytest.fixture
def case(tmp_path):
    """Write a training set, a truth and two rankings; return the folder and what they hold."""
    Y_train, Y = marks(80, 20, 0), marks(40, 20, 1)
    X = sp.csr_matrix(np.ones((80, 2), dtype=np.float32))
    write_xmc(Dataset(X, Y_train), tmp_path / "train.txt")
    write_xmc(Dataset(X[:40], Y), tmp_path / "test.txt")
    rng = np.random.default_rng(2)
    rankings = []
    for name, skill in (("good", 2.0), ("poor", 0.3)):
        scores = rng.random(Y.shape) + skill * Y.toarray() - 0.5
        top = np.argsort(-scores, axis=1)[:, :6]
        rankings.append(Ranking.sort(top, np.take_along_axis(scores, top, 1)))
        rankings[-1].save(tmp_path / f"{name}.npz")
    return tmp_path, Y_train, Y, rankings


def command(folder, *words, ranking="good.npz"):
    base = [
        "evaluate",
        str(folder / ranking),
        "--truth",
        str(folder / "test.txt"),
        "--train",
        str(folder / "train.txt"),
    ]
    with pytest.raises(SystemExit) as ended:
        run([*base, *words])
    return ended.value.code


def as_json(capsys, folder, *words):
    assert command(folder, "--json", *words) == 0
    return json.loads(capsys.readouterr().out)


def direct(case, convention=PYXCLIB, model=Jain(), k=(1, 3, 5)):  # noqa: B008, a frozen value
    _, Y_train, Y, rankings = case
    counts = np.asarray(Y_train.sum(axis=0)).ravel()
    inverse = 1 / model.estimate(counts, Y_train.shape[0])
    return evaluate(rankings[0], Y, inverse, k, train_counts=counts, conventions=convention)


def test_the_result_is_what_the_library_computes_from_the_training_counts(case, capsys):
    result = as_json(capsys, case[0])
    found = direct(case)
    assert {name: entry["value"] for name, entry in result["figures"].items()} == pytest.approx(found.figures)
    assert result["inverse_propensities_from"] == "training counts"
    assert result["propensity"] == {"model": "jain", "a": 0.55, "b": 1.5}
    assert result["conventions"] == PYXCLIB.describe()
    assert result["interval"] == {"level": 0.95, "resamples": 1000, "seed": 0}
    assert result["figures"]["PSP@3"]["low"] < found["PSP@3"] < result["figures"]["PSP@3"]["high"]
    assert {group["k"] for group in result["deciles"]} == {1, 3, 5}
    assert sum(group["psp_part"] for group in result["deciles"] if group["k"] == 5) == pytest.approx(found["PSP@5"])


def test_metrics_are_chosen_by_name(case, capsys):
    result = as_json(capsys, case[0], "--metrics", "MRR, macro F1", "-k", "1,3")
    assert list(result["figures"]) == ["MRR@1", "MRR@3", "macro F1@1", "macro F1@3"]
    assert all(entry.keys() == {"value", "low", "high"} for entry in result["figures"].values())
    assert command(case[0], "--metrics", "P,MRS") == 2
    assert "unknown metric 'MRS'; known metrics: P, nDCG, " in capsys.readouterr().err
    assert command(case[0], "--metrics", "MRR") == 0
    assert "MRR" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "convention"),
    [
        (["--rerank"], AUTHORS),
        (["--variant", "dismecpp", "--empty-rows", "drop"], Conventions(variant="dismecpp", empty_rows="drop")),
        (
            ["--variant", "row-ratios", "--unseen-labels", "drop"],
            replace(PYXCLIB, variant="row-ratios", unseen_labels="drop"),
        ),
        (["--variant", "fastxml", "--macro", "all"], replace(PYXCLIB, variant="fastxml", macro="all")),
        (["--variant", "raw"], replace(PYXCLIB, variant="raw")),
        (["--convention", "dismecpp"], DISMECPP),
        (["--convention", "dismecpp", "--macro", "true"], replace(DISMECPP, macro="true")),
        (["--convention", "authors", "--empty-rows", "drop"], replace(AUTHORS, empty_rows="drop")),
    ],
)
def test_options_choose_conventions_and_the_result_names_them(case, capsys, words, convention):
    result = as_json(capsys, case[0], *words, "--bootstrap", "0")
    assert result["conventions"] == convention.describe()
    assert result["interval"] is None
    figures = {name: entry["value"] for name, entry in result["figures"].items()}
    assert figures == pytest.approx(direct(case, convention).figures)


def test_cut_offs_and_propensities_are_options(case, capsys):
    result = as_json(capsys, case[0], "-k", "2,6", "--propensity", "constant:0.5", "--bootstrap", "0")
    figures = {name: entry["value"] for name, entry in result["figures"].items()}
    assert figures == pytest.approx(direct(case, model=Constant(0.5), k=(2, 6)).figures)


def test_filtered_pairs_come_from_a_file(case, capsys):
    folder, _, Y, rankings = case
    first = rankings[0].labels[:, 0]
    (folder / "pairs.txt").write_text("".join(f"{row} {label}\n" for row, label in enumerate(first)) + "\n")
    result = as_json(capsys, folder, "--filter", str(folder / "pairs.txt"), "-k", "1", "--bootstrap", "0")
    second = rankings[0].labels[:, 1]
    assert result["figures"]["P@1"]["value"] == pytest.approx(np.mean([Y[row, at] for row, at in enumerate(second)]))
    assert result["conventions"]["filtered"] == "ranking"


def test_a_second_ranking_is_compared_on_the_same_rows(case, capsys):
    result = as_json(capsys, case[0], "--against", str(case[0] / "poor.npz"), "--bootstrap", "200")
    difference = result["differences"]["P@3"]
    assert difference["value"] > 0
    assert difference["low"] <= difference["value"] <= difference["high"]
    assert difference["ahead"] > 0.9


def test_tables_say_percent_conventions_and_where_propensities_come_from(case, capsys):
    folder = case[0]
    assert command(folder, "--bootstrap", "50", "--against", str(folder / "poor.npz")) == 0
    out = capsys.readouterr().out
    value = f"{100 * direct(case)['PSnDCG@5']:.2f} ["
    assert value in out
    for words in (
        "macro F1",
        "part of PSP",
        "on the same rows",
        "inverse propensities from the training counts",
        "variant pyxclib",
        "rerank no",
        "effective sample size",
    ):
        assert words in out, words


def test_rankings_with_the_same_file_name_are_shown_with_their_folders(case, capsys):
    folder = case[0]
    for name in ("new", "old"):
        (folder / name).mkdir()
        case[3][0].save(folder / name / "ranking.npz")
    against = ["--against", str(folder / "old" / "ranking.npz"), "--bootstrap", "10"]
    assert command(folder, *against, ranking="new/ranking.npz") == 0
    assert "new/ranking.npz minus old/ranking.npz, paired on the same rows" in capsys.readouterr().out


def test_groups_of_labels_are_named_by_the_share_of_labels_that_they_cover(case, capsys):
    assert command(case[0], "--bootstrap", "0") == 0
    out = capsys.readouterr().out
    assert "rarest first" in out
    assert re.search(r"│ \d+ - 100 % +│", out)


def test_a_table_of_propensities_needs_no_training_set(case, capsys):
    folder = case[0]
    np.savetxt(folder / "p.txt", np.linspace(0.1, 1, 20))
    words = ["evaluate", str(folder / "good.npz"), "--truth", str(folder / "test.txt"), "--bootstrap", "0"]
    with pytest.raises(SystemExit) as ended:
        run([*words, "--propensity", f"table:{folder / 'p.txt'}"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert f"inverse propensities from the table {folder / 'p.txt'}." in out
    assert "rarest first" not in out
    with pytest.raises(SystemExit) as ended:
        run(words)
    assert ended.value.code == 2
    assert "name it (--train), or a table of propensities (--propensity table:FILE)" in capsys.readouterr().err
    np.savetxt(folder / "short.txt", np.linspace(0.1, 1, 19))
    with pytest.raises(SystemExit) as ended:
        run([*words, "--propensity", f"table:{folder / 'short.txt'}"])
    assert ended.value.code == 2
    assert "test.txt: has 20 labels; the table has 19 propensities" in capsys.readouterr().err


def test_marks_of_labels_unknown_to_training_are_counted_and_named(tmp_path, capsys):
    train = [{"text": "x", "labels": ["a"]}, {"text": "y", "labels": ["b"]}, {"text": "z", "labels": ["a"]}]
    test = [{"text": "x", "labels": ["a", "new"]}, {"text": "y", "labels": ["newer"]}]
    for name, rows in (("train", train), ("test", test)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Ranking.sort([[0], [1]], [[1.0], [1.0]]).save(tmp_path / "r.npz")
    with pytest.raises(SystemExit) as ended:
        run(["evaluate", str(tmp_path / "r.npz"), "--truth", str(tmp_path / "test.jsonl"), "--train",
             str(tmp_path / "train.jsonl"), "-k", "1", "--json"])  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert result["unseen"] == {"policy": "keep", "labels": 2, "assignments": 2, "rows": 2, "rows_without_others": 1}
    assert result["figures"]["P@1"]["value"] == 0.5
    assert result["figures"]["recall@1"]["value"] == 0.25


def test_variants_on_the_command_line_are_those_of_the_library():
    assert [variant.value for variant in VariantName] == list(get_args(LibraryVariant))


def test_a_truth_without_labels_gives_null_figures(case, capsys):
    folder, _, Y, _ = case
    write_xmc(
        Dataset(sp.csr_matrix((40, 2), dtype=np.float32), sp.csr_matrix(Y.shape, dtype=np.float32)), folder / "test.txt"
    )
    result = as_json(capsys, folder, "--bootstrap", "20")
    assert result["figures"]["PSP@1"] == {"value": None, "low": None, "high": None}
    assert result["figures"]["P@1"]["value"] == 0
    assert command(folder, "--bootstrap", "20") == 0
    assert "│ PSP             │ " in capsys.readouterr().out
    result = as_json(capsys, folder, "--empty-rows", "drop")
    assert result["n_samples"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-k", "7"], "k = 7 exceeds the ranking, which has 6 labels per row"),
        (["-k", "one"], "-k must be integers separated by commas"),
        (["--propensity", "jane"], "unknown propensity 'jane'"),
        (["--against", "poor.npz", "--bootstrap", "0"], "set --bootstrap above 0"),
        (["--filter", "none.txt"], "none.txt: no such file"),
        (["--level", "2"], "level between 0 and 1, not 1000 and 2.0"),
    ],
)
def test_bad_options_end_in_one_line_and_exit_code_two(case, capsys, words, message):
    assert command(case[0], *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_files_that_do_not_fit_end_in_one_line_and_exit_code_two(case, capsys):
    folder, rankings = case[0], case[3]
    rankings[0].top(5).save(folder / "fine.npz")
    Ranking(rankings[0].labels[:7], rankings[0].scores[:7]).save(folder / "short.npz")
    Ranking.sort(np.full((40, 1), 99), np.ones((40, 1))).save(folder / "high.npz")
    (folder / "text.npz").write_text("nothing")
    (folder / "huge.txt").write_text(f"0 {10**30}\n")
    (folder / "pairs.txt").write_text("0 1\n1 x\n")
    for ranking, words, message in [
        ("short.npz", [], "the ranking has 7 rows, the truth has 40"),
        ("high.npz", ["-k", "1"], "row 0 of the ranking lists label 99, the truth has only 20 labels"),
        ("text.npz", [], "not a ranking file"),
        ("none.npz", [], "none.npz: no such file"),
        ("fine.npz", ["--filter", str(folder / "huge.txt")], "huge.txt, line 1: a row and a label were expected"),
        ("fine.npz", ["--filter", str(folder / "pairs.txt")], "line 2: a row and a label were expected, found '1 x'"),
    ]:
        assert command(folder, *words, ranking=ranking) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
