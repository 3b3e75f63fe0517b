"""The page of questions: nothing in a text is run, keys answer, and the saved file is read back."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.reports.test_browser import WIDTHS, browser  # noqa: F401, a fixture
from unmissed.audit import Answer, read_answers
from unmissed.reports.annotation_page import render_annotation_page

NODE = shutil.which("node")
ATTACK = '</script><script>document.title = "attacked"</script><img src=x onerror="document.title=\'attacked\'">'
QUESTIONS = [
    {
        "row": "=1+1",
        "label": 'a "b", c',
        "title": ATTACK,
        "missing_probability": 0.9,
        "words": [ATTACK],
        "text": ATTACK,
    },
    {"row": "r2", "label": "-law", "title": "law", "missing_probability": 0.5, "words": [], "text": "word " * 900},
    {"row": "r3", "label": "x" * 300, "title": "x" * 300, "missing_probability": 0.1, "words": [], "text": None},
]


def test_the_page_is_one_file_and_no_text_ends_its_data():
    page = render_annotation_page(QUESTIONS, "<run>")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "&lt;run&gt;" in page
    assert not re.search(r'(src|href)="', page)


@pytest.fixture
def page(browser, tmp_path, request):  # noqa: F811, the fixture of the import
    (tmp_path / "questions.html").write_text(render_annotation_page(QUESTIONS, "run"), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": getattr(request, "param", 1400), "height": 900}, accept_downloads=True
    )
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto((tmp_path / "questions.html").as_uri())
    yield page
    assert errors == []
    context.close()


def test_keys_answer_and_the_saved_file_is_read_back(page, tmp_path):
    assert page.title() == "run: is this label missing?"
    assert page.inner_text("#title") == ATTACK
    assert page.inner_text("#words span") == ATTACK
    for key in ("y", "ArrowLeft", "n", "y"):  # the first answer is corrected
        page.keyboard.press(key)
    assert "2 of 3 answered; question 3" in page.inner_text("#progress")
    assert not page.is_visible("#text")
    page.fill("#annotator", "yun")  # letters in the field are no answers
    page.reload()
    assert "2 of 3 answered; question 3" in page.inner_text("#progress")
    page.click("[data-answer=unsure]")
    assert page.get_attribute("[data-answer=unsure]", "aria-pressed") == "true"
    with page.expect_download() as saved:
        page.click("#save")
    saved.value.save_as(tmp_path / "answers.csv")
    assert read_answers(tmp_path / "answers.csv") == [
        Answer("=1+1", 'a "b", c', "no", "yun"),
        Answer("r2", "-law", "yes", "yun"),
        Answer("r3", "x" * 300, "unsure", "yun"),
    ]


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_the_script_answers_keeps_and_saves_without_a_browser(tmp_path):
    (tmp_path / "questions.html").write_text(render_annotation_page(QUESTIONS, "run"), encoding="utf-8")
    words = [NODE, str(Path(__file__).with_name("annotation_dom.js")), "questions.html", "answers.csv"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "2 of 3 answered; question 3",
        "3 of 3 answered; question 1. All are answered: save the file.",
    ]
    assert [answer.verdict for answer in read_answers(tmp_path / "answers.csv")] == ["no", "yes", "unsure"]
    assert read_answers(tmp_path / "answers.csv")[0] == Answer("=1+1", 'a "b", c', "no", "yun")


@pytest.mark.parametrize("page", WIDTHS, indirect=True)
def test_nothing_is_cut_off(page):
    width = page.viewport_size["width"]
    for _ in QUESTIONS:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for box in page.eval_on_selector_all(
            "h1, h2, p, button, input, .text:not([hidden])",
            "all => all.map(one => one.getBoundingClientRect().toJSON())",
        ):
            assert box["left"] >= 0
            assert box["right"] <= width
        page.keyboard.press("ArrowRight")
