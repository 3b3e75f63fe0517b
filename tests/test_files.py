"""Files from outside: what is opened, and what is said of those that are not what they should be."""

import io
import os
import socket
import zipfile

import numpy as np
import pytest

from unmissed.errors import InputError
from unmissed.files import open_regular, parse_json, read_header, read_json, read_npy, read_npz, read_text, reading


def npy(array=None, *, descr="<f4", shape="(2, 3)", order="False", length=None, content=b"\0" * 24):
    """Write a `.npy` file by hand, or numpy's own of an array."""
    if array is not None:
        stream = io.BytesIO()
        np.save(stream, array)
        return stream.getvalue()
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    size = len(head) if length is None else length
    return b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little") + head + content


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "it")
    for read in (open_regular, read_text, read_json, lambda path: read_npz(path, ["a"], "a box")):
        with pytest.raises(InputError, match=r"it: cannot be read: not a regular file|Is a directory"):
            read(tmp_path / "it")


def test_links_are_followed_only_where_that_is_said(tmp_path):
    (tmp_path / "there").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert read_json(tmp_path / "link") == 1
    with pytest.raises(InputError, match="a symbolic link"):
        read_json(tmp_path / "link", follow=False)


@pytest.mark.parametrize("path", ["none", "no\0path", "x" * 5000])
def test_a_path_that_leads_nowhere_is_named(tmp_path, path):
    with pytest.raises(InputError, match=r"no such file|not a path|cannot be read"):
        open_regular(f"{tmp_path}/{path}")


def test_sockets_are_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "it"))
        with pytest.raises(InputError, match="cannot be read"):
            open_regular(tmp_path / "it")


@pytest.mark.parametrize("error", [KeyError("a\nb"), RecursionError(), SyntaxError("?"), OSError(5, "Input/output")])
def test_whatever_a_reader_raises_becomes_one_line(error):
    with pytest.raises(InputError, match=r"^f: not a box: [^\n]+$"), reading("f", "a box"):
        raise error
    with pytest.raises(InputError, match="fits into memory"), reading("f", "a box"):
        raise MemoryError
    with pytest.raises(KeyboardInterrupt), reading("f", "a box"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"b": {"a": 1, "a": 1}}', "the key 'a' stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("1" * 5000, "digits"),
        ('"\\ud800"', "half of a surrogate pair"),
        ('{"\\uDFFF": 1}', "half of a surrogate pair"),
        ("{", "Expecting"),
        ("", "Expecting"),
    ],
)
def test_json_that_is_no_good_is_refused(tmp_path, text, what):
    with pytest.raises(ValueError, match=what):
        parse_json(text)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=rf"a\.json: not a readable JSON file: .*{what}"):
        read_json(tmp_path / "a.json")


def test_complete_surrogate_pairs_are_text():
    assert parse_json('["\\ud83d\\ude00", "\\\\ud800"]') == ["😀", "\\ud800"]


def test_a_json_file_without_end_is_not_read(tmp_path):
    with open(tmp_path / "a.json", "wb") as stream:
        stream.truncate(1 << 40)  # a hole: nothing is written
    with pytest.raises(InputError, match=r"a\.json: not a readable JSON file: more than"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.float32(3),
        np.zeros((0, 4), np.int64),
        np.array(b"csr"),
        np.array("csr"),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
    ],
)
def test_arrays_of_numpy_come_back(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", a=array, b=array)
    np.savez_compressed(tmp_path / "c.npz", a=array)
    for back in (
        read_npy(tmp_path / "a.npy", "a box"),
        read_npz(tmp_path / "a.npz", ["a"], "a box")["a"],
        read_npz(tmp_path / "c.npz", ["a", "none"], "a box")["a"],
    ):
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPX" + npy()[6:],
        b"\x93NUMPY\x09" + npy()[7:],
        npy(length=10),
        npy(length=60_000),
        npy(descr="|O"),
        npy(descr="O"),
        npy(descr="<f7"),
        npy(descr="<M8[s]"),
        npy(descr="[('a', '<f4')]"),
        npy(shape="(-2, 3)"),
        npy(shape="(99999999999999999999, 3)"),
        npy(shape="(4611686018427387904, 4)"),
        npy(shape=f"({'1, ' * 64})"),
        npy(shape="(0, 3)"),
        npy(shape="(2, 2)"),
        npy(shape="None"),
        npy(order="2"),
        npy(content=b"\0" * 23),
        npy(content=b"\0" * 25),
    ],
)
def test_a_damaged_array_is_refused(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    for read in (
        lambda: read_npy(tmp_path / "a.npy", "a box"),
        lambda: read_npz(tmp_path / "a.npz", ["a"], "a box"),
    ):
        with pytest.raises(InputError, match=r"a\.np[yz]: not a box: "):
            read()


def zipped(path, *, method=zipfile.ZIP_DEFLATED, name="a.npy", content=None, change=lambda raw: raw):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr(name, npy(np.arange(100)) if content is None else content)
    path.write_bytes(change(path.read_bytes()))


def encrypted(raw):
    for mark, position in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.index(mark) + position
        raw = raw[:at] + bytes([raw[at] | 1]) + raw[at + 1 :]
    return raw


def claiming(raw):
    """Let the directory claim 3 GB for the array."""
    at = raw.index(b"PK\x01\x02") + 24
    return raw[:at] + (3 * 10**9).to_bytes(4, "little") + raw[at + 4 :]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"change": encrypted}, "encrypted"),
        ({"method": zipfile.ZIP_BZIP2}, "numpy does not write"),
        ({"method": zipfile.ZIP_LZMA}, "numpy does not write"),
        ({"change": claiming}, "claims more bytes"),
        ({"change": lambda raw: raw[:60] + bytes([raw[60] ^ 255]) + raw[61:]}, ""),
        ({"change": lambda raw: raw[:-30]}, "zip"),
        ({"content": npy(shape="(1000000000,)")}, "claims"),
    ],
)
def test_a_damaged_npz_is_refused(tmp_path, options, what):
    zipped(tmp_path / "a.npz", **options)
    with pytest.raises(InputError, match=rf"a\.npz: not a box: .*{what}"):
        read_npz(tmp_path / "a.npz", ["a"], "a box")


def test_a_name_that_stands_twice_in_a_npz_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy(np.arange(3)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy(np.arange(4)))
    with pytest.raises(InputError, match="same name"):
        read_npz(tmp_path / "a.npz", ["a"], "a box")


def test_the_header_is_read_in_any_order_of_its_entries():
    head = b"{'shape': (3L,), 'fortran_order': False, 'descr': '<i8'}\n"
    stream = io.BytesIO(b"\x93NUMPY\x02\x00" + len(head).to_bytes(4, "little") + head)
    assert read_header(stream.read)[:3] == (np.dtype("<i8"), (3,), "C")
