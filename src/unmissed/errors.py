"""Exceptions of the package; each message is one line that says what is wrong, where, and what was expected."""

from collections.abc import Iterable


class UnmissedError(Exception):
    """Base class of all errors; the command line prints the message and exits with status 2."""


class InputError(UnmissedError, ValueError):
    """An invalid file, argument or matrix."""


class UnknownNameError(InputError, KeyError):
    """A name that a mapping of this package does not have; also a KeyError, as for any mapping."""

    __str__ = Exception.__str__  # that of KeyError would quote the message


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'fishing'?` with the closest known word, or the first that contains it, or nothing."""
    from difflib import get_close_matches  # rarely needed

    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    if not near and len(word) > 2:
        near = [one for one in by_lower if word.lower() in one]
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
