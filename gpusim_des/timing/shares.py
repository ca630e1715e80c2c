"""How much of a kernel's time each block accounts for: every instant is divided among the blocks resident then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def shares(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of time of every block, in the unit of the times.

    The shares of all blocks add up to the time in which any was resident, but for the end: once the last block is
    placed, time counts as if the GPU stayed as full as it was, so that a block's share does not depend on whether
    others follow.

    Examples
    --------
    Two blocks at once for 10, then one alone, behind which a third is placed and the last.

    >>> shares(np.array([0, 0, 10, 20]), np.array([10, 20, 20, 30])).tolist()
    [5.0, 10.0, 5.0, 10.0]
    """
    times = np.concatenate([starts, ends])
    change = np.concatenate([np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)])
    order = np.argsort(times, kind="stable")
    times = times[order]
    resident = np.maximum(np.cumsum(change[order]), 1)
    last = np.searchsorted(times, starts.max(), side="right") - 1
    resident[last:] = np.maximum(resident[last:], resident[last])
    since = np.concatenate([[0.0], np.cumsum(np.diff(times) / resident[:-1])])
    result: NDArray[np.float64] = np.interp(ends, times, since) - np.interp(starts, times, since)
    return result
