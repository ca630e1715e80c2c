"""Quantities written with their units, read exactly.

Numbers in GPU models are texts such as ``"3.35 TB/s"`` or ``"228 KiB"``. They are parsed with fractions, never with
binary floating point, so that a file means exactly what it says. Prefixes follow the IEC and SI rules: ``KB`` and
``kB`` are 1000 bytes, ``KiB`` is 1024.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

Dimension = Literal["bytes", "bytes/s", "Hz", "s", "cycles", "bytes/cycle"]

FS_PER_S = 10**15
"""Femtoseconds in a second (rule T1: time is an integer number of femtoseconds)."""

_BYTES: dict[str, Fraction] = {
    "B": Fraction(1),
    **{p + "B": Fraction(1000**n) for n, p in enumerate(("k", "M", "G", "T"), start=1)},
    "KB": Fraction(1000),
    **{p + "iB": Fraction(1024**n) for n, p in enumerate(("K", "M", "G", "T"), start=1)},
}

UNITS: dict[Dimension, dict[str, Fraction]] = {
    "bytes": _BYTES,
    "bytes/s": {f"{unit}/s": factor for unit, factor in _BYTES.items()},
    "Hz": {"Hz": Fraction(1), "kHz": Fraction(10**3), "MHz": Fraction(10**6), "GHz": Fraction(10**9)},
    "s": {
        "s": Fraction(1),
        "ms": Fraction(1, 10**3),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),  # U+00B5, the micro sign of keyboards
        "μs": Fraction(1, 10**6),  # U+03BC, the Greek letter that looks the same
        "ns": Fraction(1, 10**9),
        "ps": Fraction(1, 10**12),
        "fs": Fraction(1, 10**15),
    },
    "cycles": {"cycles": Fraction(1), "cycle": Fraction(1)},
    "bytes/cycle": {"B/cycle": Fraction(1), "B/clk": Fraction(1)},
}
"""Accepted units of every dimension and what one of them is worth in the base unit."""

# One number, then a unit that does not start like a number: "1.5 GB", "1e9 Hz", "64 B/cycle".
_QUANTITY = re.compile(r"(?P<number>[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(?P<unit>[^\s\d.+-].*)?")


MOST_EXPONENT_DIGITS = 3
"""Of an exact number: one with more digits is beyond all that is counted, and would fill the memory."""

_EXPONENT = re.compile(r"[eE][+-]?0*(\d+)\s*$")


def exact(text: str) -> Fraction:
    """Read a number without a unit exactly.

    Raises
    ------
    ValueError
        If it is no number, or has an exponent that no quantity has.

    Examples
    --------
    >>> exact("2.5e3"), exact("0.1")
    (Fraction(2500, 1), Fraction(1, 10))
    >>> exact("1e99999999")
    Traceback (most recent call last):
        ...
    ValueError: 1e99999999: an exponent of 8 digits: nothing is that large or small; write for example 1e9
    """
    exponent = _EXPONENT.search(text)
    if exponent is not None and len(exponent[1]) > MOST_EXPONENT_DIGITS:
        raise ValueError(
            f"{text}: an exponent of {len(exponent[1])} digits: nothing is that large or small; write for example 1e9"
        )
    return Fraction(text.replace("_", ""))


def parse(text: str, dimension: Dimension) -> Fraction:
    """Read `text`, a number and a unit, as a quantity of `dimension`, exactly.

    Parameters
    ----------
    text
        For example ``"1.98 GHz"``; the space is optional.
    dimension
        One of ``bytes``, ``bytes/s``, ``Hz``, ``s``, ``cycles`` and ``bytes/cycle``; also the unit of the result.

    Raises
    ------
    ValueError
        If `text` is not a number followed by a unit of that dimension.

    Examples
    --------
    >>> parse("228 KiB", "bytes"), parse("1.98 GHz", "Hz")
    (Fraction(233472, 1), Fraction(1980000000, 1))
    >>> parse("0.6 ns", "s")
    Fraction(3, 5000000000)
    >>> parse("3.35 TB", "bytes/s")
    Traceback (most recent call last):
        ...
    ValueError: '3.35 TB' is in bytes, expected bytes/s: write a number with one of B/s, kB/s, MB/s, GB/s, TB/s, \
KB/s, KiB/s, MiB/s, GiB/s, TiB/s
    """
    units = UNITS[dimension]
    remedy = f"write a number with one of {', '.join(units)}"
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number followed by a unit of {dimension}: {remedy}")
    unit = (match["unit"] or "").strip()
    if not unit:
        raise ValueError(f"{text!r} has no unit, expected {dimension}: {remedy}")
    if unit[:1] in ("e", "E") and unit[1:].lstrip("+-")[:1].isdigit():
        raise ValueError(
            f"{text!r}: an exponent of more than {MOST_EXPONENT_DIGITS} digits, nothing is that large: {remedy}"
        )
    if unit in units:
        return Fraction(match["number"].replace("_", "")) * units[unit]
    other = next((name for name, known in UNITS.items() if unit in known), None)
    if other is not None:
        raise ValueError(f"{text!r} is in {other}, expected {dimension}: {remedy}")
    raise ValueError(f"{text!r} has the unknown unit {unit!r}, expected {dimension}: {remedy}")


def to_fs(seconds: Fraction | int) -> int:
    """Seconds as a whole number of femtoseconds, rounded once, half to even.

    Floats are refused: a time that was rounded before would be rounded twice.

    Raises
    ------
    TypeError
        If `seconds` is neither a fraction nor a whole number.

    Examples
    --------
    >>> to_fs(parse("0.6 ns", "s")), to_fs(1 / Fraction(1_980_000_000))
    (600000, 505051)
    """
    if not isinstance(seconds, (Fraction, int)):
        raise TypeError(f"to_fs({seconds!r}): give a Fraction or an int, not a {type(seconds).__name__}")
    return round(Fraction(seconds) * FS_PER_S)


def to_us(femtoseconds: float) -> float:
    """Femtoseconds in microseconds.

    >>> to_us(1_500_000_000)
    1.5
    """
    return femtoseconds * 1e6 / FS_PER_S


def format_bytes(count: int) -> str:
    """Bytes with the largest IEC prefix that leaves a whole number.

    >>> format_bytes(233472), format_bytes(1000), format_bytes(50 * 2**20)
    ('228 KiB', '1000 B', '50 MiB')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = int(_BYTES[unit])
        if count and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """Write a time with three digits in the unit that suits it.

    Examples
    --------
    >>> duration(0.00123456), duration(3e-6), duration(0.9999e-3), duration(12.0), duration(0)
    ('1.23 ms', '3 µs', '1 ms', '12 s', '0 µs')
    """
    unit, factor = next(
        ((u, f) for u, f in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)) if abs(seconds) * f < 999.5), ("s", 1.0)
    )
    return f"{seconds * factor:.3g} {unit}" if seconds else "0 µs"


def size(nbytes: int) -> str:
    """Write a number of bytes with three digits in the unit that suits it.

    Examples
    --------
    >>> size(16 * 2**20), size(1000), size(1536), size(2**20 - 1)
    ('16 MiB', '1000 B', '1.5 KiB', '1 MiB')
    """
    unit, factor = next(
        ((u, f) for u, f in (("B", 1), ("KiB", 2**10), ("MiB", 2**20)) if nbytes / f < 1023.5), ("GiB", 2**30)
    )
    number = nbytes / factor
    return f"{round(number)} {unit}" if number >= 999.5 else f"{number:.3g} {unit}"
