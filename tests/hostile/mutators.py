"""Seeded ways to spoil bytes, arrays and JSON; the same generator, the same damage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

INTEGERS = (0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**63 - 1, -(2**63), 10**8)
REAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.nan, np.inf, -np.inf, 1e38, 1e308, 5e-324, 3.4028236e38)
TYPES = ("<i1", "<i2", "<i4", "<i8", "<u1", "<u4", "<u8", "<f2", "<f4", "<f8", ">i4", ">f4", "|b1", "|S3", "<U2")
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**30, 1.5, -0.5, 1e308, float("nan"), float("inf"), "", "x", "1",
    "../../x", "/etc/passwd", "/dev/zero", "\x1b[31m", "[/x]", [], [1], [None], {}, {"model": "table"}, [[[[[[]]]]]],
    {"model": "table", "values": "/etc/passwd"}, {"model": "jain", "a": "x"}, "dismec", "popularity", "complete",
)  # fmt: skip
HEADERS = (
    (rb"'shape': \(", b"'shape': (-1, "),
    (rb"'shape': \([^)]*\)", b"'shape': (9223372036854775807, 9)"),
    (rb"'shape': \([^)]*\)", b"'shape': (0,)"),
    (rb"'shape': \([^)]*\)", b"'shape': (" + b"1, " * 64 + b")"),
    (rb"'descr': '[^']*'", b"'descr': '|O'"),
    (rb"'descr': '[^']*'", b"'descr': '<M8[s]'"),
    (rb"'descr': '[^']*'", b"'descr': [('a', '<i4')]"),
    (rb"'descr': '[^']*'", b"'descr': '<f8'"),
    (rb"'descr': '[^']*'", b"'descr': '<i8'"),
    (rb"False", b"True"),
    (rb"\{", b"{" * 2000),
    (rb"\x93NUMPY\x01", b"\x93NUMPY\x03"),
)

Rng = np.random.Generator


def pick(rng: Rng, choices: Any) -> Any:
    """Choose one of several."""
    return choices[int(rng.integers(len(choices)))]


def flip(rng: Rng, raw: bytes, n: int = 1) -> bytes:
    """Flip some bits."""
    spoilt = bytearray(raw)
    for position in rng.integers(len(raw), size=n).tolist() if raw else ():
        spoilt[position] ^= 1 << int(rng.integers(8))
    return bytes(spoilt)


def spoil_bytes(rng: Rng, raw: bytes) -> bytes:
    """Flip, overwrite, cut, repeat, insert or blank some bytes."""
    size = max(len(raw), 1)
    begin = int(rng.integers(size))
    end = min(begin + 1 + int(rng.integers(min(size, 64))), size)
    noise = rng.bytes(end - begin)
    number = int(pick(rng, INTEGERS)) % 2**64
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: flip(rng, raw, 1),
        lambda: flip(rng, raw, 1 + int(rng.integers(16))),
        lambda: raw[:begin] + noise + raw[end:],
        lambda: raw[:begin],
        lambda: raw[begin:],
        lambda: raw[:begin] + raw[end:],
        lambda: raw[:end] + raw[begin:],
        lambda: raw + noise,
        lambda: raw[:begin] + b"\0" * (end - begin) + raw[end:],
        lambda: raw[:begin] + number.to_bytes(8, "little")[: pick(rng, (1, 2, 4, 8))] + raw[end:],
        lambda: raw[:begin] + (number % 2**32).to_bytes(4, "big") + raw[begin + 4 :],
        lambda: b"",
    )
    return pick(rng, ways)()


def spoil_header(rng: Rng, raw: bytes) -> bytes:
    """Change the head of a `.npy` file, its length kept right where that is easy."""
    pattern, replacement = pick(rng, HEADERS)
    head, rest = raw[:128], raw[128:]
    changed = re.sub(pattern, lambda _: replacement, head, count=1)
    if len(changed) <= 128:
        changed = changed[:-1] + b" " * (128 - len(changed)) + b"\n"
    elif len(changed) >= 10:
        changed = changed[:8] + min(len(changed) - 10, 65535).to_bytes(2, "little") + changed[10:]
    return changed + rest


def spoil_array(rng: Rng, array: np.ndarray) -> np.ndarray:
    """Put wild numbers into an array, or change its type, length, order or shape."""
    flat = np.array(array).ravel()
    way = int(rng.integers(9))
    if way < 4 and flat.size:
        values = REAL if flat.dtype.kind == "f" else (*INTEGERS, flat.size, flat.size - 1)
        with np.errstate(all="ignore"):
            for _ in range(1 + int(rng.integers(3))):
                value = np.array(pick(rng, values)).astype(flat.dtype if flat.dtype.kind in "biuf" else np.int64)
                if flat.dtype.kind in "biuf":
                    flat[int(rng.integers(flat.size))] = value
        return flat.reshape(array.shape)
    if way == 4:
        with np.errstate(all="ignore"):
            return flat.astype(pick(rng, TYPES)).reshape(array.shape) if flat.dtype.kind in "biuf" else flat
    if way == 5:
        return flat[: int(rng.integers(flat.size + 1))]
    if way == 6:
        return np.concatenate([flat, flat[: int(rng.integers(flat.size + 1))]])
    if way == 7:
        return rng.permutation(flat).reshape(array.shape)
    return flat.reshape(pick(rng, ((-1,), (1, -1), (-1, 1), (1, 1, -1))))


def spoil_json(rng: Rng, value: Any) -> Any:
    """Replace, remove, rename or repeat something somewhere in a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        changed = dict(value)
        key = pick(rng, list(changed))
        way = rng.random()
        if way < 0.12:
            del changed[key]
        elif way < 0.2:
            changed[str(pick(rng, ("../x", "", "a/b", ".", key * 2, "\x00", "sha256")))] = changed.pop(key)
        else:
            changed[key] = spoil_json(rng, changed[key])
        return changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        position = int(rng.integers(len(value)))
        return [*value[:position], spoil_json(rng, value[position]), *value[position + (rng.random() < 0.8) :]]
    return pick(rng, ODD)


def spoil_json_text(rng: Rng, text: str) -> str:
    """Make JSON that no writer makes: keys twice, numbers and brackets without end, NaN, half of a pair."""
    way = int(rng.integers(6))
    if way == 0:
        return text.replace("{", '{"kind": 1, "kind": 2, ', 1)
    if way == 1:
        return re.sub(r"\d+", "9" * 5000, text, count=1)
    if way == 2:
        return text.replace(":", ": " + "[" * 50_000, 1)
    if way == 3:
        return text.replace('"', '"\\ud800', 1)
    if way == 4:
        return re.sub(r"\d+", "NaN", text, count=1)
    return spoil_bytes(rng, text.encode()).decode("utf-8", "surrogateescape")


def dump(value: Any) -> str:
    """Write JSON as the program does."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
