"""Reader and writer of the XMC text format: a header `rows features labels`, then lines `3,17 0:0.5 12:1`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from unmissed.data import xmc_parser as kernels
from unmissed.data.dataset import Dataset
from unmissed.data.names import read_name_files, write_name_files
from unmissed.data.readers.reader import DatasetWriter, MatrixReader, PathLike, ReadOptions
from unmissed.data.streams import line_blocks, write_stream
from unmissed.data.xmc_format import format_rows
from unmissed.errors import InputError
from unmissed.matrices import LARGEST, assemble, check_claims
from unmissed.progress import Progress, silent

Array = npt.NDArray[Any]
_BATCH = 1 << 16  # entries formatted per call
_PLAIN = (1e-13, 1e15)  # range of magnitudes that the kernel formats
_INFINITE = float(np.finfo(np.float32).max) * (1 + 2.0**-25)  # rounds to an infinite float32
_LONGEST = 40  # maximum bytes of one formatted entry
_TOKEN = re.compile(rb"[^ \t\r\n]+")
_FOREIGN = re.compile(rb"[!-~]*[^ -~\t\n]")  # a token up to a byte that is invalid in this format


@dataclass(frozen=True)
class _Sizes:
    """Sizes that a file must conform to; None if unknown. Indices start at `base`."""

    rows: int | None
    features: int | None
    labels: int | None
    base: int
    source: str  # origin of the sizes, for messages


class _GrowingArray:
    """An array with amortized append.

    Its capacity is extrapolated from the fraction of the file read so far, so that copies are rare. Pages of unused
    capacity are never touched and take no memory.
    """

    def __init__(self, dtype: Any) -> None:
        self.array = np.empty(0, dtype)
        self.size = 0

    def add(self, piece: Array, share: float) -> None:
        end = self.size + piece.size
        if end > self.array.size:
            try:
                larger = np.empty(max(end, int(1.1 * end / share) if share < 1 else end), self.array.dtype)
            except MemoryError:  # the extrapolation may be far too large
                larger = np.empty(end + end // 2, self.array.dtype)
            larger[: self.size] = self.array[: self.size]
            self.array = larger
        self.array[self.size : end] = piece
        self.size = end

    def finish(self) -> Array:
        """Return the array without its unused capacity."""
        self.array.resize(self.size, refcheck=False)
        return self.array

    def highest(self) -> int:
        return int(self.array[: self.size].max()) if self.size else -1


class _XmcReader:
    """State of a reader: the rows read so far and the number of the next line."""

    def __init__(self, path: PathLike, sizes: _Sizes, line: int) -> None:
        self.path, self.sizes, self.line = path, sizes, line
        self.n_rows = 0
        self.labels, self.label_lengths = _GrowingArray(np.int32), _GrowingArray(np.int32)
        self.indices, self.values, self.feature_lengths = (
            _GrowingArray(np.int32),
            _GrowingArray(np.float32),
            _GrowingArray(np.int32),
        )
        self.capacity = 0
        self.n_blank = 0

    def _reserve(self, n_bytes: int) -> None:
        """Allocate buffers for the maximum number of entries in `n_bytes`; untouched pages take no memory."""
        if n_bytes <= self.capacity:
            return
        self.capacity = n_bytes
        self.label_ends, self.feature_ends = np.empty(n_bytes, np.int64), np.empty(n_bytes, np.int64)
        self.label_buffer = np.empty(n_bytes // 2 + 1, np.int32)
        self.index_buffer, self.value_buffer = (
            np.empty(n_bytes // 3 + 1, np.int32),
            np.empty(n_bytes // 3 + 1, np.float32),
        )
        self.doubts = np.empty((n_bytes // 3 + 1, 3), np.int64)

    def read(self, block: bytearray, begin: int, end: int, share: float) -> None:
        """Parse the lines of a block from byte `begin` to `end`; `share` is the fraction of the file read so far."""
        sizes = self.sizes
        view = np.frombuffer(block, np.uint8, end)
        self._reserve(view.size)
        most = LARGEST if sizes.rows is None else sizes.rows
        code, at, n_lines, n_rows, n_assignments, n_values, n_doubts, rising = kernels.parse_lines(
            view,
            begin,
            sizes.base,
            most - self.n_rows,
            LARGEST if sizes.features is None else sizes.features,
            LARGEST if sizes.labels is None else sizes.labels,
            self.label_ends,
            self.label_buffer,
            self.feature_ends,
            self.index_buffer,
            self.value_buffer,
            self.doubts,
        )
        for position, first, last in self.doubts[:n_doubts].tolist():
            self.value_buffer[position] = self._convert(block, begin, first, last)
        if not rising:
            self._sort(block, begin, n_rows, n_assignments)
        if code != kernels.FINE:
            raise self._error(block, begin, int(at), int(code))
        self.labels.add(self.label_buffer[:n_assignments], share)
        self.indices.add(self.index_buffer[:n_values], share)
        self.values.add(self.value_buffer[:n_values], share)
        self.label_lengths.add(np.diff(self.label_ends[:n_rows], prepend=0), share)
        self.feature_lengths.add(np.diff(self.feature_ends[:n_rows], prepend=0), share)
        self.n_rows += n_rows
        self.line += n_lines
        if sizes.rows is None:
            self._count_blank_lines(block, begin, end)

    def _count_blank_lines(self, block: bytearray, begin: int, end: int) -> None:
        """Count trailing blank lines, which are not rows of a file without a header."""
        last = end
        while last > begin and block[last - 1] in b"\r\n":
            last -= 1
        n_blank = block.count(b"\n", last, end)
        self.n_blank = n_blank - 1 if last > begin else self.n_blank + n_blank

    def _drop_last(self, n_rows: int) -> None:
        """Drop the last rows, which are empty."""
        self.n_rows -= n_rows
        self.label_lengths.size -= n_rows
        self.feature_lengths.size -= n_rows

    def finish(self) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """Return X and Y."""
        sizes = self.sizes
        if sizes.rows is not None:
            if self.n_rows < sizes.rows:
                last = max(self.line - 1, 1)
                raise InputError(
                    f"{self.path}:{last}: the file ends after {self.n_rows} rows; the header says {sizes.rows}"
                )
            check_claims(f"{self.path}:1", self.indices.size + self.n_rows, features=sizes.features or 0)
            check_claims(f"{self.path}:1", self.labels.size + self.n_rows, labels=sizes.labels or 0)
        else:
            self._drop_last(self.n_blank)
        n_features = self.indices.highest() + 1 if sizes.features is None else sizes.features
        n_labels = self.labels.highest() + 1 if sizes.labels is None else sizes.labels
        X = assemble(
            self.values.finish(),
            self.indices.finish(),
            _pointers(self.feature_lengths.finish()),
            (self.n_rows, n_features),
        )
        labels = self.labels.finish()
        Y = assemble(
            np.ones(labels.size, np.float32), labels, _pointers(self.label_lengths.finish()), (self.n_rows, n_labels)
        )
        return X, Y

    def _convert(self, block: bytearray, begin: int, first: int, last: int) -> np.float32:
        """Return a value that the kernel could not round with certainty."""
        first = block.index(b":", first) + 1
        number = float(block[first:last])
        if abs(number) >= _INFINITE:
            raise self._error(block, begin, first, kernels.NOT_FINITE)
        return np.float32(number)

    def _sort(self, block: bytearray, begin: int, n_rows: int, n_assignments: int) -> None:
        """Sort the rows of a block; raise InputError for the first duplicate."""
        for ends, indices, values, what in (
            (self.label_ends, self.label_buffer, np.zeros(n_assignments, np.float32), "label"),
            (self.feature_ends, self.index_buffer, self.value_buffer, "feature"),
        ):
            row, position = kernels.sort_rows(ends, n_rows, indices, values)
            if row >= 0:
                at = _nth_token(block, begin, int(row), int(position), what)
                code = kernels.DUPLICATE_LABEL if what == "label" else kernels.DUPLICATE_FEATURE
                raise self._error(block, begin, at, code)

    def _error(self, block: bytearray, begin: int, at: int, code: int) -> InputError:
        """Return the error for a byte of the block, with file, line and column."""
        foreign = _FOREIGN.match(block, at)
        if foreign:
            at = foreign.end() - 1
        line = self.line + block.count(b"\n", begin, at)
        column = at - block.rfind(b"\n", 0, at)
        return InputError(f"{self.path}:{line}:{column}: {_describe(code, block, at, self.sizes)}")


class XmcText(MatrixReader, DatasetWriter):
    """Reads and writes the text format of the extreme classification repository, with names in files next to it."""

    name = "XMC text"
    suffixes = (".txt", ".svm", ".xmc")

    def read(
        self,
        path: PathLike,
        options: ReadOptions,
        *,
        n_features: int | None = None,
        n_labels: int | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Read X, Y and their names; without a header, sizes are the given ones or follow from the indices."""
        words = {"header": options.header, "one_based": options.one_based}
        X, Y = read_xmc(path, **words, n_features=n_features, n_labels=n_labels, progress=progress)
        form = options.columns.unicode_normalization
        return Dataset(
            X,
            Y,
            label_names=read_name_files(path, "labels.txt", Y.shape[1], form),
            feature_names=read_name_files(path, "features.txt", X.shape[1], form),
            trusted=True,
        )

    def read_labels(
        self, path: PathLike, options: ReadOptions, *, n_labels: int | None = None, progress: Progress = silent
    ) -> tuple[sparse.csr_matrix, list[str] | None, int]:
        """Read Y and the label names, without the names of features."""
        words = {"header": options.header, "one_based": options.one_based}
        _, Y = read_xmc(path, **words, n_labels=n_labels, progress=progress)
        return Y, read_name_files(path, "labels.txt", Y.shape[1], options.columns.unicode_normalization), 0

    def write(self, dataset: Dataset, path: PathLike, progress: Progress = silent) -> None:
        """Write the file and the names next to it."""
        write_xmc(dataset, path, keep_same=True, progress=progress)


