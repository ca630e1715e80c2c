"""Lanes that meet in groups: shuffles and votes among the lanes that a member mask names, and matches of values.

Arrays have one row of 32 lanes per warp. Lane i hears lane j if j is active and in i's mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import warp_exchange
from gpusim_des.grid import WARP_SIZE

FULL = 0xFFFFFFFF
"""The mask of all lanes."""

_LANE = np.arange(WARP_SIZE)


def hears(members: NDArray[np.uint32], active: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Who hears whom: element (warp, i, j) tells whether lane i hears lane j.

    >>> members = np.where(np.arange(32) < 2, 0b11, 0b100).astype(np.uint32)[None, :]
    >>> hears(members, np.ones((1, 32), bool))[0, :3, :4].astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]]
    """
    bits = (members[:, :, None] >> _LANE.astype(np.uint32)) & np.uint32(1)
    return np.asarray((bits != 0) & active[:, None, :])


def not_in_own_mask(members: NDArray[np.uint32], active: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Active lanes whose mask does not name themselves."""
    own = (members >> _LANE.astype(np.uint32)) & np.uint32(1)
    return np.asarray(active & (own == 0))


def shuffled(
    name: str, values: NDArray[Any], other: NDArray[Any], members: NDArray[np.uint32], active: NDArray[np.bool_]
) -> NDArray[Any]:
    """Values that lanes get from lanes in their masks; the own value where that lane does not exist or is not heard."""
    lanes = np.broadcast_to(_LANE, values.shape)
    sources = warp_exchange.source_lanes(name, lanes, other)
    inside = (sources >= 0) & (sources < WARP_SIZE)
    sources = np.where(inside, sources, 0)
    heard = np.take_along_axis(hears(members, active), sources[:, :, None], axis=2)[:, :, 0]
    return np.where(inside & heard, np.take_along_axis(values, sources, axis=1), values)


def voted(name: str, values: NDArray[Any], members: NDArray[np.uint32], active: NDArray[np.bool_]) -> NDArray[Any]:
    """Answer of every lane to ``ballot``, ``any``, ``all``, ``eq``, ``match_any`` or ``match_all``.

    `values` are predicates, or what the matches compare. Matches answer with the mask of the lanes that have the same
    value; ``match_all`` with 0 where not all have it.

    >>> values = np.array([5, 7, 5] + 29 * [0])[None, :]
    >>> three = np.arange(32)[None, :] < 3
    >>> voted("match_any", values, np.full((1, 32), 7, np.uint32), three)[0, :3].tolist()
    [5, 2, 5]
    """
    heard = hears(members, active)
    if name == "any":
        return np.asarray((heard & values[:, None, :]).any(axis=2))
    if name == "all":
        return np.asarray((~heard | values[:, None, :]).all(axis=2))
    if name == "ballot":
        return _bits(heard & values[:, None, :])
    same = values[:, None, :] == values[:, :, None]
    if name == "match_any":
        return _bits(heard & same)
    agree = (~heard | same).all(axis=2)
    return agree if name == "eq" else np.where(agree, _bits(heard), np.uint32(0))


def _bits(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    weights = np.uint64(1) << _LANE.astype(np.uint64)
    return np.asarray((lanes * weights).sum(axis=2, dtype=np.uint64).astype(np.uint32))
