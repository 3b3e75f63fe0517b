"""TextFeatures: documents to rows of length 1 with entries (1 + ln count) ln(N / df), learned on the training text."""

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
    MOST_CHARACTERS,
    character_terms,
    check_stop_words,
    inner_terms,
    listed_stop_words,
    word_terms,
)
from unmissed.data.unicode import check_normalization, check_string, normalize
from unmissed.errors import InputError, NotFittedError
from unmissed.matrices import assemble
from unmissed.progress import Progress, silent

KIND = "text features"
VERSION = 1
_FIRST = ("ngrams", "min_df", "max_features", "smooth")  # options that are always written down
_UNSAID = {"unicode_normalization": "none"}  # what it means if stored text features do not have the option


@dataclass(eq=False)
class TextFeatures:
    """TF-IDF: a term that occurs c times in a document weighs (1 + ln c) idf, and each row has length 1.

    The inverse document frequency is ln(N / df), where df of the N training documents have the term; with `smooth`
    it is scikit-learn's ln((1 + N) / (1 + df)) + 1. Words are runs of two or more letters or digits.

    Parameters
    ----------
    ngrams : the shortest and the longest run of words, or of characters, that is a term
    min_df : leave out terms that fewer training documents have
    max_features : keep this many terms, those with most occurrences, or None for all
    smooth : scikit-learn's smoothed idf
    analyzer : `word`, `char` for runs of characters, or `char_wb` for those inside words
    stop_words : words that are left out before terms are made: a list, `english` for scikit-learn's, or None
    sublinear : 1 + ln c, as above, or c itself
    lowercase : whether capitals are small letters
    unicode_normalization : the normal form that texts get first: `nfc`, `nfkc`, or `none` for texts as they are
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
    _known: tuple[list[str] | None, dict[str, int]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.ngrams
        if not isinstance(given, tuple):  # a list, as JSON gives it; a tuple stays itself, as scikit-learn's clone asks
            self.ngrams = (int(given[0]), int(given[1]))
        shortest, longest = self.ngrams
        if not 1 <= shortest <= longest:
            raise InputError(f"ngrams is {self.ngrams}; expected two numbers with 1 <= shortest <= longest")
        if self.min_df < 1:
            raise InputError(f"min_df is {self.min_df}; expected a number of documents of at least 1")
        if self.max_features is not None and self.max_features < 1:
            raise InputError(f"max_features is {self.max_features}; expected at least 1")
        if self.analyzer not in ANALYZERS:
            raise InputError(f"analyzer is {self.analyzer!r}; expected {', '.join(ANALYZERS)}")
        if self.analyzer != "word" and longest > MOST_CHARACTERS:
            raise InputError(f"ngrams is {self.ngrams}; expected runs of at most {MOST_CHARACTERS} characters")
        check_stop_words(self.stop_words, self.analyzer)
        check_normalization(self.unicode_normalization)
        vars(self).pop("_stop_words", None)

    @property
    def options(self) -> dict[str, Any]:
        """What the constructor was told, ready for JSON; of the later options those that are not the default."""
        every = {**self.get_params(), "ngrams": list(self.ngrams)}
        if self.stop_words is not None:
            every["stop_words"] = listed_stop_words(self.stop_words)
        default = {one.name: one.default for one in fields(self)} | _UNSAID
        return {name: value for name, value in every.items() if name in _FIRST or value != default[name]}

    @property
    def is_fitted(self) -> bool:
        """Whether terms and their weights have been learned."""
        return self.terms_ is not None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name, as scikit-learn's pipelines ask for them."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.init}

    def set_params(self, **params: Any) -> TextFeatures:
        """Set options by name; what was learned stays until the next fit."""
        unknown = sorted(params.keys() - self.get_params().keys())
        if unknown:
            raise InputError(f"TextFeatures has no option {unknown[0]!r}; it has {', '.join(self.get_params())}")
        for name, value in params.items():
            setattr(self, name, value)
        self.__post_init__()
        return self

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that this turns texts into features and needs no labels."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(string=True, two_d_array=False),
        )

    def fit(self, texts: Iterable[str], y: Any = None, *, progress: Progress = silent) -> TextFeatures:
        """Learn terms and their weights from training documents; `y` is not looked at."""
        self.fit_transform(texts, progress=progress)
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None, *, progress: Progress = silent) -> sparse.csr_matrix:
        """Learn from training documents, taken one by one, and return their features; `y` is not looked at."""
        counter = self._counter()
        try:
            counts = counter.fit_transform(_told(texts, progress))
        except InputError:  # a text that could not be read
            raise
        except ValueError as error:  # no terms at all, or none that are frequent enough
            n_texts = f"{len(texts)} " if isinstance(texts, Sequence) else ""
            raise InputError(f"no terms to learn from {n_texts}texts with min_df={self.min_df}: {error}") from error
        self.terms_ = [str(term) for term in counter.get_feature_names_out()]
        self.idf_ = inverse_document_frequency(counts, smooth=self.smooth)
        return weigh_terms(counts, self.idf_, sublinear=self.sublinear)

    def learn(self, frequency: Mapping[str, int], occurrences: Mapping[str, int], n_documents: int) -> TextFeatures:
        """Learn from counts: how many of the documents have each term, and, for `max_features`, how often it occurs.

        The terms are those that `fit` keeps, ties included.
        """
        terms = sorted(frequency)
        df = np.array([frequency[term] for term in terms], np.float64)
        kept = np.flatnonzero(df >= self.min_df)
        if self.max_features is not None and kept.size > self.max_features:
            often = np.array([occurrences[terms[place]] for place in kept], np.float32)
            kept = np.sort(kept[(-often).argsort()[: self.max_features]])  # as scikit-learn breaks ties
        if not kept.size:
            raise InputError(f"no terms to learn from {n_documents} texts with min_df={self.min_df}")
        self.terms_ = [terms[place] for place in kept.tolist()]
        self.idf_ = _idf(df[kept], n_documents, self.smooth)
        return self

    def transform(self, texts: Iterable[str], *, progress: Progress = silent) -> sparse.csr_matrix:
        """Return the features of documents; terms that training did not know are left out."""
        if self.terms_ is None or self.idf_ is None:
            raise NotFittedError("these text features have not been fitted; call fit with the training texts first")
        return weigh_terms(self._count(texts, progress), self.idf_, sublinear=self.sublinear)

    def count_terms(self, texts: Iterable[str], progress: Progress = silent) -> int:
        """Return how many features `fit` would make of these texts, without weighing them."""
        if self.min_df > 1 or self.max_features is not None:
            return len(replace(self).fit(texts, progress=progress).terms_ or ())
        terms: set[str] = set()
        for text in _told(texts, progress):
            terms.update(self.terms_in(text))
        return len(terms)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write options, terms and weights as a new archive folder."""
        write_archive(folder, self.to_arrays(), kind=KIND, version=VERSION, options=self.options)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> TextFeatures:
        """Open what `save` wrote; it transforms bit for bit like the one saved."""
        manifest = read_manifest(folder, KIND)
        return cls.from_arrays(manifest.get("options", {}), open_arrays(folder, manifest, verify=verify), str(folder))

    def to_arrays(self, prefix: str = "") -> dict[str, npt.NDArray[Any]]:
        """Return what was learned as plain arrays."""
        if self.terms_ is None or self.idf_ is None:
            raise NotFittedError("text features can be stored only after fit")
        return {**pack_names(f"{prefix}terms", self.terms_), f"{prefix}idf": self.idf_}

    @classmethod
    def from_arrays(
        cls, options: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str, prefix: str = ""
    ) -> TextFeatures:
        """Build fitted text features from their options and the arrays of `to_arrays`."""
        _check_options(options, where)
        made = cls(**{**_UNSAID, **options})
        made.terms_ = unpack_names(f"{prefix}terms", arrays)
        idf = arrays.get(f"{prefix}idf")
        if made.terms_ is None or idf is None or idf.dtype != np.float32 or idf.shape != (len(made.terms_),):
            raise InputError(f"{where}: not readable as text features: expected as many weights as terms")
        if not np.isfinite(idf).all() or len(made._places) != len(made.terms_):
            raise InputError(f"{where}: not readable as text features: a weight is not finite, or a term stands twice")
        made.idf_ = np.array(idf)
        return made

    @classmethod
    def from_vectorizer(cls, vectorizer: Any) -> TextFeatures:
        """Return the text features that scikit-learn's `TfidfVectorizer` describes, fitted if it is.

        What cannot be described without pickle, such as a tokenizer of its own, is refused with the reason.
        """
        from unmissed.data.vectorizers import from_vectorizer

        return from_vectorizer(vectorizer)

    def _counter(self) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(
            analyzer=self.terms_in, min_df=self.min_df, max_features=self.max_features, dtype=np.float32
        )

    def terms_in(self, text: str) -> list[str]:
        """Return the terms of a text, as scikit-learn's CountVectorizer finds them."""
        text = normalize(text, self.unicode_normalization)
        if self.lowercase:
            text = text.lower()
        if self.analyzer == "word":
            return word_terms(text, *self.ngrams, self._stop_words)
        return (character_terms if self.analyzer == "char" else inner_terms)(text, *self.ngrams)

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        return frozenset(normalize(word, self.unicode_normalization) for word in listed_stop_words(self.stop_words))

    def _count(self, texts: Iterable[str], progress: Progress) -> sparse.csr_matrix:
        """Count the known terms of each text."""
        place_of = self._places
        places = array("i")
        starts = [0]
        for text in _told(texts, progress):
            places.extend(place for term in self.terms_in(text) if (place := place_of.get(term)) is not None)
            starts.append(len(places))
        ones = np.ones(len(places), np.float32)
        indices = np.array(places, np.int32)
        shape = (len(starts) - 1, len(place_of))
        return sparse.csr_matrix((ones, indices, np.array(starts, np.int64)), shape=shape)

    @property
    def _places(self) -> dict[str, int]:
        """The number of each term, made once for a list of terms: a vocabulary can have millions."""
        if self._known is None or self._known[0] is not self.terms_:
            terms = self.terms_ or []
            self._known = (self.terms_, dict(zip(terms, range(len(terms)), strict=True)))
        return self._known[1]


