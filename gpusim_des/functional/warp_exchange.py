"""Lanes of a warp exchanging values: shuffles and votes, on arrays with one row of 32 lanes per warp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.grid import WARP_SIZE

_LANE = np.arange(WARP_SIZE)


def shuffled(name: str, values: NDArray[Any], other: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[Any]:
    """Values that lanes get from other lanes; the own value where that lane does not exist or is not active.

    Parameters
    ----------
    name
        ``shfl`` (lane number), ``shfl_up``, ``shfl_down`` (distance), ``shfl_xor`` (lane mask).
    values, other, active
        Value, argument and activity of every lane, shape (warps, 32).

    Examples
    --------
    >>> lanes = np.arange(32)[None, :]
    >>> shuffled("shfl_down", lanes, np.ones((1, 32), int), np.ones((1, 32), bool))[0, -3:]
    array([30, 31, 31])
    """
    source = source_lanes(name, np.broadcast_to(_LANE, values.shape), other)
    inside = (source >= 0) & (source < WARP_SIZE)
    source = np.where(inside, source, 0)
    there = inside & np.take_along_axis(active, source, axis=1)
    return np.where(there, np.take_along_axis(values, source, axis=1), values)


def source_lanes(name: str, lane: Any, other: Any) -> Any:
    """Lanes that shuffle `name` reads from; one may not exist.

    >>> source_lanes("shfl_up", 1, 2), source_lanes("shfl", 1, 33)
    (-1, 1)
    """
    if name == "shfl":
        return other % WARP_SIZE
    if name == "shfl_xor":
        return lane ^ other
    return lane - other if name == "shfl_up" else lane + other


def voted(name: str, predicate: NDArray[np.bool_], active: NDArray[np.bool_]) -> NDArray[Any]:
    """Answer that all lanes of a warp get, shape (warps, 1), to ``ballot``, ``activemask``, ``any`` or ``all``.

    >>> voted("ballot", np.arange(32)[None, :] < 3, np.ones((1, 32), bool))
    array([[7]], dtype=uint32)
    """
    holding = predicate & active
    answer: NDArray[Any]
    if name == "all":
        answer = np.asarray((predicate | ~active).all(axis=1))
    elif name == "any":
        answer = np.asarray(holding.any(axis=1))
    else:
        answer = (holding.astype(np.uint64) << _LANE.astype(np.uint64)).sum(axis=1).astype(np.uint32)
    return answer[:, None]
