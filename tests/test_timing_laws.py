"""Laws that hold for every program: identities, conservation, and agreement with a naive second opinion."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, get_args

import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.server import FifoServer
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import GLOBAL_OPS, OpClass
from tests.laws import area, check_states, with_longer
from tests.programs import Case, Part, cases, gpus, programs, trace
from tests.referee import Memory, judge


def play(case: Case, detail: Detail = "warp") -> Timeline:
    return simulate(case.gpu, [case.trace()], detail=detail, caches="off")


@settings(max_examples=150, deadline=None)
@given(case=cases())
def test_every_cycle_follows_the_rules(case: Case) -> None:
    """I2 to I7, M1, M3, M4, M6, M8: a naive walk through all cycles comes to the same timeline.

    Among other things: an instruction issues when its operands are complete, not before; one issue per scheduler and
    cycle; pipes keep their intervals; a scheduler that issues nothing has no eligible warp (work conservation).
    """
    judge(case, play(case), Memory)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_states_tile_the_residency_and_add_up(case: Case) -> None:
    """I7: the identity of states and resident warp-cycles."""
    check_states(case, play(case))


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_active_cycles_are_those_with_a_resident_warp(case: Case) -> None:
    """I7: counted cycle by cycle from the warps' residencies."""
    timeline = play(case)
    kernel = timeline.kernels[0]
    active = {(w.sm, cycle) for w in timeline.warps for cycle in range(w.start_cycle, w.end_cycle)}
    assert kernel.sm_active_cycles == len(active)
    slots = case.gpu.max_warps_per_sm * len(active)
    assert kernel.achieved_occupancy == (kernel.resident_warp_cycles / slots if slots else 0.0)
    assert kernel.achieved_occupancy <= kernel.theoretical_occupancy


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_looking_changes_nothing(case: Case) -> None:
    """A kernel's result does not depend on what is recorded, and two runs are equal to the last digit (T1)."""
    by_detail = {detail: play(case, detail) for detail in get_args(Detail)}
    assert len({repr(timeline.kernels) for timeline in by_detail.values()}) == 1
    assert repr(by_detail["sm"].blocks) == repr(by_detail["warp"].blocks)
    assert not by_detail["kernel"].blocks
    assert not by_detail["sm"].warps
    again = play(case)
    assert repr((again, again.warps)) == repr((by_detail["warp"], by_detail["warp"].warps))


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_blocks_are_placed_by_the_rule(case: Case) -> None:
    """G1 and G3: in linear order, never faster than the interval, onto the emptiest SM with room, at once."""
    timeline, gpu = play(case), case.gpu
    blocks = sorted(timeline.blocks, key=lambda b: b.block)
    capacity = timeline.kernels[0].blocks_per_sm
    earliest = 0
    for number, block in enumerate(blocks):
        assert block.block == number
        before = blocks[:number]
        # The block is placed at the first moment from `earliest` on at which some SM has room.
        moments = sorted({earliest, *(b.end_fs for b in before if b.end_fs > earliest)})
        for moment in moments:
            resident = [sum(b.sm == sm and b.end_fs > moment for b in before) for sm in range(gpu.sms)]
            if min(resident) < capacity:
                break
        assert block.start_fs == moment
        assert block.sm == resident.index(min(resident))
        taken = {b.slot for b in before if b.sm == block.sm and b.end_fs > moment}
        assert block.slot == min(set(range(capacity)) - taken)
        earliest = moment + gpu.dispatch_interval_fs
        placed = [history.sub_partition for history in timeline.warps if history.block == number]
        neighbours = [b.block for b in before if b.sm == block.sm and b.end_fs > moment]
        assert placed == emptiest_first(neighbours, gpu.sub_partitions, timeline)
        last_exit = max(h.end_cycle for h in timeline.warps if h.block == number)
        assert block.end_fs == (last_exit + gpu.block_end_cycles) * gpu.sm_period_fs


