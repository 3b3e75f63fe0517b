"""Run: a trained model opened from its folder, with label names, label counts and text features."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from unmissed.archive import MANIFEST, open_archive, read_json
from unmissed.data import Dataset, TextFeatures
from unmissed.data.names import unpack_names
from unmissed.data.text import KIND as TEXT_KIND
from unmissed.data.unicode import normalize
from unmissed.data.vocabulary import KIND as VOCABULARY_KIND
from unmissed.data.vocabulary import Vocabulary
from unmissed.errors import InputError, did_you_mean
from unmissed.features import Features
from unmissed.matrices import assemble
from unmissed.models.base import Model
from unmissed.models.calibrated import RankBy
from unmissed.models.method_registry import find_model
from unmissed.models.untrained import Counts
from unmissed.propensity import PropensityLike, as_propensity, estimate_parts
from unmissed.ranking import Ranking
from unmissed.runs.calibrated_run import CalibratedRun
from unmissed.runs.recipe import Recipe
from unmissed.runs.replacing import standing
from unmissed.runs.run_folder import (
    FEATURES_KIND,
    KIND,
    LABELS_KIND,
    Manifest,
    RunFolder,
    RunPart,
)
from unmissed.runs.suggestions import Suggestions, check_texts, is_texts, only_known, suggestions_of, with_dense
from unmissed.writing import open_entry

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_OF_THE_FOLDER = (
    "label_names",
    "label_titles",
    "label_counts",
    "feature_names",
    "text",
    "vocabulary",
    "notations",
)
"""Cached properties that an update of the run changes."""
_ATTEMPTS = 20


class Run(CalibratedRun):
    """A trained model on disk; its parts are opened on first access.

    Labels of an unfinished `extend` are left out, so a run can be used meanwhile. If `update` replaces the run before
    its model is opened, the new run is opened.

    Parameters
    ----------
    path : the run's folder
    verify : compare every file with its checksum when it is opened
    model : the model, if it was just trained into this folder
    n_trained : number of labels trained by the call that returns this run
    """

    def __init__(
        self, path: str | os.PathLike[str], *, verify: bool = False, model: Model | None = None, n_trained: int = 0
    ) -> None:
        self._path = Path(path)
        self.verify = verify
        self.n_trained = n_trained
        self._begin()
        self._consistently(self._open)
        if model is not None:
            self.model = model

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.recipe.method}, n_labels={self.n_labels})"

    @property
    def recipe(self) -> Recipe:
        """The method and the parameters that determine its result."""
        return self.manifest.recipe

    @property
    def parts(self) -> list[RunPart]:
        """The labels trained together, by `train` and by each finished `extend`."""
        return [part for part in self.manifest.parts if part.is_complete]

    @property
    def n_features(self) -> int:
        """The number of features that rows have."""
        return self.manifest.n_features

    @property
    def n_dense(self) -> int:
        """The number of dense features, the last ones."""
        return self.manifest.n_dense

    @property
    def n_sparse(self) -> int:
        """The number of sparse features, the first ones."""
        return self.n_features - self.n_dense

    @property
    def n_labels(self) -> int:
        """The number of trained labels."""
        return sum(part.n_labels for part in self.parts)

    def _begin(self) -> None:
        """Find the folder that currently has the run's name."""
        self.folder = RunFolder(standing(self._path))
        held = open_entry(self.folder.path)  # an open folder keeps its inode number
        if held is not None:
            weakref.finalize(self, os.close, held)
        self._identity = _identity_of(self.folder.path if held is None else held)

    def _open(self) -> None:
        """Read the manifest and map the other files, so that all belong to one run even if it is replaced."""
        self.manifest: Manifest = self.folder.read(verify=self.verify)
        if not self.parts:
            raise InputError(
                f"{self._path}: training is not finished ({self.folder.n_finished()} pieces are there); "
                "the same train command resumes it"
            )
        self._label_arrays = [self._open_labels(part) for part in self.parts]
        self._text_archive = self._feature_arrays = self._vocabulary_archive = None
        if self.recipe.text is not None:
            self._text_archive = open_archive(self.folder.text, TEXT_KIND, verify=self.verify)
        elif self.folder.features.exists():
            self._feature_arrays = open_archive(self.folder.features, FEATURES_KIND, verify=self.verify)[1]
        if self.folder.vocabulary.exists():
            self._vocabulary_archive = open_archive(self.folder.vocabulary, VOCABULARY_KIND, verify=self.verify)

    def _consistently(self, load: Callable[[], T]) -> T:
        """Return `load()`; if an update replaces the run meanwhile, open the new run and load again."""
        for _ in range(_ATTEMPTS):
            try:
                found = load()
            except (InputError, OSError):
                if not self._was_replaced():
                    raise
            else:
                if not self._was_replaced():
                    return found
            self._begin()
            if load != self._open:
                self._consistently(self._open)
                for name in _OF_THE_FOLDER:
                    vars(self).pop(name, None)
        raise InputError(f"{self._path}: updates replace the run faster than it can be opened; try again")

    def _was_replaced(self) -> bool:
        """Return whether another folder has the run's name now, or the run is between two renames."""
        now = standing(self._path)
        return now != self.folder.path or _identity_of(now) != self._identity

    @cached_property
    def model(self) -> Model:
        """The fitted model, its arrays memory-mapped."""
        return self._consistently(self._open_model)

    def prepare(self) -> Run:
        """Open the model and the text features and build the layout for ranking (`Model.prepare`); return self.

        The encoder of the texts, if there is one, is loaded.
        Afterwards any number of threads may rank with this run.
        """
        self.model.prepare()
        if self.text is not None:
            self.text.transform(["text"])  # indexes the vocabulary, and loads the encoder
        return self

    def _open_model(self) -> Model:
        _logger.info("opening %s: %s, %d labels", self.folder, self.recipe.method, self.n_labels)
        cls = find_model(self.recipe.method)
        pieces = self.folder.pieces(verify=self.verify)
        try:
            params = self.recipe.constructor_params()
            self._check_sizes()
            model = cls.open(params, pieces, self.n_features, self.n_labels, self._counts, self.n_dense)
            calibration = self._open_calibration()
            if calibration is not None:
                model.calibration_ = calibration
            return model
        except InputError as error:
            if str(self.folder) in str(error):
                raise
            raise InputError(f"{self.folder}: {error}") from error

    @cached_property
    def text(self) -> TextFeatures | None:
        """The text features; None if the run was not trained on text."""
        if self._text_archive is None:
            return None
        metadata, arrays = self._text_archive
        text = TextFeatures.from_arrays(metadata.get("options", {}), arrays, str(self.folder.text))
        self._check_number("terms", text.terms_, self.n_sparse)
        if text.identity is not None and text.identity.n_dense != self.n_dense:
            raise InputError(f"{self.folder}: has an encoder of {text.identity.n_dense} numbers; the run is damaged")
        return text

    @cached_property
    def label_names(self) -> list[str] | None:
        """The names of the labels; None if they have none."""
        return self._label_strings("label_names")

    @cached_property
    def label_titles(self) -> list[str] | None:
        """Readable titles of the labels; None if they have none."""
        return self._label_strings("label_titles")

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The concepts that the labels stand for; None if the run was trained without a vocabulary."""
        if self._vocabulary_archive is None:
            return None
        metadata, arrays = self._vocabulary_archive
        return Vocabulary.from_arrays(metadata.get("language"), arrays, str(self.folder.vocabulary))

    @cached_property
    def notations(self) -> list[str] | None:
        """The notation of each label in the vocabulary, "" for labels without one; None if no label has one."""
        vocabulary = self.vocabulary
        if vocabulary is None or not any(vocabulary.notations):
            return None
        found = [*vocabulary.notations, ""]  # the last one is that of labels without a concept, -1
        return [found[vocabulary.find(name)] for name in self.label_names or ()]

    @cached_property
    def label_counts(self) -> npt.NDArray[np.int64] | None:
        """Number of training positives per label; None if it was not recorded."""
        counts = [arrays.get("counts") for arrays in self._label_arrays]
        return None if any(part is None for part in counts) else np.concatenate(counts)  # type: ignore[arg-type]

    @cached_property
    def feature_names(self) -> list[str] | None:
        """The names of the sparse features; None if they have none."""
        if self.text is not None:
            return self.text.terms_
        if self._feature_arrays is None:
            return None
        names = unpack_names("feature_names", self._feature_arrays)
        self._check_number("feature names", names, self.n_sparse)
        return names

    def feature_name(self, feature: int) -> str | None:
        """Return the name of a feature: that of a sparse one, or `dense 0`, `dense 1`, ...; None if it has none."""
        if feature >= self.n_sparse:
            return f"dense {feature - self.n_sparse}"
        return self.feature_names[feature] if self.feature_names else None

    @property
    def _counts(self) -> Counts | None:
        """Label counts and number of rows for models; None if they were not recorded."""
        counts = self.label_counts
        return None if counts is None else Counts(counts, max(part.n_samples for part in self.parts))

    def propensities(self, model: PropensityLike | None = None) -> npt.NDArray[np.float64]:
        """Return the propensity of every label from its training count: by `model`, the recipe's or the default one."""
        counts = self.label_counts
        if counts is None:
            raise InputError(f"{self.folder}: the label counts of training were not recorded")
        if model is None:
            try:
                model = self.recipe.propensity
            except InputError as error:
                raise InputError(f"{self.folder}: {error}") from error
        return estimate_parts(as_propensity(model), counts, [(part.n_labels, part.n_samples) for part in self.parts])

    def like(self) -> Dataset:
        """Return an empty data set with the columns of the training set, for `load(path, like=...)`."""
        nothing, begin = np.zeros(0, np.float32), np.zeros(1, np.int32)
        return Dataset(
            assemble(nothing, np.zeros(0, np.int32), begin, (0, self.n_sparse)),
            assemble(nothing, np.zeros(0, np.int32), begin, (0, self.n_labels)),
            label_names=self.label_names,
            feature_names=self.feature_names,
            label_titles=self.label_titles,
            text=self.text,
            trusted=True,
            dense=np.zeros((0, self.n_dense), np.float32) if self.n_dense else None,
            vocabulary=self.vocabulary,
        )

    def rank(self, rows: Any, k: int = 5, *, dense: npt.ArrayLike | None = None, **params: Any) -> Ranking:
        """Return the k highest-scoring labels of each row; `rows` is a matrix, a text, or several texts.

        `dense` has the dense features of the rows, if the run was trained on such; for one text it may be one line.
        Rows given as `Features` have their own, and the run's encoder computes those of texts. `params` are other
        values of prediction parameters, as in `Model.rank`.

        A text without a known word gets no labels; `no_known_words` of the ranking is true for it. A word is known if
        its IDF weight is above 0: it is in the vocabulary, but not in every training text. Rows of a matrix are ranked
        even if they are zero. Texts with dense features are ranked even if they have no known word, unless all their
        dense features are 0, as the embedding of a blank text is.
        """
        features = self.features_of(rows, dense)
        return only_known(self.model.rank(features, k, **params), rows, features)

    @overload
    def suggest(  # type: ignore[overload-overlap]  # a str is an Iterable[str] too
        self,
        text: str,
        k: int = 5,
        *,
        threshold: float | None = None,
        dense: npt.ArrayLike | None = None,
        rank_by: RankBy = "score",
    ) -> Suggestions: ...

    @overload
    def suggest(
        self,
        text: Iterable[str],
        k: int = 5,
        *,
        threshold: float | None = None,
        dense: npt.ArrayLike | None = None,
        rank_by: RankBy = "score",
    ) -> list[Suggestions]: ...

    def suggest(
        self,
        text: str | Iterable[str],
        k: int = 5,
        *,
        threshold: float | None = None,
        dense: npt.ArrayLike | None = None,
        rank_by: RankBy = "score",
    ) -> Suggestions | list[Suggestions]:
        """Return titles (or names) and scores of the k highest-scoring labels of a text, in falling order.

        Several texts give one such list per text. `probabilities` of a list has those of its labels, if the run is
        calibrated. `threshold` keeps labels whose score is at least that; scores are not probabilities (those of linear
        methods are margins) unless `rank_by` is "probability". A text without a known word gets an empty list, whose
        `no_known_words` is true. `dense` has the dense features of the texts, as in `rank`.
        """
        texts = [text] if isinstance(text, str) else list(text)
        found = suggestions_of(self, self.rank(check_texts(texts), k, dense=dense, rank_by=rank_by), threshold)
        return found[0] if isinstance(text, str) else found

    def features_of(self, rows: Any, dense: npt.ArrayLike | None = None) -> Any:
        """Return the `Features` of texts, or of a matrix with dense features; any other matrix is returned as it is.

        The run's encoder, if it has one, embeds texts that come without dense features.
        """
        if isinstance(rows, str):
            rows = [rows]
        if not is_texts(rows):
            return rows if dense is None else with_dense(self, Features.check(rows), dense)
        if self.text is None:
            raise InputError(f"{self.folder}: was not trained on text and cannot rank text; give it rows of features")
        if dense is None and self.text.encoder is not None:
            return self.text.transform(rows)
        text = self.text if self.text.encoder is None else self.text.without_encoder()
        words = text.transform(rows)
        return with_dense(self, Features(words, trusted=True), dense)

    def label(self, name_or_number: str | int) -> int:
        """Return the index of a label, given by its name, title or number."""
        for names in (self.label_names, self.label_titles):
            if isinstance(name_or_number, str) and names and name_or_number in names:
                return names.index(name_or_number)
        for names in (self.label_names, self.label_titles):
            form = normalize(str(name_or_number))
            found = [label for label, name in enumerate(names or ()) if normalize(name) == form]
            if found:
                return found[0]
        number = str(name_or_number)
        if number.isascii() and number.isdigit() and len(number) < 12 and int(number) < self.n_labels:
            return int(number)
        raise InputError(
            f"{self.folder}: has no label {name_or_number!r}; expected a name or a number below {self.n_labels}"
            f"{did_you_mean(str(name_or_number), self._every_name())}"
        )

    def _every_name(self) -> list[str]:
        return [*(self.label_names or ()), *(self.label_titles or ())]

    def name_of(self, label: int) -> str:
        """Return the title of a label, else its name, else its number."""
        names = self.label_titles or self.label_names
        return names[label] if names else str(label)

    def _open_labels(self, part: RunPart) -> dict[str, npt.NDArray[Any]]:
        folder = self.folder.labels(part.first)
        _, arrays = open_archive(folder, LABELS_KIND, verify=self.verify)
        counts = arrays.get("counts")
        if counts is not None and (
            counts.dtype != np.int64
            or counts.shape != (part.n_labels,)
            or (counts.size and not 0 <= counts.min() <= counts.max() <= part.n_samples)
        ):
            raise InputError(f"{folder}: damaged: its counts are not those of {part.n_labels} labels")
        return arrays

    def _check_sizes(self) -> None:
        """Raise if the files contradict the numbers of labels and features, before arrays of these sizes are allocated.

        Label counts and names are checked when they are read. A run without them has at least one byte per label.
        """
        if self.label_counts is None and self.label_names is None and self.n_labels > (size := self.folder.n_bytes()):
            raise InputError(f"{self.folder}: says {self.n_labels} labels, and has {size} bytes; the run is damaged")
        position, kind, array = self.folder.features, FEATURES_KIND, "feature_names_ends"
        if self.recipe.text is not None:
            position, kind, array = self.folder.text, TEXT_KIND, "idf"
        if position.exists():
            found = open_archive(position, kind, names=(array,))[1].get(array)
            if found is None or found.size != self.n_sparse:
                raise InputError(f"{position}: does not name {self.n_sparse} features; the run is damaged")

    def _check_number(self, what: str, names: list[str] | None, expected: int) -> None:
        if names is not None and len(names) != expected:
            raise InputError(f"{self.folder}: has {len(names)} {what} for {expected}; the run is damaged")

    def _label_strings(self, name: str) -> list[str] | None:
        lists = [unpack_names(name, arrays) for arrays in self._label_arrays]
        joined = [string for strings in lists if strings is not None for string in strings]
        if any(strings is None for strings in lists):
            return None
        if len(joined) != self.n_labels:
            raise InputError(f"{self.folder}: has {len(joined)} {name} for {self.n_labels} labels; the run is damaged")
        return joined


def _identity_of(folder: Path | int) -> tuple[int, int] | None:
    """Return device and inode of a folder, given by path or descriptor; None if it does not exist."""
    try:
        state = os.stat(folder)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def open_run(path: str | os.PathLike[str], *, verify: bool = False) -> Run:
    """Open a run; its weights are memory-mapped."""
    return Run(path, verify=verify)


def load_model(path: str | os.PathLike[str]) -> Model:
    """Return the fitted model of a run, without label names."""
    return Run(path).model


def is_run(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the folder of a run."""
    manifest = standing(path) / MANIFEST
    if not manifest.is_file():
        return False
    value = read_json(manifest)
    return isinstance(value, dict) and value.get("kind") == KIND
