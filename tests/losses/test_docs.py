"""The examples of docs/losses.md run and give the printed results."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "losses.md"


@pytest.fixture(scope="module")
def names():
    pytest.importorskip("torch").set_num_threads(1)  # as in test_torch.py
    found = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), found)
    return found


def test_the_halves_have_the_numbers_of_the_page(names):
    np.testing.assert_array_equal(names["exact"].positive.value([-1.0, 0.0, 1.0]), [4, 1, -2])
    assert (names["exact"].convex, names["exact"].bounded_below) == (False, False)
    assert (names["bound"].convex, names["bound"].bounded_below, names["bound"].shift) == (True, True, 1.0)
    assert names["absolute"].positive.value(0.0) == 4
    assert names["gradient"].shape == names["scores"].shape


def test_the_printed_trade_is_the_computed_one(names):
    text = PAGE.read_text(encoding="utf-8")
    for name in ("plain", "unbiased", "clipped"):
        moments = getattr(names["seen"], name)
        assert f"{name:9} bias {moments.bias[0]:4.1f}  variance {moments.variance[0]:5.2f}" in text


def test_the_tagger_learns_the_truth_with_the_unbiased_loss_and_not_with_the_plain_one(names):
    absent = 1 - names["new_truth"].mean()  # the accuracy of deciding "absent" always
    assert names["accuracy"]["plain"] < absent + 0.05
    assert names["accuracy"]["unbiased"] > 0.97
