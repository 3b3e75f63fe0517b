"""TextFeatures: L2-normalized TF-IDF features, (1 + ln count) ln(N / df), fitted on the training documents."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.archive import open_arrays, read_manifest, write_archive
from unmissed.data.names import pack_names, unpack_names
from unmissed.data.terms import (
    ANALYZERS,
    MAX_CHARACTERS,
    character_terms,
    character_word_terms,
    check_stop_words,
    listed_stop_words,
    word_terms,
)
from unmissed.data.unicode import check_normalization, check_string, normalize
from unmissed.errors import InputError, NotFittedError
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent

KIND = "text features"
VERSION = 1
_ALWAYS_STORED = ("ngrams", "min_df", "max_features", "smooth")  # other options are stored if not the default


@dataclass(eq=False)
class TextFeatures:
    """TF-IDF vectorizer: a term that occurs c times in a document gets (1 + ln c) idf; rows are L2-normalized.

    The inverse document frequency is ln(N / df), where df of the N training documents contain the term; with `smooth`
    it is scikit-learn's ln((1 + N) / (1 + df)) + 1. A word is a run of two or more letters or digits.

    Parameters
    ----------
    ngrams : minimum and maximum n of word or character n-grams
    min_df : minimum document frequency of a term
    max_features : maximum number of terms; the most frequent ones are kept. None keeps all
    smooth : use scikit-learn's smoothed idf
    analyzer : `word`, `char` for character n-grams, or `char_wb` for character n-grams within words
    stop_words : words removed before n-grams are formed: a list, `english` for scikit-learn's list, or None
    sublinear : use 1 + ln c for the term frequency instead of c
    lowercase : convert texts to lower case first
    unicode_normalization : Unicode normal form of texts: `nfc`, `nfkc`, or `none`
    """

    ngrams: tuple[int, int] = (1, 1)
    min_df: int = 1
    max_features: int | None = None
    smooth: bool = False
    analyzer: str = "word"
    stop_words: str | Sequence[str] | None = None
    sublinear: bool = True
    lowercase: bool = True
    unicode_normalization: str = "nfc"
    terms_: list[str] | None = field(default=None, init=False, repr=False)
    idf_: npt.NDArray[np.float32] | None = field(default=None, init=False, repr=False)
    _index_cache: tuple[list[str] | None, dict[str, int]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        ngrams: Any = self.ngrams
        if not isinstance(ngrams, tuple):  # a list from JSON; scikit-learn's clone requires that a tuple is kept
            self.ngrams = (int(ngrams[0]), int(ngrams[1]))
        shortest, longest = self.ngrams
        if not 1 <= shortest <= longest:
            raise InputError(f"ngrams is {self.ngrams}; expected two numbers with 1 <= shortest <= longest")
        if self.min_df < 1:
            raise InputError(f"min_df is {self.min_df}; expected a number of documents of at least 1")
        if self.max_features is not None and self.max_features < 1:
            raise InputError(f"max_features is {self.max_features}; expected at least 1")
        if self.analyzer not in ANALYZERS:
            raise InputError(f"analyzer is {self.analyzer!r}; expected {', '.join(ANALYZERS)}")
        if self.analyzer != "word" and longest > MAX_CHARACTERS:
            raise InputError(f"ngrams is {self.ngrams}; expected at most {MAX_CHARACTERS} characters")
        check_stop_words(self.stop_words, self.analyzer)
        check_normalization(self.unicode_normalization)
        vars(self).pop("_stop_words", None)

    @property
    def options(self) -> dict[str, Any]:
        """The constructor parameters as JSON values; defaults are left out unless in `_ALWAYS_STORED`."""
        params = {**self.get_params(), "ngrams": list(self.ngrams)}
        if self.stop_words is not None:
            params["stop_words"] = listed_stop_words(self.stop_words)
        default = {one.name: one.default for one in fields(self)}
        return {name: value for name, value in params.items() if name in _ALWAYS_STORED or value != default[name]}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return self.terms_ is not None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn's pipelines require."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def set_params(self, **params: Any) -> TextFeatures:
        """Set parameters by name; fitted attributes are kept until the next fit."""
        unknown = sorted(params.keys() - self.get_params().keys())
        if unknown:
            raise InputError(f"TextFeatures has no option {unknown[0]!r}; it has {', '.join(self.get_params())}")
        for name, value in params.items():
            setattr(self, name, value)
        self.__post_init__()
        return self

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: a transformer of strings that requires no target."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(string=True, two_d_array=False),
        )

    def fit(self, texts: Iterable[str], y: Any = None, *, progress: Progress = silent) -> TextFeatures:
        """Fit the vocabulary and idf on training documents; `y` is ignored."""
        self.fit_transform(texts, progress=progress)
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None, *, progress: Progress = silent) -> sparse.csr_matrix:
        """Fit on training documents, read one by one, and return their features; `y` is ignored."""
        counter = self._counter()
        try:
            counts = counter.fit_transform(_with_progress(texts, progress))
        except InputError:  # from the iterator of texts
            raise
        except ValueError as error:  # empty vocabulary
            n_texts = f"{len(texts)} " if isinstance(texts, Sequence) else ""
            raise InputError(f"no terms to learn from {n_texts}texts with min_df={self.min_df}: {error}") from error
        self.terms_ = [str(term) for term in counter.get_feature_names_out()]
        self.idf_ = inverse_document_frequency(counts, smooth=self.smooth)
        return weigh_terms(counts, self.idf_, sublinear=self.sublinear)

    def learn(self, frequency: Mapping[str, int], occurrences: Mapping[str, int], n_documents: int) -> TextFeatures:
        """Fit from counts: the document frequency and, for `max_features`, the occurrences of each term.

        The vocabulary is the one that `fit` selects, including ties.
        """
        terms = sorted(frequency)
        df = np.array([frequency[term] for term in terms], np.float64)
        kept = np.flatnonzero(df >= self.min_df)
        if self.max_features is not None and kept.size > self.max_features:
            n_occurrences = np.array([occurrences[terms[position]] for position in kept], np.float32)
            kept = np.sort(kept[(-n_occurrences).argsort()[: self.max_features]])  # as scikit-learn breaks ties
        if not kept.size:
            raise InputError(f"no terms to learn from {n_documents} texts with min_df={self.min_df}")
        self.terms_ = [terms[position] for position in kept.tolist()]
        self.idf_ = _idf(df[kept], n_documents, self.smooth)
        return self

    def transform(self, texts: Iterable[str], *, progress: Progress = silent) -> sparse.csr_matrix:
        """Return the features of documents; terms outside the vocabulary are ignored."""
        if self.terms_ is None or self.idf_ is None:
            raise NotFittedError("these text features have not been fitted; call fit with the training texts first")
        return weigh_terms(self._count(texts, progress), self.idf_, sublinear=self.sublinear)

    def count_terms(self, texts: Iterable[str], progress: Progress = silent) -> int:
        """Return the number of features that `fit` would learn from these texts."""
        if self.min_df > 1 or self.max_features is not None:
            return len(replace(self).fit(texts, progress=progress).terms_ or ())
        terms: set[str] = set()
        for text in _with_progress(texts, progress):
            terms.update(self.terms_in(text))
        return len(terms)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write parameters, vocabulary and idf as a new archive folder."""
        write_archive(folder, self.to_arrays(), kind=KIND, version=VERSION, options=self.options)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> TextFeatures:
        """Open text features written by `save`; they transform bit for bit identically."""
        manifest = read_manifest(folder, KIND)
        return cls.from_arrays(manifest.get("options", {}), open_arrays(folder, manifest, verify=verify), str(folder))

    def to_arrays(self, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
        """Return the vocabulary and idf as arrays."""
        if self.terms_ is None or self.idf_ is None:
            raise NotFittedError("text features can be stored only after fit")
        return {**pack_names(f"{prefix}terms", self.terms_), f"{prefix}idf": self.idf_}

    @classmethod
    def from_arrays(
        cls, options: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str, prefix: str = ""
    ) -> TextFeatures:
        """Return fitted text features from their parameters and the arrays of `to_arrays`."""
        _check_options(options, where)
        features = cls(**options)
        features.terms_ = unpack_names(f"{prefix}terms", arrays)
        idf = arrays.get(f"{prefix}idf")
        if features.terms_ is None or idf is None or idf.dtype != np.float32 or idf.shape != (len(features.terms_),):
            raise InputError(f"{where}: not readable as text features: expected as many weights as terms")
        if not np.isfinite(idf).all() or len(features._positions) != len(features.terms_):
            raise InputError(
                f"{where}: not readable as text features: an idf value is not finite, or a term occurs twice"
            )
        features.idf_ = np.array(idf)
        return features

    @classmethod
    def from_vectorizer(cls, vectorizer: Any) -> TextFeatures:
        """Return text features equivalent to scikit-learn's `TfidfVectorizer`, fitted if it is fitted.

        Options that cannot be stored without pickle, such as a custom tokenizer, raise InputError.
        """
        from unmissed.data.vectorizers import from_vectorizer

        return from_vectorizer(vectorizer)

    def _counter(self) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(
            analyzer=self.terms_in, min_df=self.min_df, max_features=self.max_features, dtype=np.float32
        )

    def terms_in(self, text: str) -> list[str]:
        """Return the terms of a text, as the analyzer of scikit-learn's CountVectorizer does."""
        text = normalize(text, self.unicode_normalization)
        if self.lowercase:
            text = text.lower()
        if self.analyzer == "word":
            return word_terms(text, *self.ngrams, self._stop_words)
        return (character_terms if self.analyzer == "char" else character_word_terms)(text, *self.ngrams)

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        return frozenset(normalize(word, self.unicode_normalization) for word in listed_stop_words(self.stop_words))

    def _count(self, texts: Iterable[str], progress: Progress) -> sparse.csr_matrix:
        """Return term counts over the vocabulary, one row per text."""
        position_of = self._positions
        positions = array("i")
        starts = [0]
        for text in _with_progress(texts, progress):
            positions.extend(
                position for term in self.terms_in(text) if (position := position_of.get(term)) is not None
            )
            starts.append(len(positions))
        ones = np.ones(len(positions), np.float32)
        indices = np.array(positions, np.int32)
        shape = (len(starts) - 1, len(position_of))
        return sparse.csr_matrix((ones, indices, np.array(starts, np.int64)), shape=shape)

    @property
    def _positions(self) -> dict[str, int]:
        """The index of each term; cached per vocabulary, which can have millions of terms."""
        if self._index_cache is None or self._index_cache[0] is not self.terms_:
            terms = self.terms_ or []
            self._index_cache = (self.terms_, dict(zip(terms, range(len(terms)), strict=True)))
        return self._index_cache[1]


def _check_options(options: Any, where: str) -> None:
    """Raise InputError if stored options have unknown names or wrong types."""
    kinds = {"ngrams": list, "min_df": int, "max_features": int | None, "smooth": bool, "analyzer": str}
    kinds |= {"stop_words": list, "sublinear": bool, "lowercase": bool, "unicode_normalization": str}
    valid = isinstance(options, dict) and options.keys() <= kinds.keys()
    valid = valid and all(isinstance(value, kinds[name]) for name, value in options.items())
    ngrams = options.get("ngrams", [1, 1]) if valid else []
    if len(ngrams) != 2 or not all(type(n) is int for n in ngrams):
        raise InputError(f"{where}: not readable as text features: their options are damaged")


def inverse_document_frequency(counts: sparse.csr_matrix, *, smooth: bool = False) -> npt.NDArray[np.float32]:
    """Return ln(N / df) per term, or scikit-learn's ln((1 + N) / (1 + df)) + 1; terms without occurrences get 0."""
    return _idf(np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64), counts.shape[0], smooth)


