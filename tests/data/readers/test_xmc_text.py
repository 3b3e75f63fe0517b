"""The reader and the writer of XMC text."""

import gzip
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from unmissed.data import Dataset, load, write_xmc
from unmissed.data.readers.xmc_text import read_xmc
from unmissed.errors import InputError
from unmissed.settings import SETTINGS


def read(tmp_path: Path, content: bytes, **options):
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    return read_xmc(path, **options)


def refuse(tmp_path: Path, content: bytes, position: str, what: str, **options):
    """Check that reading fails with `file:place: ... what ...`."""
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_xmc(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}:{position}: "), message
    assert what in message
    assert "\n" not in message


def random_dataset(rng, n_samples=50, n_features=40, n_labels=10) -> Dataset:
    X = sparse.random(n_samples, n_features, 0.2, "csr", random_state=rng, dtype=np.float32)
    Y = sparse.random(n_samples, n_labels, 0.2, "csr", random_state=rng)
    Y.data[:] = 1
    return Dataset(X, Y)


@pytest.mark.kernel
def test_a_small_file_is_read_as_written(tmp_path):
    X, Y = read(tmp_path, b"3 4 5\n0,4 0:0.5 3:-2\n 1:1e-2\n2\n")
    assert X.toarray().tolist() == [[0.5, 0, 0, -2], [0, np.float32(0.01), 0, 0], [0, 0, 0, 0]]
    assert Y.toarray().tolist() == [[1, 0, 0, 0, 1], [0] * 5, [0, 0, 1, 0, 0]]
    for matrix in (X, Y):
        assert isinstance(matrix, sparse.csr_matrix)
        assert matrix.dtype == np.float32
        assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        matrix.check_format(full_check=True)
        assert matrix.has_canonical_format


@pytest.mark.kernel
@pytest.mark.parametrize(
    "content",
    [
        b"2 3 2\r\n0,1 0:1 2:2\r\n 1:3\r\n",  # CRLF
        b"2 3 2\n0,1 0:1 2:2\n 1:3",  # no last newline
        b"2 3 2\r\n0,1 0:1 2:2\r\n 1:3\r",  # cut between CR and LF: the newline put in completes it
        b"\xef\xbb\xbf2 3 2\n0,1 0:1 2:2\n 1:3\n",  # byte-order mark
        b"2\t3\t2\n0,1\t0:1\t2:2\n\t1:3\n",  # tabs
        b"2 3 2  \n0,1  0:1   2:2 \t \n  1:3   \n",  # more blanks, also at the end
        b"2 3 2\n1,0 2:2 0:1\n 1:3\n",  # out of order
        b"2 3 2\n0,1 0:1 2:2\n1:3\n",  # a row without labels that lacks its blank
        b"2 3 2\n0,1 0:1 2:2\n 1:3\n\n \n\t\r\n",  # blank lines after the last row
        b"2 3 2\n00,01 000:+1 2:2.000\n 1:.3e1\n",
        b"2 3 2\n0,1 0:1. 2:20E-1\n 1:00000000000000000000000000003.0\n",
    ],
)
def test_harmless_variants_are_read_alike(tmp_path, content):
    X, Y = read(tmp_path, content)
    assert X.toarray().tolist() == [[1, 0, 2], [0, 3, 0]]
    assert Y.toarray().tolist() == [[1, 1], [0, 0]]
    assert X.has_canonical_format
    assert X.indices.tolist() == [0, 2, 1]


@pytest.mark.kernel
def test_rows_without_anything_are_rows(tmp_path):
    X, Y = read(tmp_path, b"3 2 2\n\n \n1 0:1\n")
    assert X.shape == (3, 2)
    assert X.indptr.tolist() == [0, 0, 0, 1]
    assert Y.indptr.tolist() == [0, 0, 0, 1]


@pytest.mark.kernel
def test_no_header_infers_the_sizes(tmp_path):
    X, Y = read(tmp_path, b"1,3 4:1\n 0:2\n", header=False)
    assert X.shape == (2, 5)
    assert Y.shape == (2, 4)


def test_no_header_keeps_to_given_sizes(tmp_path):
    X, Y = read(tmp_path, b"1 4:1\n", header=False, n_features=9, n_labels=3)
    assert X.shape == (1, 9)
    assert Y.shape == (1, 3)
    refuse(tmp_path, b"3 4:1\n", "1:1", "the training set allows 0 to 2", header=False, n_labels=3)


