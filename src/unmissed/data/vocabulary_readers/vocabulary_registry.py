"""The registry of vocabulary formats, and `read_vocabulary`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from unmissed.data.streams import bare_suffix
from unmissed.data.vocabulary import Concept, Vocabulary
from unmissed.errors import InputError
from unmissed.files import no_such
from unmissed.registry import Registry


class VocabularyReader(ABC):
    """A format of vocabularies: the suffixes of its files, without `.gz` or `.xz`."""

    suffixes: ClassVar[tuple[str, ...]]

    @abstractmethod
    def concepts(self, path: str) -> Iterator[Concept]:
        """Yield the concepts of a file."""


_HERE = "unmissed.data.vocabulary_readers"
VOCABULARIES: Registry[type[VocabularyReader]] = Registry(
    "unmissed.vocabularies",
    "vocabulary format",
    {
        "tsv": f"{_HERE}.vocabulary_tables:TabVocabulary",
        "csv": f"{_HERE}.vocabulary_tables:CommaVocabulary",
        "rdf": f"{_HERE}.skos:RdfXml",
        "turtle": f"{_HERE}.skos:Turtle",
        "json-ld": f"{_HERE}.skos:JsonLd",
    },
)
"""All formats; an installed package adds its own by an entry point in the group `unmissed.vocabularies`."""


def read_vocabulary(path: str | os.PathLike[str], *, language: str | None = None) -> Vocabulary:
    """Read a vocabulary: SKOS in RDF/XML, Turtle or JSON-LD (extra `skos`), TSV or CSV; also as .gz or .xz.

    Parameters
    ----------
    path : the file; its suffix names the format
    language : a language tag such as `de`: titles and label forms are labels of this language. None takes labels of
        every language, and titles without language, in English, or in the first language, in this order
    """
    suffix, known = bare_suffix(path), list[str]()
    for cls in VOCABULARIES:
        if suffix in cls.suffixes:
            if not Path(path).is_file():
                raise no_such(path, "file")
            return Vocabulary.of(cls().concepts(os.fspath(path)), language=language, where=os.fspath(path))
        known += cls.suffixes
    raise InputError(f"{path}: no format of vocabularies has the suffix {suffix!r}; known: {', '.join(known)}")
