"""Rules M1, M2, M7 and M8: what the load/store unit of an SM does with each memory instruction."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, NamedTuple, Protocol

from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import Packet, Packets, bulk_packets
from gpusim_des.timing.cache import SECTORS_IN
from gpusim_des.timing.l1 import L1
from gpusim_des.timing.load_store import FAR, LoadStoreQueue, Port
from gpusim_des.timing.memory_path import AtomicRequest, Load, MemoryPath, ReadRequest, Receiver, WriteRequest
from gpusim_des.timing.order import Kind, Occurrence, order
from gpusim_des.timing.server import FifoServer
from gpusim_des.timing.store_buffer import StoreBuffer
from gpusim_des.timing.warp import NEVER, Warp
from gpusim_des.trace import SECTOR_BYTES, SHARED_OPS, OpClass

_SHARED_LOAD, _SHARED_ATOMIC, _SHUFFLE = OpClass.SHARED_LOAD, OpClass.SHARED_ATOMIC, OpClass.SHUFFLE
_GLOBAL_LOAD, _ASYNC_COPY, _BULK_COPY = OpClass.GLOBAL_LOAD, OpClass.ASYNC_COPY, OpClass.BULK_COPY
_GLOBAL_STORE, _GLOBAL_ATOMIC = OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC


AFTER_ALL_PARTS = 255
"""In place of a sub-partition, in the order of simultaneous events (T2)."""


class MemorySm(Receiver, Protocol):
    """What the unit needs to know of its SM."""

    def known(self, warp: Warp, index: int, cycle: int) -> None:
        """Hear when a memory instruction is complete that did not know at issue."""

    def wake(self, cycle: int) -> None:
        """Look at the warps again in this cycle."""


class Instruction(NamedTuple):
    """A memory instruction on its way through the unit."""

    warp: Warp
    number: int
    """Its number in the stream."""
    op: OpClass
    quarter_cycles: int
    packets: Packets
    stored: int
    """Sectors that it takes in the store buffer."""
    cycle: int
    queue: LoadStoreQueue


class MemoryUnit:
    """The unit that all memory instructions of an SM pass through, in the order of issue.

    Time in the unit is kept in quarter-cycles, because a coalesced access of several lines takes a fraction of a cycle
    more (M1). An instruction that stores more than the store buffer has room for stops it, and all behind it.
    """

    def __init__(self, gpu: GPU, memory: MemoryPath, sm: MemorySm, port: Port, *, history: bool = False) -> None:
        self.server = FifoServer(history=history)
        self.copy_server = FifoServer(history=history)
        """The SM's copy unit: asks for the sectors of bulk copies."""
        self.l1 = L1(0)
        self.buffer = StoreBuffer(max(1, gpu.store_buffer_bytes // SECTOR_BYTES))
        self._memory = memory
        self._sm = sm
        self._port = port
        self._gpu = gpu
        self._period_fs = gpu.sm_period_fs
        self._waiting: deque[Instruction] = deque()
        self._watched_fs: int | None = None
        """Time at which the buffer will be looked at again."""
        self._copy_sector_fs = -(-SECTOR_BYTES * gpu.sm_period_fs // gpu.bulk_bytes_per_cycle)

    # The unit itself ------------------------------------------------------------------------------------------------

    def accept(self, warp: Warp, cycle: int, queue: LoadStoreQueue) -> None:
        """Take the next instruction of a warp, issued at `cycle` through the queue of its sub-partition."""
        index = warp.next
        op = warp.program.ops[index]
        quarter_cycles = warp.quarter_cycles[warp.memory_access]
        warp.memory_access += 1
        packets: Packets = ()
        stored = 0
        run = warp.block.run
        run.quarter_cycles[op] += quarter_cycles
        if op not in SHARED_OPS:
            packets = warp.packets[warp.global_access]
            warp.global_access += 1
            if op is _GLOBAL_STORE or (op is _GLOBAL_ATOMIC and index in warp.program.unread):
                stored = sum(packet.sectors for packet in packets)
                run.stored_sectors += stored
        instruction = Instruction(warp, index, op, quarter_cycles, packets, stored, cycle, queue)
        if self._waiting or (stored and not self.buffer.has_room(stored, self._memory.env.now)):
            warp.in_flight += 1
            queue.enter(cycle, FAR)
            self._waiting.append(instruction)
            self._watch_buffer()
            return
        leaves, done = self._perform(instruction, 4 * cycle)
        queue.enter(cycle, leaves)
        if done == NEVER:
            warp.in_flight += 1
        else:
            warp.complete[index] = done
            warp.last_memory = max(warp.last_memory, done)

    def released(self, time_fs: int, sectors: int) -> None:
        """Hear that written sectors will be acknowledged at a time."""
        self.buffer.give_back(sectors, time_fs)
        if self._waiting:
            self._watch_buffer()

    def _watch_buffer(self) -> None:
        """Come back at the next acknowledgement that is known; there may be none yet."""
        time_fs = self.buffer.next_release_fs
        if time_fs is None or (self._watched_fs is not None and self._watched_fs <= time_fs):
            return
        self._watched_fs = time_fs
        Occurrence(self._memory.env, time_fs, order(Kind.REPLY, self._sm.number, AFTER_ALL_PARTS), [self._go_on])

    def _go_on(self, _: Any) -> None:
        """Perform what has waited for the store buffer, as far as there is room now."""
        now = self._memory.env.now
        if self._watched_fs == now:
            self._watched_fs = None
        while self._waiting and (not self._waiting[0].stored or self.buffer.has_room(self._waiting[0].stored, now)):
            instruction = self._waiting.popleft()
            leaves, done = self._perform(instruction, max(4 * instruction.cycle, -(-4 * now // self._period_fs)))
            if instruction.queue.settle(leaves):
                self._sm.wake(instruction.queue.free)
            if done != NEVER:
                self._sm.known(instruction.warp, instruction.number, done)
        if self._waiting:
            self._watch_buffer()

    def _perform(self, instruction: Instruction, arrival: int) -> tuple[int, int]:
        """Pass an instruction through; returns when it leaves the unit and when it is complete, as cycles."""
        end = self.server.serve(arrival, instruction.quarter_cycles)
        leaves = -(-end // 4)
        op = instruction.op
        if op is _GLOBAL_LOAD or op is _ASYNC_COPY:
            return leaves, self._load(instruction, leaves, end)
        if op is _GLOBAL_STORE:
            self._store(instruction, end, atomic=False)
        elif op is _SHARED_LOAD or (op is _SHARED_ATOMIC and instruction.number not in instruction.warp.program.unread):
            return leaves, leaves - 1 + self._gpu.shared_latency_cycles
        elif op is _SHUFFLE:
            return leaves, leaves - 1 + self._gpu.shuffle_latency_cycles
        elif op is _GLOBAL_ATOMIC:
            return leaves, self._atomic(instruction, leaves, end)
        elif op is _BULK_COPY:
            self._copy_bulk(instruction, end)
            return leaves, NEVER
        return leaves, leaves

    def _time_fs(self, quarter: int) -> int:
        return -(-quarter * self._period_fs // 4)

    # Global memory --------------------------------------------------------------------------------------------------

    def _load(self, instruction: Instruction, leaves: int, end: int) -> int:
        """Ask for the sectors that the L1 does not have; returns the cycle of completion if that is known."""
        memory, port, sm = self._memory, self._port, self._sm
        load = Load(instruction.warp, instruction.number)
        time_fs = self._time_fs(end)
        run, l1, now = instruction.warp.block.run, self.l1, memory.env.now
        run.l1_sectors += sum(packet.sectors for packet in instruction.packets)
        if not memory.caches:
            for part, packet in enumerate(instruction.packets):
                ReadRequest(memory, sm, load, part, packet, port.send_load(time_fs))
            return NEVER
        found = False
        for part, packet in enumerate(instruction.packets):
            missing, waiting = l1.look_up(packet.lines, load, now)
            asked = packet
            if missing != packet.lines:
                found = True
                sectors = sum(SECTORS_IN[mask] for _, mask in missing)
                run.l1_hit_sectors += packet.sectors - sectors
                if not missing:
                    continue
                asked = Packet(packet.channel, sectors, 0, missing, 0)
            request = ReadRequest(memory, sm, load, part, asked, port.send_load(time_fs))
            l1.reserve(waiting, missing, request)
        hit = leaves - 1 + self._gpu.l1_latency_cycles
        if load.missing:
            if found:
                load.arrived_fs = max(load.arrived_fs, hit * self._period_fs)
            return NEVER
        return max(hit, -(-load.arrived_fs // self._period_fs))

    def _store(self, instruction: Instruction, end: int, *, atomic: bool) -> None:
        warp, index, time_fs = instruction.warp, instruction.number, self._time_fs(end)
        self.buffer.take(instruction.stored)
        for part, packet in enumerate(instruction.packets):
            left_fs = self._port.send_store(time_fs, packet.sectors)
            WriteRequest(self._memory, self._sm, warp, index, part, packet, left_fs, atomic=atomic)

    def _atomic(self, instruction: Instruction, leaves: int, end: int) -> int:
        if self._memory.caches:
            for packet in instruction.packets:
                self.l1.drop(packet.lines)
        if instruction.stored:
            self._store(instruction, end, atomic=True)
            return leaves
        load, time_fs = Load(instruction.warp, instruction.number), self._time_fs(end)
        for part, packet in enumerate(instruction.packets):
            left_fs = self._port.send_store(time_fs, packet.sectors)
            AtomicRequest(self._memory, self._sm, load, part, packet, left_fs)
        return NEVER

    def _copy_bulk(self, instruction: Instruction, end: int) -> None:
        """Let the copy unit ask for one piece after another, past the L1."""
        warp, index = instruction.warp, instruction.number
        load, time_fs = Load(warp, index), self._time_fs(end)
        pieces = bulk_packets(instruction.packets, self._gpu)
        load.missing = len(pieces)
        for part, piece in enumerate(pieces):
            asked_fs = self.copy_server.serve(time_fs, piece.sectors * self._copy_sector_fs)
            place = order(Kind.ARRIVAL, self._sm.number, warp.sub_partition, warp.age, index, part)
            Occurrence(self._memory.env, asked_fs, place, [partial(self._ask, load, part, piece)])

    def _ask(self, load: Load, part: int, piece: Packet, _: Any) -> None:
        """Send the request for a piece: the port is free for others until then (M3)."""
        ReadRequest(self._memory, self._sm, load, part, piece, self._port.send_load(self._memory.env.now))
        load.missing -= 1  # it was counted when the copy began
