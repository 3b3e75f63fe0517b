"""Operation: reload without a gap, workers that are killed, graceful stop, tokens, addresses."""

import json
import os
import shutil
import signal
import socket
import threading
import time

import httpx
import pytest

from tests.cli.speaking import refused
from tests.runs.corpora import PARAMS, write_texts
from tests.serve.serving import eventually, serving
from unmissed.data import load
from unmissed.runs import train


@pytest.fixture(scope="module")
def served_run(folder, tmp_path_factory):
    """A service with two workers over a run that tests may replace, and the run's folder."""
    run = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(folder / "raw", run)
    with serving(run, "--workers", 2, "--watch") as served:
        yield served, run


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A run with four labels."""
    folder = tmp_path_factory.mktemp("larger")
    rows = load(write_texts(folder / "train.jsonl", extra="market"))
    train("dismec", rows, folder / "run", PARAMS)
    return folder / "run"


def replace(run, new):
    """Put a copy of another run in place of a run, in one step but one."""
    shutil.copytree(new, run.with_name("next"))
    run.rename(run.with_name("before"))
    run.with_name("next").rename(run)
    shutil.rmtree(run.with_name("before"))


def n_labels(client):
    return client.get("/v1/projects/run").json()["n_labels"]


class Load:
    """Requests on kept-alive connections, from several threads, until it ends."""

    def __init__(self, served, n_threads=4):
        self.failures, self.n_answers, self._served = [], 0, served
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._request) for _ in range(n_threads)]

    def _request(self):
        with self._served.client() as client:
            while not self._end.is_set():
                try:
                    answer = client.post("/v1/projects/run/suggest", data={"text": "cod net"})
                    if answer.status_code != 200 or not answer.json()["results"]:
                        self.failures.append(answer.text)
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                self.n_answers += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()


def test_reloads_during_requests_lose_none(served_run):
    served, _ = served_run
    with served.client() as client, Load(served) as load:
        for _ in range(2):
            eventually(lambda n=load.n_answers: load.n_answers > n + 20)
            before = set(served.workers())
            assert client.post("/admin/reload").json() == {"reloaded": ["run"]}
            eventually(lambda old=before: len(served.workers()) == 2 and not old & set(served.workers()), served)
    assert load.failures == []
    assert load.n_answers > 40


def test_a_run_that_changes_is_watched_and_a_damaged_one_does_not_replace_it(served_run, folder, larger):
    served, run = served_run
    with served.client() as client:
        assert n_labels(client) == 3
        replace(run, larger)
        eventually(lambda: n_labels(client) == 4, served)
        n_lines = len(served.lines)
        piece = next(one for one in run.glob("pieces/**/*.npy"))
        content = bytearray(piece.read_bytes())
        content[-1] ^= 1
        piece.write_bytes(content)
        answer = client.post("/admin/reload")
        assert answer.status_code == 409
        assert "the old runs stay" in answer.json()["detail"]
        assert "checksum" in answer.json()["detail"]
        assert n_labels(client) == 4
        assert any("reload failed" in line for line in served.lines[n_lines:])
        replace(run, folder / "raw")
        eventually(lambda: n_labels(client) == 3, served)


def test_sighup_reloads(served_run):
    served, _ = served_run
    before = sum("reloaded: run" in line for line in served.lines)
    served.send(signal.SIGHUP)
    eventually(lambda: sum("reloaded: run" in line for line in served.lines) > before, served)


def test_a_killed_worker_comes_back_and_the_other_one_answers_meanwhile(served_run):
    served, _ = served_run
    eventually(lambda: len(served.workers()) == 2, served)
    time.sleep(1.2)  # a worker that ends right after its start is replaced after a pause
    first, second = served.workers()
    os.kill(first, signal.SIGKILL)
    for _ in range(5):
        with served.client() as client:
            assert client.get("/health/live").status_code == 200
    found = eventually(lambda: (now := served.workers()) and len(now) == 2 and first not in now and now, served)
    assert second in found


def test_the_service_survives_the_death_of_the_process_that_keeps_its_workers(served_run):
    served, _ = served_run
    before = set(served.workers())
    leader = os.getpgid(next(iter(before)))
    os.kill(leader, signal.SIGKILL)
    with served.client() as client:
        assert n_labels(client) == 3
    eventually(lambda: len(served.workers()) == 2 and not before & set(served.workers()), served)
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in before))


def test_a_stop_answers_the_open_requests_and_leaves_no_process(folder):
    with serving(folder / "raw", "--workers", 2) as served:
        workers = served.workers()
        body = b"text=cod"
        with socket.create_connection(("127.0.0.1", served.port)) as open_request:
            head = f"POST /v1/projects/raw/suggest HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            open_request.sendall(f"{head}content-type: application/x-www-form-urlencoded\r\n\r\n".encode())
            time.sleep(0.3)
            served.send(signal.SIGTERM)
            served.wait_for("stopping")
            time.sleep(0.3)
            open_request.sendall(body)
            answer = b"".join(iter(lambda: open_request.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b'"results"' in answer
        assert served.stop() == 0
        assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", served.port))


def test_workers_end_when_the_supervisor_is_killed(folder):
    with serving(folder / "raw") as served:
        workers = served.workers()
        served.send(signal.SIGKILL)
        eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


def test_a_token_protects_all_but_page_documentation_and_health(folder, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    words = ["--token-file", tmp_path / "token", "--allow-origin", "https://example.org", "--log-texts"]
    with serving(folder / "raw", *words) as served, served.client() as client:
        for address in ("/", "/docs", "/docs/swagger-ui.css", "/openapi.json", "/health/live", "/health/ready"):
            assert client.get(address).status_code == 200, address
        for method, address in (
            ("GET", "/v1/projects"),
            ("GET", "/metrics"),
            ("GET", "/nothing"),
            ("GET", "//v1/projects"),
            ("POST", "/predict"),
            ("POST", "/admin/reload"),
        ):
            answer = client.request(method, address)
            assert answer.status_code == 401, address
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["status"] == 401
        assert client.get("/v1/projects", headers={"authorization": "Bearer other"}).status_code == 401
        allowed = {"authorization": "Bearer s3cret"}
        assert client.get("/v1/projects", headers=allowed).status_code == 200
        assert client.post("/admin/reload", headers=allowed).json() == {"reloaded": ["raw"]}
        assert client.get("/openapi.json").json()["security"] == [{"token": []}]
        preflight = {"origin": "https://example.org", "access-control-request-method": "POST"}
        shared = client.options("/predict", headers=preflight)
        assert shared.headers["access-control-allow-origin"] == "https://example.org"
        other = client.options("/predict", headers={**preflight, "origin": "https://other.org"})
        assert "access-control-allow-origin" not in other.headers
        client.post("/predict", json={"inputs": "the wanted text"}, headers=allowed)
        eventually(lambda: any(json.loads(line).get("text") == ["the wanted text"] for line in list(served.log)))


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "203.0.113.7"},
        {"origin": "https://example.org"},
        {"origin": "null"},
        {"host": "example.org"},
    ],
)
def test_others_cannot_reload_without_a_token(client, headers):
    answer = client.post("/admin/reload", headers=headers)
    assert answer.status_code == 403
    assert "token" in answer.json()["detail"]


def test_what_cannot_be_served_is_refused_in_one_line(folder, tmp_path, capsys):
    (tmp_path / "raw").mkdir()
    assert "have the same name" in refused(capsys, "serve", folder / "raw", tmp_path / "raw")
    (tmp_path / "token").write_text("two words")
    assert "without spaces" in refused(capsys, "serve", folder / "raw", "--token-file", tmp_path / "token")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another --port" in refused(capsys, "serve", folder / "raw", "--port", taken.getsockname()[1])
    assert "raw" in refused(capsys, "serve", tmp_path / "raw", "--port", 0)
