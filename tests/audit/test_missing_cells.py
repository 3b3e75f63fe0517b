"""Missing labels: found, filtered, limited and explained; and refused where the training data changed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.corpora import PARAMS, small_corpus, write_texts
from unmissed.audit import UncheckedCells, find_missing, missing_probability, unchecked_cells
from unmissed.audit.missing_cells import _best
from unmissed.audit.training_documents import is_observed
from unmissed.audit.unchecked_cells import DEFAULT_PROPENSITY, missing_propensity
from unmissed.data import Dataset, load
from unmissed.errors import InputError
from unmissed.propensity import Constant, Jain, drop_labels
from unmissed.runs import calibrate, extend, open_run, train

COMPLETE, TEST = small_corpus(n_labels=12, n_train=120)
KEPT = 0.6
OBSERVED = Dataset(
    COMPLETE.X,
    drop_labels(COMPLETE.Y, KEPT, 0),
    label_names=COMPLETE.label_names,
    feature_names=COMPLETE.feature_names,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A calibrated run that was trained in memory, on labels of which 60 % are kept."""
    path = tmp_path_factory.mktemp("missing") / "run"
    train("dismec", OBSERVED, path, PARAMS)
    return calibrate(path, old_rows=[OBSERVED])


@pytest.fixture
def texts(tmp_path):
    """JSON lines with ids and titles in a folder of their own, a calibrated run, and its folder."""
    write_texts(tmp_path / "plain.jsonl")
    with open(tmp_path / "train.jsonl", "w") as stream:
        for at, line in enumerate((tmp_path / "plain.jsonl").read_text().splitlines()):
            stream.write(json.dumps({"id": f"doc {at}", **json.loads(line)}) + "\n")
    train("dismec", load(tmp_path / "train.jsonl"), tmp_path / "run", PARAMS)
    return calibrate(tmp_path / "run"), tmp_path


def cells_of(found):
    return list(zip(found.cells.rows.tolist(), found.cells.labels.tolist(), strict=True))


def test_all_cells_are_listed_by_falling_probability_and_dropped_labels_come_early(run):
    found = find_missing(run, propensity=KEPT)
    every = unchecked_cells(run, KEPT)
    assert len(found) == len(every) == found.n_candidates
    assert set(cells_of(found)) == set(zip(every.rows.tolist(), every.labels.tolist(), strict=True))
    assert (np.diff(found.cells.missing_probability) <= 0).all()
    assert not is_observed(OBSERVED.Y, found.cells.rows, found.cells.labels).any()
    true = is_observed(COMPLETE.Y, found.cells.rows, found.cells.labels)
    n_dropped = COMPLETE.Y.nnz - OBSERVED.Y.nnz
    assert true[:n_dropped].mean() > 3 * true.mean()
    assert found.summary()["n_scored_rows"] == found.summary()["n_samples"] == 120
    assert found.expected == pytest.approx(found.cells.missing_probability.sum())


def test_the_probability_is_bayes_rule(run):
    # P(true | not observed) = P(true and not observed) / P(not observed), and P(observed) = p P(true)
    found = find_missing(run, propensity=KEPT).cells
    true = found.observed_probability / KEPT
    expected = true * (1 - KEPT) / (1 - found.observed_probability)
    np.testing.assert_allclose(found.missing_probability, np.minimum(expected, 1), rtol=1e-12)
    np.testing.assert_array_equal(found.clipped, expected > 1)


def test_propensities_are_the_given_ones_those_of_training_or_assumed(run, tmp_path):
    assert missing_propensity(run) is DEFAULT_PROPENSITY
    assert missing_propensity(run, "jain") == Jain()
    for name, expected in (("jain", DEFAULT_PROPENSITY), ("constant:0.7", Constant(0.7))):
        path = tmp_path / name
        train("pw-dismec", OBSERVED, path, {**PARAMS, "propensity": name})
        assert missing_propensity(open_run(path)) == expected
    assert "assumed" in find_missing(run, top=1, words=0).summary()["propensity"]
    assert find_missing(run, top=1, words=0, propensity=0.7).summary()["propensity"].startswith("the propensity 0.7")


def test_certain_propensities_leave_nothing_missing():
    assert missing_probability([0.0, 0.3, 1.0], [1.0, 1.0, 1.0])[0].tolist()[:2] == [0, 0]


