"""Laws that hold for every program with caches on: identities, conservation, and a naive second opinion."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim_des.timeline import Timeline
from gpusim_des.timing.hbm import Channel
from gpusim_des.timing.l2 import Slice
from gpusim_des.timing.server import FifoServer
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import GLOBAL_OPS, OpClass
from tests.cached_referee import CachedMemory
from tests.laws import area, check_states, with_longer
from tests.programs import ACCESSES, EVERYTHING, TINY, Case, Part, cases, gpus, load, programs, small_caches, trace
from tests.referee import judge


def play(case: Case) -> Timeline:
    return simulate(case.gpu, [case.trace()], detail="warp")


@settings(max_examples=80, deadline=None)
@given(case=cases(ACCESSES, caches=True))
def test_every_cycle_follows_the_rules(case: Case) -> None:
    """M2, M5 and M11 beside all others: a naive way through the caches comes to the same timeline and counts.

    The referee does not know full store buffers.
    """
    case = case._replace(gpu=case.gpu.replace(store_buffer="1 MiB"))
    timeline = play(case)
    counts = judge(case, timeline, CachedMemory).counts
    k = timeline.kernels[0]
    assert (k.l1_sectors, k.l1_hit_sectors) == (counts["l1"], counts["l1 hits"])
    assert (k.l2_sectors, k.l2_hit_sectors) == (counts["l2"], counts["l2 hits"])
    assert (k.dram_read_bytes, k.dram_write_bytes) == (counts["read"], counts["write"])


@settings(max_examples=60, deadline=None)
@given(case=cases(EVERYTHING, caches=True))
def test_states_tile_the_residency_and_add_up(case: Case) -> None:
    """I7: the identity of states and resident warp-cycles, with every class of instruction."""
    check_states(case, play(case))


@settings(max_examples=30, deadline=None)
@given(case=cases(EVERYTHING, caches=True), second=cases(EVERYTHING, caches=True))
def test_two_runs_are_equal(case: Case, second: Case) -> None:
    """T1: to the last digit, also with two kernels at once, and whatever is recorded."""
    kernels = [case.trace(), second.trace()]
    first, again = (simulate(case.gpu, kernels, detail="warp", streams=[0, 1]) for _ in range(2))
    assert repr((first, first.warps)) == repr((again, again.warps))
    totals = simulate(case.gpu, kernels, detail="kernel", streams=[0, 1])
    assert totals.kernels == first.kernels


SCRIPT = """
import random
from gpusim_des.timing.simulate import simulate
from tests.programs import *
draw = random.Random(7)
def access(index):
    sectors = draw.sample(range(60), draw.randint(1, 6))
    kind = draw.choice([OpClass.GLOBAL_LOAD, OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC, OpClass.ASYNC_COPY])
    return Part(kind, (draw.randrange(index),) if index and draw.random() < 0.5 else (), 4, tuple(sorted(sectors)))
