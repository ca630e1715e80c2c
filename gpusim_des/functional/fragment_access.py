"""Fragments in memory: which elements a warp's matrix is, which lane moves which bytes of it, and what that costs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import complaints
from gpusim_des.functional.accounting import Array
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import OpClass


class Place(NamedTuple):
    """A rectangle of a two-dimensional array for every warp."""

    array: Array
    corner: NDArray[np.int64]
    """Position of the upper left element in the array, row-major; shape (blocks, warps)."""
    rows: int
    columns: int
    active: NDArray[np.bool_]
    """Warps that take part, same shape; the others have corner 0."""


class Spread(NamedTuple):
    """How a rectangle is spread over lanes.

    Lanes take pieces of `piece` neighbouring bytes. They fill the rectangle strip by strip, each `strip` pieces wide
    (0: as wide as the rectangle), row by row within the strip.
    """

    piece: int
    strip: int


def spread_of(op: OpClass, itemsize: int, columns: int, *, transposed: bool) -> Spread:
    """Choose how the lanes share a rectangle with rows of `columns` elements.

    From shared memory as ldmatrix does, transposed or not: a lane for 16 bytes of a row, eight rows beside each other
    in one pass. From global memory 16 bytes along the rows; transposed, element by element, since neighbours in a
    register are not neighbours in memory (eight rows by four columns at a time, as lanes hold a fragment). Stores
    write what a lane holds of an accumulator, 8 bytes, four lanes in a row (PTX ISA, "Matrix fragments for mma").
    Rows that are no multiple of the piece make it smaller.

    >>> spread_of(OpClass.SHARED_LOAD, 2, 16, transposed=False), spread_of(OpClass.GLOBAL_STORE, 4, 8, transposed=False)
    (Spread(piece=16, strip=1), Spread(piece=8, strip=4))
    """
    row = itemsize * columns
    if op in {OpClass.GLOBAL_STORE, OpClass.SHARED_STORE}:
        return Spread(math.gcd(8, row), 4)
    if op is OpClass.SHARED_LOAD:
        return Spread(math.gcd(16, row), 1)
    return Spread(itemsize, 8) if transposed else Spread(math.gcd(16, row), 0)


def pieces(rows: int, columns: int, pitch: int, itemsize: int, spread: Spread) -> NDArray[np.int64]:
    """First element of every piece, counted from the corner in an array with `pitch` elements in a row.

    >>> pieces(2, 16, 64, 2, Spread(16, 1)).tolist(), pieces(2, 16, 64, 2, Spread(16, 0)).tolist()
    ([0, 64, 8, 72], [0, 8, 64, 72])
    """
    along = np.arange(0, columns, spread.piece // itemsize, dtype=np.int64)
    down = np.arange(rows, dtype=np.int64)[:, None] * pitch
    width = spread.strip or len(along)
    return np.concatenate([(down + along[s : s + width]).reshape(-1) for s in range(0, len(along), width)])


def read(machine: Machine, place: Place) -> NDArray[Any]:
    """Elements of every warp's rectangle, shape (blocks, warps, rows, columns)."""
    data, index = _elements(machine, place)
    return data[np.where(place.active[:, :, None, None], index, 0)]


def write(machine: Machine, place: Place, values: NDArray[Any]) -> None:
    """Write every warp's rectangle; of several writers the highest warp wins."""
    data, index = _elements(machine, place)
    where, what = index[place.active].reshape(-1), values[place.active].reshape(-1)
    if isinstance(place.array, SharedArray):
        data[where] = what
    else:
        machine.write(data, where, what)


def _elements(machine: Machine, place: Place) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Elements of an array in a row, those of all blocks' shared arrays, and each rectangle's positions in it."""
    array = place.array
    rows, columns = np.ogrid[: place.rows, : place.columns]
    index = place.corner[:, :, None, None] + (rows * array.shape[1] + columns)
    if isinstance(array, SharedArray):
        return array.data.reshape(-1), index + (np.arange(machine.shape[0]) * array.size)[:, None, None, None]
    return array.flat, index


def count(
    machine: Machine, op: OpClass, place: Place, spread: Spread, producers: Producers, site: Site, access: str
) -> Producers:
    """Count the instructions that move the rectangles; returns their events. `access` is for messages."""
    array, pitch, itemsize = place.array, place.array.shape[1], place.array.dtype.itemsize
    beyond = (place.corner * itemsize + array.address) % spread.piece
    astray = place.active & ((beyond > 0) | (place.rows > 1 and pitch * itemsize % spread.piece > 0))
    if astray.any():
        row, warp = (int(k) for k in np.argwhere(astray)[0])
        block, far = int(machine.blocks[row]), int(beyond[row, warp])
        raise complaints.misaligned(access, machine.config, block, warp, far, pitch * itemsize, spread.piece)
    starts = pieces(place.rows, place.columns, pitch, itemsize, spread)
    events = []
    for first in range(0, len(starts), WARP_SIZE):
        own = starts[first : first + WARP_SIZE]
        lanes = np.concatenate([own, np.zeros(WARP_SIZE - len(own), np.int64)])
        index = (place.corner[:, :, None] + lanes).reshape(machine.shape)
        mask = machine.active
        if len(own) < WARP_SIZE:  # lanes for which no piece is left take no part
            busy = np.arange(machine.shape[1]) % WARP_SIZE < len(own)
            mask = np.broadcast_to(busy if mask is None else busy & mask, machine.shape)
        events.append(machine.access(op, array, index, mask, producers, site, spread.piece))
    return tuple(events)
