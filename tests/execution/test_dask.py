"""A real cluster of two processes does what threads do: same bytes, whoever is lost on the way."""

import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.execution.clusters import Offset, Slow
from tests.runs.corpora import small_corpus, tree_bytes, write_texts
from unmissed.data import open_store, write_store
from unmissed.errors import InputError, UnmissedError
from unmissed.execution import Dask, OnDisk, Placed, Threads, Work
from unmissed.execution import dask as module
from unmissed.execution.executor_registry import EXECUTORS
from unmissed.models import PWDiSMEC
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking
from unmissed.runs import open_run, train
from unmissed.settings import SETTINGS

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PARAMS = {"block_size": 4, "n_jobs": 1}


@pytest.fixture(scope="module")
def cluster():
    with Dask("local:2") as made:
        yield made


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train"
    write_store(small_corpus(n_labels=60)[0], path)
    return path


def notes_of(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    return notes


def test_a_training_over_a_cluster_leaves_the_bytes_of_one_thread(cluster, store, tmp_path):
    seen = []
    train("pw-dismec", open_store(store), tmp_path / "one", PARAMS)
    train(
        "pw-dismec",
        open_store(store),
        tmp_path / "many",
        PARAMS,
        executor=cluster,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert tree_bytes(tmp_path / "many") == tree_bytes(tmp_path / "one")
    assert seen[0] == (0, 60)
    assert seen[-1] == (60, 60)


def test_the_command_line_trains_over_a_cluster_from_a_store_and_refuses_text(
    cluster, store, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(EXECUTORS._found, "tcp", lambda address, **_: nullcontext(cluster))
    words = ["--block-size", 8, "--cluster", "tcp://host:8786"]
    assert "60 labels trained" in said(capsys, "train", "dismec", store, "--run", tmp_path / "run", *words)
    texts = write_texts(tmp_path / "train.jsonl")
    line = refused(capsys, "train", "dismec", texts, "--run", tmp_path / "other", *words)
    assert "not data: train from a store" in line
    assert not (tmp_path / "other" / "manifest.json").exists()


def test_a_cluster_ranks_a_store_as_one_process_does(cluster, store, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(EXECUTORS._found, "local", lambda address, **_: nullcontext(cluster))
    monkeypatch.setattr(SETTINGS, "task_rows", 128)
    train("dismec", open_store(store), tmp_path / "run", PARAMS)
    words = ["--cluster", "local:2", "--top", 3]
    said(capsys, "predict", tmp_path / "run", store, "--out", tmp_path / "found", *words)
    assert not list(tmp_path.glob(".*.parts"))
    found, run = Ranking.load(tmp_path / "found.npz"), open_run(tmp_path / "run")
    for begin in (0, 128, 256):
        part = run.rank(open_store(store).X[begin : begin + 128], 3)
        assert np.array_equal(found.labels[begin : begin + 128], part.labels)
        assert np.array_equal(found.scores[begin : begin + 128], part.scores)
    line = refused(capsys, "predict", tmp_path / "run", store, *words)
    assert "needs a store as DATA and an output file, --out" in line


def test_a_model_fits_the_path_of_a_store(cluster, store):
    dataset = open_store(store)
    expected = PWDiSMEC(**PARAMS).fit(dataset.X, dataset.Y)
    for executor in (Threads(1), cluster):
        found = PWDiSMEC(**PARAMS).fit(store, work=Work(executor=executor))
        for one, other in zip(found.shards_, expected.shards_, strict=True):
            assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in other.arrays)


def test_workers_write_pieces_themselves_and_share_one_layout_each(cluster, tmp_path):
    notes = str(notes_of(tmp_path))
    pieces = OnDisk(tmp_path / "pieces")
    Work(pieces, cluster).run([Slow(n, notes) for n in range(12) if n != 13], Offset(100, notes))
    assert [int(pieces.get(f"slow/{n}").arrays["square"][0]) for n in (0, 5)] == [100, 125]
    made = list((tmp_path / "notes").glob("made-*"))
    assert 1 <= len(made) <= 2
    assert str(os.getpid()) not in {path.name.split("-")[1] for path in made}
    assert not list((tmp_path / "pieces").glob(".*.part"))


def test_a_task_that_is_sent_is_small_and_holds_no_rows(store):
    rows = TrainingData.stored(store)
    assert len(module._pack(_Maker(rows))) < 2000
    dataset = open_store(store)
    with pytest.raises(InputError, match="not data"):
        module._pack(_Maker(TrainingData.check(dataset.X, dataset.Y)))


class _Maker:
    def __init__(self, rows):
        self.rows = rows


def test_a_task_whose_worker_dies_is_run_again(cluster, tmp_path):
    notes = str(notes_of(tmp_path))
    pieces = OnDisk(tmp_path / "pieces")
    Work(pieces, cluster).run([Slow(n, notes, deadly=n == 3) for n in range(8)], Offset(0, notes))
    assert pieces.listed() == [f"slow/{n}" for n in range(8)]
    assert len(list((tmp_path / "notes").glob("3-*"))) >= 2


def test_workers_killed_again_and_again_change_no_byte(cluster, store, tmp_path):
    train("pw-dismec", open_store(store), tmp_path / "one", {**PARAMS, "block_size": 1})
    stop = threading.Event()

    def kill():
        while not stop.wait(0.7):
            processes = [int(info["id"]) for info in _processes(cluster)]
            if processes:
                os.kill(processes[0], signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        train("pw-dismec", open_store(store), tmp_path / "many", {**PARAMS, "block_size": 1}, executor=cluster)
    finally:
        stop.set()
        killer.join()
    assert tree_bytes(tmp_path / "many") == tree_bytes(tmp_path / "one")


def _processes(cluster):
    return [{"id": pid} for pid in cluster._client.run(os.getpid, on_error="ignore").values()]


def test_a_failing_task_reaches_the_caller_and_others_are_kept(cluster, tmp_path):
    notes = str(notes_of(tmp_path))
    pieces = OnDisk(tmp_path / "pieces")
    with pytest.raises(InputError, match="unlucky"):
        Work(pieces, cluster).run([Slow(n, notes) for n in (1, 2, 13)], Offset(0, notes))
    time.sleep(0.2)
    assert set(pieces.listed()) <= {"slow/1", "slow/2"}


def test_another_store_under_the_same_path_is_refused_before_anything_is_trained(cluster, store, tmp_path):
    rows = TrainingData.stored(store)
    sent = module.Sent(module._pack(_Maker(rows)).replace(rows.store.digest.encode(), b"0" * 64), module._stamp(), None)
    with pytest.raises(InputError, match=r"on .*holds other data"):
        cluster._check_workers(sent)


def test_a_worker_with_other_code_is_refused(cluster):
    sent = module.Sent(module._pack(dict), {**module._stamp(), "numpy": "0.1"}, None)
    with pytest.raises(InputError, match=r"has numpy .*; expected 0\.1"):
        cluster._check_workers(sent)


def test_a_worker_that_does_not_see_the_disk_is_refused(cluster, tmp_path):
    sent = module.Sent(module._pack(dict), module._stamp(), str(tmp_path / "gone" / "token"))
    with pytest.raises(InputError, match="all workers need the same disk"):
        cluster._check_workers(sent)


def test_a_piece_that_never_arrives_is_no_finished_training(tmp_path, monkeypatch):
    class Lying:
        elsewhere = True

        def map(self, tasks, shared):
            for task in tasks:
                assert isinstance(task, Placed)
                yield type("Said", (), {"key": task.key})()

    monkeypatch.setattr(SETTINGS, "piece_seconds", 0.1)
    with pytest.raises(UnmissedError, match="do all machines share one disk"):
        Work(OnDisk(tmp_path), Lying()).run([Slow(1, str(tmp_path))], dict)


def test_a_cluster_that_goes_away_is_one_line_and_what_was_finished_is_kept(tmp_path):
    notes = str(notes_of(tmp_path))
    pieces = OnDisk(tmp_path / "pieces")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as local,
        distributed.Client(local) as client,
    ):
        made = Work(pieces, Dask(client)).map([Slow(n, notes) for n in range(50, 150)], Offset(0, notes))
        next(made)
        local.close()
        with pytest.raises(UnmissedError, match="the connection to the cluster is lost"):
            list(made)
    assert pieces.listed()


@pytest.mark.parametrize(
    ("word", "line"),
    [("local:0", "at least 1"), ("local:two", "at least 1"), ("somewhere", "expected tcp"), (7, "distributed.Client")],
)
def test_what_is_no_cluster_is_refused(word, line):
    with pytest.raises(InputError, match=line):
        Dask(word)


def test_a_scheduler_that_is_not_there_is_one_line():
    with pytest.raises(UnmissedError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        Dask("tcp://127.0.0.1:9", patience=0.5)


def listening():
    """Return the local addresses, as hexadecimal words, on which this process and its children listen."""
    ours = set()
    for open_file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # closed in the meantime
            if descends(int(open_file.parts[2])):
                ours.add(os.readlink(open_file))
    entries = [
        line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]
    ]
    return [entry[1] for entry in entries if entry[3] == "0A" and f"socket:[{entry[9]}]" in ours]


def descends(process):
    while process > 1 and process != os.getpid():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == os.getpid()


def page(cluster, name):
    """Return the status with which the scheduler's HTTP server answers."""
    port = urlsplit(cluster._client.dashboard_link).port
    with suppress(HTTPError):
        return urlopen(f"http://127.0.0.1:{port}/{name}", timeout=20).status
    return 404


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_a_local_cluster_listens_on_the_loopback_interface_only(cluster):
    found = listening()
    scheduler = f"0100007F:{urlsplit(cluster._client.scheduler.address).port:04X}"
    assert scheduler in found
    assert len(found) >= 3, "a scheduler and two workers"
    assert all(address.partition(":")[0].endswith("0100007F") for address in found)


def test_a_local_cluster_has_a_dashboard_only_on_request(cluster):
    assert page(cluster, "health") == 404
    with Dask("local:1", dashboard="127.0.0.1:0") as shown:
        assert page(shown, "health") == 200
    with pytest.raises(InputError, match="local:N"):
        Dask("tcp://127.0.0.1:9", dashboard=":8787", patience=0.5)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and a certificate of it for this machine: --tls-ca-file, --tls-cert and --tls-key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates")
    position = tmp_path_factory.mktemp("tls")
    new = "openssl req -newkey rsa:2048 -nodes -days 2"
    for line in (
        f"{new} -x509 -subj /CN=ca -keyout ca.key -out ca.pem",
        f"{new} -subj /CN=localhost -keyout own.key -out own.csr",
        "openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out own.pem",
    ):
        subprocess.run(line.split(), cwd=position, check=True, capture_output=True)
    return {"tls-ca-file": position / "ca.pem", "tls-cert": position / "own.pem", "tls-key": position / "own.key"}


def test_a_scheduler_with_tls_trains_only_for_who_has_a_certificate(certificates, store, tmp_path, capsys):
    words = [word for name, path in certificates.items() for word in (f"--{name}", path)]
    security = module.tls_security(*map(str, certificates.values()))
    with Dask("local:1", security=security) as local:
        address = local._client.scheduler_info()["address"]
        assert address.startswith("tls://")
        with pytest.raises(UnmissedError, match="no scheduler answers at tls"):
            Dask(address, patience=2)
        with pytest.raises(UnmissedError, match="no scheduler answers at tcp"):
            Dask(address.replace("tls", "tcp"), patience=2)
        common = ["train", "pw-dismec", store, "--block-size", 16, "--no-check"]
        said(capsys, *common, "--run", tmp_path / "many", "--cluster", address, *words)
    said(capsys, *common, "--run", tmp_path / "one")
    assert tree_bytes(tmp_path / "many") == tree_bytes(tmp_path / "one")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--tls-cert", "x.pem"], "--tls-cert needs --cluster"),
        (["--cluster", "tls://127.0.0.1:9", "--tls-cert", "x.pem"], "missing: --tls-ca-file, --tls-key"),
        (
            ["--cluster", "tls://127.0.0.1:9", "--tls-cert", "x.pem", "--tls-key", "x.pem", "--tls-ca-file", "x.pem"],
            "x.pem: no such file",
        ),
        (["--dashboard", ":8787"], "--dashboard needs --cluster"),
    ],
)
def test_options_of_a_cluster_that_do_not_go_together_are_refused(words, line, store, tmp_path, capsys):
    assert line in refused(capsys, "train", "dismec", store, "--run", tmp_path / "run", *words)
