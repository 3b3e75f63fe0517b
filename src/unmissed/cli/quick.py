"""A short way for the shortest command: `predict RUN --text TEXT` without all that reads a command line.

It gives the lines that the command prints. Where anything is unusual, it gives nothing, and the command does all.
"""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any

_NAMES = {"--text": "text", "--top": "top", "-k": "top", "--threshold": "threshold"}
_KINDS = {"text": str, "top": int, "threshold": float}


def answer(words: Sequence[str]) -> tuple[list[str], str | None] | None:
    """Return the lines of `predict RUN --text TEXT` and a note, or None if the command line has to be read as a whole.

    The note, None if there is nothing to say, is for standard error.
    """
    given = _read(words)
    if given is None:
        return None
    from unmissed.cli.starting import defer_unused
    from unmissed.errors import UnmissedError

    if "numpy" not in sys.modules:  # threads that nobody here would use take time to start
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # a name per label and term is no garbage, and looking for some takes time
    defer_unused()
    try:
        return _lines(**given)
    except (UnmissedError, OSError, MemoryError):  # the command comes to the same, and says it in its own way
        return None
    finally:
        gc.enable()


def _read(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the run, the text and what else was said, or None for any other command."""
    if list(words[:1]) != ["predict"] or any(name.startswith("_UNMISSED") for name in os.environ):
        return None
    given: dict[str, Any] = {}
    left = list(words[1:])
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name in _NAMES and (left or equals):
            key = _NAMES[name]
            try:
                found = _KINDS[key](value if equals else left.pop(0))
            except ValueError:
                return None
        else:
            key, found = "run", word
        if key in given or (key == "run" and word.startswith("-")):
            return None
        given[key] = found
    return given if given.keys() >= {"run", "text"} and given.get("top", 5) >= 1 else None


def _lines(run: str, text: str, top: int = 5, threshold: float | None = None) -> tuple[list[str], str | None]:
    """Return the table, and a note for standard error if there is one."""
    from unmissed.runs.answers import cut, known_words_note, table_lines
    from unmissed.runs.run import open_run

    opened = open_run(run)
    ranking = opened.rank_once([text], top)
    return list(table_lines(opened, cut(ranking, threshold))), known_words_note(ranking.n_no_known_words, 1)
