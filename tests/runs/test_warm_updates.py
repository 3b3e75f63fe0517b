"""An update that starts from dual variables has the certificates of a training from the beginning."""

import numpy as np
import pytest

from tests.cli.speaking import said
from tests.runs.corpora import tree_bytes
from tests.runs.json_lines import rows_of, write
from unmissed.data import TextFeatures, load, make_corpus
from unmissed.errors import InputError
from unmissed.models import DiSMEC, PWDiSMEC
from unmissed.models.dual_variables import DualVariables
from unmissed.runs import extend, open_run, train, update
from unmissed.runs.inspection import certificate

TEXT = TextFeatures(min_df=2)
PARAMS = {"keep_dual": True, "prune": 0.0, "n_jobs": 1}
TOL = 1e-3
RNG = np.random.default_rng(0)
WORDS = [f"word{number}" for number in range(150)]


def documents(name, n, labels=12):
    """Return documents whose labels depend on their words; the last label is rare."""
    found = []
    for row in range(n):
        numbers = RNG.integers(0, len(WORDS), 12)
        names = sorted({f"label{number % labels}" for number in numbers if RNG.random() < 0.3})
        text = " ".join(WORDS[number] for number in numbers)
        found.append({"id": f"{name}{row}", "text": text, "labels": [*names, *(["rare"] if row % 97 == 3 else [])]})
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Old documents, and new ones with a new word and a new label; one repeats an old text with other labels."""
    folder = tmp_path_factory.mktemp("warm")
    old = write(folder / "old.jsonl", documents("old", 400))
    first = rows_of(old)[5]
    new = documents("new", 12)
    new += [{"id": f"whale{row}", "text": f"whale hunt {WORDS[row]}", "labels": ["whales"]} for row in range(3)]
    write(folder / "new.jsonl", [*new, {**first, "id": "again", "labels": ["label1", "label2"]}])
    return folder


@pytest.fixture
def run(corpus, tmp_path):
    return train("pw-dismec", load(corpus / "old.jsonl", text=TEXT), tmp_path / "run", PARAMS)


def loaded(path, run):
    return load(path, text=open_run(run.folder.path).text)


def gaps(run, dataset):
    """Return the relative duality gap of each label, computed here from stored weights and dual variables."""
    model = run.model
    rows = model.check_rows(dataset)
    costs, X, Y = model._costs(rows), rows.features.csr.toarray().astype(np.float64), dataset.Y.toarray()
    w, b, held = model.coef_.toarray().astype(np.float64), model.intercept_.astype(np.float64), model.dual_variables()
    found = []
    for label in range(run.n_labels):
        z = np.where(Y[:, label] > 0, 1.0, -1.0)
        c = np.where(z > 0, costs.positive[label], costs.negative[label])
        loss = np.sum(c * np.maximum(0, 1 - z * (X @ w[label] + b[label])) ** 2)
        primal = 0.5 * (w[label] @ w[label] + b[label] ** 2) + loss
        mine = held.of_labels(label, label + 1)
        assert (np.diff(mine.rows) > 0).all()
        assert (np.sign(mine.values) == z[mine.rows]).all(), "signs are those of the labels"
        a = np.zeros(len(z))
        a[mine.rows] = np.abs(mine.values)
        v, offset = (a * z) @ X, a @ z
        dual = a.sum() - 0.5 * (v @ v + offset**2) - np.sum(a**2 / (4 * c))
        found.append((primal - dual) / primal)
    return np.array(found)


def assert_certified(run, dataset):
    assert certificate(run)["missed"] == 0
    measured = gaps(run, dataset)
    assert measured.max() <= 1.01 * TOL
    assert measured.min() >= -1e-6


def as_dataset(run):
    from unmissed.runs.training_sources import join, read_old_rows

    return join(run, read_old_rows(run)).dataset


def test_kept_dual_variables_certify_the_weights_and_change_nothing_else(corpus, run, tmp_path):
    assert_certified(run, as_dataset(run))
    plain = train(
        "pw-dismec", load(corpus / "old.jsonl", text=TEXT), tmp_path / "plain", {**PARAMS, "keep_dual": False}
    )
    assert plain.recipe == run.recipe
    assert plain.model.dual_variables() is None
    for ours, theirs in zip(run.model.shards_, plain.model.shards_, strict=True):
        for name, array in theirs.arrays.items():
            assert np.array_equal(array, ours.arrays[name]), name


@pytest.mark.parametrize("growth", [False, True])
def test_an_update_is_certified_on_all_rows(corpus, run, tmp_path, growth):
    updated = update(run.folder.path, loaded(corpus / "new.jsonl", run), vocabulary_growth=growth, n_jobs=1)
    rows = as_dataset(updated)
    assert rows.n_samples == updated.parts[0].n_samples
    assert ("whale" in updated.feature_names) == growth
    assert_certified(updated, rows)
    scratch = train("pw-dismec", rows, tmp_path / "scratch", PARAMS)
    objectives = [np.concatenate([one.objective for one in each.model.shards_]) for each in (updated, scratch)]
    np.testing.assert_allclose(*objectives, rtol=TOL)
    epochs = [np.concatenate([one.epochs for one in each.model.shards_]) for each in (updated, scratch)]
    assert epochs[0].sum() < epochs[1].sum(), "it starts from the earlier solution"


def test_labels_that_stay_certified_keep_their_weights(corpus, run, tmp_path):
    before = run.model.coef_.toarray()
    nothing_new = write(tmp_path / "one.jsonl", [{"text": "word1 word2", "labels": ["label1", "label2"]}])
    updated = update(run.folder.path, loaded(nothing_new, run), n_jobs=1)
    after = updated.model.coef_.toarray()
    same = (before == after).all(axis=1)
    assert same[run.label("rare")]
    assert 0 < same.sum() < run.n_labels
    assert_certified(updated, as_dataset(updated))


def test_withdrawn_rows_and_dropped_labels_have_no_variables_left(corpus, run):
    ids = [f"old{row}" for row in range(0, 200, 7)]
    options = {"remove": ids, "drop_labels": ["label3"], "n_jobs": 1}
    updated = update(run.folder.path, loaded(corpus / "new.jsonl", run), vocabulary_growth=True, **options)
    assert "label3" not in updated.label_names
    assert_certified(updated, as_dataset(updated))
    again = update(run.folder.path, remove=["new1"], n_jobs=1)
    assert_certified(again, as_dataset(again))
    assert again.parts[0].n_samples == updated.parts[0].n_samples - 1


def test_the_result_does_not_depend_on_threads(corpus, run, tmp_path):
    import shutil

    shutil.copytree(run.folder.path, tmp_path / "copy")
    new = loaded(corpus / "new.jsonl", run)
    one, two = (update(path, new, n_jobs=n) for path, n in ((run.folder.path, 1), (tmp_path / "copy", 2)))
    assert tree_bytes(one.folder.path / "pieces") == tree_bytes(two.folder.path / "pieces")


def test_an_extended_run_starts_its_first_labels_from_their_variables(corpus, run):
    extended = extend(run.folder.path, loaded(corpus / "new.jsonl", run), n_jobs=1)
    assert extended.model.dual_variables().n_labels == extended.n_labels - 1
    updated = update(run.folder.path, loaded(corpus / "new.jsonl", run), n_jobs=1)
    assert_certified(updated, as_dataset(updated))


def test_growth_reads_each_text_once(corpus, run, monkeypatch):
    import unmissed.data.text as module

    seen, original = [], module.preprocess
    new = loaded(corpus / "new.jsonl", run)

    def preprocess(text, *given, **words):
        seen.append(text)
        return original(text, *given, **words)

    monkeypatch.setattr(module, "preprocess", preprocess)
    update(run.folder.path, new, vocabulary_growth=True, n_jobs=1)
    assert len(seen) == 400 + new.n_samples


def test_moved_variables():
    held = DualVariables(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), np.array([1, -2, 3], np.float32))
    moved = held.moved(np.array([4, -1, 0]), np.array([2, 0]), 3)
    assert (moved.starts.tolist(), moved.rows.tolist(), moved.values.tolist()) == ([0, 0, 0, 2], [0, 4], [-2, 1])
    merged = held.moved(np.array([1, 3, 1]), np.array([0, 1]), 2)
    assert merged.rows.tolist() == [1, 3], "a row has one variable"
    with pytest.raises(InputError, match="outside 0 to 1; the run is damaged"):
        held.moved(np.array([0, 1]), np.array([0, 1]), 2)
    nothing = DualVariables(np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    assert nothing.moved(np.empty(0, np.int64), np.array([0, 1]), 2).starts.tolist() == [0, 0, 0]


def test_a_free_bias_keeps_no_variables():
    X, Y = np.eye(4, dtype=np.float32), np.eye(4)
    with pytest.raises(InputError, match="unpenalized bias"):
        DiSMEC(fit_bias="free", keep_dual=True).fit(X, Y)
    assert PWDiSMEC(fit_bias=False, keep_dual=True).fit(X, Y).dual_variables().n_labels == 4


@pytest.mark.parametrize("growth", [False, True])
def test_kept_rows_replace_the_old_files(corpus, tmp_path, growth, monkeypatch):
    import unmissed.data.text as module

    old = write(tmp_path / "old.jsonl", rows_of(corpus / "old.jsonl"))
    run = train("pw-dismec", load(old, text=TEXT), tmp_path / "run", PARAMS)
    first = update(run.folder.path, keep_rows=True, n_jobs=1)
    assert first.n_trained == 0, "nothing changed but the kept rows"
    old.unlink()
    new = loaded(corpus / "new.jsonl", run)
    seen, original = [], module.preprocess

    def preprocess(text, *given, **words):
        seen.append(text)
        return original(text, *given, **words)

    monkeypatch.setattr(module, "preprocess", preprocess)
    kept = update(run.folder.path, new, vocabulary_growth=growth, n_jobs=1)
    assert len(seen) == new.n_samples, "only new texts are read"
    monkeypatch.undo()
    assert certificate(kept)["missed"] == 0
    write(old, rows_of(corpus / "old.jsonl"))
    again = train("pw-dismec", load(old, text=TEXT), tmp_path / "again", PARAMS)
    expected = update(again.folder.path, loaded(corpus / "new.jsonl", again), vocabulary_growth=growth, n_jobs=1)
    for part in ("pieces", "text"):
        assert tree_bytes(kept.folder.path / part) == tree_bytes(expected.folder.path / part)
    assert [one.digest for one in kept.parts[0].sources] == [one.digest for one in expected.parts[0].sources]
    more = write(tmp_path / "more.jsonl", documents("more", 5))
    old.unlink()
    assert update(run.folder.path, loaded(more, kept), n_jobs=1).parts[0].n_samples == kept.parts[0].n_samples + 5


def test_damaged_kept_rows_are_read_from_the_files_again(corpus, run):
    update(run.folder.path, keep_rows=True)
    [array] = run.folder.path.glob("rows/*/numbers.npy")
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    updated = update(run.folder.path, loaded(corpus / "new.jsonl", run), n_jobs=1)
    assert_certified(updated, as_dataset(updated))
    matrix = train("dismec", make_corpus(60, 5, 4, 30, rng=0).train, run.folder.path.parent / "matrix")
    with pytest.raises(InputError, match="only rows of texts without embeddings"):
        update(matrix.folder.path, keep_rows=True)


def test_data_that_is_known_can_still_grow(corpus, run, capsys):
    new = loaded(corpus / "new.jsonl", run)
    update(run.folder.path, new, n_jobs=1)
    assert open_run(run.folder.path).suggest("whale").no_known_words
    grown = update(run.folder.path, new, vocabulary_growth=True, n_jobs=1)
    assert grown.suggest("whale")[0][0] == "whales"
    assert grown.n_trained == grown.n_labels
    assert update(run.folder.path, vocabulary_growth=True, n_jobs=1).n_trained == 0, "all words are known"
    words = "update", run.folder.path, corpus / "new.jsonl"
    assert "was trained on these rows already\n" in said(capsys, *words, "--vocabulary-growth")
    assert "was trained on these rows already; --vocabulary-growth learns their words" in said(capsys, *words)


def test_damaged_dual_variables_are_refused(run):
    [piece] = (run.folder.path / "pieces" / "labels").iterdir()
    starts = np.load(piece / "dual_starts.npy")
    np.save(piece / "dual_starts.npy", starts[::-1].copy())
    with pytest.raises(InputError, match="its dual variables do not fit its labels"):
        open_run(run.folder.path).rank(["word1"], 3)
