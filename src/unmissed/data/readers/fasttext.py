"""Reader of fastText's files: each line is a text with its labels as words that start with `__label__`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unmissed.data.encodings import not_utf8
from unmissed.data.readers.reader import Document, LineReader, ReadOptions, Source, suffix_of_file
from unmissed.data.streams import first_bytes
from unmissed.errors import InputError

PREFIX = "__label__"


class FastText(LineReader):
    """Reads `__label__law __label__fish Quotas for cod`: labels and words, in any order, separated by blanks."""

    name = "fastText lines"
    suffixes = (".ft", ".fasttext")

    def sniff(self, source: Source, *, labels: bool = True) -> bool:
        """Return whether a file has one of the suffixes, or is a `.txt` file that starts with a label."""
        suffix = suffix_of_file(source)
        return suffix in self.suffixes or (suffix == ".txt" and first_bytes(source, 64).startswith(PREFIX.encode()))

    def parse(self, path: str, numbered: Iterable[tuple[int, bytes]], options: ReadOptions) -> Iterator[Document]:
        """Yield `file:line`, the words and the labels of each line."""
        columns = options.columns
        for number, line in numbered:
            where = f"{path}:{number}"
            try:
                words = line.decode("utf-8").split()
            except UnicodeDecodeError as error:
                raise not_utf8(f"{where}:{error.start + 1}", line, error) from None
            if not words:
                continue
            labels = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
            if "" in labels:
                raise InputError(f"{where}: a label without a name; expected {PREFIX}NAME")
            text = " ".join(word for word in words if not word.startswith(PREFIX))
            yield where, {columns.text: text, columns.labels: labels}
