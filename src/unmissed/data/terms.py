"""Terms of a text: runs of words or of characters, as scikit-learn's vectorizers find them; it is not imported here."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from unmissed.errors import InputError

ANALYZERS = ("word", "char", "char_wb")
MOST_CHARACTERS = 32  # a longer run of characters is a term for nobody, and a long text would have too many
_WORD = re.compile(r"(?u)\b\w\w+\b")
_BLANKS = re.compile(r"\s\s+")


def word_terms(text: str, shortest: int, longest: int, stop_words: Collection[str] = ()) -> list[str]:
    """Return runs of words with a blank between them; stop words are left out first."""
    words = _WORD.findall(text)
    if stop_words:
        words = [word for word in words if word not in stop_words]
    if longest == 1:
        return words
    return [
        " ".join(words[begin : begin + n])
        for n in range(shortest, min(longest, len(words)) + 1)
        for begin in range(len(words) - n + 1)
    ]


def character_terms(text: str, shortest: int, longest: int) -> list[str]:
    """Return runs of characters; several blanks count as one."""
    text = _BLANKS.sub(" ", text)
    return [
        text[begin : begin + n]
        for n in range(shortest, min(longest, len(text)) + 1)
        for begin in range(len(text) - n + 1)
    ]


def inner_terms(text: str, shortest: int, longest: int) -> list[str]:
    """Return runs of characters inside words, each with a blank on both sides; a short word is a term once."""
    found = []
    for word in text.split():
        padded = f" {word} "
        for n in range(shortest, longest + 1):
            found += [padded[begin : begin + n] for begin in range(max(len(padded) - n, 0) + 1)]
            if n >= len(padded):
                break
    return found


def check_stop_words(stop_words: Any, analyzer: str) -> None:
    """Refuse stop words that are neither `english` nor words, or that go with characters."""
    if stop_words is None:
        return
    if analyzer != "word":
        raise InputError(f"stop words are for words; the analyzer is {analyzer!r}")
    listed = isinstance(stop_words, list | tuple | set | frozenset) and all(isinstance(one, str) for one in stop_words)
    if not listed and stop_words != "english":
        raise InputError(f"stop_words is 'english' or a list of words; got {str(stop_words)[:40]!r}")


def listed_stop_words(stop_words: Any) -> list[str]:
    """Return stop words sorted; those of `english` are scikit-learn's."""
    if stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        stop_words = ENGLISH_STOP_WORDS
    return sorted(stop_words or ())
