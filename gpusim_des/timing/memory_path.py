"""Rules M6 and M9: the way of a packet from an SM to its HBM channel and back, with caches off."""

from __future__ import annotations

from typing import Any, Protocol

from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import Packet
from gpusim_des.timing.hbm import Channel
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.load_store import Port
from gpusim_des.timing.order import Environment, Kind, Occurrence, order
from gpusim_des.timing.warp import Warp


class MemoryPath:
    """All HBM channels, and the fixed latency on the way there and back."""

    def __init__(self, env: Environment, gpu: GPU) -> None:
        self.env = env
        self.channels = [Channel(gpu) for _ in range(gpu.dram_channels)]
        self.out_fs = gpu.dram_fixed_latency_fs // 2
        self.back_fs = gpu.dram_fixed_latency_fs - self.out_fs


class Load:
    """A global load under way: complete when the last of its packets is back."""

    __slots__ = ("arrived_fs", "index", "missing", "warp")

    def __init__(self, warp: Warp, index: int, packets: int) -> None:
        self.warp = warp
        self.index = index
        self.missing = packets
        self.arrived_fs = 0


class LoadReceiver(Protocol):
    """What a read request needs to know of an SM."""

    number: int
    port: Port

    def loaded(self, warp: Warp, index: int, time_fs: int) -> None:
        """Accept the data of a load that is complete at `time_fs`."""


class ReadRequest:
    """One packet of a load: to its channel, through it, and back through the SM's port."""

    __slots__ = ("_load", "_packet", "_part", "_path", "_sm")

    def __init__(self, path: MemoryPath, sm: LoadReceiver, load: Load, part: int, packet: Packet, left_fs: int) -> None:
        self._path = path
        self._sm = sm
        self._load = load
        self._part = part
        self._packet = packet
        Occurrence(path.env, left_fs + path.out_fs, self._order(Kind.ARRIVAL), [self._arrive])

    def _order(self, kind: Kind) -> int:
        warp = self._load.warp
        return order(kind, self._sm.number, warp.sub_partition, warp.age, self._load.index, self._part)

    def _arrive(self, _: Any) -> None:
        packet, path = self._packet, self._path
        self._load.warp.block.run.read_granules += packet.granules
        leaves = path.channels[packet.channel].read(path.env.now, packet.granules)
        Occurrence(path.env, leaves + path.back_fs, self._order(Kind.REPLY), [self._reply])

    def _reply(self, _: Any) -> None:
        load = self._load
        load.arrived_fs = max(load.arrived_fs, self._sm.port.receive(self._path.env.now, self._packet.sectors))
        load.missing -= 1
        if not load.missing:
            self._sm.loaded(load.warp, load.index, load.arrived_fs)


class WriteRequest:
    """One packet of a store: to its channel and into memory."""

    __slots__ = ("_packet", "_path", "_run")

    def __init__(
        self, path: MemoryPath, sm_number: int, warp: Warp, index: int, part: int, packet: Packet, left_fs: int
    ) -> None:
        self._path = path
        self._packet = packet
        self._run: KernelRun = warp.block.run
        self._run.write_sent()
        place = order(Kind.ARRIVAL, sm_number, warp.sub_partition, warp.age, index, part)
        Occurrence(path.env, left_fs + path.out_fs, place, [self._arrive])

    def _arrive(self, _: Any) -> None:
        packet, path = self._packet, self._path
        self._run.write_granules += packet.granules
        self._run.write_accepted(path.channels[packet.channel].write(path.env.now, packet.granules))
