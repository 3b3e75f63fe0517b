"""A plan says what labels of every frequency cost, and what that comes to on some workers."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from tests.cli.speaking import refused, said
from tests.runs.corpora import small_corpus
from unmissed.data import write_store
from unmissed.data.catalog import CatalogEntry
from unmissed.errors import InputError
from unmissed.execution import Piece
from unmissed.models import DiSMEC, Popularity
from unmissed.runs import planning, training_times
from unmissed.runs.planning import make_plan, plan_entry, sample_labels
from unmissed.runs.training_times import estimate_times, extrapolate, sample_sizes
from unmissed.settings import SETTINGS

TRAIN = small_corpus(n_labels=400, n_train=500)[0]


def test_each_stretch_of_the_sample_goes_through_all_frequencies():
    counts = np.arange(4000)[::-1] + 1
    chosen = sample_labels(counts, 400, np.random.default_rng(0))
    assert len(np.unique(chosen)) == 400
    for part in np.split(chosen, planning.TASKS):
        assert counts[part].mean() == pytest.approx(counts.mean(), rel=0.01)
        assert counts[part].max() > 3900
        assert counts[part].min() < 100


def test_all_labels_may_be_the_sample_and_three_are_too_few():
    assert sorted(sample_labels(np.arange(8), 100, np.random.default_rng(0))) == list(range(8))
    with pytest.raises(InputError, match="at least 4 labels"):
        sample_labels(np.arange(3), 100, np.random.default_rng(0))


@dataclass(frozen=True)
class Clock:
    """A clock that a task moves."""

    now: list

    def __call__(self):
        return self.now[0]


@pytest.fixture
def costs_known(monkeypatch):
    """Let a label cost 2 ms + 1 ms per positive, a layout 5 s, and its piece 100 bytes."""
    clock = Clock([0.0])
    monkeypatch.setattr(planning.time, "thread_time", clock)

    def call(problem):
        clock.now[0] += 5.0
        return problem.rows.Y.tocsc()

    def run(task, Y):
        n_assignments = Y.indptr[task.end] - Y.indptr[task.begin]
        clock.now[0] += 0.002 * task.size + 0.001 * n_assignments
        return Piece(task.key, {"bias": np.zeros(25 * task.size, np.float32)}, {"n_labels": task.size})

    monkeypatch.setattr("unmissed.models.linear.one_vs_rest.BlockProblem.__call__", call)
    monkeypatch.setattr("unmissed.models.linear.one_vs_rest.BlockTask.run", run)


def test_what_all_labels_cost_is_found_from_some(costs_known):
    found = make_plan(DiSMEC(block_size=8), TRAIN, n_workers=5, n_threads=2, n_sampled=200)
    truth = 0.002 * TRAIN.n_labels + 0.001 * TRAIN.Y.nnz
    assert found.core_seconds.value == pytest.approx(truth, rel=0.1)
    assert found.core_seconds.low <= truth <= found.core_seconds.high
    assert (found.n_tasks, round(found.layout_seconds, 6), found.n_sampled) == (50, 5.0, 200)
    assert found.wall_seconds.value == pytest.approx(5 + found.core_seconds.value / 10)
    assert found.disk_bytes.value == pytest.approx(100 * 400 + 2500 * 50)
    many = make_plan(DiSMEC(block_size=8), TRAIN, n_workers=1000, n_sampled=200)
    assert many.wall_seconds.value == pytest.approx(5 + many.core_seconds.value / 50), "a task is not cut"


def test_a_stand_in_with_fewer_rows_is_scaled_up(costs_known, monkeypatch):
    monkeypatch.setattr(SETTINGS, "stand_in_rows", 300)
    entry = CatalogEntry("Made up", 3000, 0, 2000, 500, 4.0, 3.0, 0.55, 1.5)
    found = plan_entry(DiSMEC(), entry, 20.0, n_sampled=64)
    assert found.sizes.n_labels == 2000
    assert found.sizes.n_values == 60_000
    assert 8 < found.layout_seconds / 5.0 < 12, "ten times the rows"
    assert found.worker_bytes > 0


def test_the_command_prints_a_table_or_json(tmp_path, capsys):
    write_store(TRAIN, tmp_path / "train")
    shown = said(capsys, "plan", tmp_path / "train", "--method", "dismec", "--workers", 4, "--sample", 16)
    assert "core-hours" in shown
    assert "16 labels sampled" in shown
    metadata = json.loads(said(capsys, "plan", tmp_path / "train", "--workers", 4, "--sample", 16, "--json"))
    assert metadata["core_seconds"]["low"] < metadata["core_seconds"]["value"] < metadata["core_seconds"]["high"]
    assert metadata["sizes"]["n_labels"] == 400


def test_what_cannot_be_planned_is_one_line(tmp_path, capsys):
    assert "set --values-per-row" in refused(capsys, "plan", "Amazon-670K")
    assert "unknown data set 'nowhere'" in refused(capsys, "plan", "nowhere")
    with pytest.raises(InputError, match="Popularity does not train labels one by one"):
        make_plan(Popularity(), TRAIN)


def test_times_of_two_samples_are_extrapolated_by_their_power_law():
    found = extrapolate((1000, 4000), (1.0, 8.0), 32_000)  # time grows with n^1.5
    assert found.value == pytest.approx(8.0 * 8**1.5)
    assert found.low < found.value * 8**-0.09
    assert found.high > found.value * 8**0.09
    assert extrapolate((1000, 4000), (1.0, 1000.0), 8000).value == pytest.approx(4000.0), "at most quadratic"
    assert extrapolate((300, 300), (0.0, 2.0), 300).value == 2.0, "all rows were trained"


def test_a_time_that_grows_slower_than_the_rows_may_have_a_part_that_does_not_grow():
    found = extrapolate((1000, 4000), (1.0, 2.0), 16_000)  # 2 n^0.5 or 2/3 + n/3
    assert found.value == pytest.approx((4.0 * 6.0) ** 0.5)
    assert found.low < 4.0 < 6.0 < found.high
    falling = extrapolate((1000, 4000), (1.0, 0.5), 16_000)
    assert falling.value == pytest.approx((1.0 * 0.5) ** 0.5), "n^0.5 at least, or constant"
    assert falling.low < 0.5


def test_the_samples_of_rows_are_parts_of_large_data_and_all_of_small_data():
    assert sample_sizes(320_000) == (10_000, 40_000)
    assert sample_sizes(8000) == (500, 2000)
    assert sample_sizes(1500) == (500, 1500)
    assert sample_sizes(300) == (300, 300)


def test_methods_of_any_family_are_compared_and_the_fastest_comes_first(monkeypatch):
    clock = Clock([0.0])
    monkeypatch.setattr(training_times.time, "process_time", clock)

    def fit_rows(self, rows, work=None):
        clock.now[0] += 0.01 * rows.n_samples
        return self

    monkeypatch.setattr("unmissed.models.popularity.Popularity.fit_rows", fit_rows)
    found = estimate_times(["popularity", "dismec", "popularity"], TRAIN, n_sampled=16)
    assert [one.method for one in found] == ["dismec", "popularity"]
    assert found[1].seconds.value == pytest.approx(5.0)
    assert (found[0].sample, found[1].sample) == ("16 labels", "500 rows")
    assert found[0].seconds.low < found[0].seconds.value < found[0].seconds.high


def test_the_command_compares_methods(tmp_path, capsys):
    write_store(TRAIN, tmp_path / "train")
    options = "plan", tmp_path / "train", "--methods", "dismec,popularity", "--sample", 16
    shown = said(capsys, *options)
    assert "times the fastest" in shown
    assert shown.index("popularity") < shown.index("dismec")
    methods = json.loads(said(capsys, *options, "--json"))["methods"]
    assert [one["method"] for one in methods] == ["popularity", "dismec"]
    assert "at least two methods" in refused(capsys, "plan", tmp_path / "train", "--methods", "dismec")
    assert "unknown method 'disnec'" in refused(capsys, "plan", tmp_path / "train", "--methods", "disnec,parabel")
