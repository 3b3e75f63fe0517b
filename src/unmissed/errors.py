"""The errors a user can meet: one line that says what is wrong, where, and what was expected."""

from collections.abc import Iterable


class UnmissedError(Exception):
    """Anything that unmissed refuses to do; the command prints it as one line and exits with 2."""


class InputError(UnmissedError, ValueError):
    """A file, an argument or a matrix that cannot be what it claims to be."""


class NotFittedError(UnmissedError, ValueError, AttributeError):
    """A model was asked for an answer before `fit`; both ValueError and AttributeError, as in scikit-learn."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'fishing'?` for the known word that is most like this one, or nothing where none is."""
    from difflib import get_close_matches  # what few calls need

    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
