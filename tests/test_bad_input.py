"""What no engine plays: both refuse it in the same words, before anything happens (W1 to W3, H1 to H3, T1, T2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpusim_des.errors import LaunchError, TraceError
from gpusim_des.gpu import GPU
from gpusim_des.grid import Dim3, LaunchConfig
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.order import END_OF_TIME
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import (
    Command,
    CopyMemory,
    GraphNode,
    HostProgram,
    HostStream,
    HostWork,
    Instruction,
    KernelTrace,
    LaunchGraph,
    LaunchKernel,
    OpClass,
    RecordEvent,
    SetMemory,
    Stream,
    Synchronize,
    TraceChunk,
    WaitEvent,
    WarpTrace,
)
from tests.programs import TINY, atomic, bulk_copy, fp32, load, store, tensor, trace, warp

ENGINES: tuple[Engine, ...] = ("simpy", "compiled")


def refusals(kernel: KernelTrace | HostProgram, gpu: GPU = TINY) -> set[str]:
    """What the engines say to a trace or a program that must not be played."""
    said = set()
    asked: dict[str, Any] = {"program": kernel} if isinstance(kernel, HostProgram) else {"traces": [kernel]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimpyEngine, "_dma_port", lambda _: pytest.fail("the engine began to play"))
        for engine in ENGINES:
            with pytest.raises((TraceError, LaunchError)) as caught:
                simulate(gpu, engine=engine, **asked)
            said.add(str(caught.value))
    return said


def with_arrays(kernel: KernelTrace, **changes: Any) -> KernelTrace:
    """The same blocks in one chunk, with other arrays, or with a function of the array that it has."""
    chunks = [TraceChunk(*kernel._store.get(n)) for n in range(len(kernel._store))]
    assert len(chunks) == 1
    changed = KernelTrace(kernel.name, kernel.config)
    stream_changes, chunk_changes = dict[str, Any](), dict[str, Any]()
    for name, change in changes.items():
        target = chunk_changes if name in TraceChunk.__dataclass_fields__ else stream_changes
        part = chunks[0] if target is chunk_changes else kernel.streams[0]
        target[name] = change(getattr(part, name).copy()) if callable(change) else change
    for number, stream in enumerate(kernel.streams):
        changed.intern_stream(bytes([number]), replace(stream, **stream_changes) if not number else stream)
    changed._chunk_of[0] = changed._store.put(*replace(chunks[0], **chunk_changes).arrays())
    return changed


def whole() -> KernelTrace:
    """A block of two warps whose streams and footprints differ; the first has every kind of array."""
    one = [load(range(4)), fp32(0), tensor(), atomic([3, 9], 1, passes=(2, 1)), store([8, 9, 30], 0)]
    return trace([one, [load([5]), bulk_copy(range(16), 0)]])


def set_at(index: Any, value: int) -> Callable[[np.ndarray], np.ndarray]:
    """Change one entry; the array becomes wide enough for it."""

    def change(array: np.ndarray) -> np.ndarray:
        wide = array.astype(np.int64)
        wide[index] = value
        return wide

    return change


def test_the_trace_that_is_mutated_below_is_legal() -> None:
    kernel = whole()
    assert kernel.check() == with_arrays(kernel).check() == (2, 7, 20, 26, 27)
    one, other = (simulate(TINY, [with_arrays(kernel)], engine=engine) for engine in ENGINES)
    assert one == other


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("deps", set_at(0, 1), "stream 0: instruction 1 depends on instruction 1: an operand comes from an earlier"),
        ("deps", set_at(0, 4), "stream 0: instruction 1 depends on instruction 4: an operand comes from an earlier"),
        ("deps", set_at(0, -1), "stream 0: instruction 1 depends on instruction -1: an operand"),
        ("deps", set_at(0, 1 << 40), "stream 0: instruction 1 depends on instruction 1099511627776"),
        ("dep_start", set_at(1, 3), "dep_start begins with 0 and ends with 3: must rise from 0 to 3, the length of de"),
        ("dep_start", set_at(-1, 4), "dep_start begins with 0 and ends with 4: must rise from 0 to 3, the length of d"),
        ("dep_start", set_at(0, -1), "dep_start begins with -1 and ends with 3: must rise from 0 to 3"),
        ("dep_start", lambda a: a[:-1], "dep_start has 5 entries: must have 6"),
        ("deps", lambda a: a.astype(float), r"deps: must be an array of whole numbers.* with 1 dimension.*not float64"),
        ("deps", lambda a: a.astype(np.uint64), "deps: must be an array of whole numbers.* not uint64"),
        ("deps", [0, 1, 2], r"deps: must be an array of whole numbers.*, not list"),
        ("lanes", set_at(2, 0), "instruction 2 has 0 active lanes: must lie between 1 and 32"),
        ("lanes", set_at(2, 33), "instruction 2 has 33 active lanes: must lie between 1 and 32"),
        ("lanes", lambda a: a[:2], "lanes has 2 entries: must have 5"),
        ("ops", set_at(1, 24), "instruction 1 has the operation class 24: OpClass has the classes 0 to 23"),
        ("ops", set_at(1, -1), "instruction 1 has the operation class -1: OpClass has the classes 0 to 23"),
        ("ops", lambda a: a.reshape(5, 1), r"ops: must be an array .* not uint8 of shape \(5, 1\)"),
        ("ops", lambda a: a[:4], "lanes has 5 entries: must have 4"),
        ("lines", set_at(0, -3), "source line of instruction 0 is -3: must lie between 0 and 2147483647; 0 if it is"),
        ("operands", set_at(4, -1), "operand of instruction 4 is -1: must lie between 0 and 2147483647"),
        ("operands", set_at(2, 0), r"instruction 2 has the operand 0: a tensor instruction has Mma.encode\(\)"),
        ("operands", set_at(2, 6 << 24 | 0x010101), "instruction 2 has the operand 100729089: a tensor instruction"),
        ("ops", set_at(1, OpClass.GLOBAL_LOAD), "block 0, warp 0 has 3 times in the load/store unit for 4 memory inst"),
        ("ops", set_at(1, OpClass.SHARED_LOAD), "block 0, warp 0 has 3 times in the load/store unit for 4 memory inst"),
    ],
)  # fmt: skip
def test_streams_that_are_refused(field: str, change: Any, message: str) -> None:
    (said,) = refusals(with_arrays(whole(), **{field: change}))
    assert said.startswith("kernel 'k', ")
    with pytest.raises(TraceError, match=message):
        raise TraceError(said)


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("streams", set_at((0, 1), 2), "stream of warp 1 is 2: must lie between 0 and 1; number of a stream of the tr"),
        ("streams", set_at((0, 1), -1), "stream of warp 1 is -1: must lie between 0 and 1"),
        ("streams", set_at((0, 1), 0), "block 0, warp 1 has 2 times in the load/store unit for 3 memory instructions"),
        ("streams", lambda a: a.T, r"streams of shape \(2, 1\) and footprints of shape \(1, 2\): both must have one"),
        ("streams", lambda a: a[0], r"streams: must be an array .* with 2 dimension\(s\), not int32"),
        ("footprints", set_at((0, 0), 2), "footprint of warp 0 is 2: must lie between 0 and 1; number of a footprint"),
        ("footprints", set_at((0, 0), -1), "footprint of warp 0 is -1: must lie between 0 and 1"),
        ("quarter_cycles", set_at(1, 3), "quarter_cycles: entry 1 is 3: must lie between 4 and 2147483647; four quart"),
        ("quarter_cycles", set_at(1, -4), "quarter_cycles: entry 1 is -4: must lie between 4 and"),
        ("quarter_cycles", set_at(1, 1 << 31), "quarter_cycles: entry 1 is 2147483648: must lie between 4 and"),
        ("quarter_start", set_at(1, 6), "quarter_start begins with 0 and ends with 5: must rise from 0 to 5, the leng"),
        ("quarter_start", set_at(1, 4), "block 0, warp 0 has 4 times in the load/store unit for 3 memory instructions"),
        ("quarter_start", lambda a: a[:0], "quarter_start has 0 entries: must have 1"),
        ("starts_start", set_at(1, 0), "footprint 0 has no starts: without any access it has the one entry 0"),
        ("starts_start", set_at(1, 3), "footprint 0 has starts from 0 to 6: must rise from 0 to the number of its off"),
        ("starts", set_at(0, 1), "footprint 0 has starts from 1 to 9: must rise from 0 to the number of its offsets, "),
        ("starts", set_at(3, 10), "footprint 0 has starts from 0 to 10: must rise from 0 to the number of its offsets"),
        ("starts", set_at(1, 6), "access: number of sectors of access 1 is 0: must lie between 1 and 65535; split a"),
        ("starts", set_at(1, 8), "access: number of sectors of access 1 is -2: must lie between 1 and 65535"),
        ("starts", set_at(1, -(1 << 62)), "access: number of sectors of access 0 is -46116860.*: must lie between 1 a"),
        ("offset_start", set_at(1, 8), "footprint 0 has starts from 0 to 9: must rise from 0 to the number of its off"),
        ("offsets", set_at(1, 0), "offsets: entry 1 is 0 behind 0: the sectors of an access must rise; sort them"),
        ("offsets", set_at(2, 9), "offsets: entry 3 is 3 behind 9: the sectors of an access must rise; sort them"),
        ("offsets", set_at(0, -5), "offsets: entry 0 is -5: must lie between 0 and 72057594037927935; it counts from"),
        ("offsets", set_at(3, 1 << 56), "offsets: entry 3 is 72057594037927936: must lie between 0 and"),
        ("bases", set_at(1, -1), "base sector 1 is -1: must lie between 0 and 72057594037927935; sector numbers are"),
        ("bases", set_at(1, 1 << 60), "base sector 1 is 1152921504606846976: must lie between 0 and"),
        ("bases", lambda a: a[:-1], "base_start begins with 0 and ends with 5: must rise from 0 to 4, the length of"),
        ("base_start", set_at(1, 2), "block 0, warp 0 has 2 base sectors for 3 global accesses: give one for each"),
        ("base_start", set_at(1, 9), "base_start begins with 0 and ends with 5: must rise from 0 to 5"),
        ("base_start", lambda a: a[1:], "base_start has 2 entries: must have 3"),
        ("passes", set_at(4, 0), r"passes: entry 4 is 0: must lie between 1 and 32; each lane of a warp operates once"),
        ("passes", set_at(4, 33), "passes: entry 4 is 33: must lie between 1 and 32"),
        ("passes_start", set_at(1, 4), "footprint 0 has 4 passes for 9 sectors: give none, or one for each"),
    ],
)  # fmt: skip
def test_chunks_that_are_refused(field: str, change: Any, message: str) -> None:
    (said,) = refusals(with_arrays(whole(), **{field: change}))
    assert said.startswith("kernel 'k', chunk 0: ")
    with pytest.raises(TraceError, match=message):
        raise TraceError(said)


def test_a_block_that_nobody_recorded() -> None:
    kernel = KernelTrace("k", LaunchConfig.of(3, 32))
    kernel.intern_stream(b"", Stream.of([Instruction(OpClass.FP32)]))
    made = trace([[fp32()]])
    kernel.add_chunk(np.array([1]), TraceChunk(*made._store.get(0)))
    assert refusals(kernel) == {"block 0 of kernel 'k' was never recorded"}
    for blocks in ([3], [-1], [0, 1]):
        with pytest.raises(TraceError, match=r"blocks for 1 rows of kernel 'k': give each row .* between 0 and 2"):
            kernel.add_chunk(np.array(blocks), TraceChunk(*made._store.get(0)))
    chunk = replace(TraceChunk(*made._store.get(0)), streams=np.array([[1]]))
    with pytest.raises(TraceError, match=r"stream 1 of kernel 'k': it has 1; call intern_stream\(\) before"):
        kernel.add_chunk(np.array([0]), chunk)


def test_arrays_that_are_changed_after_a_block_was_recorded() -> None:
    """Engines look at what they play, not at what was recorded once."""
    kernel = whole()
    assert simulate(TINY, [kernel]).kernels[0].warp_instructions == 7
    kernel.streams[0].deps[0] = 4
    assert "instruction 1 depends on instruction 4" in next(iter(refusals(kernel)))


@pytest.mark.parametrize("changes", [{"registers": -1}, {"registers": 2.5}, {"shared_bytes": -1}, {"registers": 256}])
def test_launches_that_are_refused(changes: dict[str, Any]) -> None:
    kernel = whole()
    for name, value in changes.items():
        setattr(kernel, name, value)
    (said,) = refusals(kernel)
    assert said.startswith("kernel 'k' cannot be launched: ")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LaunchConfig(Dim3(1), Dim3(2048)), "threads = 2048 per block: must lie between 1 and 512"),
        (LaunchConfig(Dim3(1), Dim3(0)), "threads = 0 per block: must lie between 1 and 512"),
        (LaunchConfig(Dim3(1, 1, 70_000), Dim3(64)), r"grid.z = 70,000: must lie between 1 and 65,535"),
    ],
)
def test_grids_and_blocks_that_cuda_does_not_know(config: LaunchConfig, message: str) -> None:
    kernel = whole()
    kernel.config = config
    assert message in next(iter(refusals(kernel)))


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction(OpClass.FP32, line=1 << 40), "source line of instruction 0 is 1099511627776"),
        (Instruction(OpClass.FP32, operand=-1), "operand of instruction 0 is -1"),
        (Instruction(OpClass.FP32, operand=1 << 70), r"operand = 11805\d+: must lie between -9223372036854775808 and"),
        (Instruction(77), "instruction 0 has the operation class 77"),  # type: ignore[arg-type]
        (Instruction("fp32"), "op = 'fp32': must be a whole number"),  # type: ignore[arg-type]
        (Instruction(OpClass.FP32, deps=(0.5,)), "deps = 0.5: must be a whole number"),  # type: ignore[arg-type]
        (Instruction(OpClass.SHUFFLE, quarter_cycles=1 << 40), "quarter_cycles = 1099511627776: must lie between"),
    ],
)
def test_instructions_by_hand(instruction: Instruction, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        WarpTrace.of([instruction])


def test_sectors_by_hand() -> None:
    for sectors, message in (([1.5], "sectors = 1.5: must be a whole number"), ([1 << 70], "sectors = 1180591.*lie")):
        with pytest.raises(TraceError, match=message):
            WarpTrace.of([Instruction(OpClass.GLOBAL_LOAD)], [sectors])  # type: ignore[list-item]


# Host programs --------------------------------------------------------------------------------------------------------


def made(kind: Any, *values: Any, **fields: Any) -> Any:
    """Make what a type checker would not."""
    return kind(*values, **fields)


KERNEL = LaunchKernel(trace=trace([[fp32()]]))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (CopyMemory(direction="h2d", nbytes=-1), "CopyMemory: nbytes = -1: must be a whole number from 0 to"),
        (made(CopyMemory, direction="h2h", nbytes=1), "CopyMemory: direction = 'h2h': must be one of h2d, d2h, d2d"),
        (made(CopyMemory, direction="h2d", nbytes=2.0), "CopyMemory: nbytes = 2.0: must be a whole number"),
        (CopyMemory(direction="h2d", nbytes=1, address=-9), "CopyMemory: address = -9: must be a whole number from 0"),
        (CopyMemory(direction="d2d", nbytes=1, address=1 << 70), "CopyMemory: address = 11805"),
        (CopyMemory(-1, direction="h2d", nbytes=1), "CopyMemory: stream = -1: must be a whole number from 0 to 214748"),
        (SetMemory(nbytes=-1), "SetMemory: nbytes = -1: must be a whole number"),
        (SetMemory(nbytes=1 << 31), "SetMemory of 2,147,483,648 bytes: tiny .two SMs, round numbers. has a memory of"),
        (made(RecordEvent, event="e"), "RecordEvent: event = 'e': must be a whole number"),
        (WaitEvent(event=3), "WaitEvent: a stream waits for event record 3, which nothing recorded before: record it"),
        (Synchronize(what="event", event=3), "Synchronize: the host waits for event record 3, which nothing recorded"),
        (made(Synchronize, what="all"), "Synchronize: what = 'all': must be one of stream, event, device"),
        (HostWork(femtoseconds=-1), "HostWork: femtoseconds = -1: must be a whole number from 0 to 115292150460684697"),
        (HostWork(femtoseconds=1 << 61), "HostWork: femtoseconds = 2305843009213693952: must be a whole number from 0"),
        (made(LaunchKernel, trace=None), "LaunchKernel: trace = None: must be a KernelTrace, as a launch records it"),
        (Command(), "Command: engines do not know this command; gpusim_des.trace lists those that they know"),
        ("launch", "str: stream = None: must be a whole number"),
        (LaunchGraph(nodes=(GraphNode(KERNEL, (0,)),)), "LaunchGraph: node 0: it waits for node 0: a node waits for n"),
        (LaunchGraph(nodes=(GraphNode(KERNEL), GraphNode(KERNEL, (2,)))), "LaunchGraph: node 1: it waits for node 2"),
        (LaunchGraph(nodes=(GraphNode(KERNEL), GraphNode(KERNEL, (-1,)))), "LaunchGraph: node 1: it waits for node -1"),
        (LaunchGraph(nodes=(GraphNode(SetMemory(nbytes=-1)),)), "LaunchGraph: node 0: nbytes = -1: must be a whole"),
        (LaunchGraph(nodes=(made(GraphNode, Synchronize(what="device")),)), "LaunchGraph: node 0 is a Synchronize: no"),
    ],
)  # fmt: skip
def test_commands_that_are_refused(command: Any, message: str) -> None:
    (said,) = refusals(HostProgram([KERNEL, command]))
    assert said.startswith(("command 1, ", "SetMemory of"))
    with pytest.raises(TraceError, match=message):
        raise TraceError(said)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (HostStream(0, "twice"), "stream 'twice': number = 0: another stream has it; give each its own"),
        (HostStream(-1, "s"), "stream 's': number = -1: must be a whole number from 0 to 2147483647"),
        (HostStream(1, "s", priority=1 << 40), "stream 's': priority = 1099511627776: must be a whole number from -21"),
    ],
)
def test_streams_of_the_host_that_are_refused(stream: HostStream, message: str) -> None:
    assert message in next(iter(refusals(HostProgram([KERNEL], [HostStream(0, "default"), stream]))))


# Times and counts that do not fit 64 bits (T1, T2) --------------------------------------------------------------------

SLOW = TINY.replace(sm_clock="1 MHz", dram_latency=1 << 24)
"""A load takes 17 s."""


def test_work_that_would_take_longer_than_times_can_say() -> None:
    long = warp(*[load([0], quarters=(1 << 31) - 1)] * 300)
    (said,) = refusals(KernelTrace.of_blocks("k", [[long]]), SLOW)
    assert "644,245,094,100 quarter-cycles in the load/store units in all launches and copies, 1,000,000,000 fs" in said
    assert "together they may take at most 2^59 fs, so that times fit 64 bits (T1); simulate less at a time" in said
    wide = warp(bulk_copy(range(60_000)))
    slow = TINY.replace(dram_bandwidth="32 kB/s", dram_latency=1 << 24, sm_clock="1 MHz", dram_channels=1)
    assert "600,000 sectors in all launches" in next(iter(refusals(KernelTrace.of_blocks("k", [[wide]] * 10), slow)))
    fight = warp(*[atomic([0], passes=[32])] * 1000)
    fought = TINY.replace(sm_clock="1 MHz", atomic_interval=1 << 24)
    assert "32,000 atomic operations in all" in next(iter(refusals(KernelTrace.of_blocks("k", [[fight]]), fought)))


def test_more_warps_than_an_order_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusim_des.timing.playable.MOST_WARPS", 7)
    (said,) = refusals(trace(*[[[fp32()]] * 4] * 2))
    assert said.startswith("8 warps in all launches: engines count the age of at most 7 (T2); simulate fewer launches")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_simulation_ends_at_the_end_of_time(engine: Engine) -> None:
    """T1: 70 loads one after another, works of the host, and both; one load less is played."""
    loads = trace([[load([9 * n], *([n - 1] if n else [])) for n in range(68)]])
    assert simulate(SLOW, [loads], engine=engine).end_fs > END_OF_TIME * 9 // 10
    more = trace([[load([9 * n], *([n - 1] if n else [])) for n in range(70)]])
    work = HostWork(femtoseconds=END_OF_TIME - 1)
    asked: dict[str, Any]
    for asked in (
        {"traces": [more]},
        {"traces": [more], "max_cycles": 1 << 70},
        {"program": HostProgram([work, work, work, LaunchKernel(trace=more)])},
        {"program": HostProgram([LaunchKernel(trace=loads), work, work])},
        {"program": HostProgram([work, LaunchKernel(trace=loads)])},
    ):
        with pytest.raises(TraceError, match=r"the simulation came to 1,152,921,504,606,846,976 fs, 19 minutes"):
            simulate(SLOW, engine=engine, **asked)
