"""Unicode normalization of texts and label names, and checks that strings can be encoded as UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unmissed.errors import InputError

NORMALIZATIONS = ("nfc", "nfkc", "none")


def check_normalization(form: Any) -> None:
    """Raise InputError unless `form` is one of `NORMALIZATIONS`."""
    if form not in NORMALIZATIONS:
        raise InputError(f"unicode_normalization is {str(form)[:40]!r}; expected one of {', '.join(NORMALIZATIONS)}")


def normalize(text: str, form: str = "nfc") -> str:
    """Return a text in a Unicode normal form; ASCII, and Latin-1 for NFC, are returned unchanged."""
    if form == "none" or text.isascii():
        return text
    if form == "nfc":
        try:  # faster than a lookup of every character
            text.encode("latin-1")
        except UnicodeEncodeError:
            pass
        else:
            return text
    from unicodedata import is_normalized
    from unicodedata import normalize as to_form

    upper: Any = form.upper()
    return text if is_normalized(upper, text) else to_form(upper, text)


def check_string(where: str, what: str, text: str) -> str:
    """Return the string; raise InputError if it has a lone surrogate, which UTF-8 cannot encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise InputError(
                f"{where}: {what} has half of a surrogate pair (\\u{code:04x}) at character {error.start + 1}; "
                "UTF-8 cannot hold it: remove or replace it"
            ) from None
    return text


def check_strings(what: str, names: Iterable[Any] | None) -> None:
    """Raise InputError if an entry of `names` is not a string, or cannot be encoded as UTF-8."""
    for number, name in enumerate(names or ()):
        if not isinstance(name, str):
            raise InputError(f"{what}: entry {number} is a {type(name).__name__}; expected a string")
        check_string(what, f"entry {number}", name)


def index_names(names: Iterable[str]) -> dict[str, int]:
    """Return the index of each name, by the name itself and by its NFC form; the name itself takes precedence."""
    listed = list(names)
    by_form = {normalize(name): index for index, name in reversed(list(enumerate(listed)))}
    return by_form | {name: index for index, name in enumerate(listed)}


def find_name(index: Mapping[str, int], name: str) -> int:
    """Return the index of a name, looked up unchanged and then in NFC; -1 if it is unknown."""
    position = index.get(name)
    return index.get(normalize(name), -1) if position is None else position
