"""A run with an encoder: workers embed texts, although the model was loaded before they were forked."""

import pytest

from tests.runs.test_encoders import cache, model_folder, trained  # noqa: F401, fixtures
from tests.serve.serving import serving

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries of the encoder


def test_every_worker_embeds_texts(trained):  # noqa: F811
    _, run = trained
    expected = run.rank(["cod net judge"], 2)
    with serving(run.folder, "--workers", 2, "--timeout", 120) as served:
        for _ in range(8):
            with served.client() as client:
                found = client.post("/predict", json={"inputs": "cod net judge", "parameters": {"top_k": 2}}).json()
                assert [one["score"] for one in found] == pytest.approx(expected.scores[0].tolist(), rel=1e-4)
