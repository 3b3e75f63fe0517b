"""The pages in a real browser, at the widths of a phone and of a desktop; skipped if there is no browser."""

import shutil

import pytest

from tests.reports.demo import make_demo
from tests.reports.results import make_results
from unmissed.reports import comparison_page, demo_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1400)
SMALLEST = 6.5  # pixels of a figure's letters


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Write every kind of page once."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "compare": comparison_page.render_page(make_results(published=True)),
        "demo": demo_page.render_page(make_demo()),
    }
    for kind, text in texts.items():
        (folder / f"{kind}.html").write_text(text, encoding="utf-8")
    return {kind: folder / f"{kind}.html" for kind in texts}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: pages are not looked at")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(params=[(kind, width) for kind in ("compare", "demo") for width in WIDTHS], ids=str)
def shown(request, pages, browser):
    """Open a page at a width; return it, what it fetched, and the width."""
    kind, width = request.param
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    fetched, errors = [], []
    page.on("request", lambda call: fetched.append(call.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(pages[kind].as_uri())
    yield page, width
    assert fetched == [pages[kind].as_uri()], "a page needs no other file"
    assert errors == []
    context.close()


def boxes(page, selector):
    return page.eval_on_selector_all(selector, "all => all.map(one => one.getBoundingClientRect().toJSON())")


def test_nothing_is_cut_off_and_the_page_itself_does_not_scroll_sideways(shown):
    page, width = shown
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in boxes(page, "h1, h2, p, dl, figure, .scroll, pre, footer"):
        assert box["left"] >= 0
        assert box["right"] <= width


def test_figures_render_and_can_be_read(shown):
    page, width = shown
    figures = boxes(page, "figure > svg")
    assert len(figures) >= 3
    for box in figures:
        assert box["width"] > 0.8 * min(width, 400) - 40
        assert box["height"] > 100
    letters = page.eval_on_selector_all(
        "figure > svg",
        "all => all.flatMap(svg => [...svg.querySelectorAll('text')].map(text => "
        "parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width))",
    )
    assert min(letters) >= SMALLEST
    beyond = page.eval_on_selector_all(
        "figure > svg",
        "all => all.flatMap(svg => [...svg.querySelectorAll('text')].filter(text => {"
        "const own = text.getBoundingClientRect(), frame = svg.getBoundingClientRect();"
        "return own.left < frame.left - 2 || own.right > frame.right + 2;}).map(text => text.textContent))",
    )
    assert beyond == []


def test_tables_show_figures_at_once_and_scroll_within_themselves(shown):
    page, width = shown
    for box in boxes(page, "table:not(.words) tbody tr:first-child td:nth-child(2)"):
        assert box["right"] <= width, "the first column of figures is seen without scrolling"
    inside = page.eval_on_selector_all(
        ".scroll", "all => all.map(one => [one.scrollWidth, one.clientWidth, getComputedStyle(one).overflowX])"
    )
    assert all(overflow == "auto" for _, _, overflow in inside)
    if width == min(WIDTHS):
        assert any(full > seen for full, seen, _ in inside)
        table = page.locator(".scroll").first
        table.evaluate("one => one.scrollLeft = 1000")
        first = table.locator("tbody td").first.bounding_box()
        assert 0 <= first["x"] < 40, "the names stay in sight"


def test_a_click_on_a_head_sorts_and_another_turns_it_over(shown):
    page, _ = shown
    table = page.locator("table.sortable").first
    head = table.locator("th button").nth(1)
    read = "rows => rows.map(row => row.cells[1].dataset.value).filter(value => value !== undefined).map(Number)"
    for falls in (True, False):
        head.click()
        values = table.locator("tbody tr").evaluate_all(read)
        assert values == sorted(values, reverse=falls)
        assert table.locator("th").nth(1).get_attribute("aria-sort") == ("descending" if falls else "ascending")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_both_have_ink_on_paper(pages, browser, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(pages["compare"].as_uri())

    def brightness(script):
        return sum(map(int, page.evaluate(script).strip("rgb()").split(",")[:3])) / 3

    paper = brightness("getComputedStyle(document.body).backgroundColor")
    ink = brightness("getComputedStyle(document.body).color")
    letters = brightness("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert abs(paper - ink) > 120
    assert abs(paper - letters) > 120
    assert (paper > 128) == (scheme == "light")
    context.close()


def test_the_demo_opens_with_the_finding_and_the_picture_and_defines_its_terms_at_the_end(pages, browser):
    page = browser.new_page()
    page.goto(pages["demo"].as_uri())
    text = page.inner_text("main")
    titles = ("Gain by label frequency", "Recorded and complete labels", "Which labels are missing", "Terms")
    positions = [text.index(title) for title in titles]
    assert positions == sorted(positions)
    assert "of the true rare labels" in text[: positions[0]], "the finding comes first"
    assert page.locator("main > *").nth(3).evaluate("one => one.tagName") == "FIGURE", "then the picture"
    for word in ("P@k", "PSP@k", "recall@5", "tail labels", "DiSMEC", "PW-DiSMEC", "observed labels"):
        assert word in text[positions[-1] :], word
    page.close()
