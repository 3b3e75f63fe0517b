"""Hostile requests: huge, slow, malformed, many at once. The service refuses them in one line and goes on."""

import json
import socket
import threading
import time

import pytest

from tests.serve.serving import serving

LIMITS = ["--max-text", 1000, "--max-batch", 3, "--max-body", 20_000, "--max-concurrent", 2, "--timeout", 1.5]
FORM = "content-type: application/x-www-form-urlencoded\r\n"


@pytest.fixture(scope="module")
def small(folder):
    """A service with small limits; after every test it still answers."""
    with serving(folder / "topics", *LIMITS) as served:
        yield served


@pytest.fixture(autouse=True)
def _still_answers(small):
    yield
    with small.client() as client:
        assert client.get("/health/ready").status_code == 200
        found = client.post("/v1/projects/topics/suggest", data={"text": "cod"}).json()
        assert found["results"][0]["uri"] == "fish"
    assert small.process.poll() is None


def exchange(served, *parts, pause=0.0, patience=60):
    """Send bytes, with pauses, and return all that comes back; what the service does not take is not sent."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=patience) as connection:
        try:
            for part in parts:
                connection.sendall(part if isinstance(part, bytes) else part.encode())
                time.sleep(pause)
        except (BrokenPipeError, ConnectionResetError):
            pass
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except (ConnectionResetError, TimeoutError):
            pass
        return received


def problem_of(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    found = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {found['status']} ".encode())
    return found


def test_texts_batches_and_bodies_have_limits(small):
    with small.client() as client:
        address = "/v1/projects/topics/suggest"
        assert client.post(address, data={"text": "x" * 1000}).status_code == 200
        assert "1,001 characters" in client.post(address, data={"text": "x" * 1001}).json()["detail"]
        documents = [{"text": "cod"}] * 4
        answer = client.post(f"{address}-batch", json={"documents": documents})
        assert (answer.status_code, answer.json()["detail"]) == (413, "4 texts; a request may have 3")
        assert client.post(f"{address}-batch", json={"documents": documents[:3]}).status_code == 200
        assert client.post(address, data={"text": "x" * 20_000}).status_code == 413
        chunks = (b"x" * 1000 for _ in range(100))
        answer = client.post(address, content=chunks)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_large_limit_returns_all_labels(small):
    with small.client() as client:
        found = client.post("/v1/projects/topics/suggest", data={"text": "cod", "limit": 10**9}).json()
    assert len(found["results"]) == 3


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00", 400),
        ("POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n", 400),
        ("POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", 400),
        ("POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999999\r\n\r\n", 413),
        ("POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        ("POST /predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n", 400),
        ("GET /" + "a" * 40_000 + " HTTP/1.1\r\nhost: x\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nhost: x\r\nx: " + "a" * 40_000 + "\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nhost: x\r\n" + "a: b\r\n" * 300 + "\r\n", 431),
        ("GET / HTTP/1.1\r\nhost: x\r\n" + "abcdefgh: 12345678\r\n" * 5000, 431),
    ],
    ids=lambda value: None if isinstance(value, int) else value[:24].split("\r")[0],
)
def test_what_is_no_request_is_refused(small, request_text, status):
    assert problem_of(exchange(small, request_text))["status"] == status


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/docs/../../../etc/passwd",
        "/docs/..%2f..%2fetc%2fpasswd",
        "/docs/%2e%2e/page.html",
        "//v1//projects",
        "/v1/projects/..%2f..%2ftopics",
        "/v1/projects/%00",
        "/v1/projects/%ff%fe",
        "/v1/projects/topics/labels/%F0%9F%92%A9",
        "/v1/projects/topics/labels/../../x",
    ],
)
def test_paths_lead_nowhere_else(small, path):
    answer = exchange(small, f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert problem_of(answer)["status"] == 404
    assert b"root:" not in answer


def test_an_upgrade_is_ignored(small):
    head = "GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    answer = exchange(small, head + "sec-websocket-version: 13\r\nsec-websocket-key: eHg=\r\n\r\n", patience=3)
    assert b"101" not in answer


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"&".join(b"a=b" for _ in range(3000))),
        ("application/x-www-form-urlencoded", b"text=%ff%fe%zz&limit=2"),
        ("application/x-www-form-urlencoded", b"limit=2"),
        ("application/x-www-form-urlencoded", b"text=a&limit=nan"),
        ("application/x-www-form-urlencoded", b"text=a&threshold=inf"),
        ("multipart/form-data", b"--x"),
        ("multipart/form-data; boundary=x", b"--y\r\n\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\ncontent-disposition: form-data; name="text"\r\n\r\n' + b"a" * 99),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\ncontent-disposition: form-data; name="text"; filename="a"\r\n\r\na\r\n--x--\r\n',
        ),
    ],
)
def test_a_malformed_form_is_refused_in_one_line(small, kind, body):
    with small.client() as client:
        answer = client.post("/v1/projects/topics/suggest", content=body, headers={"content-type": kind})
    assert answer.status_code in (200, 400, 422)
    assert "results" in answer.json() or "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 9000,
        b'{"inputs": ' + b"9" * 5000 + b"}",
        b"null",
        b"\xff\xfe",
        b'{"inputs": "a", "inputs": 1}',
    ],
)
def test_malformed_json_is_refused_in_one_line(small, body):
    with small.client() as client:
        answer = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "\n" not in answer.json()["detail"]


def test_slow_requests_are_ended(small):
    begin = time.monotonic()
    assert exchange(small) == b""  # nothing is sent
    assert exchange(small, "GET / HT", "TP/1.1\r\n", "x: y\r\n", "z: ", *"slow header", pause=0.3) == b""
    head = f"POST /v1/projects/topics/suggest HTTP/1.1\r\nhost: x\r\n{FORM}content-length: 100\r\n\r\n"
    answer = exchange(small, head, *(["text="] + ["x"] * 12), pause=0.3)
    assert answer == b"" or problem_of(answer)["status"] == 408
    assert time.monotonic() - begin < 60


def test_many_connections_at_once_do_not_stop_it(small):
    connections = []
    try:
        for _ in range(900):
            connections.append(socket.create_connection(("127.0.0.1", small.port), timeout=30))
            connections[-1].sendall(b"GET /health/li")
        with small.client() as client:
            assert client.get("/health/live").status_code == 200
    finally:
        for connection in connections:
            connection.close()


def test_more_requests_than_allowed_at_once_get_503_with_a_time_to_retry(small):
    body = json.dumps({"documents": [{"text": "cod net " * 100}] * 3})
    address, kind = "/v1/projects/topics/suggest-batch", {"content-type": "application/json"}
    answers = []

    def request():
        with small.client() as client:
            answers.extend(client.post(address, content=body, headers=kind) for _ in range(5))

    threads = [threading.Thread(target=request) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {200, 503}
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["title"] == "Service Unavailable"


def test_clients_that_leave_or_do_not_read_are_forgotten(small):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", small.port)) as connection:
            connection.sendall(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n")
    unread = [socket.create_connection(("127.0.0.1", small.port)) for _ in range(5)]
    for connection in unread:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n")
    time.sleep(0.2)
    with small.client() as client:
        assert client.get("/health/live").status_code == 200
    for connection in unread:
        connection.close()


def test_pipelined_requests_are_answered_in_order(small):
    one = "GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = exchange(small, one * 20 + one.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"))
    assert answer.count(b"HTTP/1.1 200 OK") == 21