def read_xmc(
    path: PathLike,
    *,
    header: bool = True,
    one_based: bool = False,
    n_features: int | None = None,
    n_labels: int | None = None,
    progress: Progress = silent,
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Read X and Y from a file in the XMC repository's text format, plain, `.gz` or `.xz`.

    Without a header, sizes are the given ones or follow from the largest indices. Unsorted rows are sorted. Malformed
    input raises InputError with file, line and column.
    """
    blocks = line_blocks(path, progress)
    block, end, share = next(blocks)
    begin = 0
    if header:
        begin = block.index(b"\n") + 1
        sizes = _read_header(path, bytes(block[:begin]), int(one_based))
    else:
        sizes = _Sizes(None, n_features, n_labels, int(one_based), "the training set")
    reader = _XmcReader(path, sizes, 2 if header else 1)
    reader.read(block, begin, end, share)
    for block, end, share in blocks:
        reader.read(block, 0, end, share)
    return reader.finish()


def _read_header(path: PathLike, line: bytes, base: int) -> _Sizes:
    expected = "expected a header of three integers, 'rows features labels'"
    tokens = list(_TOKEN.finditer(line))
    if tokens and not any(token.group().isdigit() for token in tokens):
        raise InputError(
            f"{path}:1: plain text, but .txt files are XMC text here ({expected}); give texts with their labels as "
            ".csv, .tsv or .jsonl"
        )
    for token in tokens[:3]:
        if not token.group().isdigit():
            raise InputError(f"{path}:1:{token.start() + 1}: {_shown(token.group())} is not a size; {expected}")
        if len(token.group()) > 20 or int(token.group()) > LARGEST:
            raise InputError(f"{path}:1:{token.start() + 1}: {_shown(token.group())} is too large; at most {LARGEST}")
    if len(tokens) != 3:
        column = tokens[3].start() + 1 if len(tokens) > 3 else len(line.rstrip()) + 1
        raise InputError(f"{path}:1:{column}: the first line has {len(tokens)} entries; {expected}")
    rows, features, labels = (int(token.group()) for token in tokens)
    return _Sizes(rows, features, labels, base, "the header")


def _pointers(lengths: Array) -> Array:
    pointers = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=pointers[1:])
    return pointers


def _nth_token(block: bytearray, begin: int, row: int, position: int, what: str) -> int:
    """Return the byte position of the n-th label or feature of a row."""
    for _ in range(row):
        begin = block.index(b"\n", begin) + 1
    end = block.index(b"\n", begin)
    pattern = rb"[0-9]+(?=[,\s])" if what == "label" else rb"[0-9]+(?=:)"
    return [match.start() for match in re.finditer(pattern, bytes(block[begin : end + 1]))][position] + begin


def _describe(code: int, block: bytearray, at: int, sizes: _Sizes) -> str:
    """Return the message for an error code: what was found and what was expected."""
    match = _TOKEN.match(block, at)
    token = match.group() if match else b""
    if _FOREIGN.match(block, at):
        return f"byte 0x{block[at]:02X} does not belong here; expected ASCII text (is this another encoding or format?)"
    start = re.match(rb"[0-9]+", token)
    index = start.group().decode() if start else ""
    shown = _shown(token)

    def allowed(n: int | None) -> str:
        least, most = sizes.base, (LARGEST if n is None else n) - 1 + sizes.base
        if n is None:
            return f"expected {least} to {most}"
        return f"{sizes.source} allows {least} to {most}" if n else f"{sizes.source} allows none"

    texts = {
        kernels.NO_INDEX: f"expected an integer, found {shown}",
        kernels.NEGATIVE_INDEX: f"{shown} is negative; expected an index of at least {sizes.base}",
        kernels.LABEL_OUT_OF_RANGE: f"label {index} is out of range: {allowed(sizes.labels)}",
        kernels.FEATURE_OUT_OF_RANGE: f"feature {index} is out of range: {allowed(sizes.features)}",
        kernels.NO_COLON: f"expected a colon after the feature's index, found {shown}",
        kernels.NOT_A_NUMBER: f"expected a number after the colon, found {shown}",
        kernels.NOT_FINITE: f"{shown} is not a finite float32",
        kernels.DUPLICATE_LABEL: f"label {index} occurs twice in this row",
        kernels.DUPLICATE_FEATURE: f"feature {index} occurs twice in this row",
        kernels.EXTRA_ROW: f"a row too many: the header says {sizes.rows}",
    }
    if code == kernels.NOT_A_NUMBER and re.fullmatch(rb"[+-]?(nan|inf|infinity)", token, re.IGNORECASE):
        code = kernels.NOT_FINITE
    return texts[code]


def _shown(token: bytes) -> str:
    if not token:
        return "the end of the line or a blank"
    text = token[:40].decode("ascii", "backslashreplace")
    return f"'{text}{'...' if len(token) > 40 else ''}'"


def write_xmc(dataset: Dataset, path: PathLike, *, keep_same: bool = False, progress: Progress = silent) -> None:
    """Write a data set in the XMC repository's text format, compressed if the name ends in `.gz` or `.xz`.

    Values get the fewest digits that are read back to the same float32. Names are written to `labels.txt` and
    `features.txt` next to the file. The file is written atomically. With `keep_same`, an existing file is kept if it
    holds the same bytes, else InputError is raised.
    """
    write_name_files(path, "labels.txt", dataset.label_names)
    write_name_files(path, "features.txt", dataset.feature_names)
    X, Y = dataset.X, dataset.Y
    n_samples = dataset.n_samples
    with write_stream(path, keep_same=keep_same) as stream:
        stream.write(f"{n_samples} {dataset.n_features} {dataset.n_labels}\n".encode())
        first = 0
        while first < n_samples:
            last = min(_rows_within(X, first), _rows_within(Y, first), first + _BATCH)
            stream.write(_format(X[first:last], Y[first:last]))
            first = last
            progress(first, n_samples)


def _rows_within(matrix: sparse.csr_matrix, first: int) -> int:
    """Return the end of a batch of rows from `first` on: at most `_BATCH` entries, at least one row."""
    end = int(np.searchsorted(matrix.indptr, int(matrix.indptr[first]) + _BATCH, side="right")) - 1
    return max(first + 1, end)


def _format(X: sparse.csr_matrix, Y: sparse.csr_matrix) -> bytes:
    """Return rows formatted as lines."""
    values = np.array(X.data, np.float32)
    size = np.abs(values)
    spelled = np.flatnonzero((size != 0) & ((size < _PLAIN[0]) | (size > _PLAIN[1])))
    texts = [_format_extreme(value) for value in values[spelled]]
    out = np.empty(_LONGEST * (values.size + Y.nnz) + 2 * X.shape[0], np.uint8)
    n_bytes = format_rows(
        Y.indptr.astype(np.int64),
        np.array(Y.indices, np.int32),
        X.indptr.astype(np.int64),
        np.array(X.indices, np.int32),
        values,
        spelled,
        np.cumsum([len(text) for text in texts], dtype=np.int64),
        np.frombuffer(bytearray(b"".join(texts)), np.uint8),
        out,
    )
    return out[:n_bytes].tobytes()


def _format_extreme(value: np.float32) -> bytes:
    """Format a very small or very large value such that it is read back to the same float32."""
    text = np.format_float_scientific(value, unique=True, trim="-")
    return (text if np.float32(float(text)) == value else repr(float(value))).encode()
