"""What the paper prints, and which of its data sets something is."""

import pytest

from unmissed.data.catalog import known, recognize
from unmissed.data.collections import find_datasets
from unmissed.data.published import COLUMNS, METHOD_SPECS, published_figures
from unmissed.errors import InputError

ODD = (1, 2, 3, 4)


def test_every_data_set_of_the_catalog_has_its_figures():
    numbers = {entry.name: len(published_figures(entry.name)) for entry in known()}
    assert numbers == {
        "EURLex-4K": 5 * 8 + 6 * 4,
        "AmazonCat-13K": 5 * 7,
        "Wikipedia-31K": 5 * 7,
        "WikiLSHTC-325K": 5 * 8 + 6 * 4,
        "Wikipedia-500K": 5 * 7 + 6 * 4,
        "Amazon-670K": 3 * 8 + 2 * 7 + 6 * 4,
    }
    assert METHOD_SPECS.keys() == set(COLUMNS)


def test_figures_stand_in_their_columns():
    found = {(one.metric, one.column): one.value for one in published_figures("EURLex-4K")}
    assert found["PSP@1", "ProXML"] == 45.2
    assert found["PSnDCG@5", "PW-DiSMEC"] == 50.1
    assert found["P@1", "DiSMEC"] == 82.93
    assert found["nDCG@5", "PfastXML"] == 52.3
    assert published_figures("bibtex") == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eurlex-4k", "EURLex-4K"),
        ("Wiki10-31K", "Wikipedia-31K"),
        ("Amazon-670K.raw", "Amazon-670K"),
        ("eurlex57k", None),
        ("my-eurlex-4k-notes", None),
    ],
)
def test_a_data_set_is_recognized_by_its_name(name, expected):
    found = recognize(["data", name], ODD)
    assert (found and found.entry.name) == expected
    assert found is None or found.by == "name"


def test_three_of_four_equal_sizes_are_enough():
    assert recognize(["x"], (15_539, 3_809, 3_993, 4_999)).entry.name == "EURLex-4K"
    assert recognize(["x"], (15_539, 3_809, 3_956, 5_000)).by == "statistics"
    assert recognize(["x"], (15_539, 3_810, 3_956, 5_000)) is None


def test_data_sets_are_found_in_the_folders_of_a_folder(tmp_path):
    for name in ("a/train.txt.gz", "a/test.txt.gz", "a/labels.txt", "b/eurlex_train.txt", "b/eurlex_test.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for part in ("trn", "tst"):
        (tmp_path / "c" / part).mkdir(parents=True)
        (tmp_path / "c" / part / "manifest.json").touch()
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "train.jsonl").touch()
    found = find_datasets(tmp_path)
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == (tmp_path / "a" / "train.txt.gz", tmp_path / "a" / "test.txt.gz")
    assert found["b"][1].name == "eurlex_test.txt"
    with pytest.raises(InputError, match="no folder in it"):
        find_datasets(tmp_path / "a")
    with pytest.raises(InputError, match="not a folder"):
        find_datasets(tmp_path / "nowhere")
