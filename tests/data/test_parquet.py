"""Parquet files that are small on disk and large in memory."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unmissed.data import load
from unmissed.data.readers.parquet import Parquet
from unmissed.data.readers.reader import ReadOptions
from unmissed.errors import InputError
from unmissed.settings import SETTINGS

CELL = "cod " * (5 << 18)  # 5 MiB
ROWS = 1024
CHILD = """
import sys
from itertools import islice
import pyarrow.parquet
import unmissed.data.readers.parquet
from unmissed.data.readers.reader import ReadOptions
from unmissed.execution import peak_bytes
begin = peak_bytes()
rows = unmissed.data.readers.parquet.Parquet().documents(sys.argv[1], ReadOptions(), ["text"])
found = [len(one["text"]) for _, one in islice(rows, 50)]
print(len(found), found[0], peak_bytes() - begin)
"""


def repeated(n_rows, cell=CELL):
    return pa.DictionaryArray.from_arrays(pa.array([0] * n_rows, pa.int32()), pa.array([cell]))


def write(path, table, **options):
    pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 30, store_schema=False, **options)
    return path


@pytest.mark.parametrize("encoding", ["dictionary", "PLAIN", "DELTA_BYTE_ARRAY"])
def test_memory_follows_the_bytes_of_cells_not_the_rows(encoding, tmp_path):
    texts = repeated(ROWS) if encoding == "dictionary" else pa.array([CELL] * 128)
    options = {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": {"text": encoding}}
    path = write(tmp_path / "a.parquet", pa.table({"text": texts}), write_batch_size=1, **options)
    assert path.stat().st_size < 1 << 20
    child = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True)
    n_read, length, peak = map(int, child.stdout.split())
    assert (n_read, length) == (50, len(CELL))
    assert peak < 300 << 20  # all rows at once have 640 MiB and more


def test_a_cell_is_no_longer_than_one_of_a_csv_file(tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "cell_bytes", 100)
    fine = pa.table({"text": ["a" * 100, "b"], "labels": [["x"], ["y" * 50, "z" * 50]]})
    assert load(write(tmp_path / "fine.parquet", fine)).n_samples == 2
    long = pa.table({"text": ["a", "b" * 101], "labels": [["x"], ["y"]]})
    with pytest.raises(InputError, match=r"long.parquet, row 2: a cell of 'text' has more than 100 bytes"):
        load(write(tmp_path / "long.parquet", long))
    many = pa.ListArray.from_arrays(pa.array([0, 1, 6], pa.int32()), repeated(6, "y" * 30))
    lists = pa.table({"text": ["a", "b"], "labels": many})
    with pytest.raises(InputError, match=r"lists.parquet, row 2: a cell of 'labels' has more than 100 bytes"):
        load(write(tmp_path / "lists.parquet", lists))


def test_cells_come_back_whatever_their_type_and_where_batches_are_cut(tmp_path, monkeypatch):
    rows = [{"id": number, "text": f"text {number % 7} ä", "labels": ["a", None][: number % 3]} for number in range(50)]
    for row in rows[::5]:
        row["labels"] = None
    table = pa.Table.from_pylist(rows)
    path = write(tmp_path / "a.parquet", table, row_group_size=20)
    monkeypatch.setattr(SETTINGS, "decoded_bytes", 60)
    found = [one for _, one in Parquet().documents(path, ReadOptions(), ["text"])]
    assert found == [{"id": row["id"], "text": row["text"]} for row in rows]
    lists = [one["labels"] for _, one in Parquet().documents(path, ReadOptions(), ["labels"])]
    assert lists == [row["labels"] or [] for row in rows]


def test_a_column_of_objects_is_refused(tmp_path):
    path = write(tmp_path / "a.parquet", pa.table({"text": [{"a": "x"}], "labels": [["x"]]}))
    with pytest.raises(InputError, match=r"column 'text' holds struct<a: string>; expected strings, numbers or lists"):
        load(path)
