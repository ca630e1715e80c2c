from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.units import UNITS, Dimension, exact, format_bytes, parse, to_fs


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("3.35 TB/s", "bytes/s", 3_350_000_000_000),
        ("3352.3 GB/s", "bytes/s", 3_352_300_000_000),
        ("228 KiB", "bytes", 233_472),
        ("80 GB", "bytes", 80_000_000_000),
        ("48KiB", "bytes", 49_152),
        ("32 B", "bytes", 32),
        ("1 KB", "bytes", 1000),
        ("1 kB", "bytes", 1000),
        ("1.98 GHz", "Hz", 1_980_000_000),
        ("1755 MHz", "Hz", 1_755_000_000),
        ("0.6 ns", "s", Fraction(6, 10**10)),
        ("4 us", "s", Fraction(4, 10**6)),
        ("4 \u00b5s", "s", Fraction(4, 10**6)),
        ("4 \u03bcs", "s", Fraction(4, 10**6)),
        ("695 cycles", "cycles", 695),
        ("1 cycle", "cycles", 1),
        ("64 B/cycle", "bytes/cycle", 64),
        (" 1_000 B ", "bytes", 1000),
        ("1e3 B", "bytes", 1000),
        ("-1 B", "bytes", -1),
    ],
)
def test_reads_exactly(text: str, dimension: Dimension, value: int | Fraction) -> None:
    assert parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        ("80 GB", "bytes/s", r"'80 GB' is in bytes, expected bytes/s: write a number with one of B/s"),
        ("80 Gb", "bytes", r"unknown unit 'Gb', expected bytes: .*GiB"),
        ("80", "bytes", r"'80' has no unit, expected bytes"),
        ("fast", "Hz", r"'fast' is not a number followed by a unit of Hz: .*GHz"),
        ("1.2.3 GHz", "Hz", r"'1.2.3 GHz' is not a number"),
        ("", "s", r"'' is not a number"),
        ("nan s", "s", r"'nan s' is not a number"),
        ("1 / 2 s", "s", r"unknown unit '/ 2 s'"),
        ("1e9999 s", "s", r"'1e9999 s': an exponent of more than 3 digits, nothing is that large: write a number"),
    ],
)
def test_refuses_what_is_not_a_quantity(text: str, dimension: Dimension, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text, dimension)


@given(
    st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=6),
    st.sampled_from([(dimension, unit) for dimension, known in UNITS.items() for unit in known]),
)
def test_a_quantity_is_number_times_unit(number: object, where: tuple[Dimension, str]) -> None:
    dimension, unit = where
    assert parse(f"{number:f} {unit}", dimension) == Fraction(str(number)) * UNITS[dimension][unit]


@pytest.mark.parametrize("text", ["1e99999999", "-1.5E+99999999", "1e-0099999999", "1e99999999 "])
def test_an_exact_number_has_an_exponent_that_fits_into_memory(text: str) -> None:
    with pytest.raises(ValueError, match="an exponent of 8 digits: nothing is that large or small; write for example"):
        exact(text)
    assert exact("1e0999") == 10**999


def test_femtoseconds_round_half_to_even_once() -> None:
    half = Fraction(1, 2 * 10**15)
    assert [to_fs(half), to_fs(3 * half), to_fs(5 * half)] == [0, 2, 2]
    assert to_fs(1) == 10**15


def test_femtoseconds_refuse_floats() -> None:
    with pytest.raises(TypeError, match=r"to_fs\(0.1\): give a Fraction or an int, not a float"):
        to_fs(0.1)  # type: ignore[arg-type]


@given(st.integers(min_value=0, max_value=2**50))
def test_formatted_bytes_read_back(count: int) -> None:
    assert parse(format_bytes(count), "bytes") == count
