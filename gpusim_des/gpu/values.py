"""Turns what stands behind a key, in a file or in a call, into the exact value of the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

from gpusim_des import units
from gpusim_des.errors import ModelError
from gpusim_des.gpu.schema import Key, Kind, suggest

FieldValue = str | int | Fraction | tuple[int, ...]
"""What a field of a GPU holds."""


class Written(Fraction):
    """An exact number that is shown as somebody wrote it.

    Examples
    --------
    >>> ratio = Written("2500/2394.5", Fraction(5000, 4789))
    >>> ratio, ratio == Fraction(5000, 4789), ratio + 1
    (2500/2394.5, True, Fraction(9789, 4789))
    """

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str, value: Fraction) -> Written:
        """Keep the text beside the value."""
        self = super().__new__(cls, value)
        self.text = text
        return self

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __reduce__(self) -> tuple[type[Written], tuple[str, Fraction]]:
        return type(self), (self.text, Fraction(self.numerator, self.denominator))


def read_value(key: Key, raw: object, sm_clock_hz: int | None = None) -> FieldValue:
    """Read `raw` by the rules of `key`: exact, and with its unit where the key has one.

    With the clock of the SM a number of cycles may be given as a time: ``"400 ns"``. It becomes the nearest whole
    number of cycles; a half rounds up.

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
    if key.dimension == "cycles" and sm_clock_hz is not None and isinstance(raw, str):
        with suppress(ValueError):  # no time: read as cycles below, which has the fitting message
            return math.floor(units.parse(raw, "s") * sm_clock_hz + Fraction(1, 2))
    return _READERS[key.kind](key, raw)


def example(key: Key) -> str:
    """Return a line of a model file that gives `key` a possible value.

    >>> from gpusim_des.gpu.schema import KEYS
    >>> [example(key) for key in KEYS if key.name in ("sms", "l2_size", "scheduler_policy")]
    ['sms = 32', 'scheduler_policy = "gto"', 'l2_size = "48 KiB"']
    """
    by_kind: dict[Kind, str] = {"text": '"9.0"', "count": "32", "ratio": "0.95", "sizes": '["0 KiB", "64 KiB"]'}
    value = by_kind.get(key.kind)
    if value is None:
        value = f'"{key.choices[0] if key.dimension is None else _EXAMPLES[key.dimension]}"'
    return f"{key.name} = {value}"


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
        time = ', or a time such as "20 ns"' if key.dimension == "cycles" else ""
        raise ModelError(f"{key.label}: {error}{time}") from None


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
    if isinstance(raw, Fraction):
        return raw
    if isinstance(raw, int) and not isinstance(raw, bool):
        return Fraction(raw)
    if not isinstance(raw, (str, float)):
        raise _wrong(key, raw, rule)
    # repr() of a float is the shortest decimal that means it, so 0.95 is read as 19/20.
    parts = raw.split("/") if isinstance(raw, str) else [repr(raw)]
    try:
        numbers = [units.exact(part.strip()) for part in parts]
        if len(numbers) > 2:
            raise _wrong(key, raw, rule)
        return Written(str(raw), numbers[0] / (numbers[1] if len(numbers) == 2 else 1))
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
