"""The page of the service in a real browser, against a real service; skipped if there is no browser."""

import csv
import hashlib
import json
import re
from pathlib import Path

import pytest

import unmissed.serve
from tests.reports.test_browser import WIDTHS
from tests.serve.page_service import ATTACK, TEXT, TOPICS, ready, reply, row, suggest
from tests.serve.serving import serving
from unmissed.audit import Answer, read_answers
from unmissed.runs.cells import unguard


def saved(page, path):
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(path)
    return download.value.suggested_filename


def test_the_page_is_one_file_that_a_strict_policy_allows():
    page = Path(unmissed.serve.__file__).with_name("page.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == page.count("<style") == 1
    assert not re.search(r"""\s(on\w+|style)\s*=\s*["']""", page), "no handlers or styles in attributes"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", page)
    assert re.findall(r"https?://[^'\"\s]*", page) == ["http://www.w3.org/2000/svg"]


def test_suggestions_appear_as_one_types_with_bars_of_their_probability(visit, page_service):
    page = ready(visit(page_service))
    page.type("#text", "cod net quota")
    page.wait_for_selector("#rows .row")
    page.wait_for_function("() => document.getElementById('status').textContent.includes('fishing quotas')")
    found = reply(page, page_service, "v1/projects/topics/suggest", text="cod net quota", limit=10)["results"]
    assert len(found) == 10
    assert page.locator("#rows .title").all_inner_texts() == [one["label"] for one in found]
    shown = page.locator("#rows .number").all_inner_texts()
    for text, one in zip(shown, found, strict=True):
        assert text.endswith(" %")
        assert float(text.strip("<> %")) == pytest.approx(100 * one["score"], abs=0.11)
    shares = page.eval_on_selector_all(
        "#rows .bar", "all => all.map(bar => bar.firstChild.getBoundingClientRect().width / bar.clientWidth)"
    )
    assert shares[0] == pytest.approx(found[0]["score"], abs=0.03)
    assert "probability that the label is observed" in page.inner_text("#scale")
    page.fill("#text", "")
    page.wait_for_selector("#rows .row", state="detached")


def test_one_pause_is_one_request_and_an_answer_to_an_earlier_text_is_dropped(visit, page_service):
    page, held, failed, sent = ready(visit(page_service, fails=["ERR_ABORTED"])), [], [], []

    def hold(route):
        sent.append(route.request.post_data)
        if "cod" in route.request.post_data:
            held.append(route)
        else:
            route.continue_()

    page.route("**/suggest", hold)
    page.on("requestfailed", lambda request: failed.append(request.post_data))
    page.evaluate(
        "() => { const field = document.getElementById('text'); for (const text of ['c', 'co', 'cod']) {"
        "field.value = text; field.dispatchEvent(new Event('input')); } }"
    )
    page.wait_for_function("() => document.getElementById('rows').getAttribute('aria-busy') === 'true'")
    suggest(page, "museum painting")
    assert page.locator("#rows .title").first.inner_text() == "museums"
    assert [data.partition("&")[0] for data in sent] == ["text=cod", "text=museum+painting"]
    assert failed == sent[:1], "the request for the earlier text is aborted"
    assert len(held) == 1


def test_a_click_shows_the_words_that_contribute(visit, page_service):
    page = ready(visit(page_service), "plain")
    suggest(page)
    row(page, "=fish").locator("> button").click()
    page.wait_for_selector(".explanation table")
    found = reply(page, page_service, "v1/projects/plain/explain", text=TEXT, label="=fish", limit=12)
    listed = {one["feature"]: one["contribution"] for one in found["contributions"]}
    assert {"cod", "quota"} < set(listed)
    assert min(listed.values()) < 0 < max(listed.values())
    cells = page.locator(".explanation tbody tr").all()
    assert [cell.locator("th").inner_text() for cell in cells] == list(listed)
    for cell, value in zip(cells, listed.values(), strict=True):
        assert float(cell.locator("td").nth(1).inner_text().replace("−", "-")) == pytest.approx(value, abs=6e-4)
    total = row(page, "=fish").locator("tfoot tr").last.inner_text().split()
    assert total == ["raw", "score", f"{found['margin']:+.3f}".replace("-", "−")]
    largest = max(map(abs, listed.values()))
    words = page.eval_on_selector_all(
        "#mirror mark",
        "all => all.map(one => [one.textContent, one.className, Number(one.style.getPropertyValue('--strength'))])",
    )
    assert {"cod", "QUOTA", "Café", "Court"} < {word for word, _, _ in words}
    assert [word for word, _, _ in words].count("cod") == 2
    for word, kind, strength in words:  # the run has single words only
        value = listed[word.lower()]
        assert kind == ("for" if value > 0 else "against")
        assert strength == pytest.approx(abs(value) / largest, abs=1e-3)
    assert page.text_content("#mirror") == TEXT + "\n"
    assert page.is_visible("#legend")
    assert page.inner_text("#explained") == "fishing quotas"
    first = next(iter(listed))
    assert page.text_content("#status").startswith(f"fishing quotas: {first} "), "it is announced"
    styles = page.eval_on_selector_all(
        ".legend mark", "all => all.map(one => getComputedStyle(one).textDecorationStyle)"
    )
    assert styles == ["solid", "dashed"], "signs differ without colors"
    page.locator(".explanation th button", has_text="quota").click()
    assert page.text_content("mark.current") == "QUOTA"
    row(page, "=fish").locator("> button").click()
    assert page.locator("mark:visible").count() == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cod -- (QUOTA) a net", ["Cod", " -- (", "QUOTA", "net"]),  # word n-grams over other characters
        ("cafe\u0301 bread codx xcod", ["cafe\u0301", "bread"]),  # other normal form; words only
        ("CO\u0301D CAFE\u0301 cod_quota cod's", ["CAFE\u0301", "cod"]),
    ],
)
def test_terms_are_found_in_the_text_as_it_is_written(visit, page_service, text, expected):
    page = ready(visit(page_service))
    suggest(page, text)
    name = "=fish" if "Cod" in text else "food"
    row(page, name).locator("> button").click()
    page.wait_for_selector(".explanation table")
    words = page.locator("#mirror mark").all_text_contents()
    for word in expected:
        assert word in words
    assert not {"codx", "xcod", "cod_quota", "CO\u0301D"} & set(words)