@pytest.mark.kernel
def test_one_based_indices_are_shifted(tmp_path):
    X, Y = read(tmp_path, b"1 3 2\n2 1:5 3:6\n", one_based=True)
    assert X.toarray().tolist() == [[5, 0, 6]]
    assert Y.toarray().tolist() == [[0, 1]]
    refuse(tmp_path, b"1 3 2\n2 0:5\n", "2:3", "feature 0 is out of range: the header allows 1 to 3", one_based=True)
    refuse(tmp_path, b"1 3 2\n0 1:5\n", "2:1", "label 0 is out of range: the header allows 1 to 2", one_based=True)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("content", "position", "what"),
    [
        (b"1 3\n0 0:1\n", "1:4", "expected a header of three integers"),
        (b"1 3 2 7\n0 0:1\n", "1:7", "4 entries"),
        (b"1 x 2\n0 0:1\n", "1:3", "'x' is not a size"),
        (b"1 -3 2\n0 0:1\n", "1:3", "'-3' is not a size"),
        (b"0 0:1\n", "1:3", "'0:1' is not a size"),
        (b"1 3 99999999999\n0 0:1\n", "1:5", "at most 2147483647"),
        (b"3 3 2\n0 0:1\n1 1:1\n", "3", "ends after 2 rows; the header says 3"),
        (b"1 3 2\n0 0:1\n1 1:1\n", "3:1", "a row too many: the header says 1"),
        (b"1 3 2\n0 0:1\n\n  1:1\n", "4:3", "a row too many"),
        (b"2 3 2\n0 0:1\n2 1:1\n", "3:1", "label 2 is out of range: the header allows 0 to 1"),
        (b"2 3 2\n0 0:1\n0,99999999999999999999 1:1\n", "3:3", "label 99999999999999999999 is out of range"),
        (b"1 3 0\n0 0:1\n", "2:1", "the header allows none"),
        (b"1 3 2\n1 0:1 3:1\n", "2:7", "feature 3 is out of range: the header allows 0 to 2"),
        (b"1 3 2\n1 0:1 4294967296:1\n", "2:7", "feature 4294967296 is out of range"),
        (b"1 3 2\n-1 0:1\n", "2:1", "negative"),
        (b"1 3 2\n1,-1 0:1\n", "2:3", "negative"),
        (b"1 3 2\n1 -1:1\n", "2:3", "negative"),
        (b"1 3 2\n1 0:1 0:2\n", "2:7", "feature 0 occurs twice"),
        (b"1 3 2\n1 0:1 2:2 1:1 0:3\n", "2:15", "feature 0 occurs twice"),
        (b"1 3 2\n1,1 0:1\n", "2:3", "label 1 occurs twice"),
        (b"1 3 2\n1,0,1 0:1\n", "2:5", "label 1 occurs twice"),
        (b"2 9 9\n 0:1\n8,7,3,07 2:1 1:1 0:1\n", "3:7", "label 07 occurs twice"),
        (b"1 3 2\n1 0:x\n", "2:5", "expected a number after the colon, found 'x'"),
        (b"1 3 2\n1 0:1x\n", "2:5", "found '1x'"),
        (b"1 3 2\n1 0:1e\n", "2:5", "found '1e'"),
        (b"1 3 2\n1 0:.\n", "2:5", "found '.'"),
        (b"1 3 2\n1 0:--1\n", "2:5", "found '--1'"),
        (b"1 3 2\n1 0:1.2.3\n", "2:5", "found '1.2.3'"),
        (b"1 3 2\n1 0:1_0\n", "2:5", "found '1_0'"),
        (b"1 3 2\n1 0:0x1\n", "2:5", "found '0x1'"),
        (b"1 3 2\n1 0:\n", "2:5", "found the end of the line"),
        (b"1 3 2\n1 0: 1\n", "2:5", "found the end of the line or a blank"),
        (b"1 3 2\n1 0:nan\n", "2:5", "'nan' is not a finite float32"),
        (b"1 3 2\n1 0:-Infinity\n", "2:5", "not a finite float32"),
        (b"1 3 2\n1 0:1e39\n", "2:5", "'1e39' is not a finite float32"),
        (b"1 3 2\n1 0:1e999999999999\n", "2:5", "not a finite float32"),
        (b"1 3 2\n1 0:340282356779733661637539395458142568448\n", "2:5", "not a finite float32"),
        (b"1 3 2\n1 0\n", "2:4", "expected a colon"),
        (b"1 3 2\n1 0=1\n", "2:4", "expected a colon after the feature's index, found '=1'"),
        (b"1 3 2\n 1 0:1\n", "2:3", "expected a colon"),
        (b"1 3 2\n0,1, 0:1\n", "2:5", "expected an integer, found the end of the line or a blank"),
        (b"1 3 2\n0;1 0:1\n", "2:2", "expected an integer, found ';1'"),
        (b"1 3 2\nfoo 0:1\n", "2:1", "expected an integer, found 'foo'"),
        (b"1 3 2\n0 0:1 bar\n", "2:7", "expected an integer, found 'bar'"),
        (b"1 3 2\n0 0:1\xc3\xa9\n", "2:6", "byte 0xC3"),
        (b"1 3 2\n0 \x000:1\n", "2:3", "byte 0x00"),
        (b"2 3 2\r0 0:1\r1 1:1\r", "1:7", "7 entries"),
        (b"1 3 2\n0 0:1\r1:1\n", "2:6", "byte 0x0D"),
    ],
)
def test_malformed_lines_are_refused_with_line_and_column(tmp_path, content, position, what):
    refuse(tmp_path, content, position, what)


