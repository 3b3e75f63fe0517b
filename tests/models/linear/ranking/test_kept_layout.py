"""A layout on disk is used only if it is the one that the run's weights would give, and never if it is damaged."""

import json
import logging
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from unmissed import open_run
from unmissed.archive import MANIFEST, checksum, seal
from unmissed.data import load
from unmissed.models.linear.ranking import kept_layout, ranker
from unmissed.models.linear.ranking.chunks import ChunkArrays
from unmissed.runs import extend, train
from unmissed.settings import SETTINGS

N_FEATURES, N_LABELS = 60, 90
X = sp.hstack(  # frequent features, which have lines, and rare ones, which have lists
    [sp.random(150, 30, density, dtype=np.float32, random_state=1) for density in (0.4, 0.01)], format="csr"
)


def rows_with(folder, n_labels):
    """The rows X, read from files, with the first labels of a random matrix."""
    Y = np.random.default_rng(0).random((200, X.shape[0])).T[:, :n_labels] < 0.05
    sp.save_npz(folder / "X.npz", X)
    sp.save_npz(folder / "Y.npz", sp.csr_matrix(Y.astype(np.float32)))
    return load(f"{folder / 'X.npz'},{folder / 'Y.npz'}")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 90 labels."""
    folder = tmp_path_factory.mktemp("kept")
    train("dismec", rows_with(folder, N_LABELS), folder / "run", {"n_jobs": 1})
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run with a layout on disk."""
    shutil.copytree(trained, tmp_path / "run")
    open_run(tmp_path / "run", verify=True).prepare()
    return tmp_path / "run"


@pytest.fixture
def builds(monkeypatch):
    """The layouts that are built."""
    built, build = [], ranker.build_layout

    def record(*arguments):
        built.append(build(*arguments))
        return built[-1]

    monkeypatch.setattr(ranker, "build_layout", record)
    return built


def layout_of(run):
    """The only layout on disk."""
    (folder,) = (run / "layouts").iterdir()
    return folder


def forge(folder, name, change):
    """Change an array of a layout, and correct the checksums."""
    path = folder / f"{name}.npy"
    np.save(path, change(np.load(path).copy()))
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["arrays"][name] = {"bytes": path.stat().st_size, "sha256": checksum(path)}
    del manifest["sha256"]
    (folder / MANIFEST).write_text(json.dumps({**manifest, "sha256": seal(manifest)}))


@pytest.mark.parametrize("verify", [True, False])
def test_a_layout_on_disk_is_opened_and_ranks_the_same_bits(run, trained, builds, verify):
    expected = open_run(trained).rank(X, 7)
    found = open_run(run, verify=verify).prepare()
    assert not builds
    ranking = found.rank(X, 7)
    assert np.array_equal(ranking.labels, expected.labels)
    assert np.array_equal(ranking.scores, expected.scores)
    assert isinstance(found.model.ranker_.scan.get().layout.chunks[0], ChunkArrays)


def test_a_call_with_many_rows_opens_it_too(run, builds, monkeypatch):
    monkeypatch.setattr(SETTINGS, "prepare_rows", 100)
    found = open_run(run)
    found.rank(X, 5)
    assert found.model.ranker_.scan.peek() is not None
    assert not builds


def test_only_runs_that_were_verified_keep_a_layout(run, builds):
    shutil.rmtree(run / "layouts")
    open_run(run).prepare()
    assert len(builds) == 1
    assert not (run / "layouts").exists()
    open_run(run, verify=True).prepare()
    assert len(builds) == 2
    assert layout_of(run).is_dir()


@pytest.mark.parametrize("name", ["lines-0000", "exact-0000", "feature_counts"])
def test_a_damaged_layout_is_built_again_and_replaced(run, builds, caplog, name):
    path = layout_of(run) / f"{name}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        open_run(run, verify=True).prepare()
    assert len(builds) == 1
    assert "does not match its checksum" in caplog.text
    assert path.read_bytes()[-1] == content[-1] ^ 1
    open_run(run, verify=True).prepare()
    assert len(builds) == 1


def _raise(position, by):
    def change(array):
        array[position] += np.array(by).astype(array.dtype)
        return array

    return change


FORGED = {
    "label_ids": [_raise(0, N_LABELS), _raise(0, -N_LABELS), lambda a: np.where(a == a[0], a[1], a), lambda a: a[1:]],
    "table": [_raise((3, 0), 2**31), _raise((-1, 0), 5), _raise((0, 1), 10**6), lambda a: a[:-1]],
    "entries": [lambda a: a + np.int32(N_LABELS << 16), lambda a: -a - np.int32(2**17), lambda a: a[:-1]],
    "flags": [_raise((0, 0), 1), _raise((0, -1), 1 << 60), lambda a: a[:-1], lambda a: a[:, :0]],
    "label_starts": [_raise(-1, 1), _raise(0, -1), lambda a: a[:-1]],
    "exact": [lambda a: a[:-1]],
    "lines": [lambda a: a[:, :64], lambda a: a[:1], lambda a: a.astype(np.int16)],
    "bias": [_raise(0, 1), lambda a: a[:-1]],
    "scale": [lambda a: a[:-1]],
    "dense": [lambda a: np.zeros((1, 1), np.float32)],
}


@pytest.mark.parametrize(("field", "change"), [(field, one) for field, all_ in FORGED.items() for one in all_])
def test_a_forged_layout_with_right_checksums_is_not_used(run, builds, field, change):
    forge(layout_of(run), f"{field}-0000", change)
    open_run(run, verify=True).prepare()
    assert len(builds) == 1


def test_a_layout_of_other_weights_settings_or_code_is_not_used(run, builds, monkeypatch):
    before = layout_of(run).name
    monkeypatch.setattr(SETTINGS, "int8_range", 3)
    open_run(run, verify=True).prepare()
    assert len(builds) == 1
    assert layout_of(run).name != before, "the new one replaces the old one"
    monkeypatch.undo()
    monkeypatch.setattr(kept_layout, "_code_digest", lambda: "another version")
    shards = open_run(run).model.ranked_shards_
    assert kept_layout.layout_key(shards, N_FEATURES) not in (before, layout_of(run).name)


def test_a_layout_that_was_kept_before_labels_were_added_is_not_used(run, builds):
    extend(run, rows_with(run.parent, N_LABELS + 20), n_jobs=1)
    assert not builds
    opened = open_run(run, verify=True).prepare()
    assert len(builds) == 1
    assert opened.rank(X, 5).labels.max() >= N_LABELS


def test_a_folder_that_cannot_be_written_keeps_nothing(run, builds):
    shutil.rmtree(run / "layouts")
    (run / "layouts").write_text("in the way")
    open_run(run, verify=True).prepare()
    assert len(builds) == 1
