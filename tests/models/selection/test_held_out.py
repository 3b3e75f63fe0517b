"""Which rows are trained on and which are held out."""

from typing import ClassVar

import numpy as np
import pytest

from tests.models.selection.guesser import N_LABELS, Guesser, rows_of_two_labels
from unmissed.execution import Piece
from unmissed.models import DiSMEC
from unmissed.models.selection import Goal, HeldOut, Sampling
from unmissed.models.selection.held_out import Part
from unmissed.propensity import FromTable, Jain

ROWS = rows_of_two_labels()


class Recorder(Guesser):
    """Keeps what it was trained on and what it ranked."""

    def __init__(self, *, tail: float = 0.5, propensity: object = None, normalize: bool = False) -> None:
        super().__init__(tail=tail)
        self.propensity, self.normalize = propensity, normalize

    seen: list

    def _fit(self, rows, work):
        type(self).seen.append((rows, self.propensity))
        super()._fit(rows, work)


@pytest.fixture(autouse=True)
def nothing_seen():
    Recorder.seen = []


def test_folds_are_disjoint_from_their_training_rows_and_cover_all_rows():
    held_out = HeldOut(ROWS, Goal())
    held = [held_out._held(fold) for fold in range(5)]
    assert np.array_equal(np.sort(np.concatenate(held)), np.arange(3000))
    for fold in range(5):
        training = held_out._rows(fold, 2400, False, 1.0)
        assert training.n_samples == 2400
        both = np.concatenate([training.Y.indices, ROWS.Y[held[fold]].indices])
        assert np.array_equal(np.bincount(both, minlength=2 * N_LABELS), ROWS.label_counts)
    assert held_out.n_held(2) == 1200


def test_the_rows_of_a_small_part_are_among_those_of_a_large_one_and_are_shared():
    held_out = HeldOut(ROWS, Goal())
    small, large = (held_out._order[held_out._fold[held_out._order] != 0][:n] for n in (300, 900))
    assert set(small) < set(large)
    assert held_out._rows(0, 300, False, 1.0) is held_out._rows(0, 300, False, 1.0)


@pytest.mark.parametrize(
    ("cost", "part"),
    [(0.001, Part(200, 1)), (0.2, Part(600, 1)), (0.8, Part(2400, 1)), (1.7, Part(2400, 2)), (99, Part(2400, 5))],
)
def test_a_cost_is_spent_on_rows_first_and_on_folds_afterwards(cost, part):
    assert HeldOut(ROWS, Goal()).part(cost) == part


def test_samples_are_as_small_as_they_should_be():
    sampling = Sampling(most_held=50, most_fit=300, most_labels=20)
    small = HeldOut(ROWS, Goal(), None, sampling)
    assert (small.n_held(1), small.part(1.0).n_fit, len(small.labels)) == (50, 300, 20)
    held = small._held(0)
    assert np.diff(small.Y[held].indptr).all()  # nothing could be found in a row without any of the labels
    assert not np.diff(small._rows(0, 300, False, 1.0).Y.indptr).all()
    assert np.array_equal(small.p, Jain().estimate(ROWS.label_counts, 3000)[small.labels])


def test_small_data_gets_a_larger_budget():
    assert HeldOut(ROWS, Goal()).budget == 100
    assert HeldOut(ROWS, Goal(), None, Sampling(least_work=4.8e6)).budget == pytest.approx(4.8e6 / (6000 * 80))
    assert HeldOut(ROWS, Goal(), None, Sampling(budget=3, least_work=0)).budget == 3


def test_a_candidate_is_trained_with_the_propensities_of_all_rows_and_its_own_normalization():
    held_out = HeldOut(ROWS, Goal())
    first = held_out.measure(Recorder(), Part(500, 1))
    held_out.measure(Recorder(normalize=True), Part(500, 1))
    (plain, propensity), (normalized, _) = Recorder.seen
    assert isinstance(propensity, FromTable)
    assert np.array_equal(propensity.estimate(ROWS.label_counts, 3000), Jain().estimate(ROWS.label_counts, 3000))
    assert (plain.normalize, normalized.normalize) == (False, True)
    assert first.evaluation["P@1"] == pytest.approx(0.75, abs=0.04)
    assert first.seconds > 0


def test_candidates_are_trained_fast():
    fast = DiSMEC.fast_params
    assert fast["tol"] > DiSMEC().tol
    assert fast["block_size"] < DiSMEC().block_size


class Scaled(Recorder):
    """Has a parameter whose best value falls with the number of rows."""

    row_exponents: ClassVar = {"tail": 0.5}

    def _fit(self, rows, work):
        type(self).seen.append(self.tail)
        work.pieces.put(Piece("nothing"))


def test_c_is_scaled_to_the_number_of_rows():
    assert DiSMEC.row_exponents == {"C": 0.5}
    Scaled.seen = []
    HeldOut(ROWS, Goal()).measure(Scaled(tail=0.1), Part(750, 1))
    assert Scaled.seen == [pytest.approx(0.2)]


def test_folds_together_are_one_evaluation():
    held_out = HeldOut(ROWS, Goal())
    both = held_out.measure(Guesser(), Part(2400, 2)).evaluation
    assert both.n_samples == 1200
    parts = [held_out.measure_fold(Guesser(), 2400, fold).evaluation["P@1"] for fold in (0, 1)]
    assert both["P@1"] == pytest.approx(np.mean(parts))
