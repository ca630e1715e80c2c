"""Which rules of the contract a case makes occur: a table of rule and predicate.

``python -m tests.equality --coverage`` counts them over many cases; a test demands that none is rare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

from gpusim_des.timeline import Operation, WarpState
from gpusim_des.timing.program import PIPE_CLASSES
from gpusim_des.trace import OpClass
from tests.random_host_programs import HostPrograms
from tests.random_programs import Programs
from tests.spies import Seen, observe

Predicate = Callable[[Seen], bool]


def seen(*names: str) -> Predicate:
    """Tell whether any of these was seen by the spies."""
    return lambda s: any(s.count[name] for name in names)


def issued(op: OpClass) -> Predicate:
    return lambda s: any(op.label in kernel.instructions for kernel in s.timeline.kernels)


def state(wanted: WarpState, cause: str = "") -> Predicate:
    """Tell whether a warp was in a state, and something of this name ended it."""
    return lambda s: any(
        span.state is wanted and (not cause or (span.cause is not None and span.cause.what == cause))
        for warp in s.timeline.warps
        for span in warp.states
    )


def chosen_by(policy: str) -> Predicate:
    """Tell whether a policy had a choice."""
    choice = state(WarpState.NOT_SELECTED)
    return lambda s: s.gpu.scheduler_policy == policy and choice(s)


def shared_pipe(s: Seen) -> bool:
    """A pipe that the SM shares turned a warp away."""
    shared = {pipe.name for pipe in s.gpu.pipes if pipe.shared_by_sm}
    busy = {
        span.cause.what
        for warp in s.timeline.warps
        for span in warp.states
        if span.state is WarpState.MATH_PIPE_THROTTLE and span.cause is not None
    }
    return s.gpu.sub_partitions > 1 and bool(shared & busy)


def sustained(s: Seen) -> bool:
    """Instructions on a pipe that keeps up less than its peak."""
    slow = {pipe.name for pipe in s.gpu.pipes if pipe.sustained < 1}
    return any(k.instructions.get(name, 0) > 1 for k in s.timeline.kernels for name in slow)


def overlapping(one: Callable[[Operation], bool], other: Callable[[Operation], bool]) -> Predicate:
    """Tell whether two operations of these kinds ran at once."""

    def found(s: Seen) -> bool:
        operations = s.timeline.operations
        return any(
            a.start_fs < b.end_fs and b.start_fs < a.end_fs
            for a in operations
            if one(a)
            for b in operations
            if other(b) and a is not b
        )

    return found


def kind(*kinds: str) -> Callable[[Operation], bool]:
    return lambda operation: operation.kind in kinds


def interval(s: Seen) -> bool:
    """A block was held up by the interval between two placements alone."""
    starts = sorted(block.start_fs for block in s.timeline.blocks)
    return any(later - earlier == s.gpu.dispatch_interval_fs for earlier, later in pairwise(starts))


def waves(s: Seen) -> bool:
    """A block was placed when another retired."""
    ends = {block.end_fs for block in s.timeline.blocks}
    return any(block.start_fs in ends for block in s.timeline.blocks)


def stopped(s: Seen) -> bool:
    return not s.timeline.complete


def stuck(s: Seen) -> bool:
    return isinstance(s.result, str)


def host(predicate: Callable[[HostPrograms], bool]) -> Predicate:
    return lambda s: isinstance(s.case, HostPrograms) and predicate(s.case)


KERNEL, COPY = kind("kernel"), kind("h2d", "d2h")
PIPES = tuple(op.label for op in PIPE_CLASSES)

RULES: dict[str, Predicate] = {
    "T2 requests of two SMs come to a slice at one instant": seen("two SMs at once"),
    "W1 a warp with fewer than 32 active lanes": lambda s: any(
        0 < k.thread_instructions < 32 * k.warp_instructions for k in s.timeline.kernels
    ),
    **{f"W2 {op.label}": issued(op) for op in OpClass},
    "W3 warps share a stream": lambda s: any(
        len({program for program, _ in block}) < len(block) for k in s.case.kernels for block in k.blocks
    ),
    "W3 warps share a footprint and differ in their bases": lambda s: any(
        len({shift for p, shift in block if p == program}) > 1
        for k in s.case.kernels
        for block in k.blocks
        for program, _ in block
    ),
    "W4 chunks of several blocks": lambda s: any(k.together > 1 and len(k.blocks) > 1 for k in s.case.kernels),
    "W4 spilled": lambda s: any(k.spilled for k in s.case.kernels),
    "W5 other registers than 32": lambda s: any(k.registers != 32 for k in s.case.kernels),
    "I1 no block slot": seen("no block slot"),
    "I1 no warp slots": seen("no warp slots"),
    "I1 no registers": seen("no registers"),
    "I1 no shared memory": seen("no shared memory"),
    "I2 several sub-partitions": lambda s: len({w.sub_partition for w in s.timeline.warps}) > 1,
    "I2 the emptiest sub-partition has no registers": seen("registers choose the part"),
    **{f"I3 a choice by {policy}": chosen_by(policy) for policy in ("gto", "lrr", "oldest")},
    "I4 no room for a global access": state(WarpState.LG_THROTTLE),
    "I4 no room for a shared access": state(WarpState.MIO_THROTTLE),
    "I4 room again behind a store": seen("queue has room again"),
    **{f"I5 the {pipe} pipe turns away": state(WarpState.MATH_PIPE_THROTTLE, pipe) for pipe in PIPES},
    "I5 a pipe shared by the SM turns away": shared_pipe,
    "I5 a pipe sustains a share of its peak": sustained,
    "I6 a barrier released by an arrival": state(WarpState.BARRIER, "barrier"),
    "I6 a barrier released by an exit": state(WarpState.BARRIER, "exit"),
    "I6 a fence waits for an acknowledgement": state(WarpState.MEMBAR, "acknowledgement"),
    "I6 a fence waits for a load": state(WarpState.MEMBAR, "global_load"),
    "I6 a bulk wait waits": state(WarpState.LONG_SCOREBOARD, "bulk_copy"),
    "I6 a wait for asynchronous copies": state(WarpState.LONG_SCOREBOARD, "async_copy"),
    "I6 deadlock": stuck,
    **{f"I7 {each.suffix}": state(each) for each in WarpState},
    "M1 the load/store unit queues": seen("unit queues"),
    "M1 a part of a cycle": seen("a part of a cycle"),
    "M2 hit": seen("L1 hit"),
    "M2 miss": seen("L1 miss"),
    "M2 other sectors of a line are there": seen("L1 miss in a line"),
    "M2 a sector is on its way": seen("L1 merge"),
    "M2 eviction": seen("L1 eviction"),
    "M2 eviction of a line with sectors on their way": seen("L1 eviction on the way"),
    "M2 nothing left beside shared memory": seen("no L1"),
    "M2 a store beside a line in the L1": seen("store beside L1"),
    "M3 the port out queues": seen("port out queues"),
    "M3 the port back queues": seen("port back queues"),
    "M4 several packets": seen("several packets"),
    "M4 linear": lambda s: s.gpu.channel_hash == "linear" and s.gpu.dram_channels > 1,
    "M4 rotated": lambda s: s.gpu.channel_hash == "rotated" and s.gpu.dram_channels > 1,
    "M4 the copy unit queues": seen("copy queues"),
    "M5 a slice queues": seen("slice queues"),
    "M5 hit": seen("L2 hit"),
    "M5 miss": seen("L2 miss"),
    "M5 a sector is on its way": seen("L2 merge"),
    "M5 eviction": seen("L2 eviction"),
    "M5 write-back": seen("write-back"),
    "M5 a write allocates": seen("write allocates"),
    "M5 found near": seen("near hit"),
    "M5 found in the far half": seen("far"),
    "M5 eviction near": seen("near eviction"),
    "M5 the other half's copy is out of date": seen("copy out of date"),
    "M5 copies leave with their line": seen("copy leaves with its line"),
    "M6 a channel queues": seen("channel queues"),
    "M6 the neighbour sector comes too": seen("neighbour sector"),
    "M6 a read waits for batches": seen("batches waited for"),
    "M6 what arrived in the window before counts": seen("window before"),
    "M6 a write at its own efficiency": seen("lone write"),
    "M6 a read at mixed efficiency": seen("mixed read"),
    "M6 a write at mixed efficiency": seen("mixed write"),
    "M5 parts of sectors": seen("parts of sectors"),
    "M7 lanes on one address": seen("lanes on one address"),
    "M7 atomics follow each other": seen("atomics queue"),
    "M7 sectors leave the L1": seen("L1 invalidation"),
    "M7 a result is read": state(WarpState.LONG_SCOREBOARD, "global_atomic"),
    "M8 the store buffer is full": seen("buffer full"),
    "M8 others wait behind a store": seen("stopped behind a store"),
    "M8 a store beyond the buffer": seen("store beyond the buffer"),
    "M8 a write waits for DRAM": seen("write waits for DRAM"),
    "M8 the last write is accepted after the last block": seen("write after the last block"),
    "M9 loads without caches": seen("bare read"),
    "M9 stores without caches": seen("bare write"),
    "M9 atomics without caches": seen("bare fetch"),
    "M11 the L1 is emptied beside another kernel": seen("L1 emptied beside a kernel"),
    "M11 a kernel finds what one before left": seen("found of a kernel before"),
    "M11 a kernel finds what a copy left": seen("found of a copy"),
    "M11 a copy through the L2": seen("copy through the L2"),
    "G1 the dispatch interval holds a block up": interval,
    "G1 a block waits for a retirement": waves,
    "G1 several SMs": lambda s: len({block.sm for block in s.timeline.blocks}) > 1,
    "G2 kernels at once": overlapping(KERNEL, KERNEL),
    "G2 a kernel waits for room": seen("waits for SMs"),
    "G3 a block starts up": state(WarpState.NO_INSTRUCTION),
    "G3 a block ends later than its warps": lambda s: bool(s.timeline.blocks) and s.gpu.block_end_cycles > 0,
    **{
        f"H1 waits for {reason}": seen(f"waits for {reason}")
        for reason in (
            *("stream order", "event", "default stream", "hardware queue", "kernel slot", "launch latency"),
            *("graph order",),
        )
    },
    "H1 a higher priority": seen("priority"),
    "H1 a late signal": seen("late signal"),
    "H1 the host waits": lambda s: any(span.waits for span in s.timeline.host),
    "H1 a graph": host(lambda case: any(hasattr(call, "nodes") for call in case.calls)),
    "H1 one default stream per thread": host(lambda case: case.per_thread_default),
    "H2 a copy waits for its engine": seen("waits for copy engine"),
    "H2 pageable memory": lambda s: any(operation.pageable for operation in s.timeline.operations),
    "H2 both directions at once": overlapping(kind("h2d"), kind("d2h")),
    "H2 a half-duplex link": host(lambda case: case.gpu.link_duplex == "half"),
    "H2, M11 a copy beside a kernel": seen("copy beside a kernel"),
    "H3 a memset": lambda s: any(operation.kind == "memset" for operation in s.timeline.operations),
    "H3 a memset or a copy within the device beside a kernel": overlapping(KERNEL, kind("memset", "d2d")),
    "F1 max_cycles while kernels run": lambda s: stopped(s) and any(not k.complete for k in s.timeline.kernels),
    "F1 max_cycles in a host program": lambda s: stopped(s) and isinstance(s.case, HostPrograms),
}
"""Rule and what it is about → whether a case makes it occur."""


def rules_of(case: Programs | HostPrograms) -> set[str]:
    """Rules that occur in a case."""
    found = observe(case)
    return {rule for rule, occurs in RULES.items() if occurs(found)}


def table(counts: Counter[str], cases: int) -> Iterable[str]:
    """Lines of a table, the rarest rules first."""
    for rule in sorted(RULES, key=lambda rule: (counts[rule], rule)):
        yield f"{counts[rule] / cases:7.1%}  {rule}"
