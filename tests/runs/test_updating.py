"""An update trains on old and new rows, beside the run, and takes its place when it is complete."""

import subprocess
import sys
from collections import Counter
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cli.speaking import said
from tests.runs.corpora import PARAMS, small_corpus, tree_bytes, write_texts
from unmissed.data import Dataset, load, write_store
from unmissed.errors import InputError
from unmissed.runs import extend, open_run, train, update
from unmissed.runs.run import _OF_THE_FOLDER, Run
from unmissed.runs.run_folder import RunFolder
from unmissed.runs.training_sources import sources_of

TRAIN, TEST = small_corpus(n_labels=12, n_train=80)
MORE = Dataset(TEST.X, TEST.Y, label_names=[*TEST.label_names[:-1], "a new label"], feature_names=TRAIN.feature_names)


class StopError(Exception):
    """An interruption."""


def together():
    """Old and new rows as one data set, put together by hand."""
    last = np.zeros((50, 1), np.float32)
    old = sp.hstack([TRAIN.Y, np.zeros((80, 1), np.float32)])
    new = sp.hstack([TEST.Y[:, :11], last, TEST.Y[:, 11:]])
    names = [*TRAIN.label_names, "a new label"]
    X = sp.vstack([TRAIN.X, TEST.X])
    return Dataset(X, sp.vstack([old, new]), label_names=names, feature_names=TRAIN.feature_names)


def folders(path):
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize("method", ["dismec", "popularity"])
def test_an_updated_run_is_what_training_on_all_rows_gives(method, tmp_path):
    params = {"dismec": PARAMS, "popularity": {}}[method]
    train(method, TRAIN, tmp_path / "run", params)
    run = update(tmp_path / "run", MORE, old_rows=[TRAIN], n_jobs=1)
    assert (run.n_labels, run.n_trained) == (13, 13)
    assert run.label_names == [*TRAIN.label_names, "a new label"]
    assert [source.n_samples for source in sources_of(run)] == [80, 50]
    assert folders(tmp_path) == ["run"]
    train(method, together(), tmp_path / "whole", params)
    parts = [tree_bytes(tmp_path / name / "pieces") for name in ("run", "whole")]
    assert parts[0] == parts[1]
    assert np.array_equal(run.rank(TEST.X, 5).labels, open_run(tmp_path / "whole").rank(TEST.X, 5).labels)


