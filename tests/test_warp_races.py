"""Races between lanes of a warp, and threads that hand something over without a barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_races import WAYS, found, launched

# Within a warp --------------------------------------------------------------------------------------------------------


@gs.kernel
def warp_reduction(t: Any, a: Any, c: Any, sync: Any) -> Any:
    s = t.shared("s", 512, np.int32)
    i = t.threadIdx.x
    s[i] = a[i]
    yield t.syncthreads()
    for half in (256, 128, 64):
        if i < half:
            s[i] = s[i] + s[i + half]
        yield t.syncthreads()
    if i < 32:
        for half in (32, 16, 8, 4, 2, 1):
            v = s[i] + s[i + half]
            if sync:
                t.syncwarp()
            s[i] = v
            if sync:
                t.syncwarp()
    if i == 0:
        c[0] = s[0]


@WAYS
def test_warp_synchronous_reduction(vectorize: bool) -> None:
    """A warp adds without barriers what its other lanes wrote (case C28): right in lockstep, a race since Volta.

    In the step of 16, lanes 0 to 15 read what lanes 16 to 31 wrote in the step before, and 16 to 31 then overwrite it;
    in the steps of 8, 4, 2 and 1 these are 24, 28, 30 and 31 lanes.
    """
    launch = launched(warp_reduction, 1, 512, False, vectorize=vectorize)
    assert {race.scope for race in launch.races} == {"warp"}
    assert launch.counters.races == 2 * (16 + 24 + 28 + 30 + 31)
    assert launch.races[0].remedy.startswith("lanes of a warp are in step only before Volta: put t.syncwarp()")
    assert found(launched(warp_reduction, 1, 512, True, vectorize=vectorize)) == []


@WAYS
def test_the_sum_is_right_in_lockstep_all_the_same(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, c = dev.to_device(np.arange(512, dtype=np.int32)), dev.to_device(np.zeros(512, np.int32))
    dev.launch(warp_reduction, 1, 512, a, c, True, vectorize=vectorize)
    assert dev.to_host(c)[0] == 512 * 511 // 2


@gs.kernel
def neighbours(t: Any, a: Any, c: Any, how: Any) -> Any:
    s = t.shared("s", 32, np.int32)
    i = t.threadIdx.x
    s[i] = a[i]
    if how == "syncwarp":
        t.syncwarp()
    elif how == "shuffle":
        t.shfl_down(i, 1)
    elif how == "vote":
        t.ballot(i > 3)
    elif how == "half":
        if i < 16:
            t.syncwarp()
    elif how == "fence":
        t.threadfence()
    c[i] = s[(i + 1) % 32]


@WAYS
@pytest.mark.parametrize(
    ("how", "races"), [("syncwarp", 0), ("shuffle", 32), ("vote", 32), ("nothing", 32), ("fence", 32), ("half", 17)]
)
def test_what_orders_lanes_of_a_warp(how: str, races: int, vectorize: bool) -> None:
    """Of lanes 0 to 15, which meet, 15 read what another of them wrote: 17 others race.

    A fence orders no threads, and shuffles and votes order no memory.
    """
    launch = launched(neighbours, 1, 32, how, vectorize=vectorize)
    assert found(launch) == ([("write-read", "warp", False, races)] if races else [])


@gs.cuda.jit
def halves(a: Any, c: Any) -> None:
    """Each half of a warp meets on its own, at one place."""
    s = gs.cuda.shared.array(32, np.int32)
    i = gs.cuda.threadIdx.x
    s[i] = a[i]
    gs.cuda.syncwarp(0xFFFF if i < 16 else 0xFFFF0000)
    c[i] = s[(i + 1) % 32]


@WAYS
def test_lanes_meet_those_of_their_mask(vectorize: bool) -> None:
    """Lanes 15 and 31 read what a lane of the other half has written."""
    assert found(launched(halves, 1, 32, vectorize=vectorize)) == [("write-read", "warp", False, 2)]


@gs.kernel
def chained(t: Any, a: Any, c: Any) -> Any:
    """Lane 0 hears of lane 20 through lane 10: they meet it one after the other."""
    s = t.shared("s", 32, np.int32)
    i = t.threadIdx.x
    if i == 20:
        s[0] = 1
    if i in (10, 20):
        t.syncwarp()
    if i in (0, 10):
        t.syncwarp()
    if i == 0:
        c[0] = s[0]


@WAYS
def test_order_is_passed_on(vectorize: bool) -> None:
    assert found(launched(chained, 1, 32, vectorize=vectorize)) == []


# Handing over without a barrier ---------------------------------------------------------------------------------------


@gs.kernel
def handed_over(t: Any, a: Any, c: Any, fence: Any) -> Any:
    """Warp 1 passes a value to warp 0 with a flag, written first in lockstep order."""
    s = t.shared("s", 1, np.int32)
    flag = t.shared("flag", 1, np.int32)
    if t.threadIdx.x == 0:
        flag[0] = 0
    yield t.syncthreads()
    if t.threadIdx.x == 32:
        s[0] = 5
        if fence:
            t.threadfence()
        flag.atomic_exch(0, 1)
    if t.threadIdx.x == 0 and flag.atomic_add(0, 0) == 1:
        t.threadfence()
        c[0] = s[0]


def test_a_flag_with_a_fence_orders() -> None:
    assert found(launched(handed_over, 1, 64, True)) == []
    assert found(launched(handed_over, 1, 64, False)) == [("write-read", "block", False, 1)]
