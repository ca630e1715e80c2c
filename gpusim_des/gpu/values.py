"""Turns what stands behind a key, in a file or in a call, into the exact value of the field."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from gpusim_des import units
from gpusim_des.errors import ModelError
from gpusim_des.gpu.schema import Key, Kind, suggest

FieldValue = str | int | Fraction | tuple[int, ...]
"""What a field of a GPU holds."""


def read_value(key: Key, raw: object) -> FieldValue:
    """Read `raw` by the rules of `key`: exact, and with its unit where the key has one.

    Raises
    ------
    ModelError
        If the type, the number or the unit is wrong; ranges are checked later, on the whole model.

    Examples
    --------
    >>> from gpusim_des.gpu.schema import KEYS
    >>> l2 = next(key for key in KEYS if key.name == "l2_size")
    >>> read_value(l2, "50 MiB")
    52428800
    >>> read_value(l2, 50)
    Traceback (most recent call last):
        ...
    gpusim_des.errors.ModelError: memory.l2_size = 50: must be a text with a unit of bytes, for example "48 KiB"
    """
    return _READERS[key.kind](key, raw)


def _wrong(key: Key, raw: object, rule: str) -> ModelError:
    shown = str(raw) if isinstance(raw, Fraction) else repr(raw)
    return ModelError(f"{key.label} = {shown}: {rule}")


def _text(key: Key, raw: object) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise _wrong(key, raw, "must be a text that is not empty")
    return raw


def _choice(key: Key, raw: object) -> str:
    if raw not in key.choices:
        rule = f"must be one of {', '.join(key.choices)}"
        hint = suggest(raw, key.choices) if isinstance(raw, str) else ""
        raise _wrong(key, raw, f"{rule}; {hint}" if hint.startswith("did you") else rule)
    return str(raw)


def _count(key: Key, raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise _wrong(key, raw, "must be a whole number without a unit, for example 32")
    return raw


_EXAMPLES: dict[units.Dimension, str] = {
    "bytes": "48 KiB",
    "bytes/s": "3.35 TB/s",
    "Hz": "1.98 GHz",
    "s": "0.6 ns",
    "cycles": "40 cycles",
    "bytes/cycle": "64 B/cycle",
}


def _exact(key: Key, raw: object) -> Fraction:
    if key.dimension is None:
        raise AssertionError(f"{key.label} has the kind {key.kind} but no dimension")
    if not isinstance(raw, str):
        example = _EXAMPLES[key.dimension]
        raise _wrong(key, raw, f'must be a text with a unit of {key.dimension}, for example "{example}"')
    try:
        return units.parse(raw, key.dimension)
    except ValueError as error:
        raise ModelError(f"{key.label}: {error}") from None


def _quantity(key: Key, raw: object) -> int:
    value = _exact(key, raw)
    if value.denominator != 1:
        raise _wrong(key, raw, f"must come out as a whole number of {key.dimension}; round it and say so in the source")
    return value.numerator


def _time(key: Key, raw: object) -> int:
    return units.to_fs(_exact(key, raw))


def _sizes(key: Key, raw: object) -> tuple[int, ...]:
    if not isinstance(raw, (list, tuple)) or not raw:
        raise _wrong(key, raw, 'must be a list of texts with units of bytes, for example ["0 KiB", "64 KiB"]')
    return tuple(_quantity(key, part) for part in raw)


def _ratio(key: Key, raw: object) -> Fraction:
    rule = 'must be a number such as 0.95 or a quotient such as "3180/3352.3"'
    if isinstance(raw, (int, Fraction)) and not isinstance(raw, bool):
        return Fraction(raw)
    if not isinstance(raw, (str, float)):
        raise _wrong(key, raw, rule)
    # repr() of a float is the shortest decimal that means it, so 0.95 is read as 19/20.
    parts = raw.split("/") if isinstance(raw, str) else [repr(raw)]
    try:
        numbers = [Fraction(part.strip()) for part in parts]
        if len(numbers) > 2:
            raise _wrong(key, raw, rule)
        return numbers[0] / (numbers[1] if len(numbers) == 2 else 1)
    except (ValueError, ZeroDivisionError):
        raise _wrong(key, raw, rule) from None


_READERS: dict[Kind, Callable[[Key, object], FieldValue]] = {
    "text": _text,
    "choice": _choice,
    "count": _count,
    "quantity": _quantity,
    "time": _time,
    "sizes": _sizes,
    "ratio": _ratio,
}
