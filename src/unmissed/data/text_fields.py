"""Texts of several fields with weights, such as `title:3,abstract:1`: parsed, joined, and weighted in the counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unmissed.errors import InputError

SEPARATOR = "\x1f"
"""What separates the fields of a text: the unit separator, which texts do not contain."""
LARGEST_WEIGHT = 100
_MOST_FIELDS = 20


def parse_fields(text: str) -> tuple[tuple[str, int], ...]:
    """Return the names and weights of the columns that `title:3,abstract:1` names; a weight that is not given is 1.

    Without a comma, the whole text is the name of one column.
    """
    if "," not in text:
        return ((text, 1),)
    fields = []
    for part in text.split(","):
        name, colon, number = part.rpartition(":")
        if not colon or not number.strip().isdecimal():
            name, number = part, "1"
        if not name.strip() or len(number) > 4 or not 1 <= int(number) <= LARGEST_WEIGHT:
            raise InputError(
                f"text column {text[:60]!r}: expected names with integer weights from 1 to {LARGEST_WEIGHT}, such as "
                "title:3,abstract:1"
            )
        fields.append((name.strip(), int(number)))
    names = [name for name, _ in fields]
    if len(set(names)) != len(names) or len(names) > _MOST_FIELDS:
        raise InputError(f"text column {text[:60]!r}: expected at most {_MOST_FIELDS} columns, each of them once")
    return tuple(fields)


def join_fields(parts: Sequence[str]) -> str:
    """Return the fields of a document as one text."""
    return SEPARATOR.join(part.replace(SEPARATOR, " ") for part in parts)


def plain(text: str) -> str:
    """Return a text of several fields with line breaks between them."""
    return text.replace(SEPARATOR, "\n")


class WeightedFields:
    """Analyzer that returns the terms of each field as often as its weight says; n-grams do not cross fields.

    So a term's count is the weighted sum of its counts in the fields, as in BM25F. A text without fields has weight 1.
    """

    def __init__(self, analyze: Callable[[str], list[str]], weights: Sequence[int]) -> None:
        self.analyze, self.weights = analyze, tuple(weights)

    def __call__(self, text: str) -> list[str]:
        """Return the terms of a text, repeated."""
        parts = text.split(SEPARATOR)
        if len(parts) == 1:
            return self.analyze(text)
        if len(parts) != len(self.weights):
            raise InputError(f"a text of {len(parts)} fields; the text features were fitted on {len(self.weights)}")
        return [term for part, weight in zip(parts, self.weights, strict=True) for term in self.analyze(part) * weight]