def test_top_is_a_prefix_and_filters_leave_cells_out(run):
    everything = find_missing(run)
    assert cells_of(find_missing(run, top=7)) == cells_of(everything)[:7]
    counts = run.label_counts
    middle = int(np.median(counts))
    rare = find_missing(run, max_count=middle)
    assert cells_of(rare) == [cell for cell in cells_of(everything) if counts[cell[1]] <= middle]
    frequent = find_missing(run, min_count=middle + 1)
    assert len(rare) + len(frequent) == len(everything)
    chosen = find_missing(run, labels=[run.label_names[3], 5])
    assert cells_of(chosen) == [cell for cell in cells_of(everything) if cell[1] in (3, 5)]
    likely = find_missing(run, least_probability=0.5)
    assert len(likely) == np.count_nonzero(everything.cells.missing_probability >= 0.5)
    with pytest.raises(InputError, match="no label 'nothing'"):
        find_missing(run, labels=["nothing"])
    with pytest.raises(InputError, match="per_row is 0"):
        find_missing(run, per_row=0)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)), unique_by=lambda cell: cell[:2]),
    st.integers(1, 8),
    st.none() | st.integers(1, 3),
    st.none() | st.integers(1, 3),
)
def test_limits_keep_what_a_loop_over_the_sorted_cells_keeps(cells, top, per_row, per_label):
    rows, labels, tenths = (np.array(one, np.int32) for one in (zip(*cells, strict=True) if cells else ([], [], [])))
    p = tenths / 10
    unchecked = UncheckedCells(rows, labels, p, np.minimum(p, 0.2), p > 0.2, 5, 5)
    expected = []
    for row, label, tenth in sorted(cells, key=lambda cell: (-min(cell[2], 2), -cell[2], cell[0], cell[1])):
        in_row = sum(one[0] == row for one in expected)
        of_label = sum(one[1] == label for one in expected)
        if in_row < (per_row or 99) and of_label < (per_label or 99) and len(expected) < top:
            expected.append((row, label, tenth))
    found = _best(unchecked, top, per_row, per_label)
    assert [cells[at] for at in found] == expected


def test_contributions_and_the_bias_sum_to_the_score(run):
    n_words = int(np.diff(OBSERVED.X.indptr).max())
    found = find_missing(run, top=40, words=n_words, old_rows=[OBSERVED])
    scores = {}
    ranking = run.rank(OBSERVED.X, run.n_labels)
    for row, (labels, values) in enumerate(zip(ranking.labels, ranking.scores, strict=True)):
        scores |= {(row, int(label)): float(value) for label, value in zip(labels, values, strict=True)}
    assert found.contributions is not None
    for at, (row, label) in enumerate(cells_of(found)):
        explained = run.model.explain(label)
        weights = dict(zip(explained.features.tolist(), explained.weights.tolist(), strict=True))
        x = OBSERVED.X[row]
        norm = np.sqrt((x.data.astype(np.float64) ** 2).sum()) if run.model.normalize else 1.0
        products = {one: weights.get(one, 0) * value / norm for one, value in zip(x.indices, x.data, strict=True)}
        assert sum(products.values()) + explained.constant == pytest.approx(scores[row, label], abs=1e-4)
        best = sorted((one for one in products if products[one] > 0), key=lambda one: (-products[one], one))
        listed = [one for one in found.features[at].tolist() if one >= 0]
        np.testing.assert_allclose([products[one] for one in listed], [products[one] for one in best], atol=1e-6)
        assert found.contributions[at][: len(best)] == pytest.approx([products[one] for one in best], abs=1e-5)


def test_rows_have_ids_texts_and_words(texts):
    run, folder = texts
    found = find_missing(run, texts=True)
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for cell, text in zip(found, found.texts(), strict=True):
        line = lines[cell["row"]]
        assert (cell["id"], text) == (line["id"], line["text"])
        assert cell["label"] not in line["labels"]
        assert {name for name, _ in cell["words"]} <= set(line["text"].split())
        assert cell["count"] == sum(cell["label"] in one["labels"] for one in lines)
    assert find_missing(run, words=0).features is None


def test_moved_training_data_is_found_by_its_path_and_changed_data_is_refused(texts):
    run, folder = texts
    expected = list(find_missing(run, top=5))
    (folder / "train.jsonl").rename(folder / "moved.jsonl")
    with pytest.raises(InputError, match="not where it was"):
        find_missing(run)
    assert list(find_missing(run, top=5, old_rows=[folder / "moved.jsonl"])) == expected
    lines = (folder / "moved.jsonl").read_text().splitlines()
    for name, other in (("shorter", lines[1:]), ("reversed", lines[::-1])):
        (folder / "train.jsonl").write_text("\n".join(other) + "\n")
        with pytest.raises(InputError, match="other rows or labels"):
            find_missing(run)
        assert name


def test_repeated_ids_are_not_used(texts):
    run, folder = texts
    text = (folder / "train.jsonl").read_text().replace('"doc 1"', '"doc 0"')
    (folder / "train.jsonl").write_text(text)
    assert find_missing(run).training_rows.ids is None


def test_a_run_without_probabilities_says_which_command_makes_them(tmp_path):
    train("dismec", OBSERVED, tmp_path / "run", PARAMS)
    with pytest.raises(InputError, match="unmissed calibrate"):
        find_missing(open_run(tmp_path / "run"))


def test_a_method_without_weights_has_no_words(tmp_path):
    train("fastxml", OBSERVED, tmp_path / "run", {"n_jobs": 1, "n_trees": 2})
    run = calibrate(tmp_path / "run", old_rows=[OBSERVED])
    assert all(cell["words"] == [] for cell in find_missing(run, top=3, old_rows=[OBSERVED]))


def test_labels_added_after_the_calibration_are_not_listed(tmp_path):
    train("dismec", OBSERVED, tmp_path / "run", PARAMS)
    calibrate(tmp_path / "run", old_rows=[OBSERVED])
    names = [*TEST.label_names[:-1], "a new label"]
    more = Dataset(TEST.X, TEST.Y, label_names=names, feature_names=TEST.feature_names)
    run = extend(tmp_path / "run", more, old_rows=[OBSERVED])
    assert find_missing(run).cells.labels.max() < 12
