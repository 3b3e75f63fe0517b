"""Kernels that parse the XMC text format: `3,17 0:0.5 12:1` is one row of labels and features.

Input is ASCII in complete lines. Each line ends with a newline, which stops every loop: no bounds checks are needed.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel

Array = npt.NDArray[Any]

# Error codes of a line; `unmissed.data.readers.xmc_text` has their messages.
FINE = 0
NO_INDEX = 1
NEGATIVE_INDEX = 2
LABEL_OUT_OF_RANGE = 3
FEATURE_OUT_OF_RANGE = 4
NO_COLON = 5
NOT_A_NUMBER = 6
NOT_FINITE = 7
DUPLICATE_LABEL = 8
DUPLICATE_FEATURE = 9
EXTRA_ROW = 10

_NEWLINE, _TAB, _RETURN, _BLANK = 10, 9, 13, 32
_PLUS, _COMMA, _MINUS, _POINT, _COLON = 43, 44, 45, 46, 58
_ZERO, _NINE, _LOWER_E, _UPPER_E = 48, 57, 101, 69

_FULL = 10**17  # further digits of a mantissa this large are dropped
_EXACT = 2**53
_LEAST_POWER, _MOST_POWER = -90, 60
_POWERS = np.array([float(f"1e{e}") for e in range(_LEAST_POWER, _MOST_POWER + 1)])
_TOO_LARGE = 3.402823567e38  # just below the smallest float64 that rounds to an infinite float32
_TENS = np.array([float(f"1e{e}") for e in range(23)])
_DOUBT = 1e-15  # upper bound of the relative error of mantissa * power


@kernel()
def _skip_blanks(block, at):
    """Return the position after spaces, tabs and the carriage return of a CRLF."""
    byte = block[at]
    while byte in (_BLANK, _TAB) or (byte == _RETURN and block[at + 1] == _NEWLINE):
        at += 1
        byte = block[at]
    return at


@kernel()
def _ends(block, at):
    """Return whether a token may end before this byte."""
    byte = block[at]
    return byte in (_BLANK, _NEWLINE, _TAB) or (byte == _RETURN and block[at + 1] == _NEWLINE)


@kernel()
def _read_index(block, at):
    """Parse digits as an integer that saturates beyond 2^40, far above every valid index."""
    number = np.int64(0)
    byte = np.int64(block[at])
    while byte >= _ZERO and byte <= _NINE:
        if number < 1 << 40:
            number = number * 10 + (byte - _ZERO)
        at += 1
        byte = np.int64(block[at])
    return number, at


@kernel()
def _read_exponent(block, at):
    """Parse the exponent after an `e`: its value, the position after it, and whether it has digits."""
    negative = block[at] == _MINUS
    if negative or block[at] == _PLUS:
        at += 1
    exponent, after = _read_index(block, at)
    exponent = min(exponent, np.int64(1 << 30))
    return -exponent if negative else exponent, after, after > at


@kernel()
def _read_value(block, at):
    """Parse a decimal number as float32: its value, the position after it, the error code, and whether in doubt.

    For mantissas up to 2^53 and powers of ten up to 22, one float64 operation is correctly rounded. Beyond, the
    relative error is below 1e-15; if that could change the float32, the value is in doubt: the caller converts it.
    """
    begin = at
    negative = block[at] == _MINUS
    if negative or block[at] == _PLUS:
        at += 1
    mantissa = np.int64(0)
    scale = np.int64(0)
    n_digits = 0
    complete = True  # all digits are in the mantissa
    after_point = False
    while True:
        digit = np.int64(block[at]) - _ZERO
        if digit >= 0 and digit <= 9:
            n_digits += 1
            if mantissa < _FULL:
                mantissa = mantissa * 10 + digit
                scale -= after_point
            else:
                complete = complete and digit == 0
                scale += not after_point
        elif block[at] == _POINT and not after_point:
            after_point = True
        else:
            break
        at += 1
    good = n_digits > 0
    if good and (block[at] == _LOWER_E or block[at] == _UPPER_E):
        exponent, at, good = _read_exponent(block, at + 1)
        scale += exponent
    if not (good and _ends(block, at)):
        return np.float32(0), begin, NOT_A_NUMBER, False
    sign = np.float32(-1) if negative else np.float32(1)
    if mantissa == 0 or scale < _LEAST_POWER:
        return sign * np.float32(0), at, FINE, False
    if scale > _MOST_POWER:
        return np.float32(0), begin, NOT_FINITE, False
    value = mantissa * _POWERS[scale - _LEAST_POWER]
    if value >= _TOO_LARGE:
        return np.float32(0), at, FINE, True
    if complete and mantissa <= _EXACT and scale >= -22 and scale <= 22:
        if scale < 0:
            value = mantissa / _POWERS[-scale - _LEAST_POWER]
        return sign * np.float32(value), at, FINE, False
    rounded = np.float32(value * (1 - _DOUBT))
    return sign * rounded, at, FINE, rounded != np.float32(value * (1 + _DOUBT))


@kernel()
def _read_labels(block, at, base, n_labels, labels, n_read):
    """Parse labels `3,17` at the start of a line; `3:` is a feature of a row without labels.

    As in `_read_features`, the common case is inlined; other tokens are parsed again by the general code.
    """
    one = np.uint64(1)
    position = np.uint64(at)
    first = n_read
    last = np.int64(-1)
    rising = True
    while True:
        token = position
        number = np.int64(0)
        limit = position + np.uint64(9)
        digit = np.int64(block[position]) - _ZERO
        while digit >= 0 and digit <= 9 and position < limit:
            number = number * 10 + digit
            position += one
            digit = np.int64(block[position]) - _ZERO
        more = digit == _COMMA - _ZERO
        if position == token or not (more or digit in (_BLANK - _ZERO, _NEWLINE - _ZERO)):
            begin = np.int64(token)
            number, after = _read_index(block, begin)
            if after == begin:
                return NEGATIVE_INDEX if block[begin] == _MINUS else NO_INDEX, begin, n_read, rising
            if block[after] == _COLON and n_read == first:
                return FINE, begin, n_read, True
            more = block[after] == _COMMA
            if not more and not _ends(block, after):
                return NO_INDEX, after, n_read, rising
            position = np.uint64(after)
        number -= base
        if number < 0 or number >= n_labels:
            return LABEL_OUT_OF_RANGE, np.int64(token), n_read, rising
        if number <= last:
            if number == last:
                return DUPLICATE_LABEL, np.int64(token), n_read, rising
            rising = False
        last = number
        labels[n_read] = number
        n_read += 1
        if not more:
            return FINE, np.int64(position), n_read, rising
        position += one


@kernel()
def _read_feature(block, at):
    """Parse one feature `12:0.5` in any notation: error code, position, index, value, and whether in doubt."""
    number, after = _read_index(block, at)
    if after == at:
        return NEGATIVE_INDEX if block[at] == _MINUS else NO_INDEX, at, number, np.float32(0), False
    if block[after] != _COLON:
        return NO_COLON, after, number, np.float32(0), False
    value, after, wrong, in_doubt = _read_value(block, after + 1)
    return wrong, after, number, value, in_doubt


@kernel()
def _read_features(block, at, base, n_features, indices, values, n_read, doubts, n_doubts):
    """Parse features `0:0.5 12:1` up to the end of the line; values in doubt are listed in `doubts`.

    The common case (index of up to 9 digits, value of up to 14 digits and a point, then a space or newline) is inlined,
    with unsigned positions, which need no wraparound check; `_read_feature` parses everything else.
    """
    one = np.uint64(1)
    position = np.uint64(at)
    last = np.int64(-1)
    rising = True
    while True:
        while block[position] == _BLANK:
            position += one
        token = position
        number = np.int64(0)
        limit = position + np.uint64(9)
        digit = np.int64(block[position]) - _ZERO
        while digit >= 0 and digit <= 9 and position < limit:
            number = number * 10 + digit
            position += one
            digit = np.int64(block[position]) - _ZERO
        plain = False
        if digit == _COLON - _ZERO and position > token:
            position += one
            begin = position
            limit = position + np.uint64(15)
            mantissa = np.int64(0)
            digit = np.int64(block[position]) - _ZERO
            while digit >= 0 and digit <= 9 and position < limit:
                mantissa = mantissa * 10 + digit
                position += one
                digit = np.int64(block[position]) - _ZERO
            integer_end = position
            fraction = position
            if digit == _POINT - _ZERO:
                position += one
                fraction = position
                digit = np.int64(block[position]) - _ZERO
                while digit >= 0 and digit <= 9 and position < limit:
                    mantissa = mantissa * 10 + digit
                    position += one
                    digit = np.int64(block[position]) - _ZERO
            plain = integer_end > begin and digit in (_BLANK - _ZERO, _NEWLINE - _ZERO)
            value = np.float32(mantissa / _TENS[position - fraction])
        if not plain:
            at = _skip_blanks(block, np.int64(token))
            if block[at] == _NEWLINE:
                return FINE, at, n_read, n_doubts, rising
            wrong, after, number, value, in_doubt = _read_feature(block, at)
            if wrong != FINE:
                return wrong, after, n_read, n_doubts, rising
            if in_doubt:
                doubts[n_doubts, 0] = n_read
                doubts[n_doubts, 1] = at
                doubts[n_doubts, 2] = after
                n_doubts += 1
            token = np.uint64(at)
            position = np.uint64(after)
        number -= base
        if number < 0 or number >= n_features:
            return FEATURE_OUT_OF_RANGE, np.int64(token), n_read, n_doubts, rising
        if number <= last:
            if number == last:
                return DUPLICATE_FEATURE, np.int64(token), n_read, n_doubts, rising
            rising = False
        last = number
        indices[n_read] = number
        values[n_read] = value
        n_read += 1


# 12 arguments: the position in the block, the sizes of the header, and five output arrays.
@kernel()
def parse_lines(
    block: Array,
    begin: int,
    base: int,
    most_rows: int,
    n_features: int,
    n_labels: int,
    label_ends: Array,
    labels: Array,
    feature_ends: Array,
    indices: Array,
    values: Array,
    doubts: Array,
) -> tuple[int, int, int, int, int, int, int, bool]:
    """Parse complete lines from `begin` on into flat arrays; row r has the entries from ends[r - 1] to ends[r].

    Returns the error code and its byte position; the number of lines, rows, label assignments and values parsed; the
    number of values in doubt; and whether the indices of all rows are sorted (if not, call `sort_rows`).
    """
    at = begin
    n_lines = 0
    n_rows = 0
    n_assignments = 0
    n_values = 0
    n_doubts = 0
    rising = True
    wrong = FINE
    while at < block.size:
        if n_rows == most_rows:
            at = _skip_blanks(block, at)
            if block[at] != _NEWLINE:
                wrong = EXTRA_ROW
                break
        else:
            if not _ends(block, at):
                wrong, at, n_assignments, in_order = _read_labels(block, at, base, n_labels, labels, n_assignments)
                rising = rising and in_order
                if wrong != FINE:
                    break
            wrong, at, n_values, n_doubts, in_order = _read_features(
                block, at, base, n_features, indices, values, n_values, doubts, n_doubts
            )
            rising = rising and in_order
            if wrong != FINE:
                break
            label_ends[n_rows] = n_assignments
            feature_ends[n_rows] = n_values
            n_rows += 1
        n_lines += 1
        at += 1
    return wrong, at, n_lines, n_rows, n_assignments, n_values, n_doubts, rising


@kernel()
def sort_rows(ends: Array, n_rows: int, indices: Array, values: Array) -> tuple[int, int]:
    """Sort each row by index, in place; return the first row with a duplicate and its position, or -1, -1."""
    begin = np.int64(0)
    for row in range(n_rows):
        end = ends[row]
        rising = True
        for i in range(begin + 1, end):
            if indices[i - 1] >= indices[i]:
                rising = False
                break
        if not rising:
            order = np.argsort(indices[begin:end], kind="mergesort")
            indices[begin:end] = indices[begin:end][order]
            values[begin:end] = values[begin:end][order]
            for i in range(begin + 1, end):
                if indices[i - 1] == indices[i]:
                    return row, order[i - begin]
        begin = end
    return -1, -1
