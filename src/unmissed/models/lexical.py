"""Lexical: finds the names of labels in texts by their words, also those of labels without a training row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from unmissed.data.label_terms import LabelTerms
from unmissed.errors import InputError
from unmissed.execution import Piece, Pieces, Work
from unmissed.features import Features
from unmissed.matrices import assemble, rises, stored_csr
from unmissed.models.base import Model
from unmissed.models.dense_support import DenseSupport
from unmissed.models.label_blocks import label_key, walk_labels
from unmissed.models.training_data import TrainingData
from unmissed.ranking import Ranking

_CELLS = 2**22  # matches of a batch of rows with single words of names, roughly


@dataclass(frozen=True)
class NamesTask:
    """Store the names of `size` labels, from label `first` on."""

    first: int
    size: int

    @property
    def key(self) -> str:
        """The key of the piece with the names."""
        return label_key(self.first)

    def run(self, shared: LabelTerms) -> Piece:
        """Return the names as features."""
        forms = shared.forms
        arrays = {"labels": shared.labels, "ends": forms.indptr[1:].astype(np.int64), "words": forms.indices}
        return Piece(self.key, arrays, {"n_labels": self.size})


@dataclass(frozen=True)
class Named:
    """Shared state of `NamesTask`: the names of the labels."""

    terms: LabelTerms

    def __call__(self) -> LabelTerms:
        """Return the names."""
        return self.terms


class Lexical(Model):
    """Score a label by the words of its name in the text: it is suggested if the text has all words of a name.

    The score is the sum of the values of these words, which are their TF-IDF values: it rises with the number of words
    of the name, with their frequency in the text and with their rarity. Names are those of a vocabulary, preferred and
    alternative ones, or else the titles or names of labels. Nothing is learned from Y. Words are compared as the text
    features compare them, stemmed if they stem. Their order and their positions are not known.

    Labels without a training row are suggested, too. Without named features or labels, nothing is suggested.
    """

    dense_support = DenseSupport.NATIVE
    uses_label_terms = True
    ranks_untrained = True
    terms_: LabelTerms

    def _fit(self, rows: TrainingData, work: Work) -> None:
        self._store(rows, 0, work)

    def _fit_labels(self, rows: TrainingData, work: Work) -> None:
        self._store(rows, self.n_labels_, work)

    def _store(self, rows: TrainingData, first: int, work: Work) -> None:
        terms = rows.label_terms
        if terms is None:
            terms = LabelTerms(sp.csr_matrix((0, rows.n_features - rows.n_dense), dtype=np.float32), _no_labels())
        if rows.n_labels:
            work.run([NamesTask(first, rows.n_labels)], Named(terms))

    def _open(self, pieces: Pieces) -> None:
        n_sparse = self.n_features_in_ - self.n_dense_in_
        found = walk_labels(self.n_labels_, pieces.get, lambda piece, _: _read(piece, n_sparse), lambda one: one[0])
        parts = list(found)
        firsts = np.cumsum([0, *(n_labels for n_labels, _ in parts)])
        forms = [terms.forms for _, terms in parts] or [sp.csr_matrix((0, n_sparse), dtype=np.float32)]
        labels = [terms.labels + first for (_, terms), first in zip(parts, firsts[:-1].tolist(), strict=True)]
        joined = sp.csr_matrix(sp.vstack(forms, format="csr"), dtype=np.float32)
        self.terms_ = LabelTerms(joined, np.concatenate([_no_labels(), *labels]).astype(np.int32))
        self._by_word = joined.T.tocsr()
        self._n_words = np.diff(joined.indptr)

    def _rank_features(self, rows: Features, k: int) -> Ranking:
        nothing = sp.csr_matrix((rows.shape[0], self.terms_.forms.shape[1]), dtype=np.float32)
        return self._rank(nothing if rows.sparse is None else rows.sparse, k)

    def _rank(self, words: sp.csr_matrix, k: int) -> Ranking:
        cost = np.cumsum(np.diff(self._by_word.indptr)[words.indices])
        after = np.append(0, cost)[words.indptr[1:]] // _CELLS
        ends = [*(np.flatnonzero(np.diff(after)) + 1).tolist(), words.shape[0]]
        parts, begin = [], 0
        for end in ends:
            parts.append(self._rank_batch(words[begin:end], k))
            begin = end
        return Ranking.join(parts, k)

    def _rank_batch(self, words: sp.csr_matrix, k: int) -> Ranking:
        """Return the labels of rows whose names have all their words in the row."""
        words = assemble(np.maximum(words.data, 0), words.indices, words.indptr, words.shape)
        words.eliminate_zeros()
        present = assemble(np.ones_like(words.data), words.indices, words.indptr, words.shape)
        found, values = (sp.csr_matrix(one @ self._by_word).sorted_indices() for one in (present, words))
        complete = found.data == self._n_words[found.indices]
        rows = np.repeat(np.arange(words.shape[0]), np.diff(found.indptr))[complete]
        labels, scores = self.terms_.labels[found.indices[complete]], values.data[complete]
        order = np.lexsort((-scores, labels, rows))
        rows, labels, scores = rows[order], labels[order], scores[order]
        best = np.append(True, (np.diff(rows) != 0) | (np.diff(labels) != 0))[: rows.size]
        rows, labels, scores = rows[best], labels[best], scores[best]
        ends = np.searchsorted(rows, np.arange(words.shape[0] + 1))
        shape = words.shape[0], self.n_labels_
        return Ranking.from_scores(assemble(scores, labels, ends, shape), k).padded(k)


def _no_labels() -> npt.NDArray[np.int32]:
    return np.zeros(0, np.int32)


def _read(piece: Piece, n_sparse: int) -> tuple[int, LabelTerms]:
    """Return the number of labels and the names of a piece; raise if it is damaged."""
    arrays = piece.expect({"labels": (np.int32, 1), "ends": (np.int64, 1), "words": (np.int32, 1)})
    labels, words, pointers = arrays["labels"], arrays["words"], np.append(0, arrays["ends"])
    n_labels = int(piece.numbers("n_labels")["n_labels"])
    are_labels = labels.size == pointers.size - 1 and rises(labels) and n_labels > 0
    if not are_labels or (labels.size and not 0 <= labels[0] <= labels[-1] < n_labels):
        raise piece.damaged("it does not hold the names of labels")
    ones, shape = np.ones(words.size, np.float32), (labels.size, n_sparse)
    try:
        return n_labels, LabelTerms(stored_csr("names", ones, words.astype(np.int64), pointers, shape), labels)
    except InputError as error:
        raise piece.damaged(str(error)) from error
