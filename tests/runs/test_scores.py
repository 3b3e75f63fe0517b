"""Files of other systems' scores, and our own tables: the same ranking from each, and one line for what is wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed.data import Dataset, write_xmc
from unmissed.errors import InputError
from unmissed.metrics import Conventions
from unmissed.propensity import Constant, FromTable, Jain
from unmissed.ranking import Ranking
from unmissed.runs.measurement import Measuring, evaluate_ranking
from unmissed.runs.scores import Wanted, read_ranking

NAMES = [f"label {number}" for number in range(9)]
WANTED = Wanted(30, 9, NAMES)


def score_matrix(seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-20, 20, size=(30, 9)) / 8.0
    scores[rng.random(scores.shape) < 0.4] = -np.inf  # no candidates
    return scores


def as_sparse(scores):
    rows, labels = np.nonzero(scores > -np.inf)
    return sp.csr_matrix((scores[rows, labels], (rows, labels)), shape=scores.shape)  # a score of 0 stays stored


def score_text(scores, header=True, base=0):
    lines = [f"{len(scores)} {scores.shape[1]}"] if header else []
    for row in scores:
        order = np.random.default_rng(1).permutation(len(row))
        lines.append(" ".join(f"{label + base}:{row[label]}" for label in order if row[label] > -np.inf))
    return "\n".join(lines) + "\n"


def table(ranking, names=NAMES):
    lines = ["row\trank\tlabel\tname\tscore"]
    for row, (labels, scores) in enumerate(zip(ranking.labels.tolist(), ranking.scores.tolist(), strict=True)):
        for rank, (label, score) in enumerate(zip(labels, scores, strict=True), start=1):
            if label >= 0:
                lines.append(f"{row}\t{rank}\t{names[label]}\ttitle\t{score:.6g}")
    return "\n".join(lines) + "\n"


def written(folder, form, scores):
    path = folder / f"scores.{form}"
    if form == "npz":
        sp.save_npz(path, as_sparse(scores))
    elif form == "coo.npz":
        sp.save_npz(path, sp.coo_array(as_sparse(scores)))
    elif form == "npy":
        np.save(path, scores)
    elif form == "txt":
        path.write_text(score_text(scores))
    elif form == "txt.gz":
        path.write_bytes(gzip.compress(score_text(scores).encode()))
    elif form == "tsv":
        path.write_text(table(Ranking.from_scores(scores, 9)))
    else:
        Ranking.from_scores(scores, 9).save(path)
    return path


@pytest.mark.parametrize("form", ["npz", "coo.npz", "npy", "txt", "txt.gz", "tsv", "ranking.npz"])
def test_every_form_of_the_same_scores_is_the_same_ranking(tmp_path, form):
    scores = score_matrix()
    found, missing = read_ranking(written(tmp_path, form, scores), WANTED, 4)
    assert not missing.size
    for row, labels in enumerate(found.labels[:, :4].tolist()):
        best = sorted(
            (label for label in range(9) if scores[row, label] > -np.inf), key=lambda at: (-scores[row, at], at)
        )
        assert labels == (best + [-1] * 4)[:4]
        np.testing.assert_allclose([s for s in found.scores[row, :4] if s > -np.inf], scores[row, best[:4]], rtol=1e-6)


def test_score_text_may_have_no_header_and_begin_with_one(tmp_path):
    scores = score_matrix()
    path = tmp_path / "scores.txt"
    path.write_text(score_text(scores, header=False, base=1))
    found = read_ranking(path, WANTED, 4, header=False, one_based=True).ranking
    np.testing.assert_array_equal(found.labels, Ranking.from_scores(scores, 4).labels)


def test_a_table_keeps_its_order_where_its_rounded_scores_tie(tmp_path):
    fine = Ranking.sort([[2, 0, 1]], [[1.0000003, 1.0000001, 1.0]])
    path = tmp_path / "r.tsv"
    path.write_text(table(fine))
    found = read_ranking(path, Wanted(1, 9, NAMES), 3).ranking
    assert found.labels.tolist() == fine.labels.tolist() == [[2, 0, 1]]


def test_a_table_of_numbers_serves_where_labels_have_no_names(tmp_path):
    ranking = Ranking.from_scores(score_matrix(), 3)
    path = tmp_path / "r.tsv"
    path.write_text(table(ranking, names=[str(label) for label in range(9)]))
    np.testing.assert_array_equal(read_ranking(path, Wanted(30, 9, None), 3).ranking.labels, ranking.labels)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.txt", "2 9\n0:1 1:2\n", r"s.txt:1: says 2 rows and 9 labels; there are 1 rows"),
        ("s.txt", "1 8\n0:1 1:2\n", r"s.txt:1: says 1 rows and 8 labels; .* the truth has 9 labels"),
        ("s.txt", "0:1 1:2\n", r"s.txt:1: expected the numbers of rows and labels, found '0:1 1:2'"),
        ("s.txt", "1 9\n0:1 x:2\n", r"s.txt:2: expected label:score, found 'x:2'"),
        ("s.txt", "1 9\n0:1 3\n", r"s.txt:2: expected label:score, found '3'"),
        ("s.txt", "1 9\n0:1 9:2\n", r"s.txt:2: label 9; the truth has 9 labels"),
        ("s.txt", "1 9\n0:1 -1:2\n", r"s.txt:2: label -1; the truth has 9 labels"),
        ("s.txt", "1 9\n0:1 0:2\n", r"s.txt: row 0 scores label 0 twice"),
        ("s.txt", "1 9\n0:nan\n", r"s.txt: row 0 has a score that is not a number"),
        ("s.tsv", "row\tlabel\n", r"s.tsv:1: expected the columns row, rank, label and score"),
        ("s.tsv", "row\trank\tlabel\tscore\n0\t1\tlabel 0\n", r"s.tsv:2: expected row, rank, label and score"),
        ("s.tsv", "row\trank\tlabel\tscore\n0\t1\tnobody\t1\n", r"s.tsv:2: row 0, rank 1, label 'nobody'"),
        (
            "s.tsv",
            "row\trank\tlabel\tscore\n1\t1\tlabel 0\t1\n",
            r"s.tsv:2: .* not have 1 of the rows \(it has rows 0 to 0\)",
        ),
        ("s.tsv", "row\trank\tlabel\tscore\n0\t0\tlabel 0\t1\n", r"s.tsv:2: row 0, rank 0"),
        ("s.tsv", "row\trank\tlabel\tscore\n0\t99\tlabel 0\t1\n", r"s.tsv: has rank 99, and there are 9 labels"),
        ("s.tsv", "row\trank\tlabel\tscore\n0\t2\tlabel 0\t1\n", r"s.tsv: row 0 of the ranking is not in order"),
        (
            "s.tsv",
            "row\trank\tlabel\tscore\n0\t1\tlabel 0\t1\n0\t1\tlabel 1\t1\n",
            r"s.tsv: row 0 has rank 1 twice",
        ),
        (
            "s.tsv",
            "row\trank\tlabel\tscore\n0\t1\tlabel 0\t1\n0\t2\tlabel 1\t2\n",
            r"s.tsv: row 0 of the ranking is not in order",
        ),
        ("s.npy", "no array", r"s.npy: not a matrix of scores"),
        ("s.npz", "no archive", r"s.npz: not a ranking file"),
        ("s.docx", "0,1\n", r"s.docx: cannot tell the format by the name; expected a ranking or a scipy sparse matrix"),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as refused:
        read_ranking(tmp_path / name, Wanted(1, 9, NAMES), 2)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["none.npz", "none.npy", "none.txt", "none.tsv", "none.csv"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read_ranking(tmp_path / name, WANTED, 2)


@pytest.mark.parametrize("shape", [(29, 9), (30, 8)])
def test_scores_of_another_shape_are_refused(tmp_path, shape):
    np.save(tmp_path / "s.npy", np.zeros(shape))
    sp.save_npz(tmp_path / "s.npz", sp.csr_matrix(shape))
    for name in ("s.npy", "s.npz"):
        with pytest.raises(
            InputError, match=rf"{name}: scores of shape \({shape[0]}, {shape[1]}\); expected 30 rows and 9"
        ):
            read_ranking(tmp_path / name, WANTED, 2)


@pytest.fixture
def sets(tmp_path):
    """Write a training set and a truth whose labels have names, and a ranking of these labels."""
    rng = np.random.default_rng(2)
    X = sp.csr_matrix(np.ones((30, 2), dtype=np.float32))
    for name, names in (("train", NAMES), ("other", NAMES[::-1])):
        (tmp_path / name).mkdir()
        Y = (rng.random((30, 9)) < 0.3).astype(np.float32)
        write_xmc(Dataset(X, Y, label_names=names), tmp_path / name / "rows.txt")
    return tmp_path, tmp_path / "train" / "rows.txt", tmp_path / "other" / "rows.txt"


def test_scores_are_evaluated_and_compared_like_a_ranking_whatever_their_form(sets):
    folder, train, _ = sets
    quick = Measuring((1, 3), n_resamples=20)
    ours = Ranking.from_scores(score_matrix(1), 5).save(folder / "ours.npz")
    figures = []
    for form in ("npz", "npy", "txt", "tsv", "ranking.npz"):
        path = written(folder, form, score_matrix())
        found = evaluate_ranking(path, train, train, quick, against=ours)
        figures.append((found["figures"], found["differences"]))
    assert all(each == figures[0] for each in figures)


def test_filtered_pairs_are_replaced_by_lower_ranked_labels(sets):
    folder, train, _ = sets
    scores = score_matrix()
    best = Ranking.from_scores(scores, 2).labels
    (folder / "pairs.txt").write_text("".join(f"{row} {a}\n{row} {b}\n" for row, (a, b) in enumerate(best) if b >= 0))
    measuring = Measuring((1, 3), filtered=folder / "pairs.txt", n_resamples=0)
    deep = Ranking.from_scores(scores, 9).save(folder / "deep.npz")
    found = evaluate_ranking(written(folder, "npy", scores), train, train, measuring)
    assert found["figures"] == evaluate_ranking(deep, train, train, measuring)["figures"]


def test_a_ranking_of_other_labels_is_refused_and_further_labels_do_not_matter(sets):
    folder, train, other = sets
    ranking = Ranking.from_scores(score_matrix(), 3)
    mine = ranking.of_names(NAMES).save(folder / "mine.npz")
    early = Ranking.sort(np.zeros((30, 1), int), np.ones((30, 1))).of_names(NAMES[:4]).save(folder / "early.npz")
    quick = Measuring((1,), n_resamples=0)
    assert evaluate_ranking(mine, train, train, quick)["figures"]
    assert evaluate_ranking(early, train, train, quick)["figures"]
    with pytest.raises(InputError, match=r"9 labels that are not those of .*rows.txt: other names, or another order"):
        evaluate_ranking(mine, other, other, quick)
    with pytest.raises(InputError, match="10 labels that are not those of"):
        evaluate_ranking(ranking.of_names([*NAMES, "new"]).save(folder / "later.npz"), train, train, quick)


def test_a_table_of_propensities_needs_no_training_set_and_is_named(sets):
    folder, train, _ = sets
    ranking = Ranking.from_scores(score_matrix(), 3).of_names(NAMES).save(folder / "r.npz")
    p = np.linspace(0.2, 1, 9)
    np.savetxt(folder / "p.txt", p)
    table = Measuring((1, 3), FromTable(folder / "p.txt"), n_resamples=0)
    without = evaluate_ranking(ranking, train, None, table)
    with_train = evaluate_ranking(ranking, train, train, table)
    assert without["figures"] == with_train["figures"]
    assert (without["train"], without["deciles"], without["unseen"]) == (None, [], None)
    assert (
        without["inverse_propensities_from"] == with_train["inverse_propensities_from"] == f"table {folder / 'p.txt'}"
    )
    assert evaluate_ranking(ranking, train, None, Measuring((1,), FromTable(p), n_resamples=0))
    constant = evaluate_ranking(ranking, train, None, Measuring((1, 3), Constant(0.5), n_resamples=0))
    assert constant["inverse_propensities_from"] == "constant"


def test_what_needs_the_training_set_says_so(sets):
    folder, train, other = sets
    ranking = Ranking.from_scores(score_matrix(), 3).save(folder / "r.npz")
    with pytest.raises(InputError, match="counts of the training set"):
        evaluate_ranking(ranking, train, None, Measuring((1,), Jain()))
    drop = Conventions(unseen_labels="drop")
    with pytest.raises(InputError, match="train_counts"):
        evaluate_ranking(ranking, train, None, Measuring((1,), Constant(0.5), drop))
    with pytest.raises(InputError, match="4"):
        evaluate_ranking(ranking, train, None, Measuring((1,), FromTable(np.full(4, 0.5))))
    lines = Path(folder / "truth.jsonl")
    lines.write_text('{"text": "a", "labels": ["b"]}\n')
    with pytest.raises(InputError, match=r"truth.jsonl: labels of texts have no numbers of their own"):
        evaluate_ranking(ranking, lines, None, Measuring((1,), Constant(0.5)))
    named = Ranking.from_scores(score_matrix(), 3).of_names(NAMES).save(folder / "named.npz")
    with pytest.raises(InputError, match="not those of"):
        evaluate_ranking(named, other, None, Measuring((1,), Constant(0.5)))