def test_a_mistake_deep_in_a_file_has_its_own_line_and_column(tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "read_bytes", 64)  # so that it lies many blocks from the beginning
    lines = [b"1,2 3:0.25 7:1"] * 1000
    lines[777] = b"1,2 3:0.25 7:oops"
    refuse(tmp_path, b"1000 9 3\n" + b"\n".join(lines), "779:14", "found 'oops'")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        ("1 1 1\n0 0:1\n".encode("utf-16"), "UTF-16"),
        (b"BZh91AY&SY", "bzip2"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, content, what):
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"data.txt:1.*{what}"):
        read_xmc(path)


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".xz", lzma)])
def test_compressed_files_are_read_and_truncated_or_damaged_ones_refused(tmp_path, suffix, module):
    rng = np.random.default_rng(0)
    plain = b"4000 50 9\n" + b"".join(b"%d %d:%f\n" % (i % 9, i % 50, rng.random()) for i in range(4000))
    path = tmp_path / f"data.txt{suffix}"
    packed = module.compress(plain)
    path.write_bytes(packed)
    X, _ = read_xmc(path)
    assert X.shape == (4000, 50)
    for length in (len(packed) // 2, len(packed) - 3, 8):
        path.write_bytes(packed[:length])
        with pytest.raises(InputError, match=rf"data.txt{suffix}:\d+: the (gzip|xz) file is (truncated|damaged)"):
            read_xmc(path)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=rf"data.txt{suffix}:\d+"):
        read_xmc(path)
    path.write_bytes(plain)
    with pytest.raises(InputError, match="though its name says so"):
        read_xmc(path)
    path.write_bytes(module.compress(b""))
    with pytest.raises(InputError, match="the file is empty"):
        read_xmc(path)


