"""Element types by whatever name a kernel gives them: NumPy's, Python's, Numba's, or ours in the way of Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.functional.type_names import NumberType


def of_numba(kind: Any) -> np.dtype[Any] | None:
    """NumPy's type for a scalar type of Numba, such as ``numba.float32``, or of ours; ``None`` for anything else.

    Numba itself is not imported: its types say their names, which are NumPy's.

    >>> import gpusim_des as gs
    >>> of_numba(gs.float32), of_numba(np.float32), of_numba("float32")
    (dtype('float32'), None, None)
    """
    if isinstance(kind, NumberType):
        return kind.dtype
    if not type(kind).__module__.startswith("numba."):
        return None
    name = getattr(kind, "name", None)
    if not isinstance(name, str):
        return None
    try:
        return np.dtype(name)
    except TypeError:  # an array, a tuple, a function
        return None


def element_type(kind: Any) -> np.dtype[Any]:
    """Type of elements; raises `TypeError` for what is none.

    >>> element_type(np.float32), element_type("u1"), element_type(float)
    (dtype('float32'), dtype('uint8'), dtype('float64'))
    """
    if kind is None:
        raise TypeError("None is no element type: give one, for example np.float32")
    known = of_numba(kind)
    try:
        return np.dtype(kind) if known is None else known
    except TypeError:
        raise TypeError(f"{kind!r} is no element type: give a NumPy type, for example np.float32") from None