def test_long_texts_wrap_and_scroll_alike_in_the_field_and_under_it(visit, page_service):
    for width in WIDTHS:
        page = ready(visit(page_service, width=width))
        suggest(page, "cod quota, bread and milk at the station\n" * 400)
        row(page, "=fish").locator("> button").click()
        page.wait_for_selector(".explanation table")
        read = "name => ['mirror', 'text'].map(id => document.getElementById(id)[name])"
        for name in ("clientWidth", "clientHeight", "scrollHeight"):
            under, field = page.evaluate(read, name)
            assert under == field > 100
        assert page.locator("#mirror mark").count() <= 2000
        assert page.is_visible("#cut")
        page.focus("#text")
        page.keyboard.press("Control+End")
        page.wait_for_function(f"() => ({read})('scrollTop').every((top, i, all) => top > 1000 && top === all[0])")
        page.locator(".explanation th button").first.click()
        page.wait_for_function(f"() => ({read})('scrollTop').every(top => top < 100)")
        assert page.locator("mark.current").count() == 1


def test_answers_are_kept_and_downloaded_as_the_file_that_audit_reads(visit, page_service, tmp_path):
    page = ready(visit(page_service))
    suggest(page)
    row(page, "=fish").get_by_title("Accept").click()
    row(page, "law/court").get_by_title("Accept").click()
    row(page, "law/court").get_by_title("Reject").click()  # corrected
    row(page, "food").get_by_title("Accept").click()
    row(page, "food").get_by_title("Accept").click()  # taken back
    assert row(page, "=fish").locator(".state").inner_text() == "accepted"
    assert row(page, "law/court").locator(".state").inner_text() == "rejected"
    assert page.inner_text("#total").startswith("2 answers on 1 text of this run; this text: 1 accepted, 1 rejected")
    page.fill("#annotator", "-ann")
    page.reload()
    page.wait_for_selector(".row.yes")
    suggest(page, "=museum")
    assert page.locator(".row.yes, .row.no").count() == 0
    row(page, "art").get_by_title("Accept").click()
    assert saved(page, tmp_path / "answers.csv") == "answers-topics.csv"
    names = ["text-" + hashlib.sha256(text.encode()).hexdigest()[:12] for text in (TEXT, "=museum")]
    expected = [
        Answer(names[0], "=fish", "yes", "-ann"),
        Answer(names[0], "law/court", "no", "-ann"),
        Answer(names[1], "art", "yes", "-ann"),
    ]
    answers = sorted(read_answers(tmp_path / "answers.csv"))
    assert [one._replace(probability=None) for one in answers] == sorted(expected)
    assert all(0 < one.probability <= 1 for one in answers)  # those that the page shows: checked below
    with open(tmp_path / "answers.csv", newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == ["id", "label", "answer", "probability", "annotator", "text"]
    assert {line["id"]: unguard(line["text"]) for line in lines} == dict(zip(names, (TEXT, "=museum"), strict=True))
    assert {line["text"][0] for line in lines} == {"T", "'"}, "no spreadsheet runs a text"
    results = reply(page, page_service, "v1/projects/topics/suggest", text=TEXT, limit=10)["results"]
    probability = {one["uri"]: one["score"] for one in results}
    for line in lines[:3]:
        if line["id"] == names[0]:
            assert float(line["probability"]) == pytest.approx(probability[unguard(line["label"])], abs=1e-6)


def test_answers_of_a_run_are_deleted_after_a_confirmation_only(visit, page_service):
    page = ready(visit(page_service))
    suggest(page)
    row(page, "=fish").get_by_title("Accept").click()
    ready(page, "plain")
    page.wait_for_selector("#rows .row.unscaled")
    assert page.is_disabled("#save"), "answers belong to a run"
    ready(page, "topics")
    page.wait_for_selector(".row.yes")
    page.click("#clear")
    assert "1 answer on 1 text" in page.inner_text("#confirm-text")
    page.click("#keep")
    assert page.locator(".row.yes").count() == 1
    page.click("#clear")
    page.click("#delete")
    assert page.locator(".row.yes").count() == 0
    page.reload()
    page.wait_for_selector("#rows .row")
    assert page.is_disabled("#save")


def test_answers_move_with_an_edited_text_if_one_wants_that(visit, page_service, tmp_path):
    page = ready(visit(page_service))
    suggest(page)
    row(page, "=fish").get_by_title("Accept").click()
    suggest(page, TEXT + " Trawler!")
    assert page.locator(".row.yes").count() == 0
    assert "1 answer belongs to its earlier version" in page.inner_text("#moved")
    page.click("#move")
    assert page.locator(".row.yes").count() == 1
    assert not page.is_visible("#moved")
    saved(page, tmp_path / "answers.csv")
    name = "text-" + hashlib.sha256((TEXT + " Trawler!").encode()).hexdigest()[:12]
    (answer,) = read_answers(tmp_path / "answers.csv")
    assert answer._replace(probability=None) == Answer(name, "=fish", "yes")
    assert 0 < answer.probability <= 1


def test_the_run_and_the_number_of_suggestions_are_remembered(visit, page_service):
    page = visit(page_service)
    page.wait_for_selector("#run:not([disabled])")
    assert page.locator("#run option").all_inner_texts() == ["topics", "plain", "popular", "matrix"]
    ready(page, "plain")
    suggest(page)
    page.select_option("#limit", "5")
    page.wait_for_function("() => document.querySelectorAll('#rows .row').length === 5")
    page.reload()
    page.wait_for_selector("#rows .row")
    assert page.input_value("#run") == "plain"
    assert page.locator("#rows .row").count() == 5


def test_a_run_without_probabilities_shows_raw_scores_and_says_so(visit, page_service, tmp_path):
    page = ready(visit(page_service), "plain")
    suggest(page)
    found = reply(page, page_service, "v1/projects/plain/suggest", text=TEXT, limit=10)["results"]
    shown = [float(text.replace("−", "-")) for text in page.locator("#rows .number").all_inner_texts()]
    assert shown == pytest.approx([one["score"] for one in found], abs=6e-4)
    assert page.locator(".bar").count() == 0
    assert "no probability" in page.inner_text("#scale")
    assert "unmissed calibrate plain" in page.inner_text("#scale")
    row(page, "=fish").get_by_title("Accept").click()
    saved(page, tmp_path / "answers.csv")
    with open(tmp_path / "answers.csv", newline="", encoding="utf-8") as stream:
        assert [line["probability"] for line in csv.DictReader(stream)] == [""]


def test_runs_that_cannot_explain_or_take_no_texts_say_so(visit, page_service):
    page = ready(visit(page_service), "popular")
    suggest(page)
    page.locator("#rows .row > button").first.click()
    assert "has no contributions of words" in page.inner_text(".explanation")
    ready(page, "matrix")
    assert page.is_disabled("#text")
    assert "takes no texts" in page.inner_text("#about")


def test_a_text_without_known_words_gets_no_suggestions_and_a_reason(visit, page_service):
    page = ready(visit(page_service))
    page.fill("#text", "zzz qqq")
    page.wait_for_function("() => document.getElementById('scale').textContent.includes('knows no word')")
    assert page.locator("#rows .row").count() == 0


def test_a_label_is_found_by_its_first_letters_and_added(visit, page_service, tmp_path):
    page = ready(visit(page_service))
    page.select_option("#limit", "5")
    titles = suggest(page, "cod quota")
    name = next(
        name for name, (title, _) in TOPICS.items() if title not in titles and "-" not in title and title != ATTACK
    )
    page.fill("#query", TOPICS[name][0][:4].upper())
    page.wait_for_selector("#options li")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.locator("#options li[aria-selected=true]").count() == 1
    page.keyboard.press("Enter")
    added = page.locator("#others .row")
    assert added.get_attribute("data-uri") == name
    page.wait_for_selector("#others .row .bar")
    score = reply(page, page_service, "v1/projects/topics/explain", text="cod quota", label=name)["score"]
    assert float(added.locator(".number").inner_text().strip("<> %")) == pytest.approx(100 * score, abs=0.11)
    saved(page, tmp_path / "answers.csv")
    assert [(one.label, one.verdict) for one in read_answers(tmp_path / "answers.csv")] == [(name, "yes")]
    page.fill("#query", "zzzz")
    page.wait_for_function("() => document.getElementById('matches').textContent.includes('No label starts with')")


def test_keys_do_everything_in_the_list(visit, page_service):
    page = ready(visit(page_service))
    suggest(page)
    page.focus("#text")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("() => document.activeElement.matches('#rows .row:first-child > button')")
    page.keyboard.press("y")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    assert page.locator("#rows .row").nth(0).locator(".state").inner_text() == "accepted"
    assert page.locator("#rows .row").nth(1).locator(".state").inner_text() == "rejected"
    page.keyboard.press("Enter")
    page.wait_for_selector("#rows .row:nth-child(2) .explanation table")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px", "the focus can be seen"
    page.focus(".explanation th button")
    page.keyboard.press("Escape")
    page.wait_for_selector(".explanation", state="detached")
    assert page.evaluate("document.activeElement.matches('#rows .row:nth-child(2) > button')")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.focus("#rows .row > button")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "text"


@pytest.mark.parametrize("clipboard", ["the browser's", "none"])
def test_suggestions_are_copied_as_json(visit, page_service, clipboard):
    script = (
        None if clipboard == "the browser's" else "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
    )
    page = ready(visit(page_service, permissions=["clipboard-read", "clipboard-write"], script=script))
    suggest(page)
    row(page, "=fish").get_by_title("Accept").click()
    page.click("#copy")
    page.wait_for_function("() => document.getElementById('toast').textContent.startsWith('Copied 10')")
    page.fill("#annotator", "")
    page.focus("#annotator")
    page.fill("#text", "")
    page.focus("#text")
    page.keyboard.press("Control+v")
    found = json.loads(page.input_value("#text"))
    results = reply(page, page_service, "v1/projects/topics/suggest", text=TEXT, limit=10)["results"]
    assert [one["uri"] for one in found["results"]] == [one["uri"] for one in results]
    assert found["answers"] == {"=fish": "yes"}
    assert (found["project_id"], found["text"], found["score"]) == ("topics", TEXT, "probability")


DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  const event = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
  document.getElementById("text").dispatchEvent(event);
}"""


def test_a_text_file_is_dropped_and_other_files_are_refused_in_plain_words(visit, page_service, tmp_path):
    page = ready(visit(page_service))
    page.evaluate(DROP, ["a.TXT", list("\ufeffcod\r\nquota café".encode())])
    page.wait_for_selector("#rows .row")
    assert page.input_value("#text") == "cod\nquota café"
    for name, content, message in (
        ("a.pdf", b"%PDF", "“a.pdf” is no .txt file"),
        ("latin.txt", b"caf\xe9 cod", "is no text in UTF-8"),
    ):
        page.evaluate(DROP, [name, list(content)])
        page.wait_for_function("message => document.getElementById('toast').textContent.includes(message)", arg=message)
        assert page.input_value("#text") == "cod\nquota café"
    (tmp_path / "b.txt").write_text("bread", encoding="utf-8")
    page.set_input_files("#file", tmp_path / "b.txt")
    page.wait_for_function("() => document.getElementById('text').value === 'bread'")


def test_the_empty_page_offers_an_example_in_the_words_of_the_run(visit, page_service):
    page = ready(visit(page_service))
    page.wait_for_selector("#example:visible")
    titles = [title for title, _ in TOPICS.values()]
    example = page.inner_text("#example")
    assert any(example.startswith(title) for title in titles)
    page.click("#example")
    page.wait_for_selector("#rows .row")
    assert page.input_value("#text") == example
    assert not page.is_visible("#empty")


def test_errors_of_the_service_are_shown_in_its_words(visit, page_service):
    page = ready(visit(page_service, fails=["413", "400", "422"]))
    page.fill("#text", "cod " * 600_000)
    page.wait_for_selector("#notice:visible")
    assert "The service refused this: " in page.inner_text("#problem")
    suggest(page)
    assert not page.is_visible("#notice")


def test_if_a_run_is_gone_the_list_of_runs_is_read_again(visit, page_service):
    page = ready(visit(page_service, fails=["404"]))
    page.route("**/suggest", lambda route: route.continue_(url=route.request.url.replace("topics", "gone")), times=1)
    page.fill("#text", "museum")
    page.wait_for_selector("#notice:visible")
    assert "gone" in page.inner_text("#problem")
    with page.expect_response(lambda response: response.url.endswith("/v1/projects")):
        page.click("#again")
    page.wait_for_selector("#rows .row")
    assert not page.is_visible("#notice")


def test_the_page_tries_again_until_the_service_is_back(visit, page_runs):
    with serving(page_runs["topics"]) as first:
        page = ready(visit(first, fails=["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]))
        suggest(page)
    page.fill("#text", "museum painting")
    page.wait_for_selector("#notice:visible")
    assert "The service does not answer" in page.inner_text("#problem")
    with serving(page_runs["topics"], "--port", first.port):
        page.wait_for_function("() => document.querySelector('#rows .title').textContent === 'museums'", timeout=90_000)
        assert not page.is_visible("#notice")


def test_a_service_with_a_token_asks_for_it(visit, page_runs, tmp_path):
    (tmp_path / "token").write_text("a-secret-of-many-letters\n", encoding="utf-8")
    with serving(page_runs["topics"], "--token-file", tmp_path / "token") as guarded:
        page = visit(guarded, fails=["401"])
        page.wait_for_selector("#login[open]")
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('login-note').textContent.includes('refused the token')")
        page.fill("#token", "a-secret-of-many-letters")
        page.click("#login .primary")
        page.wait_for_selector("#login[open]", state="detached")
        ready(page)
        assert suggest(page)
        page.reload()
        page.wait_for_selector("#rows .row")
        assert page.evaluate("Object.values(localStorage).join()").count("secret") == 0


def test_titles_and_texts_are_never_run(visit, page_service):
    page = ready(visit(page_service))
    titles = suggest(page, f"markup {ATTACK} attack onerror script")
    assert titles[0] == ATTACK
    page.locator("#rows .row > button").first.click()
    page.wait_for_selector(".explanation table")
    page.fill("#query", "<img")
    page.wait_for_selector("#options li")
    assert page.locator("img").count() == 0
    assert page.title() == "Suggest labels: topics"
