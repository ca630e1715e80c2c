"""Rules M5 to M9: the way of packets from an SM to their slice and back."""

from __future__ import annotations

from typing import Any, Protocol

from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import Packet
from gpusim_des.timing.l2 import BareChannel, HomeSlice, Slice
from gpusim_des.timing.load_store import Port
from gpusim_des.timing.order import Environment, Kind, Occurrence, order
from gpusim_des.timing.use import Use
from gpusim_des.timing.warp import Warp


class MemoryPath:
    """All slices with their HBM channels, and the fixed latency on the way there and back."""

    def __init__(self, env: Environment, gpu: GPU, *, caches: bool, history: bool = False) -> None:
        self.env = env
        self.caches = caches
        kind: type[Slice | BareChannel] = Slice if caches else BareChannel
        self.slices: list[HomeSlice] = [kind(gpu, history=history) for _ in range(gpu.dram_channels)]
        fixed = gpu.l2_fixed_latency_fs if caches else gpu.dram_fixed_latency_fs
        self.out_fs = fixed // 2
        self.back_fs = fixed - self.out_fs

    def use(self, time_fs: int) -> Use:
        """How busy everything has been until now."""
        return Use(
            time_fs,
            [home.server.busy_before(time_fs) for home in self.slices],
            [home.atomic_unit.busy_before(time_fs) for home in self.slices],
            [home.channel.busy_before(time_fs) for home in self.slices],
        )


class Load:
    """A global load, an asynchronous copy or an atomic with a result under way: complete with its last packet."""

    __slots__ = ("arrived_fs", "index", "missing", "warp")

    def __init__(self, warp: Warp, index: int, earliest_fs: int = 0) -> None:
        self.warp = warp
        self.index = index
        self.missing = 0
        """Packets that are not back yet."""
        self.arrived_fs = earliest_fs


class Receiver(Protocol):
    """What a request needs to know of an SM."""

    number: int
    partition: int
    """Half of the L2 that is near."""
    port: Port

    def arrived(self, load: Load) -> None:
        """Accept the data of a load whose last packet is back."""

    def acknowledged(self, warp: Warp, time_fs: int, sectors: int) -> None:
        """Hear that a write was accepted, which the SM knows at `time_fs`."""


class ReadRequest:
    """One packet of a load: to its slice, through it, and back through the SM's port.

    Loads that find a sector on its way join the request that fetches it (M2).
    """

    __slots__ = ("_packet", "_path", "_place", "_sm", "arrived_fs", "loads")

    def __init__(self, path: MemoryPath, sm: Receiver, load: Load, part: int, packet: Packet, left_fs: int) -> None:
        self._path = path
        self._sm = sm
        self._packet = packet
        self.loads = [load]
        load.missing += 1
        self.arrived_fs: int | None = None
        """When the sectors are in the SM, once that is known."""
        warp = load.warp
        self._place = order(Kind.ARRIVAL, sm.number, warp.sub_partition, warp.age, load.index, part)
        Occurrence(path.env, left_fs + path.out_fs, self._place, [self._arrive])

    def _arrive(self, _: Any) -> None:
        path, packet = self._path, self._packet
        traffic = self.loads[0].warp.block.run
        leaves = path.slices[packet.channel].read(path.env.now, packet, self._sm.partition, traffic)
        Occurrence(path.env, leaves + path.back_fs, self._place + REPLY_AFTER_ARRIVAL, [self._reply])

    def _reply(self, _: Any) -> None:
        time_fs = self.arrived_fs = self._sm.port.receive(self._path.env.now, self._packet.sectors)
        for load in self.loads:
            load.arrived_fs = max(load.arrived_fs, time_fs)
            load.missing -= 1
            if not load.missing:
                self._sm.arrived(load)
        self.loads = []  # the L1 may keep the request for long; warps that have left should not stay with it


REPLY_AFTER_ARRIVAL = order(Kind.REPLY) - order(Kind.ARRIVAL)


class WriteRequest:
    """One packet of a store, or of an atomic whose result nobody reads: to its slice, accepted there (M7, M8)."""

    __slots__ = ("_atomic", "_packet", "_path", "_place", "_sm", "_warp")

    def __init__(
        self,
        path: MemoryPath,
        sm: Receiver,
        warp: Warp,
        index: int,
        part: int,
        packet: Packet,
        left_fs: int,
        *,
        atomic: bool = False,
    ) -> None:
        self._path = path
        self._sm = sm
        self._packet = packet
        self._warp = warp
        self._atomic = atomic
        warp.unacknowledged += 1
        warp.block.run.write_sent()
        self._place = order(Kind.ARRIVAL, sm.number, warp.sub_partition, warp.age, index, part)
        Occurrence(path.env, left_fs + path.out_fs, self._place, [self._arrive])

    def _arrive(self, _: Any) -> None:
        packet, path, run = self._packet, self._path, self._warp.block.run
        home = path.slices[packet.channel]
        if self._atomic:
            ready = home.fetch(path.env.now, packet, self._sm.partition, run)
            Occurrence(path.env, ready, self._place, [self._perform])
        else:
            self._accepted(home.write(path.env.now, packet, self._sm.partition, run))

    def _perform(self, _: Any) -> None:
        self._accepted(self._path.slices[self._packet.channel].perform(self._path.env.now, self._packet))

    def _accepted(self, time_fs: int) -> None:
        self._warp.block.run.write_accepted(time_fs)
        self._sm.acknowledged(self._warp, time_fs + self._path.back_fs, self._packet.sectors)


class AtomicRequest:
    """One packet of an atomic whose result is read: performed at its slice, the old values come back (M7)."""

    __slots__ = ("_load", "_packet", "_path", "_place", "_sm")

    def __init__(self, path: MemoryPath, sm: Receiver, load: Load, part: int, packet: Packet, left_fs: int) -> None:
        self._path = path
        self._sm = sm
        self._load = load
        self._packet = packet
        load.missing += 1
        warp = load.warp
        warp.block.run.write_sent()
        self._place = order(Kind.ARRIVAL, sm.number, warp.sub_partition, warp.age, load.index, part)
        Occurrence(path.env, left_fs + path.out_fs, self._place, [self._arrive])

    def _arrive(self, _: Any) -> None:
        packet, path, run = self._packet, self._path, self._load.warp.block.run
        ready = path.slices[packet.channel].fetch(path.env.now, packet, self._sm.partition, run)
        Occurrence(path.env, ready, self._place, [self._perform])

    def _perform(self, _: Any) -> None:
        packet, path = self._packet, self._path
        done = path.slices[packet.channel].perform(path.env.now, packet)
        self._load.warp.block.run.write_accepted(done)
        Occurrence(path.env, done + path.back_fs, self._place + REPLY_AFTER_ARRIVAL, [self._reply])

    def _reply(self, _: Any) -> None:
        load = self._load
        load.arrived_fs = max(load.arrived_fs, self._sm.port.receive(self._path.env.now, self._packet.sectors))
        load.missing -= 1
        if not load.missing:
            self._sm.arrived(load)
