"""The page of the service fits phones and desktops, and can be read by everybody; skipped if there is no browser."""

import pytest

from tests.reports.test_browser import WIDTHS
from tests.serve.page_service import ready, row, suggest

CONTRAST = """() => {  // the texts with a contrast below 4.5, and the number of texts
  const read = color => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const linear = value => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const behind = one => {
    const all = [];
    for (let at = one; at; at = at.parentElement) all.push(read(getComputedStyle(at).backgroundColor));
    return all.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = [];
  const check = (one, color, name) => found.push([ratio(over(read(color), behind(one)), behind(one)), name]);
  for (const one of document.querySelectorAll("body *")) {
    if (!one.checkVisibility() || one.closest(":disabled, #mirror, .hidden, option")) continue;
    const style = getComputedStyle(one), texts = [...one.childNodes].filter(node => node.nodeType === 3);
    if (texts.some(node => node.data.trim()) || one.matches("input, select")) check(one, style.color, one.textContent);
    if (one.placeholder) check(one, getComputedStyle(one, "::placeholder").color, one.placeholder);
  }
  const ink = getComputedStyle(document.getElementById("text")).color;
  document.querySelectorAll("#mirror mark").forEach(one => check(one, ink, "highlighted " + one.textContent));
  return [found.filter(([value]) => !(value >= 4.5)), found.length];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_everything_fits_has_contrast_and_a_name(visit, page_service, width, scheme):
    page = ready(visit(page_service, width=width, scheme=scheme))
    page.wait_for_selector("#empty:visible")
    poor, _ = page.evaluate(CONTRAST)
    assert poor == []
    suggest(page)
    row(page, "=fish").locator("> button").click()
    page.wait_for_selector(".explanation table")
    page.locator("#rows .yes").nth(0).click()
    page.locator("#rows .no").nth(1).click()
    page.click("#help summary")
    page.fill("#query", "a")
    page.wait_for_selector("#options li")
    poor, n_texts = page.evaluate(CONTRAST)
    assert poor == []
    assert n_texts > 80
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.eval_on_selector_all(
        "h1, h2, p, button, input, select, .row, .row > *, table, td, th, .editor, #options li, dd",
        "all => all.filter(one => one.checkVisibility() && !one.matches('.hidden'))"
        ".map(one => one.getBoundingClientRect().toJSON())",
    )
    assert min(box["left"] for box in boxes) >= 0
    assert max(box["right"] for box in boxes) <= width
    sizes = page.eval_on_selector_all(
        "button, select, input:not([type=file])",
        "all => all.filter(one => one.checkVisibility())"
        ".map(one => [one.offsetWidth, one.offsetHeight, one.id || one.textContent])",
    )
    assert [size for size in sizes if min(size[:2]) < 24] == []
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "combobox", "listbox", "option", "dialog", "table", "region"}
    controls = [node for node in nodes if not node["ignored"] and node["role"]["value"] in roles]
    assert len(controls) > 30
    assert [node for node in controls if not node.get("name", {}).get("value", "").strip()] == []
    names = page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
    assert len(names) == len(set(names))
