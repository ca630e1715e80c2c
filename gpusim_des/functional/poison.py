"""Poison: what fresh memory holds, so that a kernel which reads it before anybody wrote it shows wrong results.

A GPU's fresh memory holds whatever was there before, often zeros, and the mistake stays hidden until it does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

POISON_BYTE = 0xCD
"""Every byte of an integer that nobody wrote: an ``int32`` reads -842150451, a ``uint8`` 205."""

POISON_CHARACTER = chr(POISON_BYTE)
"""Every character of a string that nobody wrote; four bytes of 0xCD would be no character."""


def poison(array: NDArray[Any]) -> None:
    """Fill a fresh array, contiguous in memory, with its type's poison.

    NaN for floating and complex types, NaT for dates, True for truth values (bytes other than 0 and 1 are none),
    `POISON_BYTE` in every byte of everything else; records get it field by field.

    Examples
    --------
    >>> a, b = np.empty(2, np.float16), np.empty(2, np.int32)
    >>> poison(a), poison(b)
    (None, None)
    >>> a.tolist(), hex(int(b.view(np.uint32)[0]))
    ([nan, nan], '0xcdcdcdcd')
    """
    if array.dtype.kind in "iuSV":
        array.view(np.uint8).fill(POISON_BYTE)
    _mark(array)


@lru_cache(maxsize=64)
def poison_of(dtype: np.dtype[Any]) -> Any:
    """One poisoned element: what a value is for threads that did not compute it.

    >>> int(poison_of(np.dtype(np.int32))), bool(np.isnan(poison_of(np.dtype(np.float32))))
    (-842150451, True)
    """
    fresh = np.empty(1, dtype)
    poison(fresh)
    return fresh[0]


def _mark(array: NDArray[Any]) -> None:
    kind = array.dtype.kind
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _mark(array[name])
    elif kind == "f":
        array[...] = np.nan
    elif kind == "c":
        array[...] = complex(np.nan, np.nan)
    elif kind in "mM":
        array[...] = np.array("NaT", array.dtype)
    elif kind == "b":
        array[...] = True
    elif kind == "U":
        array[...] = POISON_CHARACTER * (array.dtype.itemsize // 4)
