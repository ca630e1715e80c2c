"""Rules I1, I2, I6 and G3: a streaming multiprocessor with its blocks, its schedulers and its barriers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU
from gpusim_des.timeline import BlockSpan
from gpusim_des.timing.address_hash import packets_of
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.load_store import LoadStoreQueue, LoadStoreUnit, Port
from gpusim_des.timing.memory_path import Load, MemoryPath, ReadRequest, WriteRequest
from gpusim_des.timing.order import Alarm, Environment, Kind, Occurrence, order
from gpusim_des.timing.pipe import Pipe, Unit
from gpusim_des.timing.probe import Probe
from gpusim_des.timing.program import MEMORY_UNIT, PIPE_CLASSES
from gpusim_des.timing.warp import Warp
from gpusim_des.timing.warp_scheduler import WarpScheduler
from gpusim_des.trace import OpClass

_BARRIER, _BRANCH = OpClass.BARRIER, OpClass.BRANCH
_SHARED_LOAD, _SHUFFLE = OpClass.SHARED_LOAD, OpClass.SHUFFLE
_GLOBAL_LOAD, _GLOBAL_STORE = OpClass.GLOBAL_LOAD, OpClass.GLOBAL_STORE


class ResidentBlock:
    """A block on an SM, from dispatch to retirement."""

    __slots__ = ("at_barrier", "block", "dispatched_fs", "last_arrival", "last_exit", "run", "slot", "staying", "warps")

    def __init__(self, run: KernelRun, block: int, slot: int, dispatched_fs: int) -> None:
        self.run = run
        self.block = block
        self.slot = slot
        self.dispatched_fs = dispatched_fs
        self.warps: list[Warp] = []
        self.staying = 0
        """Warps that have not exited."""
        self.at_barrier: list[Warp] = []
        self.last_arrival = 0
        self.last_exit = 0


class StreamingMultiprocessor:
    """One SM as a SimPy process: asleep until the next cycle at which something can change.

    Parameters
    ----------
    env, gpu, number
        The simulation, the GPU model, and the number of this SM.
    memory
        Where global accesses go.
    probe
        Where the timeline is recorded.
    retired
        Called when a block's slot is free again.
    """

    def __init__(
        self,
        env: Environment,
        gpu: GPU,
        number: int,
        memory: MemoryPath,
        probe: Probe,
        retired: Callable[[], None],
    ) -> None:
        self.env = env
        self.gpu = gpu
        self.number = number
        self.port = Port(gpu)
        self.load_store = LoadStoreUnit()
        self.blocks: list[ResidentBlock] = []
        self._memory = memory
        self._probe = probe
        self._retired = retired
        self._period_fs = gpu.sm_period_fs
        self._parts = gpu.sub_partitions
        self._shared_latency = gpu.shared_latency_cycles
        self._shuffle_latency = gpu.shuffle_latency_cycles
        self._branch_latency = gpu.branch_latency_cycles
        self._barrier_latency = gpu.barrier_latency_cycles
        self._pipes = [gpu.pipe(op.label) for op in PIPE_CLASSES]
        self._first = 0
        """Sub-partition that acts first in a cycle: the one after the last that got a unit shared by the SM (I5)."""
        self._waking: list[tuple[int, int, Warp]] = []
        self._free_slots = list(range(gpu.max_blocks_per_sm))
        self._alarm = Alarm(env, order(Kind.ISSUE, number))
        self.schedulers = self._build_schedulers()
        env.process(self._run())

    def _build_schedulers(self) -> list[WarpScheduler]:
        log, parts = self._probe.wants_warps, self._parts
        common = [Pipe(p.interval_cycles, parts, keep_log=log) if p.shared_by_sm else None for p in self._pipes]
        schedulers = []
        for part in range(parts):
            units: list[Unit] = [
                shared or Pipe(p.interval_cycles, 1, keep_log=log)
                for shared, p in zip(common, self._pipes, strict=True)
            ]
            units.append(LoadStoreQueue(self.gpu.load_store_queue_depth, keep_log=log))
            units.append(Unit(1, keep_log=log))
            seats = [part if p.shared_by_sm else 0 for p in self._pipes] + [0, 0]
            schedulers.append(WarpScheduler(self.gpu.scheduler_policy, units, seats, self._probe))
        return schedulers

    # Blocks (I1, I2, G3) --------------------------------------------------------------------------------------------

    def has_room(self, run: KernelRun) -> bool:
        """Tell whether one more block of the kernel fits."""
        return len(self.blocks) < run.occupancy.blocks_per_sm

    def accept(self, run: KernelRun, number: int) -> None:
        """Make block `number` resident now; its warps may issue `block_start` cycles later."""
        now = self.env.now
        block = ResidentBlock(run, number, heappop(self._free_slots), now)
        self.blocks.append(block)
        cycle = -(-now // self._period_fs)
        start = cycle + self.gpu.block_start_cycles
        traces = run.trace.block(number)
        packets = packets_of(traces, self.gpu)
        age = run.next_age(len(traces))
        for w, trace in enumerate(traces):
            part = min(range(self._parts), key=lambda p: self.schedulers[p].resident)
            self.schedulers[part].resident += 1
            program = run.program(trace.stream)
            warp = Warp(block, w, age + w, part, program, trace.footprint.quarter_cycles.tolist(), packets[w])
            warp.begin(cycle, start)
            block.warps.append(warp)
        block.staying = len(block.warps)
        for warp in block.warps:
            if warp.finished:
                self._exit(warp)
            else:
                heappush(self._waking, (start, warp.age, warp))
        self._alarm.set(start * self._period_fs)

    def _exit(self, warp: Warp) -> None:
        """Let a warp leave whose last result is known; its block retires with the last one."""
        block, run = warp.block, warp.block.run
        end = warp.plan_drain()
        self.schedulers[warp.sub_partition].account(warp)
        run.resident_warp_cycles += end - warp.start
        if self._probe.wants_warps:
            self._probe.exit(warp, run.number, self.number)
        block.staying -= 1
        block.last_exit = max(block.last_exit, end)
        if block.staying:
            self._release_if_full(block)
        else:
            retires = (block.last_exit + self.gpu.block_end_cycles) * self._period_fs
            place = order(Kind.RETIREMENT, self.number, age=block.warps[0].age)
            Occurrence(self.env, retires, place, [lambda _: self._retire(block)])

    def _retire(self, block: ResidentBlock) -> None:
        self.blocks.remove(block)
        for warp in block.warps:
            self.schedulers[warp.sub_partition].resident -= 1
        heappush(self._free_slots, block.slot)
        now = self.env.now
        run = block.run
        self._probe.block(BlockSpan(run.number, block.block, self.number, block.slot, block.dispatched_fs, now))
        run.was_resident(self.number, block.warps[0].start, block.last_exit)
        run.block_retired()
        self._retired()

    # Issue (I3, I4) -------------------------------------------------------------------------------------------------

    def _run(self) -> Generator[Event, Any, None]:
        while True:
            yield self._alarm.sleep()
            self._alarm.reset()
            cycle = self.env.now // self._period_fs
            self._step(cycle)

    def _step(self, cycle: int) -> None:
        """Let every scheduler issue in this cycle, and set the alarm for the next one that matters."""
        waking, schedulers = self._waking, self.schedulers
        while waking and waking[0][0] <= cycle:
            warp = heappop(waking)[2]
            schedulers[warp.sub_partition].enter(warp)
        following = None
        first = self._first
        for offset in range(self._parts):
            scheduler = schedulers[(first + offset) % self._parts]
            if not scheduler.ready:
                continue
            chosen = scheduler.pick(cycle)
            if chosen is not None:
                self._issue(scheduler, chosen, cycle)
                if not scheduler.ready:
                    continue
                retry = cycle + 1
            else:
                retry = max(scheduler.retry, cycle + 1)
            following = retry if following is None else min(following, retry)
        if waking and (following is None or waking[0][0] < following):
            following = waking[0][0]
        if following is not None:
            self._alarm.set(following * self._period_fs)

    def _issue(self, scheduler: WarpScheduler, warp: Warp, cycle: int) -> None:
        scheduler.take(warp, cycle)
        warp.block.run.warp_instructions += 1
        program, index = warp.program, warp.next
        op, unit = program.ops[index], program.units[index]
        warp.barrier_until = warp.branch_until = 0
        if unit == MEMORY_UNIT:
            self._access_memory(scheduler, warp, cycle, op)
        else:
            pipe = scheduler.units[unit]
            if isinstance(pipe, Pipe):
                pipe.accept(cycle, scheduler.seats[unit])
                if self._pipes[unit].shared_by_sm:
                    self._first = (warp.sub_partition + 1) % self._parts
            done = warp.complete[index] = cycle + program.latencies[index]
            warp.last_result = max(warp.last_result, done)
            if op is _BRANCH:
                warp.branch_until = cycle + self._branch_latency
        if self._probe.wants_warps:
            self._probe.issue(warp, cycle)
        warp.next = index + 1
        if op is _BARRIER:
            self._arrive_at_barrier(warp, cycle)
        else:
            self._go_on(warp)

    def _go_on(self, warp: Warp) -> None:
        """Put a warp where it waits for its next instruction, or let it exit."""
        if warp.next == len(warp.program.ops):
            if not warp.in_flight:
                self._exit(warp)
        elif warp.plan():
            heappush(self._waking, (warp.ready, warp.age, warp))

    # Barriers (I6) --------------------------------------------------------------------------------------------------

    def _arrive_at_barrier(self, warp: Warp, cycle: int) -> None:
        block = warp.block
        warp.waits_at_barrier = True
        block.at_barrier.append(warp)
        block.last_arrival = cycle
        self._release_if_full(block)

    def _release_if_full(self, block: ResidentBlock) -> None:
        """Release the barrier once all warps that have not exited have arrived."""
        if not block.at_barrier or len(block.at_barrier) < block.staying:
            return
        # The last arrival was an issue, so even without a latency nobody goes on in the same cycle (I3).
        until = max(block.last_arrival + max(self._barrier_latency, 1), block.last_exit + self._barrier_latency)
        released, block.at_barrier = block.at_barrier, []
        for warp in released:
            warp.waits_at_barrier = False
            warp.barrier_until = until
            self._go_on(warp)
        self._wake_for_first()

    # Memory (M1, M3, M8) --------------------------------------------------------------------------------------------

    def _access_memory(self, scheduler: WarpScheduler, warp: Warp, cycle: int, op: OpClass) -> None:
        index = warp.next
        end = self.load_store.accept(cycle, warp.quarter_cycles[warp.memory_access])
        warp.memory_access += 1
        leaves = -(-end // 4)
        queue = scheduler.units[MEMORY_UNIT]
        assert isinstance(queue, LoadStoreQueue)
        queue.enter(cycle, leaves)
        done = leaves
        if op is _SHARED_LOAD:
            done = leaves - 1 + self._shared_latency
        elif op is _SHUFFLE:
            done = leaves - 1 + self._shuffle_latency
        elif op is _GLOBAL_LOAD or op is _GLOBAL_STORE:
            time_fs = -(-end * self._period_fs // 4)
            packets = warp.packets[warp.global_access]
            warp.global_access += 1
            if op is _GLOBAL_LOAD:
                warp.in_flight += 1
                load = Load(warp, index, len(packets))
                for part, packet in enumerate(packets):
                    ReadRequest(self._memory, self, load, part, packet, self.port.send_load(time_fs))
                return
            for part, packet in enumerate(packets):
                left_fs = self.port.send_store(time_fs, packet.sectors)
                WriteRequest(self._memory, self.number, warp, index, part, packet, left_fs)
        warp.complete[index] = done
        warp.last_memory = max(warp.last_memory, done)

    def loaded(self, warp: Warp, index: int, time_fs: int) -> None:
        """Accept the data of a load that is complete at `time_fs`: usable from the next clock edge on (T1)."""
        cycle = -(-time_fs // self._period_fs)
        warp.complete[index] = cycle
        warp.last_memory = max(warp.last_memory, cycle)
        warp.in_flight -= 1
        if warp.waits_at_barrier:
            return
        if warp.finished:
            if not warp.in_flight:
                self._exit(warp)
        elif warp.blocked and warp.plan():
            heappush(self._waking, (warp.ready, warp.age, warp))
            self._wake_for_first()

    def _wake_for_first(self) -> None:
        if self._waking:
            self._alarm.set(max(self._waking[0][0] * self._period_fs, self.env.now))