def test_a_truncated_gzip_file_names_a_line_near_its_end(tmp_path):
    plain = b"3000 5 2\n" + b"1 0:1 3:0.5\n" * 3000
    path = tmp_path / "data.txt.gz"
    path.write_bytes(gzip.compress(plain, 0)[: len(plain) // 2])  # stored, so that half the bytes are half the lines
    with pytest.raises(InputError) as caught:
        read_xmc(path)
    line = int(str(caught.value).removeprefix(f"{path}:").split(":")[0])
    assert 1300 < line <= 1501


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_xmc(tmp_path / "none.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_xmc(tmp_path)


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_any_size_of_blocks_reads_the_same(tmp_path, monkeypatch, chunk):
    dataset = random_dataset(np.random.default_rng(3))
    write_xmc(dataset, tmp_path / "a.txt")
    monkeypatch.setattr(SETTINGS, "read_bytes", chunk)
    assert load(tmp_path / "a.txt").digest == dataset.digest


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_writing_then_reading_is_the_identity(tmp_path, suffix):
    dataset = random_dataset(np.random.default_rng(1))
    write_xmc(dataset, tmp_path / f"a.txt{suffix}")
    again = load(tmp_path / f"a.txt{suffix}")
    assert again.digest == dataset.digest
    assert again.X.data.tobytes() == dataset.X.data.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == [f"a.txt{suffix}"]


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=200)
@given(hnp.arrays(np.float32, st.integers(1, 40), elements=finite))
@example(np.array([0.0, -0.0, 1, -1, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38], np.float32))
@example(np.array([1e-13, 9.9999e-14, 1e15, 1.0000001e15, 1e7, 9999999, 16777216, 33554432, 0.1], np.float32))
@example(np.float32(10.0) ** np.arange(-40, 38, dtype=np.float32))
def test_every_float32_is_written_and_read_to_the_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("values") / "a.txt"
    X = sparse.csr_matrix((values, np.arange(values.size), [0, values.size]), shape=(1, values.size))
    write_xmc(Dataset(X, sparse.csr_matrix((1, 2), dtype=np.float32)), path)
    again, _ = read_xmc(path)
    assert again.data.tobytes() == values.tobytes()


@pytest.mark.kernel
def test_numbers_are_written_with_the_fewest_digits(tmp_path):
    values = np.array([1, 0.5, 0.1, -0.25, 100, 1234567, 0.33333334, 1e-5, 1.5e20, 2e-30, 123456.79], np.float32)
    X = sparse.csr_matrix((values, np.arange(values.size), [0, values.size]), shape=(1, values.size))
    write_xmc(Dataset(X, sparse.csr_matrix(np.ones((1, 1), np.float32))), tmp_path / "a.txt")
    text = (tmp_path / "a.txt").read_text().splitlines()[1]
    assert [token.split(":")[1] for token in text.split()[1:]] == [
        "1", "0.5", "0.1", "-0.25", "100", "1234567", "0.33333334", "0.00001", "1.5e+20", "2e-30", "123456.79",
    ]  # fmt: skip


decimals = st.one_of(
    st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?\Z"),
    st.from_regex(r"\A-?0\.[0-9]{1,20}\Z"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    finite.map(lambda value: f"{(value + float(np.nextafter(np.float32(value), np.float32(1)))) / 2:.60e}"),  # ties
)


@settings(deadline=None, max_examples=500)
@given(decimals)
@example("16777217")
@example("0.000000000000000000000000000000000000000000001")
@example("340282356779733661637539395458142568447")
def test_every_decimal_is_rounded_as_python_and_numpy_round_it(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("decimals") / "a.txt"
    path.write_text(f"1 1 1\n0 0:{text}\n")
    with np.errstate(over="ignore"):
        expected = np.float32(float(text))
    if np.isfinite(expected):
        X, _ = read_xmc(path)
        assert X.data.tobytes() == np.array([expected]).tobytes()
    else:
        with pytest.raises(InputError, match=r"2:5: .*not a finite float32"):
            read_xmc(path)


pieces = st.sampled_from(
    [b"0", b"1", b"2", b"9", b":", b",", b" ", b"\t", b"\n", b"\r\n", b"\r", b".", b"-", b"+", b"e", b"1:1", b" 0:0.5",
     b"3 3 3\n", b"nan", b"\xff", b"\x00", b"\xef\xbb\xbf", b"99999999999999999999", b"1e40", b"\n0,1 0:1 2:3"]
)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(
    content=st.one_of(
        st.binary(max_size=60),
        st.lists(pieces, max_size=25).map(b"".join),
        st.lists(pieces, max_size=25).map(lambda parts: b"2 3 3\n" + b"".join(parts)),
    ),
    header=st.booleans(),
    one_based=st.booleans(),
    wrap=st.sampled_from([bytes, gzip.compress, lzma.compress]),
)
def test_whatever_the_bytes_they_write_back_or_are_refused(tmp_path_factory, content, header, one_based, wrap):
    folder = tmp_path_factory.mktemp("bytes")
    path = folder / "a.txt"
    path.write_bytes(wrap(content))
    try:
        dataset = load(path, header=header, one_based=one_based)
    except InputError as error:
        assert str(error).startswith(f"{path}:")  # noqa: PT017
        return
    for matrix in (dataset.X, dataset.Y):
        matrix.check_format(full_check=True)
        assert np.isfinite(matrix.data).all()
    write_xmc(dataset, folder / "b.txt")
    assert load(folder / "b.txt").digest == dataset.digest


def test_name_files_in_the_same_folder_are_read_if_their_length_matches(tmp_path):
    (tmp_path / "a.txt").write_text("1 3 2\n0 0:1\n")
    (tmp_path / "labels.txt").write_text("cat\r\nhünd\r\n", encoding="utf-8")
    (tmp_path / "features.txt").write_text("x\ny\n")
    dataset = load(tmp_path / "a.txt")
    assert dataset.label_names == ["cat", "hünd"]
    assert dataset.feature_names is None


def test_name_files_are_written_to_the_same_folder_and_never_overwritten(tmp_path):
    X, Y = sparse.csr_matrix(np.eye(2)), sparse.csr_matrix(np.eye(2))
    named = Dataset(X, Y, label_names=["a", "b"], feature_names=["x", ""])
    write_xmc(named, tmp_path / "train.txt")
    write_xmc(named, tmp_path / "test.txt")  # the same names again
    assert load(tmp_path / "test.txt").feature_names == ["x", ""]
    with pytest.raises(InputError, match=r"labels.txt: exists already with other names"):
        write_xmc(Dataset(X, Y, label_names=["a", "c"]), tmp_path / "other.txt")
    assert not (tmp_path / "other.txt").exists()
    with pytest.raises(InputError, match="line break"):
        write_xmc(Dataset(X, Y, label_names=["a\n", "c"]), tmp_path / "sub" / "other.txt")


def test_a_failed_writer_leaves_nothing(tmp_path):
    dataset = random_dataset(np.random.default_rng(1))

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_xmc(dataset, tmp_path / "a.txt", progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to measure memory")
def test_reading_takes_at_most_twice_the_memory_of_the_arrays(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(
        (rng.random(5_000_000, dtype=np.float32), np.tile(np.arange(50), 100_000), np.arange(0, 5_000_001, 50)),
        shape=(100_000, 60),
    )
    write_xmc(Dataset(X, sparse.csr_matrix((100_000, 5), dtype=np.float32)), tmp_path / "big.txt")
    (tmp_path / "small.txt").write_text("1 1 1\n0 0:1\n")
    script = """
import sys
from unmissed.data.readers.xmc_text import read_xmc
def memory(what):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(what))
read_xmc(sys.argv[1] + "/small.txt")
before = memory("VmRSS")
X, Y = read_xmc(sys.argv[1] + "/big.txt")
peak = memory("VmHWM")
arrays = sum(a.nbytes for M in (X, Y) for a in (M.data, M.indices, M.indptr))
print((peak - before) / arrays)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    assert 0.9 <= float(done.stdout) <= 2


@pytest.mark.parametrize("ends", ["\n\n\n", "\r\n\r\n", "\n", ""])
def test_blank_lines_at_the_end_are_no_rows_without_a_header_either(tmp_path, ends):
    path = tmp_path / "data.txt"
    path.write_bytes(f"0 1:1\n\n1 0:2\n \n{ends}".encode())
    X, Y = read_xmc(path, header=False)
    assert X.shape[0] == Y.shape[0] == 4  # a blank line between rows and a row of one blank are rows
    assert X.toarray().tolist() == [[0, 1], [0, 0], [2, 0], [0, 0]]


def test_blank_lines_over_many_blocks_are_no_rows(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"0 1:1\n" + b"\n" * 1_500_000)
    assert read_xmc(path, header=False)[0].shape == (1, 2)
    path.write_bytes(b"0 1:1\n" + b"\n" * 1_500_000 + b"0 1:1\n\n")
    assert read_xmc(path, header=False)[0].shape == (1_500_002, 2)


@pytest.mark.parametrize("header", ["1 200000000 1", "1 2 200000000"])
def test_a_header_out_of_all_proportion_is_refused(tmp_path, header):
    path = tmp_path / "data.txt"
    path.write_text(f"{header}\n0 1:1\n")
    with pytest.raises(InputError, match=r"data\.txt:1: claims 200000000 (features|labels) and holds 2 entries"):
        read_xmc(path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(SETTINGS, "line_bytes", 1 << 21)
    path = tmp_path / "data.txt.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(b"1 1 1\n" + b"0" * (1 << 23))
    with pytest.raises(InputError, match=r"data\.txt\.gz:2: a line of more than 2097152 bytes"):
        read_xmc(path)
