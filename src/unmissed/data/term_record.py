"""TermCounter counts the terms of texts; TermRecord keeps the counts of all terms, so that texts are read only once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.data.names import pack_names, unpack_names
from unmissed.errors import InputError

CountArrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]
_DIGEST = 16  # bytes of the digest of a text


class TermCounter:
    """Counts the terms of texts whose columns are given.

    scikit-learn's CountVectorizer does the same, and takes longer for one text than ranking it.
    """

    def __init__(self, analyze: Callable[[str], list[str]], columns: dict[str, int]) -> None:
        self._analyze, self.columns = analyze, columns

    def count(self, texts: Iterable[str]) -> CountArrays:
        """Return how often each text has each term: the values, columns and row ends of a canonical CSR matrix."""
        values, columns, ends = array("f"), array("i"), array("q", [0])
        find, terms_of = self.columns.get, self._analyze
        for text in texts:
            counts: Counter[Any] = Counter(map(find, terms_of(text)))
            counts.pop(None, None)  # terms outside the vocabulary
            found = sorted(counts)
            columns.extend(found)
            values.extend(map(counts.__getitem__, found))
            ends.append(len(columns))
        return np.array(values, np.float32), np.array(columns, np.int32), np.array(ends, np.int64)


class TermRecord:
    """Counts the terms of texts as `TermCounter` does, and keeps the counts of unknown terms, too.

    Parameters
    ----------
    analyze : returns the terms of a text
    known : columns of the known terms
    vocabulary : numbers of all terms, which may be shared between records; new terms are added

    Attributes
    ----------
    digests : a digest of each text
    """

    def __init__(self, analyze: Callable[[str], list[str]], known: dict[str, int], vocabulary: dict[str, int]) -> None:
        self._analyze, self.columns, self._vocabulary = analyze, known, vocabulary
        self._counts = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.digests: list[bytes] = []

    def count(self, texts: Iterable[str]) -> CountArrays:
        """Return the counts of the known terms of texts, and keep those of all their terms."""
        indices, data, ends, digests = [], [], [0], []
        vocabulary = self._vocabulary
        for text in texts:
            counts: dict[int, int] = {}
            for term in self._analyze(text):
                number = vocabulary.setdefault(term, len(vocabulary))
                counts[number] = counts.get(number, 0) + 1
            indices.append(np.fromiter(counts, np.int64, len(counts)))
            data.append(np.fromiter(counts.values(), np.float32, len(counts)))
            ends.append(ends[-1] + len(counts))
            digests.append(blake2b(text.encode(), digest_size=_DIGEST).digest())
        parts = np.concatenate([np.empty(0, np.float32), *data]), np.concatenate([np.empty(0, np.int64), *indices])
        self._counts = sparse.csr_matrix((*parts, np.array(ends)), shape=(len(digests), len(vocabulary)))
        self.digests = digests
        known = self.counts(self.columns)
        return known.data, known.indices, known.indptr

    def counts(self, columns: dict[str, int]) -> sparse.csr_matrix:
        """Return the counts of some terms, whose columns are given, of the texts that were read."""
        order = np.full(max(len(self._vocabulary), self._counts.shape[1]), -1, np.int64)
        for term, column in columns.items():
            number = self._vocabulary.get(term)
            if number is not None:
                order[number] = column
        chosen = order[self._counts.indices]
        kept = chosen >= 0
        ends = np.append(0, np.cumsum(kept))[self._counts.indptr]
        found = sparse.csr_matrix(
            (self._counts.data[kept], chosen[kept], ends), shape=(self._counts.shape[0], len(columns))
        )
        found.sort_indices()
        return found

    @property
    def terms(self) -> list[str]:
        """The terms of the texts."""
        used = np.zeros(len(self._vocabulary), np.bool_)
        used[self._counts.indices] = True
        return [term for term, number in self._vocabulary.items() if used[number]]

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return terms, counts and digests as arrays."""
        used = np.unique(self._counts.indices)
        every = list(self._vocabulary)
        largest = int(self._counts.data.max(initial=0))
        return {
            **pack_names("terms", [every[number] for number in used.tolist()]),
            "starts": self._counts.indptr.astype(np.int64),
            "numbers": np.searchsorted(used, self._counts.indices).astype(np.int32),
            "counts": self._counts.data.astype(np.min_scalar_type(largest)),
            "digests": np.frombuffer(b"".join(self.digests), np.uint8),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set terms, counts and digests from the arrays of `to_arrays`; raise InputError if they do not fit."""
        terms, digests = unpack_names("terms", arrays) or [], arrays["digests"].tobytes()
        starts, numbers = arrays["starts"], arrays["numbers"]
        n_texts = len(digests) // _DIGEST
        if len(starts) != n_texts + 1 or (numbers.size and not 0 <= numbers.min() <= numbers.max() < len(terms)):
            raise InputError("the stored counts of terms are damaged")
        vocabulary = self._vocabulary
        number_of = np.array([vocabulary.setdefault(term, len(vocabulary)) for term in terms], np.int64)
        parts = arrays["counts"].astype(np.float32), number_of[numbers], starts
        self._counts = sparse.csr_matrix(parts, shape=(n_texts, len(vocabulary)))
        self.digests = [digests[begin : begin + _DIGEST] for begin in range(0, len(digests), _DIGEST)]

    def taken(self, rows: npt.NDArray[np.int64]) -> TermRecord:
        """Return the record of some of the texts."""
        other = TermRecord(self._analyze, self.columns, self._vocabulary)
        other._counts = self._counts[rows]
        other.digests = [self.digests[row] for row in rows.tolist()]
        return other
