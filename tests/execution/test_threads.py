"""Threads run every piece of work once, stop at the first failure, and count cores like scikit-learn."""

import pytest

from unmissed.errors import InputError
from unmissed.execution import Threads, count_jobs


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_every_item_is_worked_on_once(n_jobs):
    assert sorted(Threads(n_jobs).each(lambda item: item * item, range(40))) == [item * item for item in range(40)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_none_is_an_item_like_any_other(n_jobs):
    assert sorted(Threads(n_jobs).each(str, [1, None, 2])) == ["1", "2", "None"]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_failure_reaches_the_caller(n_jobs):
    def work(item):
        if item == 7:
            raise RuntimeError("seven")
        return item

    with pytest.raises(RuntimeError, match="seven"):
        list(Threads(n_jobs).each(work, range(100)))


def test_work_is_taken_up_only_as_it_is_needed():
    taken = []

    def items():
        for item in range(1000):
            taken.append(item)
            yield item

    results = Threads(2).each(lambda item: item, items())
    next(results)
    assert len(taken) <= 8, "a thousand blocks are never in memory at once"
    results.close()


def test_jobs_are_counted_from_all_cores():
    cores = count_jobs(-1)
    assert cores == count_jobs(None) >= 1
    assert count_jobs(3) == 3
    with pytest.raises(InputError, match="n_jobs"):
        count_jobs(0)
    with pytest.raises(InputError, match="n_jobs"):
        count_jobs(-cores - 1)
