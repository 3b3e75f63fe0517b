"""TextFeatures: L2-normalized TF-IDF features, (1 + ln count) ln(N / df), and embeddings by an encoder."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from unmissed.archive import open_arrays, read_manifest, write_archive
from unmissed.data.encoders import Embeddings, Encode, EncoderIdentity, SentenceEncoder, embed
from unmissed.data.names import pack_names, unpack_names
from unmissed.data.term_record import TermCounter, TermRecord
from unmissed.data.term_weights import idf_of, inverse_document_frequency, weigh_arrays, weigh_terms
from unmissed.data.text_analysis import ACCENTS, StemmedWords, check_stemmer, list_stop_words, preprocess
from unmissed.data.text_fields import WeightedFields, parse_fields, plain
from unmissed.data.unicode import check_normalization, check_string, normalize
from unmissed.errors import InputError
from unmissed.features import Features
from unmissed.progress import Progress, silent

TextRows = Any
"""Features of texts: a `csr_matrix`, or `Features` if there is an encoder."""
KIND = "text features"
VERSION = 1
ANALYZERS = ("word", "char", "char_wb")
MAX_CHARACTERS = 32  # maximum length of a character n-gram; bounds the number of terms of a long text
_ALWAYS_STORED = ("ngrams", "min_df", "max_features", "smooth")  # other options are stored if not the default


@dataclass(eq=False, repr=False)
class TextFeatures(TransformerMixin, BaseEstimator):
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
    stop_words : words removed before n-grams are formed: a list, languages such as `german` or `german,english`
        (`english` is scikit-learn's list), or None
    sublinear : use 1 + ln c for the term frequency instead of c
    lowercase : convert texts to lower case first
    unicode_normalization : Unicode normal form of texts: `nfc`, `nfkc`, or `none`
    encoder : adds embeddings of the texts as dense features: a `SentenceEncoder`, its name or folder, or a function
        from a list of texts to an array of one row per text. None for TF-IDF features only. A run stores what
        identifies a `SentenceEncoder`, and no function: whoever ranks with it then brings the embeddings (`dense`)
    strip_accents : `unicode` or `ascii`, as in scikit-learn, or None to keep accents
    stemmer : language of a Snowball stemmer, such as `german`, that replaces words by their stems; None keeps words
    fields : names and weights of the columns that make up the texts, such as `title:3,abstract:1`: a word of the title
        counts three times. None for texts of one column. `load` sets it by the columns that it reads

    Attributes
    ----------
    terms_ : the terms, one per feature, sorted
    idf_ : the inverse document frequency of each term
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
    encoder: str | os.PathLike[str] | Encode | None = None
    strip_accents: str | None = None
    stemmer: str | None = None
    fields: str | None = None
    record: ClassVar[TermRecord | None] = None
    """The counts of all terms that `transform` saw; set by `recording` only."""

    def __post_init__(self) -> None:
        self._check_params()

    def _check_params(self) -> None:
        """Raise InputError if a parameter is out of range."""
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
        _check_stop_words(self.stop_words, self.analyzer)
        if self.strip_accents is not None and self.strip_accents not in ACCENTS:
            raise InputError(f"strip_accents is {self.strip_accents!r}; expected {', '.join(ACCENTS)}, or None")
        if self.stemmer is not None:
            check_stemmer(self.stemmer)
            if self.analyzer != "word":
                raise InputError(f"a stemmer requires analyzer='word'; the analyzer is {self.analyzer!r}")
        if self.fields is not None:
            parse_fields(self.fields)
        check_normalization(self.unicode_normalization)
        if isinstance(self.encoder, str | os.PathLike):
            self.encoder = SentenceEncoder(self.encoder)
        if self.encoder is not None and not callable(self.encoder):
            raise InputError(f"encoder must be a name, a folder or a function; got {type(self.encoder).__name__}")

    @property
    def options(self) -> dict[str, Any]:
        """The constructor parameters as JSON values; defaults are left out unless in `_ALWAYS_STORED`."""
        params = {**self.get_params(), "ngrams": list(self.ngrams), "encoder": None}
        if self.identity is not None:
            params["encoder"] = self.identity.to_json()
        if self.stop_words is not None:
            params["stop_words"] = list_stop_words(self.stop_words)
        default = {one.name: one.default for one in dataclass_fields(self)}
        return {name: value for name, value in params.items() if name in _ALWAYS_STORED or value != default[name]}

    @property
    def identity(self) -> EncoderIdentity | None:
        """What identifies the encoder; None without one, or if it is a function."""
        return self.encoder.identity if isinstance(self.encoder, SentenceEncoder) else None

    def without_encoder(self) -> TextFeatures:
        """Return these text features, fitted if they are, without embeddings."""
        other = copy(self)
        other.encoder = None
        return other

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def fit(self, texts: Iterable[str], y: Any = None, *, progress: Progress = silent) -> Self:
        """Fit the vocabulary and idf on training documents; `y` is ignored. Nothing is embedded."""
        self._fit_terms(texts, progress)
        return self

    def fit_transform(
        self, texts: Iterable[str], y: Any = None, *, words: Collection[str] = (), progress: Progress = silent
    ) -> TextRows:
        """Fit on training documents, read one by one, and return their features; `y` is ignored.

        `words` are terms of the vocabulary in any case, such as those of label names that no training document has; one
        that no document has gets the idf of a term in one document.

        Without an encoder, these are a sparse matrix, else `Features` with TF-IDF features and embeddings. An encoder
        that is missing is reported before the texts are read.
        """
        if self.encoder is None:
            return self._fit_terms(texts, progress, words)
        self._check_params()
        _ = self.identity  # loads the model: its errors come before those of texts
        texts = list(texts)
        return self._with_embeddings(self._fit_terms(texts, progress, words), texts, progress)

    def _fit_terms(self, texts: Iterable[str], progress: Progress, words: Collection[str] = ()) -> sparse.csr_matrix:
        """Fit the vocabulary and idf and return the TF-IDF features."""
        counter = self._make_counter()
        if words:
            counter.set_params(min_df=1, max_features=None)
        try:
            counts = counter.fit_transform(_with_progress(texts, progress))
        except InputError:  # from the iterator of texts
            raise
        except ValueError as error:  # empty vocabulary
            n_texts = f"{len(texts)} " if isinstance(texts, Sequence) else ""
            raise InputError(f"no terms to learn from {n_texts}texts with min_df={self.min_df}: {error}") from error
        terms = counter.get_feature_names_out().tolist()
        if words:
            terms, counts = self._select_terms(terms, counts, words)
        self._set_counted(terms, counts, has_words=bool(words))
        return self.weigh(counts)

    def fit_records(self, records: Sequence[TermRecord], *, words: Collection[str] = ()) -> Self:
        """Fit the vocabulary and idf on texts that were read before (`recording`), as `fit_transform` does."""
        terms = sorted({term for record in records for term in record.terms})
        column = {term: position for position, term in enumerate(terms)}
        counts = sparse.vstack([record.counts(column) for record in records], format="csr")
        terms, counts = self._select_terms(terms, counts, words)
        if not terms:
            raise InputError(f"no terms to learn from {counts.shape[0]} texts with min_df={self.min_df}")
        self._set_counted(terms, counts, has_words=bool(words))
        return self

    def recording(self, vocabulary: dict[str, int]) -> TextFeatures:
        """Return these fitted text features; the next call of `transform` also fills `record`, for all terms.

        `vocabulary` numbers the terms of several records.
        """
        check_is_fitted(self, "terms_")
        other = copy(self)
        other._counter = record = TermRecord(self.build_analyzer(), self._counter.columns, vocabulary)
        return other.with_record(record)

    def with_record(self, record: TermRecord) -> TextFeatures:
        """Return these text features with another record."""
        other = copy(self)
        other.__dict__["record"] = record
        return other

    def transform_record(self, record: TermRecord) -> sparse.csr_matrix:
        """Return the TF-IDF features of texts that were read before, as `transform` does."""
        return self.weigh(record.counts(self._counter.columns))

    def weigh(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return the TF-IDF features of the counts of the terms."""
        return weigh_terms(counts, self.idf_, sublinear=self.sublinear)

    def _set_counted(self, terms: list[str], counts: sparse.csr_matrix, *, has_words: bool) -> None:
        """Set the vocabulary and the idf of its counts; with `has_words`, some terms may be in no document."""
        idf = inverse_document_frequency(counts, smooth=self.smooth)
        if has_words and not self.smooth:
            idf[np.bincount(counts.indices, minlength=counts.shape[1]) == 0] = np.log(counts.shape[0])
        self.set_terms(terms, idf)

    def _select_terms(
        self, terms: list[str], counts: sparse.csr_matrix, words: Collection[str]
    ) -> tuple[list[str], sparse.csr_matrix]:
        """Return the terms that `fit` selects and `words`, sorted, and their counts."""
        df = np.bincount(counts.indices, minlength=len(terms)).astype(np.float64)
        chosen = self._choose(df, np.asarray(counts.sum(axis=0), np.float32).ravel())
        column = {term: position for position, term in enumerate(terms)}
        listed = sorted({terms[position] for position in chosen.tolist()} | set(words))
        found = np.array([column.get(term, -1) for term in listed])
        order = np.full(len(terms), -1, np.int64)
        order[found[found >= 0]] = np.flatnonzero(found >= 0)
        columns = order[counts.indices]
        kept = columns >= 0
        ends = np.append(0, np.cumsum(kept))[counts.indptr]
        shape = counts.shape[0], len(listed)
        return listed, sparse.csr_matrix((counts.data[kept], columns[kept], ends), shape=shape)

    def _choose(self, df: npt.NDArray[np.float64], occurrences: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Return the positions of the terms that `min_df` and `max_features` keep, rising, as scikit-learn does."""
        kept = np.flatnonzero(df >= self.min_df)
        if self.max_features is not None and kept.size > self.max_features:
            kept = np.sort(kept[(-occurrences[kept]).argsort()[: self.max_features]])  # as scikit-learn breaks ties
        return kept

    def learn(self, frequency: Mapping[str, int], occurrences: Mapping[str, int], n_documents: int) -> Self:
        """Fit from counts: the document frequency and, for `max_features`, the occurrences of each term.

        The vocabulary is the one that `fit` selects, including ties.
        """
        terms = sorted(frequency)
        df = np.array([frequency[term] for term in terms], np.float64)
        n_occurrences = np.array([occurrences.get(term, 0) for term in terms], np.float32)
        kept = self._choose(df, n_occurrences)
        if not kept.size:
            raise InputError(f"no terms to learn from {n_documents} texts with min_df={self.min_df}")
        return self.set_terms((terms[position] for position in kept), idf_of(df[kept], n_documents, self.smooth))

    def set_terms(self, terms: Iterable[str], idf: npt.NDArray[np.float32]) -> Self:
        """Set the vocabulary and its inverse document frequencies, as `fit` does."""
        self.terms_ = [str(term) for term in terms]
        self.idf_ = idf
        columns = dict(zip(self.terms_, range(len(self.terms_)), strict=True))
        self._counter: TermCounter | TermRecord = TermCounter(self.build_analyzer(), columns)
        return self

    def transform(self, texts: Iterable[str], *, progress: Progress = silent) -> TextRows:
        """Return the features of documents, as `fit_transform` does; terms outside the vocabulary are ignored."""
        check_is_fitted(self, "terms_")
        if isinstance(texts, str):
            raise InputError("transform takes several texts; put a single one into a list")
        texts = texts if self.encoder is None else list(texts)
        words = weigh_arrays(*self._counter.count(_with_progress(texts, progress)), self.idf_, self.sublinear)
        return words if self.encoder is None else self._with_embeddings(words, texts, progress)

    def embed(
        self, texts: Iterable[str], *, n_texts: int | None = None, progress: Progress = silent
    ) -> Iterator[Embeddings]:
        """Yield the embeddings of texts by the encoder, in blocks of rows; `n_texts` is their number, if known."""
        normalized = (normalize(plain(text), self.unicode_normalization) for text in texts)
        return embed(normalized, self._encode, n_texts=n_texts, progress=progress)

    def _with_embeddings(self, words: sparse.csr_matrix, texts: Any, progress: Progress) -> Features:
        """Return TF-IDF features with the embeddings of the same texts."""
        blocks = list(self.embed(texts, n_texts=len(texts), progress=progress))
        if not blocks:
            blocks = [np.zeros((0, 0 if self.identity is None else self.identity.n_dense), np.float32)]
        return Features(words, np.concatenate(blocks), trusted=True)

    @property
    def _encode(self) -> Encode:
        assert callable(self.encoder)  # `_check_params` converts names
        return self.encoder

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the terms, one per feature, as scikit-learn's transformers do; `input_features` is ignored."""
        check_is_fitted(self, "terms_")
        return np.array(self.terms_, dtype=object)

    def count_terms(self, texts: Iterable[str], progress: Progress = silent) -> int:
        """Return the number of features that `fit` would learn from these texts."""
        if self.min_df > 1 or self.max_features is not None:
            return len(clone(self.without_encoder()).fit(texts, progress=progress).terms_)
        terms: set[str] = set()
        terms_of = self.build_analyzer()
        for text in _with_progress(texts, progress):
            terms.update(terms_of(text))
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
        check_is_fitted(self, "terms_")
        return {**pack_names(f"{prefix}terms", self.terms_), f"{prefix}idf": self.idf_}

    @classmethod
    def from_arrays(
        cls, options: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str, prefix: str = ""
    ) -> TextFeatures:
        """Return fitted text features from their parameters and the arrays of `to_arrays`."""
        _check_options(options, where)
        params = {**options, "ngrams": tuple(options.get("ngrams", (1, 1)))}
        if "encoder" in params:
            params["encoder"] = SentenceEncoder.stored(EncoderIdentity.from_json(params["encoder"], where), where)
        features = cls(**params)
        terms, idf = unpack_names(f"{prefix}terms", arrays), arrays.get(f"{prefix}idf")
        if not terms or idf is None or idf.dtype != np.float32 or idf.shape != (len(terms),):
            raise InputError(f"{where}: not readable as text features: expected as many weights as terms")
        if not np.isfinite(idf).all() or len(set(terms)) != len(terms):
            raise InputError(
                f"{where}: not readable as text features: an idf value is not finite, or a term occurs twice"
            )
        return features.set_terms(terms, np.array(idf))

    @classmethod
    def from_vectorizer(cls, vectorizer: Any) -> TextFeatures:
        """Return text features equivalent to scikit-learn's `TfidfVectorizer`, fitted if it is fitted.

        Options that cannot be stored without pickle, such as a custom tokenizer, raise InputError.
        """
        from unmissed.data.vectorizers import from_vectorizer

        return from_vectorizer(vectorizer)

    def build_analyzer(self) -> Callable[[str], list[str]]:
        """Return a function that returns the terms of a text: the analyzer of scikit-learn's CountVectorizer."""
        analyzer: Callable[[str], list[str]] = self._make_counter().build_analyzer()
        return analyzer

    def _make_counter(self) -> CountVectorizer:
        """Return scikit-learn's vectorizer, without a vocabulary; raise InputError if a parameter is out of range."""
        self._check_params()
        chosen = {"min_df": self.min_df, "max_features": self.max_features, "dtype": np.float32}
        form = self.unicode_normalization
        counter = CountVectorizer(
            analyzer=self.analyzer,
            ngram_range=tuple(self.ngrams),
            preprocessor=partial(preprocess, form=form, lowercase=self.lowercase, strip_accents=self.strip_accents),
            **chosen,
        )
        stop_words: list[str] = []
        if self.stop_words is not None:  # only those that are terms: others never occur, and scikit-learn warns of them
            words_in = clone(counter).set_params(ngram_range=(1, 1)).build_analyzer()
            words = (preprocess(one, form, False, self.strip_accents) for one in list_stop_words(self.stop_words))
            stop_words = [word for word in words if words_in(word) == [word]]
            counter.set_params(stop_words=stop_words)
        if self.stemmer is not None:  # stop words are dropped before words are stemmed
            counter.set_params(tokenizer=StemmedWords(self.stemmer, stop_words), token_pattern=None, stop_words=None)
        weights = () if self.fields is None else tuple(weight for _, weight in parse_fields(self.fields))
        if len(weights) > 1:
            counter = CountVectorizer(analyzer=WeightedFields(counter.build_analyzer(), weights), **chosen)
        return counter


def _check_stop_words(stop_words: Any, analyzer: str) -> None:
    """Raise InputError unless stop words are None, languages or a list of words, and the analyzer is `word`."""
    if stop_words is None:
        return
    if analyzer != "word":
        raise InputError(f"stop words require analyzer='word'; the analyzer is {analyzer!r}")
    if isinstance(stop_words, str):
        list_stop_words(stop_words)  # raises for an unknown language
    elif not isinstance(stop_words, list | tuple | set | frozenset) or not all(isinstance(w, str) for w in stop_words):
        raise InputError(f"stop_words must be a language or a list of words; got {str(stop_words)[:40]!r}")


def _check_options(options: Any, where: str) -> None:
    """Raise InputError if stored options have unknown names or wrong types."""
    kinds: dict[str, Any] = {"ngrams": list, "min_df": int, "max_features": int | None, "smooth": bool, "analyzer": str}
    kinds |= {"stop_words": list, "sublinear": bool, "lowercase": bool, "unicode_normalization": str, "encoder": dict}
    kinds |= {"strip_accents": str, "stemmer": str, "fields": str}
    valid = isinstance(options, dict) and options.keys() <= kinds.keys()
    valid = valid and all(isinstance(value, kinds[name]) for name, value in options.items())
    ngrams = options.get("ngrams", [1, 1]) if valid else []
    if len(ngrams) != 2 or not all(type(n) is int for n in ngrams):
        raise InputError(f"{where}: not readable as text features: their options are damaged")


def _with_progress(texts: Iterable[str], progress: Progress) -> Iterator[str]:
    """Yield the texts and report the number read to the progress callback."""
    total = len(texts) if isinstance(texts, Sequence) else None
    for done, text in enumerate(texts):
        if done % 256 == 0:
            progress(done, total)
        if not isinstance(text, str):
            raise InputError(f"texts: text {done} is a {type(text).__name__}; expected a string")
        yield check_string("texts", f"text {done}", text)
