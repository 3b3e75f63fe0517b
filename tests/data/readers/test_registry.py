"""Formats are found through the registry: those of this package, and those of installed packages."""

import pytest

from tests.cli.speaking import said
from tests.installed import install
from unmissed.data import load, load_labels, open_store, read_texts
from unmissed.data.collections import find_datasets
from unmissed.data.formats import files_of, find_reader, find_writer, holds_text
from unmissed.data.large_text import convert_text
from unmissed.data.readers.format_registry import FORMATS, LISTED, all_formats
from unmissed.data.readers.reader import DocumentReader, MatrixReader, Writer
from unmissed.errors import InputError

OWN = """
from unmissed.data.readers.reader import LineReader

class Own(LineReader):
    name = "bars"
    suffixes = (".bars",)

    def parse(self, path, numbered, options):
        for number, line in numbered:
            text, *labels = line.decode().split("|")
            yield f"{path}:{number}", {options.columns.text: text, options.columns.labels: labels}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A format of an installed package, and a file of it."""
    install(tmp_path, monkeypatch, "unmissed.readers", "bars", "bars_format", OWN)
    vars(FORMATS).pop("_installed", None)
    (tmp_path / "train.bars").write_text("cod and net|fish|law\nbread|food\nmilk\n" * 3)
    yield tmp_path / "train.bars"
    vars(FORMATS).pop("_installed", None)
    FORMATS._found.pop("bars", None)


def test_a_format_of_an_installed_package_serves_every_command(own, tmp_path, capsys):
    dataset = load(own)
    assert dataset.label_names == ["fish", "food", "law"]
    assert holds_text(own)
    assert read_texts(own)[:2] == ["cod and net", "bread"]
    assert (load_labels(own)[0] != dataset.Y).nnz == 0
    convert_text(own, tmp_path / "store", n_jobs=2)
    assert open_store(tmp_path / "store").digest == dataset.digest
    said(capsys, "data", "convert", own, tmp_path / "again.jsonl")
    assert load(tmp_path / "again.jsonl").digest == dataset.digest
    said(capsys, "train", "dismec", own, "--run", tmp_path / "run", "--no-check")
    assert "fish" in said(capsys, "predict", tmp_path / "run", own)


def test_every_format_reads_and_says_what_it_is(tmp_path):
    for one in all_formats():
        assert isinstance(one, DocumentReader | MatrixReader)
        assert one.name
        assert isinstance(one, Writer) == bool(LISTED[name_of(one)].target)
        for suffix in one.suffixes:
            (tmp_path / f"a{suffix}").write_text("x")
            assert type(find_reader(tmp_path / f"a{suffix}")) is type(one)


def name_of(one):
    return next(name for name in LISTED if FORMATS.find(name) is type(one))


def test_targets_are_refused_before_anything_is_read(tmp_path):
    (tmp_path / "a.txt").mkdir()
    (tmp_path / "store").mkdir()
    for name in ("a.txt", "store"):
        with pytest.raises(InputError, match=f"{name}: exists already"):
            find_writer(tmp_path / name)
    with pytest.raises(
        InputError,
        match=r"cannot write \.csv; expected a folder \(store\), 'X\.npz,Y\.npz', 'X\.npz,E\.npy,Y\.npz', \.jsonl",
    ):
        find_writer(tmp_path / "a.csv")


def test_a_path_names_its_files_whether_they_exist_or_not(tmp_path):
    assert [one.name for one in files_of(f"{tmp_path}/X.npz,{tmp_path}/Y.npz")] == ["X.npz", "Y.npz"]
    assert files_of(tmp_path / "gone.jsonl") == (tmp_path / "gone.jsonl",)


def test_collections_prefer_data_to_tables_of_the_same_name(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("train.txt", "test.txt", "test.tsv", "train.csv"):
        (tmp_path / "a" / name).write_text("1 1 1\n0 0:1\n")
    assert [path.name for path in find_datasets(tmp_path)["a"]] == ["train.txt", "test.txt"]
    for name in ("train.txt", "test.txt"):
        (tmp_path / "a" / name).unlink()
    assert [path.name for path in find_datasets(tmp_path)["a"]] == ["train.csv", "test.tsv"]


def test_an_object_that_is_neither_path_nor_frame_is_refused():
    with pytest.raises(InputError, match="cannot read a int; expected a data frame or a path"):
        load(3)
