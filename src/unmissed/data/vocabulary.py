"""Vocabulary: the concepts that labels stand for, with their names in several languages and their broader concepts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed.archive import write_archive
from unmissed.data.names import pack_names, unpack_names
from unmissed.data.unicode import check_string, find_name, index_names, normalize
from unmissed.errors import InputError, did_you_mean

KIND = "vocabulary"
VERSION = 1
_PREFERRED, _ALTERNATIVE = 0, 1
_FALLBACKS = ("", "en")  # languages of a preferred label if it has none in the language of the vocabulary


@dataclass(frozen=True, slots=True)
class Concept:
    """A concept of a vocabulary, as a reader yields it.

    Parameters
    ----------
    uri : its identifier, the name of the label
    preferred : preferred labels by language tag; "" is the tag of a label without language
    alternative : language tags and texts of alternative labels
    notation : its notation, such as a class number; "" if it has none
    broader, narrower : identifiers of broader and narrower concepts
    deprecated : whether it should no longer be used
    """

    uri: str
    preferred: Mapping[str, str]
    alternative: Sequence[tuple[str, str]] = ()
    notation: str = ""
    broader: Sequence[str] = ()
    narrower: Sequence[str] = ()
    deprecated: bool = False


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Concepts with preferred and alternative labels, notations and broader concepts, in arrays of equal order.

    `Vocabulary.of` makes one of concepts, `read_vocabulary` reads a file, `from_arrays` opens one of a run.

    Parameters
    ----------
    uris : the identifier of each concept, distinct
    notations : the notation of each concept; "" if it has none
    deprecated : whether each concept should no longer be used
    texts, concepts, languages, kinds : of each label its text, its concept, the index of its language tag in `tags`,
        and 0 for a preferred or 1 for an alternative label; sorted by concept
    tags : the language tags, sorted
    broader : pairs of a concept and a broader one, (n_pairs, 2), sorted
    language : the language of titles and label forms; None takes labels of every language
    """

    uris: list[str]
    notations: list[str]
    deprecated: npt.NDArray[np.bool_]
    texts: list[str] = field(repr=False)
    concepts: npt.NDArray[np.int32] = field(repr=False)
    languages: npt.NDArray[np.int32] = field(repr=False)
    kinds: npt.NDArray[np.uint8] = field(repr=False)
    tags: list[str]
    broader: npt.NDArray[np.int32] = field(repr=False)
    language: str | None = None

    def __repr__(self) -> str:
        return f"Vocabulary(n_concepts={len(self)}, n_labels={len(self.texts)}, languages={self.tags})"

    def __len__(self) -> int:
        return len(self.uris)

    @classmethod
    def of(cls, concepts: Iterable[Concept], *, language: str | None = None, where: str = "vocabulary") -> Vocabulary:
        """Return the vocabulary of concepts; raise InputError if one occurs twice or has no label.

        Strings are normalized to Unicode NFC. Broader concepts that are no concepts of the vocabulary are left out.
        """
        listed = [_normalized(one, where) for one in concepts]
        if not listed:
            raise InputError(f"{where}: holds no concepts")
        uris = [one.uri for one in listed]
        number = {uri: position for position, uri in enumerate(uris)}
        if len(number) < len(uris):
            twice = next(uri for position, uri in enumerate(uris) if number[uri] != position)
            raise InputError(f"{where}: the concept {twice!r} occurs twice")
        labels = [
            (position, kind, tag, text)
            for position, one in enumerate(listed)
            for kind, pairs in ((_PREFERRED, one.preferred.items()), (_ALTERNATIVE, one.alternative))
            for tag, text in pairs
        ]
        tags = sorted({tag for _, _, tag, _ in labels})
        index = {tag: position for position, tag in enumerate(tags)}
        pairs = {(number[one.uri], number[uri]) for one in listed for uri in one.broader if uri in number}
        pairs |= {(number[uri], number[one.uri]) for one in listed for uri in one.narrower if uri in number}
        made = cls(
            uris,
            [one.notation for one in listed],
            np.array([one.deprecated for one in listed]),
            [text for *_, text in labels],
            np.array([position for position, *_ in labels], np.int32),
            np.array([index[tag] for _, _, tag, _ in labels], np.int32),
            np.array([kind for _, kind, _, _ in labels], np.uint8),
            tags,
            np.array(sorted(pair for pair in pairs if pair[0] != pair[1]), np.int32).reshape(-1, 2),
        )
        return made.in_language(language, where)

    def in_language(self, language: str | None, where: str = "vocabulary") -> Vocabulary:
        """Return the vocabulary with titles and label forms of a language such as `de`; None takes every language."""
        if language is not None and not any(_speaks(tag, language) for tag in self.tags):
            known = [tag for tag in self.tags if tag]
            listed = f"its languages are {', '.join(known)}" if known else "its labels name no language"
            raise InputError(
                f"{where}: no label in the language {language[:40]!r}; {listed}{did_you_mean(language, known)}"
            )
        return replace(self, language=language)

    @cached_property
    def titles(self) -> list[str]:
        """The preferred label of each concept: in the language of the vocabulary, or else in another one."""
        own = [tag for tag in self.tags if self.language is not None and _speaks(tag, self.language)]
        order = list(dict.fromkeys([*own, *_FALLBACKS, *self.tags]))
        rank = np.array([order.index(tag) for tag in self.tags])[self.languages]
        by_concept = np.lexsort((rank, self.kinds, self.concepts))
        best = by_concept[np.unique(self.concepts, return_index=True)[1]]
        return [self.texts[label] for label in best.tolist()]

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each concept by its identifier."""
        return index_names(self.uris)

    def find(self, name: str) -> int:
        """Return the number of the concept with an identifier; -1 if there is none."""
        return find_name(self.index, name)

    def forms(self, concept: int) -> list[str]:
        """Return the distinct labels of a concept by which a text may name it.

        These are its preferred and alternative labels in the language of the vocabulary and those without language.
        """
        begin, end = np.searchsorted(self.concepts, [concept, concept + 1])
        tags = [self.tags[one] for one in self.languages[begin:end].tolist()]
        texts = self.texts[int(begin) : int(end)]
        return list(dict.fromkeys(text for text, tag in zip(texts, tags, strict=True) if self._uses(tag)))

    def _uses(self, tag: str) -> bool:
        return self.language is None or not tag or _speaks(tag, self.language)

    def broader_of(self, concept: int) -> list[int]:
        """Return the numbers of the broader concepts of a concept, one step up."""
        begin, end = np.searchsorted(self.broader[:, 0], [concept, concept + 1])
        found: list[int] = self.broader[begin:end, 1].tolist()
        return found

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the vocabulary as an archive folder; an existing one must hold the same vocabulary."""
        arrays = {
            **pack_names("uris", self.uris),
            **pack_names("notations", self.notations),
            **pack_names("texts", self.texts),
            **pack_names("tags", self.tags),
            "deprecated": self.deprecated,
            "concepts": self.concepts,
            "languages": self.languages,
            "kinds": self.kinds,
            "broader": self.broader,
        }
        write_archive(folder, arrays, kind=KIND, version=VERSION, keep_same=True, language=self.language)

    @classmethod
    def from_arrays(cls, language: Any, arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Vocabulary:
        """Return the vocabulary of an archive; raise InputError if its arrays are damaged."""
        strings = {name: unpack_names(name, arrays) for name in ("uris", "notations", "texts", "tags")}
        kinds = {"deprecated": np.bool_, "concepts": np.int32, "languages": np.int32, "kinds": np.uint8}
        columns = {name: arrays.get(name) for name in (*kinds, "broader")}
        uris, texts, tags = (strings[name] or [] for name in ("uris", "texts", "tags"))
        sizes = {"deprecated": len(uris), "concepts": len(texts), "languages": len(texts), "kinds": len(texts)}
        are_sound = all(
            column is not None and column.dtype == kinds[name] and column.shape == (sizes[name],)
            for name, column in columns.items()
            if name != "broader"
        )
        broader = columns["broader"]
        are_sound = are_sound and len(set(uris)) == len(uris) == len(strings["notations"] or []) > 0
        are_sound = are_sound and broader is not None and broader.dtype == np.int32 and broader.shape[1:] == (2,)
        are_sound = are_sound and isinstance(language, str | None)
        if not are_sound or not _fit(columns, len(uris), len(tags)):
            raise InputError(f"{where}: not readable as a vocabulary: its arrays are damaged")
        copies = {name: np.array(column) for name, column in columns.items()}
        made = cls(**{name: names or [] for name, names in strings.items()}, **copies)  # type: ignore[arg-type]
        return made.in_language(language, where)


def _fit(columns: Mapping[str, Any], n_concepts: int, n_tags: int) -> bool:
    """Return whether indices are in range, every concept has a label, and labels and pairs are sorted by concept."""
    concepts, languages, broader = columns["concepts"], columns["languages"], columns["broader"]
    every = np.array_equal(np.unique(concepts), np.arange(n_concepts))
    sorted_labels = bool((np.diff(concepts) >= 0).all()) and bool((np.diff(broader[:, 0]) >= 0).all())
    known = not languages.size or 0 <= languages.min() <= languages.max() < n_tags
    return every and sorted_labels and known and (not broader.size or 0 <= broader.min() <= broader.max() < n_concepts)


def _speaks(tag: str, language: str) -> bool:
    """Return whether a language tag such as `de-at` is of a language such as `de`."""
    return tag == language.lower() or tag.startswith(f"{language.lower()}-")


def _normalized(concept: Concept, where: str) -> Concept:
    """Return a concept in Unicode NFC, with lower-case language tags; raise InputError if it has no label."""

    def checked(text: str) -> str:
        return normalize(check_string(where, f"the concept {concept.uri!r}", text).strip())

    preferred = {tag.lower(): checked(text) for tag, text in concept.preferred.items() if text.strip()}
    known = set(preferred.items())
    pairs = dict.fromkeys((tag.lower(), checked(text)) for tag, text in concept.alternative if text.strip())
    if not checked(concept.uri):
        raise InputError(f"{where}: a concept has no identifier")
    if not preferred and not pairs:
        raise InputError(f"{where}: the concept {concept.uri!r} has no label")
    return replace(
        concept,
        uri=checked(concept.uri),
        preferred=preferred,
        alternative=[pair for pair in pairs if pair not in known],
        notation=checked(concept.notation),
        broader=[checked(uri) for uri in concept.broader],
        narrower=[checked(uri) for uri in concept.narrower],
    )
