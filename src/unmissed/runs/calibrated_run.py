"""CalibratedRun: the part of every run that opens and uses its probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unmissed.calibration import KEY, Calibration, Cells, true_probability
from unmissed.errors import InputError
from unmissed.execution import OnDisk, Pieces
from unmissed.models.probabilities import read_cells
from unmissed.propensity import PropensityLike
from unmissed.ranking import Ranking
from unmissed.runs.run_folder import CalibrationEntry, Manifest, RunFolder


class CalibratedRun:
    """Methods of `Run` that open and use its calibration."""

    folder: RunFolder
    manifest: Manifest
    verify: bool

    if TYPE_CHECKING:  # properties and methods of `Run` that are used here

        @property
        def n_labels(self) -> int: ...  # noqa: D102
        @property
        def label_counts(self) -> npt.NDArray[np.int64] | None: ...  # noqa: D102
        def propensities(self, model: PropensityLike | None = None) -> npt.NDArray[np.float64]: ...  # noqa: D102

    def _open_calibration(self) -> Calibration | None:
        """Return the calibration; labels that were added after it have the mean effect of labels with their count."""
        pieces, entry = self._calibration_pieces(), self.calibration
        if pieces is None or entry is None:
            return None
        piece = pieces.get(KEY)
        if piece is None or entry.n_labels > self.n_labels:
            advice = f"`unmissed calibrate {self.folder}` makes it again"
            raise InputError(f"its calibration is missing; the run is damaged: {advice}")
        calibration = Calibration.from_piece(piece, entry.n_labels)
        counts = self.label_counts
        added = np.zeros(self.n_labels, np.int64) if counts is None else counts
        return calibration.extend(added[entry.n_labels :]) if entry.n_labels < self.n_labels else calibration

    def _calibration_pieces(self) -> Pieces | None:
        entry = self.calibration
        return None if entry is None else OnDisk(self.folder.calibration(entry.name), verify=self.verify)

    @property
    def calibration(self) -> CalibrationEntry | None:
        """How the probabilities of the run were made; None if it has none: `unmissed calibrate` makes them."""
        return self.manifest.calibration

    def held_out_cells(self) -> Cells:
        """Return the scored (row, label) pairs of held-out training rows that the calibration was fitted to."""
        pieces, entry = self._calibration_pieces(), self.calibration
        if pieces is None or entry is None:
            raise self.not_calibrated()
        return read_cells(pieces, entry.n_samples, entry.n_labels)

    def not_calibrated(self) -> InputError:
        """Return the error that reports that the run has no probabilities."""
        return InputError(f"{self.folder}: has no probabilities; `unmissed calibrate {self.folder}` makes them")

    def with_true_probabilities(self, ranking: Ranking, propensity: PropensityLike | None = None) -> Ranking:
        """Return a ranking with the probabilities that labels are true: those of being observed, over propensities.

        `propensity` is another propensity model than that of the recipe (or the default one).
        `Ranking.clipped_fraction` is the fraction of labels whose ratio exceeded 1.
        """
        if ranking.probabilities is None:
            raise self.not_calibrated()
        found = true_probability(ranking.labels, ranking.probabilities, self.propensities(propensity))
        return replace(ranking, true_probabilities=found.probability)
