"""The page on writing a model of one's own runs from its first line to its last."""

from tests.models import own_model


def test_all_code_of_the_page_runs():
    assert len(own_model.BLOCKS) == 3
    exec(own_model.BLOCKS[2], vars(own_model))
