"""Workspaces reuse their memory; those on demand take memory only where they are written to."""

from pathlib import Path

import numpy as np
import pytest

from unmissed.numerics.workspace import free_workspaces, workspace

STATUS = Path("/proc/self/statm")


@pytest.mark.parametrize("on_demand", [False, True])
def test_the_next_call_with_the_name_reuses_the_memory(on_demand):
    first = workspace("lists", (3, 5), np.int32, on_demand=on_demand)
    first[:] = 7
    again = workspace("lists", (2, 4), np.int32, on_demand=on_demand)
    assert again.shape == (2, 4)
    assert np.shares_memory(first, again)
    assert (again == 7).all()
    assert workspace("lists", (0, 5), on_demand=on_demand).shape == (0, 5)
    free_workspaces(0)


@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux")
@pytest.mark.parametrize("n", [2**17, 2**19])  # kept, and too large to be kept
def test_lists_on_demand_take_memory_only_where_they_are_filled(n):
    before = int(STATUS.read_text().split()[1])
    lists = workspace("filled in part", (64, n), on_demand=True)
    lists[:, :10] = 1
    pages = int(STATUS.read_text().split()[1]) - before
    assert lists[:, :10].sum() == 640
    assert pages < 300
    free_workspaces(0)
