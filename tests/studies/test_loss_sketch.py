"""The loss sketch: the table goes through the paper's coordinates."""

import csv

import pytest

from unmissed.errors import InputError
from unmissed.studies.loss_sketch import study_losses


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    out = tmp_path_factory.mktemp("sketch")
    files = study_losses(out)
    assert [path.name for path in files] == ["losses.png", "losses.svg", "losses.csv"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    with open(out / "losses.csv", newline="") as stream:
        return {float(row["score"]): row for row in csv.DictReader(stream)}


@pytest.mark.parametrize(
    ("curve", "points"),
    [
        ("0-1", {-2: 1, 0: 0}),
        ("0-1, unbiased", {-2: 2, 0: -1, 2: -1}),
        ("0-1, unbiased and shifted", {-2: 3, 0: 0}),
        ("hinge", {-2: 3, 1: 0, 2: 0}),
        ("hinge, unbiased", {-2: 6, -1: 4, 0: 1, 1: -2, 2: -3}),
        ("hinge, convex bound", {-1: 6, 1: 0, 2: 0}),
        ("squared hinge", {0: 1, -1: 4, 1: 0}),
        ("squared hinge, convex bound", {0: 3, -1: 12, 1: 0}),
        ("square of the convex hinge", {0: 9, -1: 36, 1: 0}),
    ],
)
def test_each_curve_of_the_table_passes_through_the_papers_points(table, curve, points):
    for score, height in points.items():
        assert float(table[score][curve]) == pytest.approx(height)


def test_the_same_call_writes_the_same_bytes(tmp_path):
    first, second = study_losses(tmp_path / "a"), study_losses(tmp_path / "b")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_propensity_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="propensity"):
        study_losses(tmp_path, 0.0)
