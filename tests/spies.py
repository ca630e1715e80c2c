"""Watches the components of the SimPy engine while it plays a case, and counts what really occurred.

A timeline says much, but not that a sector was found on its way, or that two requests met at one instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.block_scheduler import BlockScheduler
from gpusim_des.timing.cache import SectoredCache
from gpusim_des.timing.copy_engine import Engine
from gpusim_des.timing.dma import SlicePort
from gpusim_des.timing.hbm import MIX_WINDOW, Channel
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.kernel_signals import KernelSignals
from gpusim_des.timing.l1 import L1
from gpusim_des.timing.l2 import BareChannel, Slice
from gpusim_des.timing.load_store import LoadStoreQueue
from gpusim_des.timing.memory_path import AtomicRequest, ReadRequest, WriteRequest
from gpusim_des.timing.memory_unit import MemoryUnit
from gpusim_des.timing.offered_load import PART_BITS, WINDOW_BITS, mean_wait_fs
from gpusim_des.timing.resources import SmResources
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.work import Work
from gpusim_des.trace import OpClass
from tests.random_host_programs import HostPrograms
from tests.random_programs import Programs


class Seen:
    """What was seen of one case."""

    def __init__(self, case: Programs | HostPrograms) -> None:
        self.case = case
        self.count: Counter[str] = Counter()
        self.engine: SimpyEngine
        self.result: Timeline | str

    @property
    def gpu(self) -> GPU:
        return self.case.gpu

    @property
    def timeline(self) -> Timeline:
        """What was recorded; empty after a deadlock."""
        return self.result if isinstance(self.result, Timeline) else Timeline("stuck", self.gpu.sms, 1)


def observe(case: Programs | HostPrograms) -> Seen:
    """Play a case on the SimPy engine and watch."""
    seen = Seen(case)

    def make(*arguments: Any, **options: Any) -> SimpyEngine:
        seen.engine = SimpyEngine(*arguments, **options)
        return seen.engine

    with pytest.MonkeyPatch.context() as patch:
        for watch in (_watch_l1, _watch_l2, _watch_channels, _watch_requests, _watch_unit, _watch_blocks, _watch_host):
            watch(seen, patch)
        seen.result = case.play(make, "warp")
    for sm in seen.engine.block_scheduler.sms:
        unit = sm.memory_unit
        servers = {"port out": sm.port.out, "port back": sm.port.back, "unit": unit.server, "copy": unit.copy_server}
        seen.count.update({f"{name} queues": server.waited for name, server in servers.items()})
    for home in seen.engine.memory.slices:
        seen.count.update({"slice queues": home.server.waited, "atomics queue": home.atomic_unit.waited})
        seen.count.update({"channel queues": home.channel.waited})
    return seen


Look = Callable[..., Any]


def _before(patch: pytest.MonkeyPatch, cls: type, name: str, look: Look) -> None:
    """Call `look` with the arguments of every call of a method; if it returns something, that with the result."""
    original = getattr(cls, name)

    def watched(*arguments: Any, **options: Any) -> Any:
        then = look(*arguments, **options)
        result = original(*arguments, **options)
        if then is not None:
            then(result)
        return result

    patch.setattr(cls, name, watched)


def _full(cache: SectoredCache, number: int) -> Any:
    """Line that has to leave for a new one, if any."""
    if cache.peek(number) is None and cache.capacity and len(cache) >= cache.capacity:
        return next(iter(cache._lines.values()))
    return None


def _pending(line: Any, under_way: Callable[[Any], bool]) -> int:
    """Mask of a line's sectors that are on their way."""
    mask = 0
    for sectors, fill in line.fills or ():
        mask |= sectors if under_way(fill) else 0
    return mask


