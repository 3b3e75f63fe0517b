"""Tokenization into word or character n-grams, identical to scikit-learn's vectorizers without importing it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from unmissed.errors import InputError

ANALYZERS = ("word", "char", "char_wb")
MAX_CHARACTERS = 32  # maximum length of a character n-gram; bounds the number of terms of a long text
_WORD = re.compile(r"(?u)\b\w\w+\b")
_WHITESPACE = re.compile(r"\s\s+")


def word_terms(text: str, shortest: int, longest: int, stop_words: Collection[str] = ()) -> list[str]:
    """Return word n-grams joined by spaces; stop words are removed first."""
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
    """Return character n-grams; consecutive whitespace counts as one space."""
    text = _WHITESPACE.sub(" ", text)
    return [
        text[begin : begin + n]
        for n in range(shortest, min(longest, len(text)) + 1)
        for begin in range(len(text) - n + 1)
    ]


def character_word_terms(text: str, shortest: int, longest: int) -> list[str]:
    """Return character n-grams within words padded by spaces (`char_wb`); a word shorter than n is counted once."""
    terms = []
    for word in text.split():
        padded = f" {word} "
        for n in range(shortest, longest + 1):
            terms += [padded[begin : begin + n] for begin in range(max(len(padded) - n, 0) + 1)]
            if n >= len(padded):
                break
    return terms


def check_stop_words(stop_words: Any, analyzer: str) -> None:
    """Raise InputError unless stop words are None, `english` or a list of words, and the analyzer is `word`."""
    if stop_words is None:
        return
    if analyzer != "word":
        raise InputError(f"stop words require analyzer='word'; the analyzer is {analyzer!r}")
    listed = isinstance(stop_words, list | tuple | set | frozenset) and all(isinstance(one, str) for one in stop_words)
    if not listed and stop_words != "english":
        raise InputError(f"stop_words must be 'english' or a list of words; got {str(stop_words)[:40]!r}")


def listed_stop_words(stop_words: Any) -> list[str]:
    """Return the sorted list of stop words; `english` is scikit-learn's list."""
    if stop_words == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        stop_words = ENGLISH_STOP_WORDS
    return sorted(stop_words or ())
