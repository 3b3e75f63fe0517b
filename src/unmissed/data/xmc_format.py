"""Kernels that format rows in the XMC text format: one line `3,17 0:0.5 12:1` per row."""

from typing import Any

import numpy as np
import numpy.typing as npt

from unmissed._jit import kernel

Array = npt.NDArray[Any]

_NEWLINE, _BLANK, _COMMA, _MINUS, _POINT, _ZERO, _COLON = 10, 32, 44, 45, 46, 48, 58
_TENS = np.array([float(f"1e{e}") for e in range(23)])  # the powers of ten that are exact in float64


@kernel()
def _write_integer(out, at, number):
    """Write a non-negative integer in decimal; return the end position."""
    end = at + 1
    rest = number // 10
    while rest > 0:
        end += 1
        rest //= 10
    position = end
    for _ in range(end - at):
        position -= 1
        out[position] = _ZERO + number % 10
        number //= 10
    return end


@kernel()
def _shortest(value):
    """Return m and k, with fewest digits, such that the parser reads m / 10^k as this float32.

    float32 distinguishes all decimals of 6 digits: if 6 digits suffice, stripping trailing zeros gives the shortest.
    """
    exact = np.float64(value)
    scale = 5 - np.int64(np.floor(np.log10(exact)))
    mantissa = np.int64(0)
    for _ in range(4):
        if scale >= 0:
            mantissa = np.int64(np.rint(exact * _TENS[scale]))
            back = mantissa / _TENS[scale]
        else:
            mantissa = np.int64(np.rint(exact / _TENS[-scale]))
            back = mantissa * _TENS[-scale]
        if np.float32(back) == value:
            break
        scale += 1
    while mantissa % 10 == 0:
        mantissa //= 10
        scale -= 1
    return mantissa, scale


@kernel()
def _write_value(out, at, value):
    """Write a float32 that is 0 or between 1e-13 and 1e15 in magnitude, such that it is read back exactly."""
    if np.signbit(value):
        out[at] = _MINUS
        at += 1
        value = -value
    if value < 1e7 and value == np.floor(value):
        return _write_integer(out, at, np.int64(value))
    mantissa, scale = _shortest(value)
    end = _write_integer(out, at, mantissa)
    n_digits = end - at
    if scale <= 0:
        out[end : end - scale] = _ZERO
        return end - scale
    if n_digits > scale:
        point = end - scale
        for position in range(end, point, -1):
            out[position] = out[position - 1]
        out[point] = _POINT
        return end + 1
    shift = scale - n_digits + 2  # "0." and the zeros before the first digit
    for position in range(end - 1, at - 1, -1):
        out[position + shift] = out[position]
    out[at : at + shift] = _ZERO
    out[at + 1] = _POINT
    return end + shift


@kernel()
def format_rows(
    label_pointers: Array,
    labels: Array,
    pointers: Array,
    indices: Array,
    values: Array,
    spelled: Array,
    spelled_ends: Array,
    spelled_bytes: Array,
    out: Array,
) -> int:
    """Format rows as lines into `out` and return the number of bytes written.

    `spelled` has the sorted indices of values whose text is given in `spelled_bytes`.
    """
    at = 0
    ready = 0
    for row in range(pointers.size - 1):
        begin_of_line = at
        for entry in range(label_pointers[row], label_pointers[row + 1]):
            if entry > label_pointers[row]:
                out[at] = _COMMA
                at += 1
            at = _write_integer(out, at, np.int64(labels[entry]))
        for position in range(pointers[row], pointers[row + 1]):
            out[at] = _BLANK
            at = _write_integer(out, at + 1, np.int64(indices[position]))
            out[at] = _COLON
            at += 1
            if ready < spelled.size and spelled[ready] == position:
                begin = spelled_ends[ready - 1] if ready > 0 else 0
                for byte in range(begin, spelled_ends[ready]):
                    out[at] = spelled_bytes[byte]
                    at += 1
                ready += 1
            else:
                at = _write_value(out, at, values[position])
        if at == begin_of_line:
            out[at] = _BLANK  # an empty row; readers may skip lines without any character
            at += 1
        out[at] = _NEWLINE
        at += 1
    return at
