"""Answers of people to the question whether a row has a label."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["yes", "no", "unsure"]


class Answer(NamedTuple):
    """The answer of one person to "does this row have this label?".

    Parameters
    ----------
    row : the id of the row, or its number if rows have no ids
    label : the name of the label, or its number if labels have no names
    verdict : "yes", "no" or "unsure"
    annotator : who answered; empty if unknown
    probability : the probability that was stated with the question; None if unknown
    """

    row: str
    label: str
    verdict: Verdict
    annotator: str = ""
    probability: float | None = None
