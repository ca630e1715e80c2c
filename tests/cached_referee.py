"""The referee's memory with caches on: every way through L1 and L2 computed again, in the plainest way (M2, M5, M11).

What a cache holds depends on the order of accesses only, so the ways are computed in passes: through the L1s in the
order of issue, through the slices in the order of arrival, and back through the ports in the order of return. Atomics,
fences and full store buffers are not known here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal

from gpusim_des.gpu import GPU
from gpusim_des.trace import GLOBAL_OPS, MEMORY_OPS, OpClass
from tests.referee import Key, Memory, Player, channel_of, in_acting_order


class Lines:
    """Sectors in a cache, and the order in which its lines were used."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.order: list[int] = []
        self.sectors: set[int] = set()

    def use(self, line: int) -> int | None:
        """Make a line the one used last; returns the line that had to leave, if one had to."""
        left = None
        if line in self.order:
            self.order.remove(line)
        elif len(self.order) == self.capacity:
            left = self.order.pop(0)
            self.sectors -= set(sectors_of(left))
        self.order.append(line)
        return left

    def forget(self, sectors: set[int]) -> None:
        """Lose sectors, and the lines that have none left."""
        touched = {s // 4 for s in sectors}
        self.sectors -= sectors
        self.order = [n for n in self.order if n not in touched or self.sectors & set(sectors_of(n))]


def sectors_of(line: int) -> range:
    return range(4 * line, 4 * line + 4)


def by_line(sectors: list[int]) -> dict[int, list[int]]:
    """Sectors of every line, in the order of first mention."""
    lines: dict[int, list[int]] = {}
    for s in sectors:
        lines.setdefault(s // 4, []).append(s)
    return lines


class Request:
    """Sectors that go to one slice together."""

    def __init__(self, time_fs: int, place: tuple[int, ...], channel: int, sectors: list[int], *, read: bool) -> None:
        self.time_fs = time_fs
        self.place = place
        """SM, sub-partition, age, instruction, part: the order at one instant (T2)."""
        self.channel = channel
        self.sectors = sectors
        self.read = read
        self.parts = 0
        """Sectors of which a part is written."""
        self.arrived_fs = 0
        """When the last sector is in the SM again."""


class HomeSlice:
    """One slice of the L2, its near halves, and its channel."""

    def __init__(self, gpu: GPU, number: int, counts: Counter[str], served: list[tuple[int, int, int]]) -> None:
        self.gpu = gpu
        self.number = number
        self.counts = counts
        self.served = served
        lines = max(1, gpu.l2_bytes // 128 // gpu.dram_channels)
        self.home = Lines(lines)
        self.dirty: set[int] = set()
        self.there: dict[int, int] = {}
        """When every sector arrived from DRAM."""
        self.near = [Lines(max(1, lines // 2)) for _ in range(2)] if gpu.l2_partitions == 2 else []
        self.near_there: list[dict[int, int]] = [{}, {}]
        self.free = 0
        self.channel_free = 0
        self.windows: dict[int, dict[str, int]] = defaultdict(lambda: {"read": 0, "write": 0})
        """Femtoseconds of reads and writes that arrived in each window of 2**32 fs."""
        self.kinds: list[str] = []
        self.out_fs = (gpu.dram_latency_cycles - gpu.l2_latency_cycles) * gpu.sm_period_fs - gpu.granule_fs("read")
        self.to_fs = self.out_fs // 2

    def serve(self, request: Request, partition: int) -> int:
        """Accept a request in its turn; returns when its data are ready, or when it was accepted."""
        services = len(request.sectors)
        if not request.read:
            services *= self.gpu.l2_write_services
            services += request.parts * (self.gpu.l2_partial_write_services - self.gpu.l2_write_services)
        self.free = now = max(self.free, request.time_fs) + services * self.gpu.l2_sector_fs
        ready = now
        for line, sectors in by_line(request.sectors).items():
            if not request.read:
                ready = max(ready, self._write(line, set(sectors), partition, now))
            elif self.near:
                ready = max(ready, self._read_near(line, set(sectors), partition, now))
            else:
                ready = max(ready, self._read(line, set(sectors), now)[0])
        return ready

    def _dram(self, kind: Literal["read", "write"], sectors: set[int], now: int) -> int:
        """Move the granules of some sectors; returns when the channel is through with them."""
        granule = self.gpu.dram_granule_bytes
        granules = len({s * 32 // granule for s in sectors})
        self.counts[kind] += granules * granule
        wait = self._wait_for_batches(now + self.to_fs) if kind == "read" else 0
        leaves, service = self._channel(kind, granules, now)
        return max(leaves, now + self.to_fs + wait + service)

    def _wait_for_batches(self, arrival: int) -> int:
        """Mean wait of a read, from what arrived in its window and, in part, in the one before."""
        window = max([arrival >> 32, *self.windows])
        gone = max(0, arrival - (window << 32)) >> 22
        kinds: tuple[Literal["read", "write"], ...] = ("read", "write")
        load = {}
        for kind in kinds:
            before = self.windows[window - 1][kind] >> 10
            load[kind] = self.windows[window][kind] + before * (1024 - gone) >> 22
        load["write"] = min(1024, load["write"])
        load["read"] = min(1024 - load["write"], load["read"])
        gpu = self.gpu
        size = {"read": gpu.dram_read_batch_bytes, "write": gpu.dram_write_batch_bytes}
        times = {kind: size[kind] * gpu.granule_fs(kind) // gpu.dram_granule_bytes for kind in load}
        return 2 * sum(load[kind] * times[kind] for kind in load) // (4 * 1024 - 3 * sum(load.values()))

    def _channel(self, kind: Literal["read", "write"], granules: int, now: int) -> tuple[int, int]:
        mixed = any(k != kind for k in self.kinds[-16:])
        self.kinds.append(kind)
        arrival = now + self.to_fs
        start = max(self.channel_free, arrival)
        service = granules * self.gpu.granule_fs("mixed" if mixed else kind)
        self.windows[max([arrival >> 32, *self.windows])][kind] += service
        self.channel_free = start + service
        self.served.append((self.number, arrival, self.channel_free))
        return self.channel_free, service

    def _use(self, line: int, now: int) -> bool:
        """Use a line, whatever must leave for it; tells whether something had to be written."""
        left = self.home.use(line)
        if left is None:
            return False
        for s in sectors_of(left):
            self.there.pop(s, None)
        for near in self.near:
            near.forget(set(sectors_of(left)))
        written = self.dirty & set(sectors_of(left))
        self.dirty -= written
        if written:
            self._dram("write", written, now)
        return bool(written)

    def _read(self, line: int, sectors: set[int], now: int) -> tuple[int, bool]:
        """Read at home; returns when the sectors are there, and whether any of them was, or was on its way."""
        self._use(line, now)
        present = sectors & self.home.sectors
        missing = sectors - present
        ready = max([now, *(self.there.get(s, 0) for s in present)])
        if missing:
            width = self.gpu.dram_granule_bytes // 32
            fetched = {width * (s // width) + i for s in missing for i in range(width)} - self.home.sectors
            there = self._dram("read", missing, now) + self.out_fs - self.to_fs
            self.there |= dict.fromkeys(fetched, there)
            self.home.sectors |= fetched
            ready = max(ready, there)
        self.counts["l2 hits"] += len(present)
        return ready, bool(present)

    def _read_near(self, line: int, sectors: set[int], partition: int, now: int) -> int:
        near, there = self.near[partition], self.near_there[partition]
        near.use(line)
        present = sectors & near.sectors
        missing = sectors - present
        ready = max([now, *(there.get(s, 0) for s in present)])
        self.counts["l2 hits"] += len(present)
        if missing:
            arrives, found = self._read(line, missing, now)
            if found:
                far = self.gpu.l2_far_latency_cycles - self.gpu.l2_latency_cycles
                arrives = max(arrives, now + far * self.gpu.sm_period_fs)
            near.sectors |= missing
            there |= dict.fromkeys(missing, arrives)
            ready = max(ready, arrives)
        return ready

    def _write(self, line: int, sectors: set[int], partition: int, now: int) -> int:
        accepted = self.channel_free if self._use(line, now) else now
        self.home.sectors |= sectors
        self.dirty |= sectors
        for other, near in enumerate(self.near):
            if other != partition:
                near.forget(sectors)
                continue
            near.use(line)
            for s in sectors - near.sectors:
                self.near_there[other].pop(s, None)
            near.sectors |= sectors
        return accepted


class CachedMemory(Memory):
    """When every memory instruction is complete with caches on, given when they were issued."""

    def __init__(self, gpu: GPU, warps: list[Player]) -> None:
        self.gpu = gpu
        self.complete: dict[Key, int] = {}
        self.leaves: dict[Key, int] = {}
        self.writes_end_fs = 0
        self.served: list[tuple[int, int, int]] = []
        self.counts: Counter[str] = Counter()
        self.requests: list[Request] = []
        self.waits: dict[Key, list[Request]] = defaultdict(list)
        """Requests that a load waits for, its own and others'."""
        for sm in range(gpu.sms):
            self._through_the_l1(sm, [w for w in warps if w.history.sm == sm])
        self.slices = [HomeSlice(gpu, n, self.counts, self.served) for n in range(gpu.dram_channels)]
        self._through_the_slices()
        for key, requests in self.waits.items():
            back = [-(-request.arrived_fs // gpu.sm_period_fs) for request in requests]
            self.complete[key] = max([self.complete[key], *back])

    def _through_the_l1(self, sm: int, warps: list[Player]) -> None:
        gpu, unit, self._port = self.gpu, 0, 0
        l1 = Lines((gpu.l1_bytes - gpu.shared_carveouts_bytes[0]) // 128)
        bringing: dict[int, Request] = {}
        for cycle, player, index in in_acting_order(gpu, warps):
            kind, _, quarters, sectors, _, passes, *_ = player.program[index]
            if kind not in MEMORY_OPS:
                continue
            key = player.age, index
            parts = {sector for sector, often in zip(sectors, passes, strict=False) if often > 1}
            unit = max(unit, 4 * cycle) + max(quarters, 4)
            self.leaves[key] = self.complete[key] = -(-unit // 4)
            if kind in (OpClass.SHARED_LOAD, OpClass.SHUFFLE):
                shared = kind is OpClass.SHARED_LOAD
                self.complete[key] += (gpu.shared_latency_cycles if shared else gpu.shuffle_latency_cycles) - 1
            if kind not in GLOBAL_OPS:
                continue
            together: dict[int, list[int]] = defaultdict(list)
            for sector in sectors:
                together[channel_of(sector, gpu)].append(sector)
            for part, (channel, asked) in enumerate(together.items()):
                place = (sm, player.history.sub_partition, player.age, index, part)
                if kind is OpClass.GLOBAL_STORE:
                    self._send(unit, place, channel, asked, read=False).parts = len(parts & set(asked))
                    continue
                missing = self._look_up(l1, asked)
                self.counts["l1"] += len(asked)
                self.counts["l1 hits"] += len(asked) - len(missing)
                if len(missing) < len(asked):
                    self.complete[key] = self.leaves[key] - 1 + gpu.l1_latency_cycles
                    self.waits[key] += [bringing[s] for s in asked if s not in missing]
                if missing:
                    request = self._send(unit, place, channel, missing, read=True)
                    bringing |= dict.fromkeys(missing, request)
                    self.waits[key].append(request)

    @staticmethod
    def _look_up(l1: Lines, asked: list[int]) -> list[int]:
        """Sectors that are not in the L1; they are from now on, line by line."""
        if not l1.capacity:
            return asked
        missing = []
        for line, sectors in by_line(asked).items():
            l1.use(line)
            missing += [s for s in sectors if s not in l1.sectors]
            l1.sectors |= set(sectors)
        return missing

    def _send(self, unit: int, place: tuple[int, ...], channel: int, sectors: list[int], *, read: bool) -> Request:
        gpu = self.gpu
        carried = 0 if read else len(sectors)
        self._port = max(self._port, -(-unit * gpu.sm_period_fs // 4))
        self._port += gpu.port_out_fs(gpu.request_bytes) + carried * gpu.port_out_fs(32)
        request = Request(self._port + gpu.l2_fixed_latency_fs // 2, place, channel, sectors, read=read)
        self.requests.append(request)
        return request

    def _through_the_slices(self) -> None:
        gpu = self.gpu
        back_fs = gpu.l2_fixed_latency_fs - gpu.l2_fixed_latency_fs // 2
        returning = []
        for request in sorted(self.requests, key=lambda r: (r.time_fs, r.place)):
            partition = request.place[0] * gpu.l2_partitions // gpu.sms
            ready = self.slices[request.channel].serve(request, partition)
            if request.read:
                self.counts["l2"] += len(request.sectors)
                returning.append((ready + back_fs, request.place, request))
            else:
                self.writes_end_fs = max(self.writes_end_fs, ready)
        port: dict[int, int] = defaultdict(int)
        for time_fs, place, request in sorted(returning, key=lambda r: r[:2]):
            port[place[0]] = max(port[place[0]], time_fs) + len(request.sectors) * gpu.port_in_fs(32)
            request.arrived_fs = port[place[0]]
