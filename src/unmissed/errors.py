"""The errors a user can meet: one line that says what is wrong, where, and what was expected."""


class UnmissedError(Exception):
    """Anything that unmissed refuses to do; the command prints it as one line and exits with 2."""


class InputError(UnmissedError, ValueError):
    """A file, an argument or a matrix that cannot be what it claims to be."""


class NotFittedError(UnmissedError, ValueError, AttributeError):
    """A model was asked for an answer before `fit`; both ValueError and AttributeError, as in scikit-learn."""
