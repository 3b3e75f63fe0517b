"""From text to words: Unicode form, case, accents, stop words of many languages, and Snowball stems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, strip_accents_ascii, strip_accents_unicode

from unmissed.data.unicode import normalize
from unmissed.errors import InputError, did_you_mean

ACCENTS = {"ascii": strip_accents_ascii, "unicode": strip_accents_unicode}
"""How accents are stripped, by scikit-learn's names."""
_WORDS = re.compile(r"(?u)\b\w\w+\b")  # scikit-learn's token pattern
_ENGLISH_NAMES = {
    "de": "german",
    "deutsch": "german",
    "en": "english",
    "fr": "french",
    "fi": "finnish",
    "sv": "swedish",
}
_LONGEST_WORD = 64  # longer strings are no words and are not stemmed
_MOST_STEMS = 1 << 20  # stems held in memory


def preprocess(text: str, form: str, lowercase: bool, strip_accents: str | None = None) -> str:
    """Return a text in a Unicode normal form, in lower case and without accents if these options are set."""
    text = normalize(text, form)
    text = text.lower() if lowercase else text
    return text if strip_accents is None else str(ACCENTS[strip_accents](text))


def list_stop_words(stop_words: str | Sequence[str]) -> list[str]:
    """Return the sorted stop words of a list, or of one or more languages such as `german` or `german,english`.

    `english` is scikit-learn's list; those of other languages are from the package stop-words.
    """
    if not isinstance(stop_words, str):
        return sorted(set(stop_words))
    return sorted({word for language in stop_words.split(",") for word in _stop_words_of(language.strip().lower())})


def _stop_words_of(language: str) -> frozenset[str]:
    if language == "english":
        return frozenset(ENGLISH_STOP_WORDS)
    from stop_words import get_stop_words

    known = stop_word_languages()
    if language not in known:
        raise InputError(
            f"no stop words for {language[:40]!r}; known languages: {', '.join(known)}{did_you_mean(language, known)}"
        )
    return frozenset(get_stop_words(language, cache=False))


def stop_word_languages() -> list[str]:
    """Return the languages that have stop words, sorted."""
    from stop_words import AVAILABLE_LANGUAGES

    return sorted({*AVAILABLE_LANGUAGES, "english"})


@cache
def stemmer_languages() -> tuple[str, ...]:
    """Return the languages that have a Snowball stemmer, sorted."""
    from pkgutil import iter_modules

    import snowballstemmer

    names = (module.name for module in iter_modules(snowballstemmer.__path__))
    return tuple(sorted(name.removesuffix("_stemmer") for name in names if name.endswith("_stemmer")))


def check_stemmer(language: Any) -> None:
    """Raise InputError unless there is a Snowball stemmer of this name."""
    known = stemmer_languages()
    if language not in known:
        near = did_you_mean(_ENGLISH_NAMES.get(str(language).lower(), str(language)), known)
        raise InputError(f"no stemmer {str(language)[:40]!r}; known stemmers: {', '.join(known)}{near}")


class StemmedWords:
    """Tokenizer that drops stop words and returns the Snowball stems of the other words; stems are cached.

    The stemmer is the one written in Python: PyStemmer, if it is installed, may be of another version.
    """

    def __init__(self, language: str, stop_words: Sequence[str] = ()) -> None:
        check_stemmer(language)
        self.language, self.stop_words = language, frozenset(stop_words)
        self._begin()

    def _begin(self) -> None:
        name = "".join(part.capitalize() for part in self.language.split("_"))
        module = import_module(f"snowballstemmer.{self.language}_stemmer")
        self._stem = getattr(module, f"{name}Stemmer")().stemWord
        self._stems: dict[str, str] = {}

    def __getstate__(self) -> tuple[str, frozenset[str]]:
        return self.language, self.stop_words

    def __setstate__(self, state: tuple[str, frozenset[str]]) -> None:
        self.language, self.stop_words = state
        self._begin()

    def __call__(self, text: str) -> list[str]:
        """Return the stems of a text's words in order."""
        return [self.stem(word) for word in _WORDS.findall(text) if word not in self.stop_words]

    def stem(self, word: str) -> str:
        """Return the stem of a word."""
        found = self._stems.get(word)
        if found is None:
            if len(self._stems) >= _MOST_STEMS:
                self._stems.clear()
            found = str(self._stem(word)) if len(word) <= _LONGEST_WORD else word
            self._stems[word] = found
        return found
