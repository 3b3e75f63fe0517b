"""LabelTerms: the names of labels as sets of features, for models that find the names of labels in texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.data.text import TextFeatures
from unmissed.matrices import assemble

if TYPE_CHECKING:
    from unmissed.data.dataset import Dataset


class LabelTerms(NamedTuple):
    """The words of label names as features.

    Parameters
    ----------
    forms : a row per name, with a 1 for each feature that is a word of it, (n_forms, n_sparse) in CSR
    labels : the label of each row, rising
    """

    forms: sparse.csr_matrix
    labels: npt.NDArray[np.int32]

    def among(self, labels: npt.NDArray[np.int64]) -> LabelTerms:
        """Return the names of some labels, renumbered by their positions in `labels`, which rise."""
        position = np.searchsorted(labels, self.labels)
        kept = np.flatnonzero(np.append(labels, -1)[position] == self.labels)
        return LabelTerms(self.forms[kept], position[kept].astype(np.int32))


def find_label_terms(dataset: Dataset) -> LabelTerms | None:
    """Return the names of a data set's labels as sets of its features; None if its features are not words.

    A label has the names that its vocabulary has, else its title or name. A name is left out if one of its words is no
    feature, because no text can then be known to contain it. Words that are in every training text count as present.
    """
    words_of = _word_analyzer(dataset)
    if words_of is None or dataset.feature_names is None or dataset.label_names is None:
        return None
    number = {name: position for position, name in enumerate(dataset.feature_names)}
    everywhere = frozenset[int]()
    if dataset.text is not None:
        everywhere = frozenset(np.flatnonzero(dataset.text.idf_ == 0).tolist())
    indices: list[int] = []
    ends, labels = [0], []
    for label, names in enumerate(_names(dataset)):
        for words in dict.fromkeys(tuple(sorted(set(words_of(name)))) for name in names):
            found = {number.get(word, -1) for word in words} - everywhere
            if found and -1 not in found:
                indices += sorted(found)
                ends.append(len(indices))
                labels.append(label)
    columns = np.array(indices, np.int32)
    shape = len(labels), len(dataset.feature_names)
    forms = assemble(np.ones(columns.size, np.float32), columns, np.array(ends, np.int64), shape)
    return LabelTerms(forms, np.array(labels, np.int32))


def words_of_names(text: TextFeatures, names: Iterable[str]) -> set[str]:
    """Return the words of names as text features count them; none if these count no single words."""
    words_of = _words_of(text)
    return set() if words_of is None else {word for name in names for word in words_of(name)}


def _names(dataset: Dataset) -> Iterable[Sequence[str]]:
    """Yield the names of each label."""
    vocabulary, names = dataset.vocabulary, dataset.label_names or []
    titles = dataset.label_titles or names
    for name, title in zip(names, titles, strict=True):
        concept = -1 if vocabulary is None else vocabulary.find(name)
        yield [title] if vocabulary is None or concept < 0 else vocabulary.forms(concept)


def _word_analyzer(dataset: Dataset) -> Callable[[str], list[str]] | None:
    return _words_of(TextFeatures() if dataset.text is None else dataset.text)


def _words_of(text: TextFeatures) -> Callable[[str], list[str]] | None:
    """Return a function from a text to its words; None if text features count no single words."""
    if text.analyzer != "word" or text.ngrams[0] > 1:
        return None
    return TextFeatures(**{**text.get_params(), "ngrams": (1, 1), "fields": None, "encoder": None}).build_analyzer()
