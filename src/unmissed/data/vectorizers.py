"""Conversion of scikit-learn's TfidfVectorizer to TextFeatures, which are stored without pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed.data.text import TextFeatures
from unmissed.errors import InputError

_FUNCTION = "a function cannot be stored without pickle"
_PATTERN = "a pattern from an untrusted run could take forever; words are runs of two or more letters or digits"
_REQUIRED: dict[str, tuple[Any, str]] = {
    "input": ("content", "the input must be texts, not files"),
    "preprocessor": (None, _FUNCTION),
    "tokenizer": (None, _FUNCTION),
    "token_pattern": (r"(?u)\b\w\w+\b", _PATTERN),
    "max_df": (1.0, "use stop_words to leave out frequent terms"),
    "vocabulary": (None, "the vocabulary is learned; fit the vectorizer first to keep it"),
    "binary": (False, "terms are counted"),
    "norm": ("l2", "rows are L2-normalized"),
    "use_idf": (True, "terms are weighted by their inverse document frequency"),
    "smooth_idf": (True, "its idf is ln(N / df) + 1, which TextFeatures does not have"),
}


def is_vectorizer(value: Any) -> bool:
    """Return whether this is one of scikit-learn's text vectorizers."""
    return type(value).__module__ == "sklearn.feature_extraction.text"


def from_vectorizer(vectorizer: Any) -> TextFeatures:
    """Return text features equivalent to a `TfidfVectorizer`, fitted if it is; raise InputError if there are none."""
    kind = type(vectorizer).__name__
    if not is_vectorizer(vectorizer) or kind != "TfidfVectorizer":
        raise InputError(f"a {kind} cannot be described without pickle; scikit-learn's TfidfVectorizer can")
    params = vectorizer.get_params()
    if callable(params["analyzer"]):
        raise InputError(f"a TfidfVectorizer with a custom analyzer cannot be described: {_FUNCTION}")
    for name, (value, reason) in _REQUIRED.items():
        if params[name] != value and not (name == "vocabulary" and hasattr(vectorizer, "vocabulary_")):
            raise InputError(f"a TfidfVectorizer with {name}={str(params[name])[:40]} cannot be described: {reason}")
    if callable(params["strip_accents"]):
        raise InputError(f"a TfidfVectorizer with a function as strip_accents cannot be described: {_FUNCTION}")
    if not isinstance(params["min_df"], int):
        raise InputError("a TfidfVectorizer with a fraction as min_df cannot be described: give a number of documents")
    features = TextFeatures(
        ngrams=params["ngram_range"],
        min_df=params["min_df"],
        max_features=params["max_features"],
        smooth=True,
        analyzer=params["analyzer"],
        stop_words=params["stop_words"],
        sublinear=params["sublinear_tf"],
        lowercase=params["lowercase"],
        unicode_normalization="none",
        strip_accents=params["strip_accents"],
    )
    if hasattr(vectorizer, "vocabulary_"):
        features.set_terms(vectorizer.get_feature_names_out(), np.asarray(vectorizer.idf_, dtype=np.float32))
    return features
