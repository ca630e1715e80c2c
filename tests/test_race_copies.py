"""Races with asynchronous and bulk copies that are under way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_races import WAYS, found, launched

# Asynchronous copies --------------------------------------------------------------------------------------------------


@gs.kernel
def copied(t: Any, a: Any, c: Any, wait: Any, meet: Any) -> Any:
    s = t.shared("s", 64, np.int32)
    i = t.threadIdx.x
    t.pipeline_memcpy_async(s, i, a, i)
    t.pipeline_commit()
    if wait:
        t.pipeline_wait_prior(0)
    if meet:
        yield t.syncthreads()
    c[i] = s[63 - i]


@WAYS
@pytest.mark.parametrize(
    ("wait", "meet", "races"),
    [
        (True, True, []),
        (True, False, [("copy-read", "block", False, 64)]),
        (False, True, [("copy-read", "block", False, 64)]),
    ],
)
def test_copies_are_waited_for_and_then_all_meet(wait: bool, meet: bool, races: list[Any], vectorize: bool) -> None:
    launch = launched(copied, 1, 64, wait, meet, vectorize=vectorize)
    assert found(launch) == races
    if races:
        assert "waits for its copy, t.pipeline_wait_prior(0), and then all threads meet" in launch.races[0].remedy


@gs.kernel
def own_copy(t: Any, a: Any, c: Any, wait: Any) -> Any:
    s = t.shared("s", 64, np.int32)
    i = t.threadIdx.x
    t.pipeline_memcpy_async(s, i, a, i)
    t.pipeline_commit()
    if wait:
        t.pipeline_wait_prior(0)
    c[i] = s[i]


@WAYS
def test_a_thread_that_waits_needs_no_barrier_for_its_own_copy(vectorize: bool) -> None:
    launch = launched(own_copy, 1, 64, False, vectorize=vectorize)
    assert found(launch) == [("copy-read", "warp", False, 64)]
    assert "meet" not in launch.races[0].remedy
    assert found(launched(own_copy, 1, 64, True, vectorize=vectorize)) == []


@gs.kernel
def bulk(t: Any, a: Any, c: Any, wait: Any) -> Any:
    s = t.shared("s", 64, np.int32)
    bar = t.shared_barrier("bar")
    if t.threadIdx.x == 0:
        t.memcpy_async_bulk(s, 0, a, 0, 64, bar)
    if wait:
        t.barrier_wait(bar)
    c[t.threadIdx.x] = s[t.threadIdx.x]


@WAYS
def test_bulk_copies(vectorize: bool) -> None:
    launch = launched(bulk, 1, 64, False, vectorize=vectorize)
    assert sum(race.count for race in launch.races) == 64
    assert {race.kind for race in launch.races} == {"bulk copy-read"}
    assert launch.races[0].remedy.startswith("all threads wait for the copy, t.barrier_wait(bar)")
    assert found(launched(bulk, 1, 64, True, vectorize=vectorize)) == []
