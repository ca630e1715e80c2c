"""Rules I1 to I6 and G3: a streaming multiprocessor with its blocks, its schedulers and its barriers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any, cast

from simpy import Event

from gpusim_des.gpu import GPU
from gpusim_des.timeline import BlockSpan, Cause
from gpusim_des.timing.address_hash import packets_of
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.load_store import FAR, LoadStoreQueue, Port
from gpusim_des.timing.memory_path import Load, MemoryPath
from gpusim_des.timing.memory_unit import MemoryUnit
from gpusim_des.timing.order import Alarm, Environment, Kind, Occurrence, order
from gpusim_des.timing.pipe import Pipe, Unit
from gpusim_des.timing.probe import Probe
from gpusim_des.timing.program import MEMORY_UNIT, Timing
from gpusim_des.timing.resident_block import ResidentBlock
from gpusim_des.timing.resources import SmResources
from gpusim_des.timing.warp import Warp
from gpusim_des.timing.warp_scheduler import WarpScheduler
from gpusim_des.trace import OpClass

_BARRIER, _BRANCH, _FENCE, _BULK_COPY = OpClass.BARRIER, OpClass.BRANCH, OpClass.FENCE, OpClass.BULK_COPY


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
        retired: Callable[[KernelRun], None],
        *,
        history: bool = False,
    ) -> None:
        self.env = env
        self.gpu = gpu
        self.number = number
        self.partition = number * gpu.l2_partitions // gpu.sms
        self.port = Port(gpu, history=history)
        self.memory_unit = MemoryUnit(gpu, memory, self, self.port, history=history)
        self.resources = SmResources(gpu)
        self.blocks: list[ResidentBlock] = []
        self._room_for: tuple[int, bool] | None = None
        self._probe = probe
        self._watched = probe.watches(number)
        self._retired = retired
        self._period_fs = gpu.sm_period_fs
        self._parts = gpu.sub_partitions
        self._branch_latency = gpu.branch_latency_cycles
        self._barrier_latency = gpu.barrier_latency_cycles
        self._shared_by_sm = Timing(gpu).shared_by_sm
        self._first = 0
        """Sub-partition that acts first in a cycle: the one after the last that got a unit shared by the SM (I5)."""
        self._stepped = -1
        """Last cycle in which the schedulers had their turn."""
        self._waking: list[tuple[int, int, Warp]] = []
        self._alarm = Alarm(env, order(Kind.ISSUE, number))
        self.schedulers = self._build_schedulers()
        env.process(self._run())

    def _build_schedulers(self) -> list[WarpScheduler]:
        log, parts = self._watched, self._parts
        common = [Pipe(parts, keep_log=log) if shared else None for shared in self._shared_by_sm]
        schedulers = []
        for part in range(parts):
            units: list[Unit] = [pipe or Pipe(1, keep_log=log) for pipe in common]
            units.append(LoadStoreQueue(self.gpu.load_store_queue_depth, keep_log=log))
            units.append(Unit(1, keep_log=log))
            seats = [part if shared else 0 for shared in self._shared_by_sm] + [0, 0]
            schedulers.append(WarpScheduler(self.gpu.scheduler_policy, units, seats, self._probe if log else None))
        return schedulers

    # Blocks (I1, I2, G3) --------------------------------------------------------------------------------------------

    def has_room(self, run: KernelRun) -> bool:
        """Tell whether one more block of the kernel fits."""
        known = self._room_for
        if known is None or known[0] != run.number:
            known = self._room_for = run.number, self.resources.fits(run.demand)
        return known[1]

    def accept(self, run: KernelRun, number: int, age: int) -> None:
        """Make block `number` resident now, its warps aged `age` and up; they may issue `block_start` cycles later."""
        now = self.env.now
        slot, parts = self.resources.place(run.demand)
        self._room_for = None
        block = ResidentBlock(run, number, slot, now)
        self.blocks.append(block)
        cycle = -(-now // self._period_fs)
        start = cycle + self.gpu.block_start_cycles
        traces = run.trace.block(number)
        packets = packets_of(traces, self.gpu)
        for w, trace in enumerate(traces):
            program = run.program(trace.stream)
            warp = Warp(block, w, age + w, parts[w], program, trace.footprint.quarter_cycles.tolist(), packets[w])
            warp.begin(cycle, start)
            block.warps.append(warp)
            run.ideal_load_sectors += program.ideal_sectors[0]
            run.ideal_store_sectors += program.ideal_sectors[1]
            if program.bulk_copies:
                block.copies_missing.update(program.bulk_copies)
        block.staying = len(block.warps)
        for warp in block.warps:
            if warp.finished:
                self._exit(warp)
            elif warp.plan():  # a first instruction may wait for a bulk copy of another warp
                heappush(self._waking, (warp.ready, warp.age, warp))
        self._alarm.set(start * self._period_fs)

    def _exit(self, warp: Warp) -> None:
        """Let a warp leave whose last result is known; its block retires with the last one."""
        block, run = warp.block, warp.block.run
        end = warp.plan_drain()
        warp.left, warp.left_at = True, end
        self.schedulers[warp.sub_partition].account(warp)
        run.resident_warp_cycles += end - warp.start
        if self._watched:
            self._probe.exit(warp, run.number, self.number)
        block.staying -= 1
        block.last_exit = max(block.last_exit, end)
        if block.staying:
            self._release_if_full(block, warp)
        else:
            retires = (block.last_exit + self.gpu.block_end_cycles) * self._period_fs
            place = order(Kind.RETIREMENT, self.number, age=block.warps[0].age)
            Occurrence(self.env, retires, place, [lambda _: self._retire(block)])

    def _retire(self, block: ResidentBlock) -> None:
        self.blocks.remove(block)
        run = block.run
        self.resources.give_back(run.demand, block.slot, [warp.sub_partition for warp in block.warps])
        self._room_for = None
        now = self.env.now
        self._probe.block(BlockSpan(run.number, block.block, self.number, block.slot, block.dispatched_fs, now))
        run.was_resident(self.number, block.warps[0].start, block.last_exit)
        run.block_retired()
        self._retired(run)

    def cut(self, cycle: int) -> None:
        """Record what is under way up to `cycle`, when the simulation ends early.

        A cycle in which the schedulers had their turn already is recorded as well.
        """
        cycle = max(cycle, self._stepped + 1)
        stop = max(self.env.now, cycle * self._period_fs)
        for block in self.blocks:
            run = block.run
            for warp in block.warps:
                if not warp.left and warp.start < cycle:
                    self.schedulers[warp.sub_partition].cut(warp, cycle)
                    run.resident_warp_cycles += cycle - warp.start
                    if self._watched:
                        self._probe.exit(warp, run.number, self.number)
            end = max(stop, block.last_exit * self._period_fs)
            run.end_fs = max(run.end_fs, end)
            self._probe.block(BlockSpan(run.number, block.block, self.number, block.slot, block.dispatched_fs, end))
            start = block.warps[0].start
            run.was_resident(self.number, start, max(start, block.last_exit, cycle if block.staying else 0))

    # Issue (I3, I4) -------------------------------------------------------------------------------------------------

    def _run(self) -> Generator[Event, Any, None]:
        while True:
            yield self._alarm.sleep()
            self._alarm.reset()
            self._step(self.env.now // self._period_fs)

    def _step(self, cycle: int) -> None:
        """Let every scheduler issue in this cycle, and set the alarm for the next one that matters."""
        self._stepped = cycle
        waking, schedulers = self._waking, self.schedulers
        while waking and waking[0][0] <= cycle:
            warp = heappop(waking)[2]
            schedulers[warp.sub_partition].enter(warp)
        following = FAR
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
            following = min(following, retry)
        if waking and waking[0][0] < following:
            following = waking[0][0]
        if following < FAR:
            self._alarm.set(following * self._period_fs)

    def _issue(self, scheduler: WarpScheduler, warp: Warp, cycle: int) -> None:
        scheduler.take(warp, cycle)
        program, index = warp.program, warp.next
        op, unit = program.ops[index], program.units[index]
        run = warp.block.run
        run.mix[op] += 1
        run.thread_instructions += program.lanes[index]
        warp.barrier_until = warp.branch_until = warp.membar_until = 0
        if unit == MEMORY_UNIT:
            self.memory_unit.accept(warp, cycle, cast("LoadStoreQueue", scheduler.units[unit]))
        else:
            if unit < MEMORY_UNIT:
                interval = program.intervals[index]
                cast("Pipe", scheduler.units[unit]).accept(cycle, interval, scheduler.seats[unit])
                run.pipe_parts[unit] += interval
                if self._shared_by_sm[unit]:
                    self._first = (warp.sub_partition + 1) % self._parts
            done = warp.complete[index] = cycle + program.latencies[index]
            warp.last_result = max(warp.last_result, done)
            if op is _BRANCH:
                warp.branch_until = cycle + self._branch_latency
        if self._watched:
            self._probe.issue(warp, cycle)
        warp.next = index + 1
        if op is _BARRIER:
            self._arrive_at_barrier(warp, cycle)
        elif op is _FENCE:
            warp.waits_at_fence = True
            self._pass_fence(warp)
        else:
            self._go_on(warp)

    def _go_on(self, warp: Warp) -> None:
        """Put a warp where it waits for its next instruction, or let it exit."""
        if warp.next == len(warp.program.ops):
            if not warp.in_flight:
                self._exit(warp)
        elif warp.plan():
            heappush(self._waking, (warp.ready, warp.age, warp))

    # Barriers and fences (I6) ---------------------------------------------------------------------------------------

    def _arrive_at_barrier(self, warp: Warp, cycle: int) -> None:
        block = warp.block
        warp.waits_at_barrier = True
        block.at_barrier.append(warp)
        block.last_arrival = cycle
        self._release_if_full(block, warp)

    def _release_if_full(self, block: ResidentBlock, last: Warp) -> None:
        """Release the barrier once all warps that have not exited have arrived, `last` having arrived or left."""
        if not block.at_barrier or len(block.at_barrier) < block.staying:
            return
        # The last arrival was an issue, so even without a latency nobody goes on in the same cycle (I3).
        arrival, leaving = block.last_arrival + max(self._barrier_latency, 1), block.last_exit + self._barrier_latency
        until = max(arrival, leaving)
        released, block.at_barrier = block.at_barrier, []
        if leaving > arrival:
            last = next(warp for warp in block.warps if warp.left and warp.left_at == block.last_exit)
        block.opened_by = Cause("exit" if last.left else _BARRIER.label, last.number, last.next - 1)
        for warp in released:
            warp.waits_at_barrier = False
            warp.barrier_until = until
            self._go_on(warp)
        self._wake_for_first()

    def _pass_fence(self, warp: Warp) -> None:
        """Let a warp go on behind its fence once all its accesses before it are through."""
        if warp.in_flight or warp.unacknowledged:
            return
        warp.waits_at_fence = False
        warp.membar_until = max(warp.last_memory, warp.acknowledged_until)
        self._go_on(warp)

    # What memory answers (M2, M7, M8) -------------------------------------------------------------------------------

    def arrived(self, load: Load) -> None:
        """Accept the data of a load whose last packet is back: usable from the next clock edge on (T1)."""
        cycle = -(-load.arrived_fs // self._period_fs)
        warp, index = load.warp, load.index
        if warp.program.ops[index] is not _BULK_COPY:
            self.known(warp, index, cycle)
            return
        cycle += self.gpu.bulk_overhead_cycles
        for waiting in warp.block.copy_complete(warp, index, cycle):
            self._retry(waiting)
        self.known(warp, index, cycle)

    def known(self, warp: Warp, index: int, cycle: int) -> None:
        """Hear when a memory instruction is complete that did not know at issue."""
        warp.complete[index] = cycle
        warp.last_memory = max(warp.last_memory, cycle)
        warp.in_flight -= 1
        if warp.waits_at_barrier:
            return
        if warp.waits_at_fence:
            self._pass_fence(warp)
            self._wake_for_first()
        elif warp.finished:
            if not warp.in_flight:
                self._exit(warp)
        elif warp.blocked:
            self._retry(warp)

    def acknowledged(self, warp: Warp, time_fs: int, sectors: int) -> None:
        """Hear that a write was accepted, which the SM knows at `time_fs`."""
        self.memory_unit.released(time_fs, sectors)
        warp.unacknowledged -= 1
        warp.acknowledged_until = max(warp.acknowledged_until, -(-time_fs // self._period_fs))
        if warp.waits_at_fence:
            self._pass_fence(warp)
            self._wake_for_first()

    def _retry(self, warp: Warp) -> None:
        """Plan a warp again that waited for something unknown."""
        if warp.plan():
            heappush(self._waking, (warp.ready, warp.age, warp))
            self._wake_for_first()

    def wake(self, cycle: int) -> None:
        """Look at the warps again in this cycle."""
        self._alarm.set(max(cycle * self._period_fs, self.env.now))

    def _wake_for_first(self) -> None:
        if self._waking:
            self.wake(self._waking[0][0])
