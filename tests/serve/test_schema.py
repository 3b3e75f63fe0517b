"""Requests that schemathesis makes from the OpenAPI schema never fail in the service."""

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


def test_no_request_of_the_schema_makes_the_service_fail(served, client):
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    schema.config.update(base_url=served.url)
    operations = [one.ok() for one in schema.get_all_operations()]
    operations = [one for one in operations if one.path != "/admin/reload"]  # each would open the runs again
    assert len(operations) == 11

    @settings(
        max_examples=150,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(case=st.sampled_from(operations).flatmap(lambda one: one.as_strategy()))
    def check(case):
        answer = case.call(base_url=served.url)
        assert answer.status_code < 500, answer.text
        assert answer.status_code < 400 or answer.json()["status"] == answer.status_code

    check()
