"""Tiles: how often a matrix product loads every element when blocks keep parts of the factors in shared memory."""

from __future__ import annotations

import operator


def matmul_loads(n: int, tile: int = 1) -> int:
    """Elements that threads load from global memory to multiply two matrices of n × n.

    Without tiles each of the n² results needs a row and a column, 2n³ loads in all. A block that keeps tiles of both
    factors in shared memory uses each element ``tile`` times: ``2n³ / tile``.

    Parameters
    ----------
    n
        Rows and columns of the matrices.
    tile
        Rows and columns of a tile; 1 means none.

    Raises
    ------
    ValueError
        If a number is not a whole number, at least 1, or the tiles do not fill the matrices.

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Shared Memory", matrix multiplication.
    Kirk, D. and Hwu, W. (2016). Programming Massively Parallel Processors, "Memory and data locality".

    Examples
    --------
    >>> matmul_loads(1024), matmul_loads(1024, 32)
    (2147483648, 67108864)
    """
    for name, value in (("n", n), ("tile", tile)):
        if isinstance(value, bool) or operator.index(value) < 1:
            raise ValueError(f"{name} = {value!r}: must be a whole number, at least 1")
    if n % tile:
        raise ValueError(f"tile = {tile} does not divide n = {n}: pad the matrices, or take a tile that fills them")
    return 2 * n**3 // tile
