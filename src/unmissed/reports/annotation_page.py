"""A page on which a person answers whether rows have labels; it works offline and saves a CSV of the answers."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

from unmissed.archive import write_text
from unmissed.audit.exports import questions
from unmissed.audit.missing_cells import MissingLabels
from unmissed.errors import InputError
from unmissed.reports.pages import render
from unmissed.runs.cells import guard

MOST_QUESTIONS = 10_000
_MOST_CHARACTERS = 20_000  # of a text that is shown
_ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}  # no text can end the script element


def write_annotation_page(found: MissingLabels, path: str | os.PathLike[str]) -> None:
    """Write a page of questions: is this label missing in this row?"""
    if len(found) > MOST_QUESTIONS:
        raise InputError(f"{path}: a page holds at most {MOST_QUESTIONS:,} questions, not {len(found):,}; use --top")
    write_text(path, render_annotation_page(questions(found), str(found.run.folder.path.name)))


def render_annotation_page(cells: Iterable[dict[str, Any]], name: str) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    cells : questions, as `unmissed.audit.exports.questions` yields them
    name : name of the run
    """
    texts: dict[str, str | None] = {}
    listed = []
    for one in cells:
        texts.setdefault(one["row"], None if one["text"] is None else one["text"][:_MOST_CHARACTERS])
        saved = {"csv": [guard(one["row"]), guard(one["label"])]}
        listed.append({**{key: one[key] for key in ("row", "label", "title", "words")}, **saved})
        listed[-1]["p"] = one["missing_probability"]
    key = hashlib.sha256(json.dumps([one["csv"] for one in listed]).encode()).hexdigest()[:16]
    data = json.dumps({"key": key, "name": name, "questions": listed, "texts": texts}).translate(_ESCAPED)
    script = render("annotation.js").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render("annotation.html", data=data, script=script, digest=digest, name=name, n_questions=len(listed))