def _watch_l1(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    count = seen.count

    def look_up(l1: L1, lines: Any, _: Any, now: int) -> None:
        for number, mask in lines:
            line = l1._cache.peek(number)
            if line is not None:
                way = _pending(line, lambda request: request.arrived_fs is None or request.arrived_fs > now)
                count["L1 hit"] += bool(mask & line.valid & ~way)
                count["L1 merge"] += bool(mask & line.valid & way)
                count["L1 miss in a line"] += bool(mask & ~line.valid)
            count["L1 miss"] += line is None
            count["no L1"] += not l1._cache.capacity
            leaves = _full(l1._cache, number)
            count["L1 eviction"] += leaves is not None
            count["L1 eviction on the way"] += leaves is not None and bool(leaves.fills)

    def drop(l1: L1, lines: Any) -> None:
        for number, mask in lines:
            line = l1._cache.peek(number)
            count["L1 invalidation"] += line is not None and bool(line.valid & mask)

    def store(unit: MemoryUnit, instruction: Any, _: int, *, atomic: bool) -> None:
        lines = [number for packet in instruction.packets for number, _ in packet.lines]
        count["store beside L1"] += not atomic and any(unit.l1._cache.peek(number) for number in lines)

    _before(patch, L1, "look_up", look_up)
    _before(patch, L1, "drop", drop)
    _before(patch, MemoryUnit, "_store", store)


def _watch_l2(seen: Seen, patch: pytest.MonkeyPatch) -> None:  # noqa: C901 - a function for each method
    count = seen.count
    owners: dict[tuple[int, int], Any] = {}
    """Who brought a line into a slice."""

    def read_home(home: Slice, number: int, mask: int, leaves: int, traffic: Any) -> None:
        line = home.home.peek(number)
        found = 0 if line is None else line.valid & mask
        way = 0 if line is None else _pending(line, lambda time: time > leaves)
        count["L2 miss"] += found != mask
        count["L2 hit"] += bool(found & ~way)
        count["L2 merge"] += bool(found & way)
        count["far"] += bool(home.near and found & ~way)
        owner = owners.get((id(home), number))
        if found and isinstance(traffic, KernelRun) and owner is not traffic:
            count["found of a kernel before" if isinstance(owner, KernelRun) else "found of a copy"] += 1
        if line is None:
            owners[id(home), number] = traffic

    def read_near(_: Slice, near: SectoredCache, number: int, mask: int, *__: Any) -> None:
        line = near.peek(number)
        count["near hit"] += line is not None and bool(line.valid & mask)
        count["near eviction"] += _full(near, number) is not None

    def allocate(home: Slice, number: int, _: int, __: Any) -> None:
        leaves = _full(home.home, number)
        if leaves is not None:
            count["write-back" if leaves.dirty else "L2 eviction"] += 1
            oldest = next(iter(home.home._lines))
            count["copy leaves with its line"] += any(near.peek(oldest) for near in home.near)

    def write(home: Slice, arrival: int, packet: Any, _: int, traffic: Any) -> Look:
        for number, _mask in packet.lines:
            if home.home.peek(number) is None:
                owners[id(home), number] = traffic
                count["write allocates"] += 1
        leaves = max(home.server.free, arrival) + packet.sectors * home._sector_fs

        def then(accepted: int) -> None:
            count["write waits for DRAM"] += accepted > leaves

        return then

    def pass_halves(home: Slice, number: int, mask: int, partition: int) -> None:
        for half, near in enumerate(home.near):
            line = near.peek(number)
            count["copy out of date"] += half != partition and line is not None and bool(line.valid & mask)

    def fetch(home: Slice, line: Any, missing: int, *_: Any) -> None:
        count["neighbour sector"] += home._fetched[missing] & ~line.valid != missing

    for name, look in (
        ("_read_home", read_home),
        ("_read_near", read_near),
        ("_allocate", allocate),
        ("write", write),
        ("_pass_halves", pass_halves),
        ("_fetch", fetch),
    ):
        _before(patch, Slice, name, look)


def _watch_channels(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    count = seen.count

    def read(channel: Channel, _: int, __: int) -> None:
        mixed = channel.served - channel._last_write <= MIX_WINDOW
        count["mixed read"] += mixed and channel._mixed_fs != channel._read_fs

    def write(channel: Channel, _: int, __: int) -> None:
        mixed = channel.served - channel._last_read <= MIX_WINDOW
        count["mixed write"] += mixed and channel._mixed_fs != channel._write_fs
        count["lone write"] += not mixed and channel._write_fs != channel._read_fs

    def fetch(channel: Channel, arrival_fs: int, _: int) -> None:
        shares = channel._load.shares(arrival_fs)
        wait = mean_wait_fs(shares, channel._read_batch_fs, channel._write_batch_fs)
        count["batches waited for"] += arrival_fs + wait > max(channel.free, arrival_fs)
        before = channel._load._reads_before + channel._load._writes_before
        count["window before"] += before >> WINDOW_BITS - PART_BITS > 0

    def bare(name: str) -> Look:
        return lambda *_: count.update([f"bare {name}"])

    _before(patch, Channel, "read", read)
    _before(patch, Channel, "fetch", fetch)
    _before(patch, Channel, "write", write)
    for name in ("read", "write", "fetch"):
        _before(patch, BareChannel, name, bare(name))


def _watch_requests(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    count = seen.count
    last: dict[int, tuple[int, int]] = {}

    def arrive(request: Any, _: Any) -> None:
        now, sm, channel = request._path.env.now, request._sm.number, request._packet.channel
        before = last.get(channel)
        count["two SMs at once"] += before is not None and before[0] == now and before[1] != sm
        last[channel] = now, sm

    for cls in (ReadRequest, WriteRequest, AtomicRequest):
        _before(patch, cls, "_arrive", arrive)


def _watch_unit(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    count = seen.count

    def watch_buffer(unit: MemoryUnit) -> None:
        count["buffer full"] += bool(unit._waiting)
        count["stopped behind a store"] += len(unit._waiting) > 1

    def perform(unit: MemoryUnit, instruction: Any, _: int) -> None:
        count["several packets"] += len(instruction.packets) > 1
        count["store beyond the buffer"] += instruction.stored > unit.buffer._sectors
        more = any(packet.passes > packet.sectors for packet in instruction.packets)
        count["lanes on one address"] += more and instruction.op is OpClass.GLOBAL_ATOMIC
        count["parts of sectors"] += more and instruction.op is OpClass.GLOBAL_STORE
        count["a part of a cycle"] += instruction.quarter_cycles % 4 > 0

    def settle(_: LoadStoreQueue, __: int) -> Look:
        return lambda room: count.update({"queue has room again": int(room)})

    _before(patch, MemoryUnit, "_watch_buffer", watch_buffer)
    _before(patch, MemoryUnit, "_perform", perform)
    _before(patch, LoadStoreQueue, "settle", settle)


def _watch_blocks(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    count = seen.count

    def fits(free: SmResources, demand: Any) -> None:
        registers = sum(r // demand.registers_per_warp for r in free._registers) if demand.registers_per_warp else 99
        count["no block slot"] += not free._slots
        count["no shared memory"] += demand.shared_bytes > free._shared
        count["no warp slots"] += demand.warps > free._warp_slots
        count["no registers"] += registers < demand.warps

    def place(free: SmResources, demand: Any) -> Look:
        warps = free.warps.copy()

        def then(placed: tuple[int, list[int]]) -> None:
            for part in placed[1]:
                count["registers choose the part"] += part != warps.index(min(warps))
                warps[part] += 1

        return then

    def begin(engine: SimpyEngine, run: KernelRun) -> None:
        beside = any(r.begun.triggered and not r.done.triggered for r in engine.runs if r is not run)
        held = any(len(sm.memory_unit.l1._cache) for sm in engine.block_scheduler.sms)
        count["L1 emptied beside a kernel"] += beside and held

    def accepted(run: KernelRun, _: int) -> None:
        count["write after the last block"] += run.blocks_retired == run.trace.config.blocks

    _before(patch, SmResources, "fits", fits)
    _before(patch, SmResources, "place", place)
    _before(patch, SimpyEngine, "_begin_kernel", begin)
    _before(patch, KernelRun, "write_accepted", accepted)


def _watch_host(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    count = seen.count

    def start(scheduler: BlockScheduler, _: KernelRun, priority: int = 0) -> None:
        count["priority"] += any(entry[0] > priority for entry in scheduler._queue)

    def request(engine: Engine, _: Any, priority: int = 0) -> None:
        count["priority"] += any(entry[0] > priority for entry in engine._waiting)

    def waited(_: Work, reason: str, *__: Any) -> None:
        count[f"waits for {reason}"] += 1

    def ended(signals: KernelSignals, work: Any) -> None:
        batch = signals._batches.get(work.number, [])
        count["late signal"] += any(not kernel.ended.triggered for kernel in batch)

    def lines(_: SlicePort, __: int, ___: Any, ____: Any, *_____: Any, writes: bool) -> None:
        running = any(run.begun.triggered and not run.done.triggered for run in seen.engine.runs)
        count["copy through the L2"] += 1
        count["copy beside a kernel"] += running

    _before(patch, BlockScheduler, "start", start)
    _before(patch, Engine, "request", request)
    _before(patch, Work, "waited", waited)
    _before(patch, KernelSignals, "ended", ended)
    _before(patch, SlicePort, "lines", lines)
