"""Tiles: how often a matrix product loads every element when blocks keep parts of the factors in shared memory."""

from __future__ import annotations

import math

from gpusim_des.analytic.arguments import Curve, curve, whole
from gpusim_des.gpu import GPULike, load_gpu
from gpusim_des.grid import cdiv


@curve
def matmul_loads(n: Curve, tile: Curve = 1) -> int:
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
    >>> matmul_loads(1024), matmul_loads(1024, [8, 32])
    (2147483648, array([268435456,  67108864]))
    """
    size, side = whole("n", n), whole("tile", tile)
    if size % side:
        raise ValueError(f"tile = {tile} does not divide n = {n}: pad the matrices, or take a tile that fills them")
    return 2 * size**3 // side


@curve
def matmul_intensity(tile: Curve = 1, element_bytes: Curve = 4) -> float:
    """Floating point operations per byte that a tiled matrix product loads: ``tile / element_bytes``.

    2n³ operations over ``2n³ / tile`` loads. Parameters, errors and references are those of `matmul_loads`.

    Examples
    --------
    >>> matmul_intensity([1, 16, 32])
    array([0.25, 4.  , 8.  ])
    """
    return whole("tile", tile) / whole("element_bytes", element_bytes)


@curve
def largest_square_tile(shared_bytes: Curve, element_bytes: Curve = 4, buffers: Curve = 1) -> int:
    """Rows and columns of the largest square tiles of which two, one of each factor, fit into shared memory.

    ``2 × buffers × T² × element_bytes ≤ shared_bytes``. What it does not ask is whether a block has a thread for every
    element of a tile, which needs ``T² ≤ 1024``.

    Parameters
    ----------
    shared_bytes
        Shared memory of a block, in bytes.
    element_bytes
        Bytes of an element.
    buffers
        Tiles of each factor at a time: 1, or 2 with double buffering.

    Returns
    -------
    int or array
        T; 0 if not even one element of each factor fits.

    Raises
    ------
    ValueError
        If a number is not a whole number, at least 1.

    Examples
    --------
    >>> largest_square_tile(49_152), largest_square_tile(49_152, buffers=2)
    (78, 55)
    """
    elements = whole("shared_bytes", shared_bytes) // whole("element_bytes", element_bytes)
    return math.isqrt(elements // (2 * whole("buffers", buffers)))


@curve
def largest_tile(gpu: GPULike, element_bytes: Curve = 4, buffers: Curve = 1) -> int:
    """Largest square tile that one block of a GPU can hold, with opt-in shared memory; see `largest_square_tile`.

    An SM may have more shared memory than one block may ask for; the block's limit counts.

    Raises
    ------
    ValueError
        If a number is not a whole number, at least 1.
    ModelError
        If there is no such GPU.

    Examples
    --------
    An H100's SM has 228 KiB, a block may have 227 KiB:

    >>> largest_tile("h100-sxm", element_bytes=1), largest_square_tile(228 * 1024, element_bytes=1)
    (340, 341)
    """
    return int(largest_square_tile(load_gpu(gpu).shared_bytes_per_block_optin, element_bytes, buffers))


@curve
def tile_efficiency(
    m: Curve, n: Curve, k: Curve, tile_m: Curve, tile_n: Curve | None = None, tile_k: Curve | None = None
) -> float:
    """Share of a tiled matrix product's multiply-adds that are useful: edges are padded to whole tiles.

    Parameters
    ----------
    m, n, k
        The product is m × k by k × n.
    tile_m, tile_n, tile_k
        The tile; the latter two are the first where they are missing.

    Returns
    -------
    float or array
        ``m n k`` over the same with each number rounded up to whole tiles, 0…1.

    Raises
    ------
    ValueError
        If a number is not a whole number, at least 1.

    References
    ----------
    NVIDIA, Deep Learning Performance: Matrix Multiplication Background, "Tile Quantization".

    Examples
    --------
    129 rows and columns need two tiles of 128 each way; the inner dimension fits or is padded, too:

    >>> tile_efficiency(129, 129, 128, 128), tile_efficiency(129, 129, 129, 128)
    (0.2539215087890625, 0.12795263528823853)
    """
    share = 1.0
    first = whole("tile_m", tile_m)
    tiles = (
        ("tile_m", first),
        ("tile_n", first if tile_n is None else tile_n),
        ("tile_k", first if tile_k is None else tile_k),
    )
    for (name, size), (tile_name, tile) in zip((("m", m), ("n", n), ("k", k)), tiles, strict=True):
        number, side = whole(name, size), whole(tile_name, tile)
        share *= number / (cdiv(number, side) * side)
    return share
