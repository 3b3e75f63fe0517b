"""`create_app`: the application in a process of one's own."""

import asyncio
import shutil
import threading

import httpx
import pytest
from fastapi import FastAPI

from unmissed.errors import InputError
from unmissed.serve import RequestLimits, create_app
from unmissed.serve.projects import Project
from unmissed.serve.rank_queue import RankQueue


@pytest.fixture
def run(folder, tmp_path):
    shutil.copytree(folder / "raw", tmp_path / "run")
    return tmp_path / "run"


def use(app, work):
    """Return what `work(client)` returns, for a client of the application."""

    async def call():
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await work(client)

    return asyncio.run(call())


def test_a_mounted_application_answers_and_needs_its_token_there(run):
    app = FastAPI()
    app.mount("/labels", create_app([run], token="t"))

    async def work(client):
        assert (await client.get("/labels/v1/projects")).status_code == 401
        assert (await client.get("/labels/health/ready")).status_code == 200
        assert "/labels/openapi.json" in (await client.get("/labels/docs")).text
        headers = {"authorization": "Bearer t"}
        answer = await client.post("/labels/v1/projects/run/suggest", data={"text": "cod"}, headers=headers)
        return answer.json()["results"][0]["uri"]

    assert use(app, work) == "fish"


def test_a_reload_exchanges_the_runs_and_a_failed_one_keeps_them(folder, run):
    app = create_app([run])

    async def work(client):
        async def method():
            return (await client.get("/v1/projects/run")).json()["backend"]["backend_id"]

        assert await method() == "dismec"
        shutil.rmtree(run)
        failed = await client.post("/admin/reload")
        assert (failed.status_code, await method()) == (409, "dismec")
        shutil.copytree(folder / "trees", run)
        assert (await client.post("/admin/reload")).json() == {"reloaded": ["run"]}
        metrics = (await client.get("/metrics")).text
        assert 'unmissed_reloads_total{result="failed"} 1.0' in metrics
        assert 'unmissed_reloads_total{result="ok"} 1.0' in metrics
        return await method()

    assert use(app, work) == "parabel"


def test_records_go_to_the_log_and_limits_are_those_given(run):
    records = []
    app = create_app([run], log=records.append, log_texts=True, limits=RequestLimits(text=5))

    async def work(client):
        answers = [await client.post("/predict", json={"inputs": text}) for text in ("cod", "cod net")]
        return [answer.status_code for answer in answers]

    assert use(app, work) == [200, 413]
    assert [record["status"] for record in records] == [200, 413]
    assert records[0]["text"] == ["cod"]


def test_a_failure_of_the_service_is_one_line_without_a_traceback(run, monkeypatch, caplog):
    app = create_app([run])

    def fail(*_):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(Project, "suggest", fail)

    async def work(client):
        return await client.post("/predict", json={"inputs": "cod"})

    answer = use(app, work)
    assert answer.status_code == 500
    assert answer.json()["detail"] == "the service failed; its log says why"
    assert "ZeroDivisionError: inside" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("name", ["text", "batch", "seconds"])
def test_limits_are_above_zero(name):
    with pytest.raises(InputError, match=f"the limit {name} must be above 0"):
        RequestLimits(**{name: 0})


class _Counted:
    """A project that records the batches it ranks and their threads; `bad` cannot be ranked."""

    def __init__(self, has_encoder):
        self.has_encoder, self.batches, self.threads = has_encoder, [], set()

    def suggest(self, texts, k, threshold):
        self.batches.append(list(texts))
        self.threads.add(threading.current_thread())
        if "bad" in texts:
            raise InputError("bad")
        return [f"{text} {k}" for text in texts]


@pytest.mark.parametrize("has_encoder", [False, True])
def test_texts_that_wait_are_ranked_together_and_only_a_bad_one_fails(has_encoder):
    project = _Counted(has_encoder)

    async def work():
        queue = RankQueue(batch=3)
        texts = [["a"], ["b"], ["bad"], ["c", "d"], ["e"]]
        waiting = [asyncio.ensure_future(queue.suggest(project, text, 1, 0.0)) for text in texts]
        other = asyncio.ensure_future(queue.suggest(project, ["f"], 2, 0.0))
        left = asyncio.ensure_future(queue.suggest(project, ["g"], 2, 0.0))
        await asyncio.sleep(0)  # they wait from now on
        left.cancel()
        return await asyncio.gather(*waiting, other, return_exceptions=True)

    *found, last = asyncio.run(work())
    assert [str(one) for one in found] == ["['a 1']", "['b 1']", "bad", "['c 1', 'd 1']", "['e 1']"]
    assert last == ["f 2"]
    assert project.batches == [["a", "b", "bad"], ["a"], ["b"], ["bad"], ["c", "d", "e"], ["f"]]
    assert (threading.main_thread() in project.threads) is not has_encoder


def test_long_texts_leave_the_event_loop_free_and_short_ones_are_not_joined_beyond_that_length():
    project, long, half = _Counted(False), "x" * 20_001, "x" * 9_000

    async def work():
        queue = RankQueue()
        await queue.suggest(project, [long], 1, 0.0)
        assert threading.main_thread() not in project.threads
        await asyncio.gather(*(queue.suggest(project, [half], 1, 0.0) for _ in range(3)))

    asyncio.run(work())
    assert project.batches == [[long], [half, half], [half]]


def test_answers_are_sent_before_the_texts_that_came_meanwhile_are_ranked(monkeypatch):
    project, half, events = _Counted(False), "x" * 9_000, []
    monkeypatch.setattr(project, "batches", events)

    async def work():
        queue = RankQueue()

        async def request():
            await queue.suggest(project, [half], 1, 0.0)
            events.append("sent")

        await asyncio.gather(*(request() for _ in range(3)))

    asyncio.run(work())
    assert events == [[half, half], "sent", "sent", [half], "sent"]
