"""A scikit-learn vectorizer of the user's own, described by options and rebuilt without pickle, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmissed.data.text import TextFeatures
from unmissed.errors import InputError

_FUNCTION = "a function cannot be written down without pickle"
_PATTERN = "a pattern from a stranger's run could take for ever; words are runs of two or more letters or digits"
_ONLY: dict[str, tuple[Any, str]] = {
    "input": ("content", "texts are given, not files"),
    "preprocessor": (None, _FUNCTION),
    "tokenizer": (None, _FUNCTION),
    "token_pattern": (r"(?u)\b\w\w+\b", _PATTERN),
    "strip_accents": (None, "accents are kept; take them off the texts first"),
    "max_df": (1.0, "frequent terms are left out by stop_words"),
    "vocabulary": (None, "terms are learned; fit it, and they are taken over"),
    "binary": (False, "counts are counted"),
    "norm": ("l2", "rows have length 1"),
    "use_idf": (True, "terms are weighed by their document frequency"),
    "smooth_idf": (True, "it is ln(N / df) + 1, which neither TextFeatures(smooth=True) nor smooth=False is"),
}


def is_vectorizer(value: Any) -> bool:
    """Tell whether this is one of scikit-learn's makers of features from text."""
    return type(value).__module__ == "sklearn.feature_extraction.text"


def from_vectorizer(vectorizer: Any) -> TextFeatures:
    """Return the text features that a `TfidfVectorizer` describes, fitted if it is; what cannot be said is refused."""
    kind = type(vectorizer).__name__
    if not is_vectorizer(vectorizer) or kind != "TfidfVectorizer":
        raise InputError(f"a {kind} cannot be described without pickle; scikit-learn's TfidfVectorizer can")
    params = vectorizer.get_params()
    if callable(params["analyzer"]):
        raise InputError(f"a TfidfVectorizer with an analyzer of its own cannot be described: {_FUNCTION}")
    for name, (value, reason) in _ONLY.items():
        if params[name] != value and not (name == "vocabulary" and hasattr(vectorizer, "vocabulary_")):
            raise InputError(f"a TfidfVectorizer with {name}={str(params[name])[:40]} cannot be described: {reason}")
    if not isinstance(params["min_df"], int):
        raise InputError("a TfidfVectorizer with a share as min_df cannot be described: give a number of documents")
    made = TextFeatures(
        ngrams=params["ngram_range"],
        min_df=params["min_df"],
        max_features=params["max_features"],
        smooth=True,
        analyzer=params["analyzer"],
        stop_words=params["stop_words"],
        sublinear=params["sublinear_tf"],
        lowercase=params["lowercase"],
        unicode_normalization="none",
    )
    if hasattr(vectorizer, "vocabulary_"):
        made.terms_ = [str(term) for term in vectorizer.get_feature_names_out()]
        made.idf_ = np.asarray(vectorizer.idf_, dtype=np.float32)
    return made
