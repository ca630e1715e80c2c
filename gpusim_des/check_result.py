"""A kernel's result beside NumPy's: figures of a kernel that computes something else mean nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def check_result(result: npt.ArrayLike, expected: npt.ArrayLike, of: str = "the kernel", *, rtol: float = 0.0) -> None:
    """Refuse a result that is not the expected one.

    Parameters
    ----------
    result
        What was computed.
    expected
        What it has to be; a single number stands for all elements.
    of
        Who computed it, for the message.
    rtol
        Largest relative difference; 0 for what must be equal.

    Raises
    ------
    AssertionError
        If they differ.

    Examples
    --------
    >>> check_result([1.0, 2.0], [1.0, 2.0])
    >>> check_result([1.0, 2.5], [1.0, 2.0], "vector_add")
    Traceback (most recent call last):
    AssertionError: vector_add: element 1 is 2.5, and NumPy has 2.0: this is a bug of the simulator
    """
    found, wanted = np.broadcast_arrays(result, expected)
    wrong = np.flatnonzero(~np.isclose(found, wanted, rtol=rtol, atol=0.0))
    if wrong.size:
        first = wrong[0]
        raise AssertionError(
            f"{of}: element {first} is {found.flat[first]}, and NumPy has {wanted.flat[first]}: this is a bug of the "
            "simulator"
        )