def _idf(df: npt.NDArray[np.float64], n_documents: int, smooth: bool) -> npt.NDArray[np.float32]:
    if smooth:
        return np.asarray(np.log((1 + n_documents) / (1 + df)) + 1, dtype=np.float32)
    return np.where(df > 0, np.log(n_documents / np.maximum(df, 1)), 0.0).astype(np.float32)


def weigh_terms(
    counts: sparse.csr_matrix, idf: npt.NDArray[np.float32], *, sublinear: bool = True
) -> sparse.csr_matrix:
    """Return L2-normalized TF-IDF rows: (1 + ln count) idf, or count idf, as canonical CSR."""
    counts = sparse.csr_matrix(counts, dtype=np.float32)
    counts.sum_duplicates()
    counts.data = (1 + np.log(counts.data) if sublinear else counts.data) * idf[counts.indices]
    counts.eliminate_zeros()
    norms = np.sqrt(
        np.bincount(_row_of(counts), weights=counts.data.astype(np.float64) ** 2, minlength=counts.shape[0])
    )
    counts.data /= norms.astype(np.float32)[_row_of(counts)]
    return assemble(counts.data, counts.indices, counts.indptr, counts.shape)


def _row_of(matrix: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _with_progress(texts: Iterable[str], progress: Progress) -> Iterator[str]:
    """Yield the texts and report the number read to the progress callback."""
    total = len(texts) if isinstance(texts, Sequence) else None
    for done, text in enumerate(texts):
        if done % 256 == 0:
            progress(done, total)
        yield check_string("texts", f"text {done}", text)