def emptiest_first(neighbours: list[int], parts: int, timeline: Timeline) -> list[int]:
    """Sub-partitions of the warps of a new block beside these blocks on its SM (I2)."""
    resident = [sum(h.sub_partition == part and h.block in neighbours for h in timeline.warps) for part in range(parts)]
    chosen = []
    for _ in range(timeline.kernels[0].warps_per_block):
        chosen.append(resident.index(min(resident)))
        resident[chosen[-1]] += 1
    return chosen


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_bytes_and_queues_are_conserved(case: Case) -> None:
    """M10: bytes in are bytes out, busy time is at most the elapsed time, and L = λW for every channel."""
    engine = SimpyEngine(case.gpu, "warp")
    timeline = engine.run([case.trace()])
    kernel, gpu = timeline.kernels[0], case.gpu
    asked = {True: 0, False: 0}
    for kind, _, _, sectors, *_ in (part for block in case.blocks for program in block for part in program):
        if kind in GLOBAL_OPS:
            granules = {sector * 32 // gpu.dram_granule_bytes for sector in sectors}
            asked[kind is OpClass.GLOBAL_LOAD] += gpu.dram_granule_bytes * len(granules)
    assert (kernel.dram_read_bytes, kernel.dram_write_bytes) == (asked[True], asked[False])
    served: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for channel, arrival, departure in judge(case, timeline, Memory).served:
        served[channel].append((arrival, departure))
    for number, server in enumerate(home.channel for home in engine.memory.slices):
        customers = served[number]
        assert server.served == len(customers)
        # L × T, the area under the number of requests in the system, against λ × T × W, the sum of their stays.
        assert area(customers) == server.waited + server.busy
        assert server.busy <= server.free - min((arrival for arrival, _ in customers), default=0)


LATENCIES = (
    *(f"{pipe}_latency_cycles" for pipe in ("int", "fp32", "fp64", "fp16", "conversion", "sfu")),
    *("barrier_latency_cycles", "branch_latency_cycles", "block_start_cycles", "block_end_cycles"),
    *("shared_latency_cycles", "shuffle_latency_cycles", "dram_latency_cycles"),
)


@settings(max_examples=80, deadline=None)
@given(
    gpu=gpus(dram_channels=1),
    program=programs(barriers=1, longest=10),
    latency=st.sampled_from(LATENCIES),
    more=st.integers(1, 20),
)
def test_a_longer_latency_never_shortens_a_lone_warp(gpu: GPU, program: list[Part], latency: str, more: int) -> None:
    """I4: with one warp and one channel nothing can overtake, so every event comes later or at the same time.

    With several warps or channels this is no law: a delay may reorder requests in favour of the critical one.
    """
    slower = with_longer(gpu, latency, more)
    ends = [simulate(g, [trace([program])], detail="kernel", caches="off").kernels[0].end_fs for g in (gpu, slower)]
    assert ends[0] <= ends[1]


@settings(max_examples=150, deadline=None)
@given(customers=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=20))
def test_a_fifo_server_is_a_simpy_resource(customers: list[tuple[int, int]]) -> None:
    """E1: the closed form gives the finish times of ``simpy.Resource(env, 1)``."""
    customers = sorted(customers, key=lambda c: c[0])
    env = simpy.Environment()
    resource = simpy.Resource(env, 1)
    finished: dict[int, float] = {}

    def customer(number: int, arrival: int, service: int) -> Any:
        yield env.timeout(arrival)
        with resource.request() as request:
            yield request
            yield env.timeout(service)
        finished[number] = env.now

    for number, (arrival, service) in enumerate(customers):
        env.process(customer(number, arrival, service))
    env.run()
    server = FifoServer()
    finishes = [server.serve(arrival, service) for arrival, service in customers]
    assert finishes == [finished[number] for number in range(len(customers))]
    assert server.busy == sum(service for _, service in customers)
    assert server.waited == sum(f - a - s for f, (a, s) in zip(finishes, customers, strict=True))
