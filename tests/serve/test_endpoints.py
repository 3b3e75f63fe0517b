"""Every address of the service, over real HTTP."""

import json
import math
from urllib.parse import quote

import pytest

from tests.serve.serving import eventually
from unmissed.runs import open_run

TEXT = "the cod in the net of the court"
PROJECT_KEYS = {
    "project_id",
    "name",
    "language",
    "backend",
    "is_trained",
    "modification_time",
    "n_labels",
    "n_features",
    "takes_text",
    "probabilities",
    "explains",
}


@pytest.fixture(scope="module")
def topics(folder):
    return open_run(folder / "topics")


def suggest(client, project="topics", **fields):
    answer = client.post(f"/v1/projects/{project}/suggest", data=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_projects_say_what_they_are(client):
    found = {one["project_id"]: one for one in client.get("/v1/projects").json()["projects"]}
    assert list(found) == ["topics", "raw", "trees"]
    assert found["topics"].keys() == PROJECT_KEYS
    assert found["topics"]["backend"] == {"backend_id": "dismec"}
    assert [found[name]["probabilities"] for name in ("topics", "raw")] == ["observed", None]
    assert [found[name]["explains"] for name in ("topics", "trees")] == [True, False]
    assert found["topics"]["n_labels"] == 3
    assert found["topics"]["is_trained"] is True
    assert client.get("/v1/projects/topics").json() == found["topics"]


def test_suggestions_of_a_calibrated_run_are_its_most_probable_labels_with_probabilities(client, topics):
    answer = suggest(client, text=TEXT)
    expected = topics.rank([TEXT], 3, rank_by="probability")
    margins = topics.rank([TEXT], 3)
    assert answer["score"] == "probability"
    assert [one["uri"] for one in answer["results"]] == [topics.label_names[label] for label in expected.labels[0]]
    assert [one["label"] for one in answer["results"]] == [topics.label_titles[label] for label in expected.labels[0]]
    assert [one["score"] for one in answer["results"]] == pytest.approx(expected.scores[0].tolist())
    margin = {
        topics.label_names[label]: score for label, score in zip(margins.labels[0], margins.scores[0], strict=True)
    }
    assert {one["uri"]: one["margin"] for one in answer["results"]} == pytest.approx(margin)
    assert all(one["notation"] is None for one in answer["results"])
    assert answer["no_known_words"] is False


def test_suggestions_of_a_run_without_probabilities_have_raw_scores_and_say_so(client, folder):
    answer = suggest(client, "raw", text=TEXT, limit=2)
    expected = open_run(folder / "raw").rank([TEXT], 2)
    assert answer["score"] == "score"
    assert [one["score"] for one in answer["results"]] == pytest.approx(expected.scores[0].tolist())
    assert [one["margin"] for one in answer["results"]] == [one["score"] for one in answer["results"]]


@pytest.mark.parametrize("project", ["topics", "trees"])
def test_limit_and_threshold_choose_labels(client, project):
    every = suggest(client, project, text=TEXT)["results"]
    assert [one["score"] for one in every] == sorted((one["score"] for one in every), reverse=True)
    assert suggest(client, project, text=TEXT, limit=1)["results"] == every[:1]
    threshold = every[1]["score"]
    assert suggest(client, project, text=TEXT, threshold=repr(threshold))["results"] == every[:2]
    assert suggest(client, project, text=TEXT, limit=1, threshold=repr(threshold))["results"] == every[:1]


def test_forms_may_be_urlencoded_or_multipart_or_plain_utf8(client, served):
    address = "/v1/projects/topics/suggest"
    expected = suggest(client, text="Cod, bröd ☕ net", limit=2)
    multipart = client.post(address, files={"text": (None, "Cod, bröd ☕ net"), "limit": (None, "2")})
    assert multipart.json() == expected
    kind = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert client.post(address, content="text=Cod, bröd ☕ net&limit=2".encode(), headers=kind).json() == expected
    refused = client.post(address, json={"text": "cod"})
    assert refused.status_code == 415


def test_a_text_without_known_words_gets_no_labels_and_says_why(client):
    assert suggest(client, text="xyzzy") == {"results": [], "score": "probability", "no_known_words": True}
    assert suggest(client, text="")["no_known_words"] is True


def test_a_batch_gives_each_document_what_it_gets_on_its_own(client):
    texts = ["cod net", "judge", "xyzzy"]
    documents = [{"text": text, "document_id": f"d{number}"} for number, text in enumerate(texts)]
    del documents[1]["document_id"]
    answer = client.post("/v1/projects/topics/suggest-batch?limit=2&threshold=0.01", json={"documents": documents})
    found = answer.json()
    assert [one["document_id"] for one in found] == ["d0", None, "d2"]
    for text, one in zip(texts, found, strict=True):
        expected = suggest(client, text=text, limit=2, threshold=0.01)
        assert one["results"] == expected["results"]
        assert one["no_known_words"] == expected["no_known_words"]
    assert client.post("/v1/projects/topics/suggest-batch", json={"documents": []}).json() == []


def test_predict_answers_as_hugging_face_does(client):
    expected = [{"label": one["label"], "score": one["score"]} for one in suggest(client, text=TEXT)["results"]]
    assert client.post("/predict", json={"inputs": TEXT}).json() == expected
    body = {"inputs": [TEXT, "judge"], "parameters": {"top_k": 1}}
    found = client.post("/predict", json=body).json()
    assert found[0] == expected[:1]
    assert [len(one) for one in found] == [1, 1]
    raw = client.post("/predict", json={"inputs": TEXT, "parameters": {"project": "raw"}}).json()
    assert raw[0]["score"] == suggest(client, "raw", text=TEXT)["results"][0]["score"]


def test_contributions_and_bias_add_up_to_the_margin(client):
    for one in suggest(client, text=TEXT)["results"]:
        body = {"text": TEXT, "label": one["uri"]}
        found = client.post("/v1/projects/topics/explain", json=body).json()
        parts = [word["contribution"] for word in found["contributions"]]
        assert found["margin"] == pytest.approx(one["margin"], rel=1e-5)
        assert found["bias"] + sum(parts) == pytest.approx(one["margin"], abs=1e-5)
        assert found["score"] == pytest.approx(one["score"], rel=1e-5)
        assert [abs(part) for part in parts] == sorted(map(abs, parts), reverse=True)
        assert {word["feature"] for word in found["contributions"]} <= {"the", "cod", "net", "of", "court"}
        assert (found["uri"], found["label"], found["dense"]) == (one["uri"], one["label"], None)
    assert len(client.post("/v1/projects/topics/explain", json={**body, "limit": 1}).json()["contributions"]) == 1


def test_a_method_without_weights_refuses_to_explain(client):
    answer = client.post("/v1/projects/trees/explain", json={"text": "cod", "label": "fish"})
    assert answer.status_code == 400
    assert "parabel" in answer.json()["detail"]
    shown = client.get("/v1/projects/trees/labels/fish").json()
    assert (shown["features"], shown["neighbors"]) == ([], [])


def test_labels_are_found_by_prefix_and_shown_with_weights_and_neighbors(client, topics):
    assert [one["uri"] for one in client.get("/v1/projects/topics/labels?query=FISH").json()["labels"]] == ["fish"]
    every = client.get("/v1/projects/topics/labels").json()["labels"]
    assert [one["count"] for one in every] == sorted(topics.label_counts.tolist(), reverse=True)
    assert len(client.get("/v1/projects/topics/labels?limit=1").json()["labels"]) == 1
    shown = client.get(f"/v1/projects/topics/labels/{quote('fish', safe='')}").json()
    assert (shown["label"], shown["count"]) == ("Fish and fishing", int(topics.label_counts[topics.label("fish")]))
    assert {one["feature"] for one in shown["features"][:3]} == {"cod", "net", "quota"}
    assert {one["uri"] for one in shown["neighbors"]} == {"law", "food"}
    assert all(-1 <= one["similarity"] < 1 for one in shown["neighbors"])


@pytest.mark.parametrize(
    ("method", "address", "body", "status", "detail"),
    [
        ("GET", "/v1/projects/nothing", None, 404, "no project 'nothing'; there are topics, raw, trees"),
        ("GET", "/v1/projects/topics/labels/nothing", None, 404, "no label 'nothing'"),
        ("POST", "/v1/projects/topics/explain", {"text": "cod", "label": "nothing"}, 404, "no label"),
        ("POST", "/v1/projects/topics/explain", {"text": "cod"}, 422, "body.label"),
        ("POST", "/predict", {"inputs": 7}, 422, "body.inputs"),
        ("POST", "/predict", {"inputs": "a", "parameters": {"top_k": 0}}, 422, "top_k"),
        ("POST", "/predict", {"inputs": "a\ud800"}, 400, "half of a surrogate pair"),
        ("GET", "/v1/projects/topics/labels?limit=x", None, 422, "query.limit"),
        ("GET", "/nothing", None, 404, "/docs"),
        ("DELETE", "/predict", None, 405, "DELETE"),
    ],
)
def test_a_wrong_request_gets_one_line(client, method, address, body, status, detail):
    content = None if body is None else json.dumps(body)
    answer = client.request(method, address, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found["status"] == status
    assert detail in found["detail"]
    assert "\n" not in found["detail"]
    assert found.keys() == {"status", "title", "detail"}


def test_page_documentation_and_schema_need_no_other_host(client):
    for address in ("/", "/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"):
        answer = client.get(address)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "https://" not in client.get("/docs").text
    paths = client.get("/openapi.json").json()["paths"]
    assert "/v1/projects/{project_id}/suggest" in paths
    assert len(paths) == 12


def test_health_and_metrics_count_the_requests_of_all_workers(client, served):
    def counted(name):
        lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name)]
        return math.fsum(float(line.rpartition(" ")[2]) for line in lines)

    name = 'unmissed_requests_total{endpoint="/health/live"'
    before, texts = counted(name), counted('unmissed_texts_total{project="raw"}')
    for _ in range(20):
        with served.client() as other:  # new connections reach all workers
            assert other.get("/health/live").json() == {"status": "ok"}
            assert other.get("/health/ready").status_code == 200
            suggest(other, "raw", text="cod")
    assert counted(name) == before + 20
    assert counted('unmissed_texts_total{project="raw"}') == texts + 20
    assert counted('unmissed_request_seconds_count{endpoint="/health/live"}') == before + 20
    assert counted("unmissed_run_info") == 3
    assert 0 < counted('unmissed_run_age_seconds{project="topics"}') < 3600


def test_the_access_log_has_a_json_line_per_request_without_its_text(client, served):
    suggest(client, text="the secret cod")

    def last():
        records = [json.loads(line) for line in list(served.log) if '"texts"' in line]
        return next((one for one in reversed(records) if one["path"].endswith("topics/suggest")), None)

    record = eventually(last)
    assert (record["method"], record["status"], record["texts"], record["client"]) == ("POST", 200, 1, "127.0.0.1")
    assert record["ms"] > 0
    assert "secret" not in "".join(served.log)


def test_answers_are_not_cached_framed_or_shared(client):
    headers = client.get("/v1/projects", headers={"origin": "https://example.org"}).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers
