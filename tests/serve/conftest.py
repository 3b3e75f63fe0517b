"""Fixtures of the tests of the page."""

import pytest

from tests.reports.test_browser import browser  # noqa: F401, a fixture
from tests.serve.page_service import Service, make_runs


@pytest.fixture(scope="session")
def page_runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def page_service(page_runs):
    with Service(*page_runs.values()) as running:
        yield running


@pytest.fixture
def visit(browser):  # noqa: F811, the fixture of the import
    """Open the page of a service; at the end, nothing failed in it and it asked nobody else."""
    contexts, errors, fetched, expected = [], [], [], []

    def go(service, *, width=1400, scheme="light", fails=(), permissions=(), script=None):
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            accept_downloads=True,
            permissions=permissions,
        )
        contexts.append(context)
        expected.extend(fails)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if script is not None:
            page.add_init_script(script)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda request: fetched.append((request.url, service.address)))
        page.goto(service.address)
        return page

    yield go
    for context in contexts:
        context.close()
    assert fetched
    assert [url for url, own in fetched if not url.startswith((own, "blob:", "data:"))] == []
    assert [error for error in errors if not any(part in error for part in expected)] == []