blocks = [[[access(n) for n in range(20)] + [bulk_copy(range(9)), FENCE] for _ in range(3)] for _ in range(12)]
gpu = TINY.replace(l2_size="1 KiB", l2_partitions=2, store_buffer="256 B")
timeline = simulate(gpu, [trace(*blocks), trace(*blocks[:3])], detail="warp", streams=["a", "b"])
print(repr((timeline, timeline.warps)))
"""


def test_results_do_not_depend_on_the_hash_seed() -> None:
    """T1: nothing is ordered by the hash of a string or an address."""
    root = Path(__file__).parent.parent
    told = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(told[0]) > 10_000
    assert told[0] == told[1]


# Conservation (M10) -------------------------------------------------------------------------------------------------


def servers(engine: SimpyEngine) -> dict[str, FifoServer]:
    """Every server of a simulation, by name."""
    found: dict[str, FifoServer] = {}
    for n, home in enumerate(engine.memory.slices):
        found |= {f"slice {n}": home.server, f"channel {n}": home.channel, f"atomic unit {n}": home.atomic_unit}
    for sm in engine.block_scheduler.sms:
        found |= {f"port out {sm.number}": sm.port.out, f"port back {sm.number}": sm.port.back}
        unit = sm.memory_unit
        found |= {f"load/store unit {sm.number}": unit.server, f"copy unit {sm.number}": unit.copy_server}
    return found


@settings(max_examples=60, deadline=None)
@given(case=cases(EVERYTHING, caches=True))
def test_every_queue_is_conserved(case: Case) -> None:
    """M10: one customer at a time, in the order in which they were announced; L = λW; never busier than time passed."""
    engine = SimpyEngine(case.gpu, "kernel", caches=True, history=True)
    engine.run([case.trace()])
    for name, server in servers(engine).items():
        history = server.history
        assert history is not None
        assert all(arrival <= start <= end for arrival, start, end in history)
        assert all(before[2] <= after[1] for before, after in pairwise(history)), name
        if not name.startswith(("atomic unit", "port out")):
            # Atomics keep their turn while one before them waits for DRAM; the port gives copies what others leave.
            assert all(before[0] <= after[0] for before, after in pairwise(history)), name
        assert server.served == len(history)
        assert server.busy == sum(end - start for _, start, end in history)
        # L × T, the area under the number of customers, against λ × T × W, the sum of their stays.
        assert area([(arrival, end) for arrival, _, end in history]) == server.waited + server.busy
        if history:
            assert server.busy <= history[-1][2] - min(arrival for arrival, _, _ in history)


@settings(max_examples=60, deadline=None)
@given(case=cases(EVERYTHING, caches=True))
def test_sectors_and_bytes_are_conserved(case: Case) -> None:
    """M10: what is asked for is found or fetched; what was written is in the L2 at the end or in DRAM."""
    case = case._replace(gpu=case.gpu.replace(dram_granule="32 B"))
    engine = SimpyEngine(case.gpu, "warp", caches=True)
    timeline = engine.run([case.trace()])
    k = timeline.kernels[0]
    sectors: Counter[OpClass] = Counter()
    written: set[int] = set()
    for part in (part for block in case.blocks for program in block for part in program):
        if part.kind in GLOBAL_OPS:
            sectors[part.kind] += len(part.sectors)
            if part.kind in (OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC):
                written |= set(part.sectors)
    assert k.l1_sectors == sectors[OpClass.GLOBAL_LOAD] + sectors[OpClass.ASYNC_COPY]
    assert k.l1_hit_sectors is not None
    assert k.l2_hit_sectors is not None
    past_the_l1 = sectors[OpClass.GLOBAL_ATOMIC] + sectors[OpClass.BULK_COPY]
    assert k.l2_sectors == k.l1_sectors - k.l1_hit_sectors + past_the_l1
    assert k.dram_read_bytes == 32 * (k.l2_sectors - k.l2_hit_sectors)
    channels = [home.channel for home in engine.memory.slices]
    assert k.dram_read_bytes == 32 * sum(channel.read_granules for channel in channels)
    assert k.dram_write_bytes == 32 * sum(channel.write_granules for channel in channels)
    dirty: list[int] = []
    for home in engine.memory.slices:
        assert isinstance(home, Slice)
        for number in range(20):
            line = home.home.peek(number)
            dirty += [4 * number + s for s in range(4) if line is not None and line.dirty >> s & 1]
            # What is dirty is there, and the copies near the SMs are of what is at home.
            assert line is None or not line.dirty & ~line.valid
            for near in home.near:
                copy = near.peek(number)
                assert copy is None or (line is not None and not copy.valid & ~line.valid)
    assert set(dirty) <= written
    # Every written sector is still dirty, or left for DRAM at least once.
    assert len(written) <= len(dirty) + k.dram_write_bytes // 32
    assert k.dram_write_bytes <= 32 * (sum(sectors[op] for op in (OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC)))


# Monotony -----------------------------------------------------------------------------------------------------------

LATENCIES = (
    *("fp32_latency_cycles", "sfu_latency_cycles", "tensor_latency_cycles", "barrier_latency_cycles"),
    *("shared_latency_cycles", "dram_latency_cycles", "atomic_interval_cycles", "shuffle_latency_cycles"),
)


NO_BULK = tuple(op for op in EVERYTHING if op is not OpClass.BULK_WAIT)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    caches=small_caches(),
    program=programs(barriers=1, longest=8, classes=NO_BULK, span=14),
    latency=st.sampled_from(LATENCIES),
    more=st.integers(1, 20),
)
def test_a_longer_latency_never_shortens_a_lone_warp(
    data: st.DataObject, caches: dict[str, Any], program: list[Part], latency: str, more: int
) -> None:
    """I4: with one warp, one channel and no halves nothing can overtake, so every event comes later or never earlier.

    A fence and a full store buffer only wait for what was sent before. Bulk copies overtake, so there are none.
    """
    gpu = data.draw(gpus(**{**caches, "dram_channels": 1, "l2_partitions": 1}))
    slower = with_longer(gpu, latency, more)
    ends = [simulate(g, [trace([program])], detail="kernel").kernels[0].end_fs for g in (gpu, slower)]
    assert ends[0] <= ends[1]


@settings(max_examples=40, deadline=None)
@given(
    accesses=st.lists(st.sets(st.integers(0, 60), min_size=1, max_size=6), min_size=1, max_size=12),
    l2_size=st.sampled_from(["512 B", "256 KiB"]),
)
def test_more_dram_bandwidth_never_hurts_a_stream_of_loads(accesses: list[set[int]], l2_size: str) -> None:
    """M6: a lone warp's independent loads end earlier or at the same time; a lone load takes what it took."""
    program = [load(sorted(sectors)) for sectors in accesses]
    ends = []
    for bandwidth in ("32 GB/s", "64 GB/s", "128 GB/s", "1024 GB/s"):
        gpu = TINY.replace(dram_bandwidth=bandwidth, l2_size=l2_size)
        ends.append(simulate(gpu, [trace([program])], detail="kernel").kernels[0].end_fs)
    assert ends == sorted(ends, reverse=True)


# Queueing theory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load_share", [0.3, 0.6, 0.9])
def test_poisson_arrivals_wait_as_in_an_md1_queue(load_share: float) -> None:
    """M6 and M10: fixed service and Poisson arrivals: the mean wait is ρ / (2 μ (1 − ρ)) (Pollaczek and Khinchine).

    The mean of n waits, which are correlated over about 1 / (1 − ρ)² customers, scatters by a few per cent.
    """
    channel = Channel(TINY)
    service = TINY.granule_fs("read")
    draw = random.Random(1)
    now = 0.0
    customers = 60_000
    for _ in range(customers):
        now += draw.expovariate(load_share / service)
        channel.read(round(now), 1)
    expected = load_share * service / (2 * (1 - load_share))
    assert channel.waited / customers == pytest.approx(expected, rel=0.02 if load_share < 0.9 else 0.08)
    assert channel.busy / now == pytest.approx(load_share, rel=0.02)