def _check_options(options: Any, where: str) -> None:
    """Refuse options of stored text features that are not of the types that `options` gives."""
    kinds = {"ngrams": list, "min_df": int, "max_features": int | None, "smooth": bool, "analyzer": str}
    kinds |= {"stop_words": list, "sublinear": bool, "lowercase": bool, "unicode_normalization": str}
    sound = isinstance(options, dict) and options.keys() <= kinds.keys()
    sound = sound and all(isinstance(value, kinds[name]) for name, value in options.items())
    ngrams = options.get("ngrams", [1, 1]) if sound else []
    if len(ngrams) != 2 or not all(type(n) is int for n in ngrams):
        raise InputError(f"{where}: not readable as text features: their options are damaged")


def inverse_document_frequency(counts: sparse.csr_matrix, *, smooth: bool = False) -> npt.NDArray[np.float32]:
    """Return ln(N / df) per term, or scikit-learn's ln((1 + N) / (1 + df)) + 1; terms that occur nowhere get 0."""
    return _idf(np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64), counts.shape[0], smooth)


def _idf(df: npt.NDArray[np.float64], n_documents: int, smooth: bool) -> npt.NDArray[np.float32]:
    if smooth:
        return np.asarray(np.log((1 + n_documents) / (1 + df)) + 1, dtype=np.float32)
    return np.where(df > 0, np.log(n_documents / np.maximum(df, 1)), 0.0).astype(np.float32)


def weigh_terms(
    counts: sparse.csr_matrix, idf: npt.NDArray[np.float32], *, sublinear: bool = True
) -> sparse.csr_matrix:
    """Return (1 + ln count) idf, or count idf, with rows scaled to length 1, in canonical form."""
    counts = sparse.csr_matrix(counts, dtype=np.float32)
    counts.sum_duplicates()
    counts.data = (1 + np.log(counts.data) if sublinear else counts.data) * idf[counts.indices]
    counts.eliminate_zeros()
    lengths = np.sqrt(
        np.bincount(_row_of(counts), weights=counts.data.astype(np.float64) ** 2, minlength=counts.shape[0])
    )
    counts.data /= lengths.astype(np.float32)[_row_of(counts)]
    return assemble(counts.data, counts.indices, counts.indptr, counts.shape)


def _row_of(matrix: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _told(texts: Iterable[str], progress: Progress) -> Iterator[str]:
    """Give the texts one by one and tell how many have been taken."""
    total = len(texts) if isinstance(texts, Sequence) else None
    for done, text in enumerate(texts):
        if done % 256 == 0:
            progress(done, total)
        yield check_string("texts", f"text {done}", text)