def test_the_old_run_answers_until_the_new_one_is_complete_and_an_update_goes_on(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    before = tree_bytes(tmp_path / "run")
    expected = open_run(tmp_path / "run").rank(TEST.X, 5)
    opened = open_run(tmp_path / "run")

    def stop(done, total):
        if done:
            raise StopError

    with pytest.raises(StopError):
        update(tmp_path / "run", MORE, old_rows=[TRAIN], progress=stop)
    assert tree_bytes(tmp_path / "run") == before
    assert folders(tmp_path) == [".run.update", "run"]
    found = open_run(tmp_path / "run").rank(TEST.X, 5)
    assert np.array_equal(found.scores, expected.scores)
    with pytest.raises(InputError, match=r"an update with other rows is unfinished.*\.run\.update"):
        update(tmp_path / "run", TEST, old_rows=[TRAIN])
    assert update(tmp_path / "run", MORE, old_rows=[TRAIN]).n_labels == 13
    assert folders(tmp_path) == ["run"]
    assert opened.n_labels == 12
    before = tree_bytes(tmp_path / "run")
    again = update(tmp_path / "run", MORE, old_rows=[TRAIN, MORE])
    assert (again.n_labels, again.n_trained) == (13, 0)
    assert tree_bytes(tmp_path / "run") == before


def test_labels_that_were_added_stay_behind_those_before_them(tmp_path):
    train("dismec", TRAIN, tmp_path / "run", PARAMS)
    extend(tmp_path / "run", MORE, old_rows=[TRAIN])
    third = small_corpus(12, 40, seed=3)[0]
    run = update(tmp_path / "run", third, old_rows=[TRAIN, MORE])
    assert run.label_names == [*TRAIN.label_names, "a new label"]
    assert [part.n_samples for part in run.parts] == [170]
    expected = TRAIN.label_counts + third.label_counts
    expected[:11] += MORE.label_counts[:11]  # the rows that came with the new label count for the old ones, too
    assert np.array_equal(run.label_counts, [*expected, MORE.label_counts[11]])


def test_rows_that_extend_has_seen_can_still_teach_the_labels_before(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    extend(tmp_path / "run", MORE, old_rows=[TRAIN])
    run = update(tmp_path / "run", MORE, old_rows=[TRAIN])
    assert [part.n_samples for part in run.parts] == [130]
    assert [source.n_samples for source in sources_of(run)] == [80, 50]
    assert run.label_counts[:11].tolist() == (TRAIN.label_counts + MORE.label_counts)[:11].tolist()
    assert update(tmp_path / "run", MORE, old_rows=[TRAIN]).n_trained == 0


def test_a_run_that_waits_under_another_name_answers_and_gets_its_name_back(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    expected = open_run(tmp_path / "run").rank(TEST.X, 5)
    (tmp_path / "run").rename(tmp_path / ".run.replaced.part")
    for name in ("run", "latest"):
        assert np.array_equal(open_run(tmp_path / name).rank(TEST.X, 5).scores, expected.scores)
    assert train("popularity", TRAIN, tmp_path / "run").n_trained == 0, "it is there"
    assert folders(tmp_path) == ["latest", "run"]
    (tmp_path / ".run.removed.part").mkdir()
    update(tmp_path / "run", MORE, old_rows=[TRAIN])
    assert folders(tmp_path) == ["latest", "run"]


def test_nothing_is_put_right_while_another_process_updates(tmp_path):
    """The other process is between two renames: its lock is in the folder of the old run."""
    train("popularity", TRAIN, tmp_path / "run")
    with RunFolder(tmp_path / "run").locked():
        (tmp_path / "run").rename(tmp_path / ".run.replaced.part")
        with pytest.raises(InputError, match="another process is training"):
            update(tmp_path / "run", MORE, old_rows=[TRAIN])
        assert folders(tmp_path) == [".run.replaced.part"]


def test_a_reader_finds_a_complete_run_at_every_moment(tmp_path):
    """In another process an update replaces the run again and again, with and without a swap of names in one step."""
    train("popularity", TRAIN, tmp_path / "run")
    train("popularity", TEST, tmp_path / "other")
    answers = [open_run(tmp_path / name).rank(TEST.X[:2], 5).scores.tobytes() for name in ("run", "other")]
    command = [sys.executable, "-c", REPLACE_AGAIN_AND_AGAIN, str(tmp_path)]
    seen = Counter()
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as child:
        while child.poll() is None:
            run = open_run(tmp_path / "run")
            assert (run.parts[0].n_samples, run.label_counts.sum()) in [(80, TRAIN.Y.nnz), (50, TEST.Y.nnz)]
            seen[run.rank(TEST.X[:2], 5).scores.tobytes()] += 1
    assert child.returncode == 0
    assert seen.keys() == set(answers), seen.values()


REPLACE_AGAIN_AND_AGAIN = """
import shutil, sys
from pathlib import Path
from unmissed.runs import replacing
root = Path(sys.argv[1])
swap = replacing.exchange
for folder in ("run", "other"):
    shutil.copytree(root / folder, root / f"copy of {folder}")
for number in range(60):
    new = root / ".run.update"
    shutil.copytree(root / f"copy of {('run', 'other')[number % 2]}", new)
    replacing.exchange = (lambda one, other: False) if number % 3 else swap
    replacing.replace_run(root / "run", new)
"""


def test_a_link_to_a_run_stays_a_link(tmp_path):
    train("popularity", TRAIN, tmp_path / "run")
    (tmp_path / "latest").symlink_to(tmp_path / "run")
    assert update(tmp_path / "latest", MORE, old_rows=[TRAIN]).n_labels == 13
    assert (tmp_path / "latest").is_symlink()
    assert open_run(tmp_path / "run").n_labels == 13


def test_where_old_rows_have_moved_to_is_remembered(tmp_path):
    write_store(TRAIN, tmp_path / "there")
    train("popularity", load(tmp_path / "there"), tmp_path / "run")
    (tmp_path / "there").rename(tmp_path / "here")
    with pytest.raises(InputError, match="is not where it was"):
        update(tmp_path / "run", MORE)
    run = update(tmp_path / "run", MORE, old_rows=[tmp_path / "here"])
    assert [source.path for source in sources_of(run)] == [str(tmp_path / "here"), None]


def test_the_command_says_how_many_rows_and_labels(tmp_path, capsys):
    texts = write_texts(tmp_path / "train.jsonl")
    said(capsys, "train", "dismec", texts, "--run", tmp_path / "run")
    lines = texts.read_text().splitlines()
    more = write_texts(tmp_path / "more.jsonl", n=20, seed=1, extra="mix")
    more.write_text(more.read_text() + '{"text": "an odd cod of milk", "labels": ["mix"]}\n')
    output = said(capsys, "update", tmp_path / "run", more)
    assert "21 of them given now" in output
    assert "dismec, 4 labels trained" in output
    assert open_run(tmp_path / "run").label_names == ["fish", "food", "law", "mix"]
    output = said(capsys, "update", tmp_path / "run", more)
    assert "4 labels, all trained already" in output
    assert "of them given now" not in output
    again = tmp_path / "again.jsonl"
    again.write_text(lines[0] + "\n")
    assert "old rows replaced" in said(capsys, "update", tmp_path / "run", again)


def test_everything_that_a_reader_caches_of_the_folder_is_read_again_after_an_update():
    cached = {name for name, value in vars(Run).items() if isinstance(value, cached_property)}
    assert cached - {"model"} == set(_OF_THE_FOLDER), "the model is loaded as a whole"
