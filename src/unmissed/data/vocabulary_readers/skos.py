"""Vocabularies in SKOS, read by rdflib: RDF/XML, Turtle (and N-Triples) and JSON-LD."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar
from warnings import catch_warnings, simplefilter

from unmissed.data.streams import lines
from unmissed.data.vocabulary import Concept
from unmissed.data.vocabulary_readers.vocabulary_registry import VocabularyReader
from unmissed.errors import InputError, UnmissedError
from unmissed.files import parse_json, reading

_PLAIN_ENTITY = re.compile(rb"""<!ENTITY\s+[^\s%"']+\s+(?:"[^"&%<]*"|'[^'&%<]*')\s*>""")


class Skos(VocabularyReader):
    """Base of the syntaxes of RDF: the concepts are the subjects with a preferred or alternative label.

    `skos:hiddenLabel` counts as an alternative label, and `owl:deprecated` tells which concepts are deprecated. Labels
    of SKOS-XL are not read. Nothing is fetched from the network.
    """

    syntax: ClassVar[str]

    def concepts(self, path: str) -> Iterator[Concept]:
        """Yield the concepts of a file, sorted by identifier; subjects without a label are none."""
        try:
            from rdflib import Graph
            from rdflib.namespace import OWL, SKOS
        except ImportError as error:
            raise UnmissedError(f"{path}: SKOS needs rdflib; install unmissed[skos]") from error
        content = b"\n".join(line for _, line in lines(path))
        self.check(path, content)
        graph = Graph()
        with reading(path, f"readable as {self.syntax}"), catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # rdflib's parsers use its own deprecated classes
            graph.parse(data=content, format=self.syntax)
        for subject in sorted({*graph.subjects(SKOS.prefLabel), *graph.subjects(SKOS.altLabel)}, key=str):
            yield Concept(
                str(subject),
                {_tag(one): str(one) for one in _sorted(graph.objects(subject, SKOS.prefLabel))[::-1]},
                [
                    (_tag(one), str(one))
                    for kind in (SKOS.altLabel, SKOS.hiddenLabel)
                    for one in _sorted(graph.objects(subject, kind))
                ],
                next((str(one) for one in _sorted(graph.objects(subject, SKOS.notation))), ""),
                [str(one) for one in graph.objects(subject, SKOS.broader)],
                [str(one) for one in graph.objects(subject, SKOS.narrower)],
                any(str(one).lower() in ("true", "1") for one in graph.objects(subject, OWL.deprecated)),
            )

    def check(self, path: str, content: bytes) -> None:
        """Raise InputError if a file would make the parser read other files; nothing to check by default."""


class RdfXml(Skos):
    """SKOS in RDF/XML."""

    suffixes = (".rdf", ".xml", ".owl")
    syntax = "xml"

    def check(self, path: str, content: bytes) -> None:
        """Raise InputError if a file declares entities that are files, or that are made of others."""
        if content.count(b"<!ENTITY") > len(_PLAIN_ENTITY.findall(content)):
            raise InputError(f"{path}: declares XML entities that are files or nested; write it without them")


class Turtle(Skos):
    """SKOS in Turtle, or in N-Triples, which are Turtle."""

    suffixes = (".ttl", ".nt")
    syntax = "turtle"


class JsonLd(Skos):
    """SKOS in JSON-LD with its context in the file."""

    suffixes = (".jsonld", ".json")
    syntax = "json-ld"

    def check(self, path: str, content: bytes) -> None:
        """Raise InputError if a file refers to a context at another address."""
        with reading(path, "readable as JSON-LD"):
            try:
                value = parse_json(content.decode("utf-8"))
            except json.JSONDecodeError as error:
                raise InputError(f"{path}:{error.lineno}:{error.colno}: not readable as JSON: {error.msg}") from error
        address = next(_addresses(value), None)
        if address is not None:
            raise InputError(
                f"{path}: refers to the context {address[:80]!r}, which is not fetched; put it in the file"
            )


def _addresses(value: Any) -> Iterator[str]:
    """Yield the addresses of contexts in a JSON-LD value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            for key in ("@context", "@import"):
                named = one.get(key)
                yield from (each for each in (named if isinstance(named, list) else [named]) if isinstance(each, str))
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _sorted(literals: Iterable[Any]) -> list[Any]:
    """Return literals by their texts and languages."""
    return sorted(literals, key=lambda one: (str(one), _tag(one)))


def _tag(literal: Any) -> str:
    return str(getattr(literal, "language", None) or "")
