"""Fast path for `predict RUN --text TEXT`, which avoids importing the command-line parser.

It returns the lines that the command prints. For any other command line, and after any error, it returns None, and the
full command runs.
"""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any

_NAMES = {"--text": "text", "--top": "top", "-k": "top", "--threshold": "threshold"}
_KINDS = {"text": str, "top": int, "threshold": float}


def answer(words: Sequence[str]) -> tuple[list[str], str | None] | None:
    """Return the output lines of `predict RUN --text TEXT` and a note, or None for any other command line.

    The note is for standard error; it is None if there is none.
    """
    arguments = _read(words)
    if arguments is None:
        return None
    from unmissed.cli.starting import defer_unused
    from unmissed.errors import UnmissedError

    if "numpy" not in sys.modules:  # starting BLAS threads takes time, and none is used here
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # collecting a large number of live label and term names takes time
    defer_unused()
    try:
        return _lines(**arguments)
    except (UnmissedError, OSError, MemoryError):  # the full command fails too, and reports it
        return None
    finally:
        gc.enable()


def _read(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of `predict RUN --text TEXT` by name, or None for any other command line."""
    if list(words[:1]) != ["predict"] or any(name.startswith("_UNMISSED") for name in os.environ):
        return None
    arguments: dict[str, Any] = {}
    left = list(words[1:])
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name in _NAMES and (left or equals):
            key = _NAMES[name]
            try:
                parsed = _KINDS[key](value if equals else left.pop(0))
            except ValueError:
                return None
        else:
            key, parsed = "run", word
        if key in arguments or (key == "run" and word.startswith("-")):
            return None
        arguments[key] = parsed
    return arguments if arguments.keys() >= {"run", "text"} and arguments.get("top", 5) >= 1 else None


def _lines(run: str, text: str, top: int = 5, threshold: float | None = None) -> tuple[list[str], str | None]:
    """Return the lines of the table, and a note for standard error or None."""
    from unmissed.runs.answers import cut, known_words_note, table_lines
    from unmissed.runs.run import open_run

    opened = open_run(run)
    ranking = opened.rank_once([text], top)
    return list(table_lines(opened, cut(ranking, threshold))), known_words_note(ranking.n_no_known_words, 1)
