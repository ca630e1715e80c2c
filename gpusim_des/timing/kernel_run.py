"""A kernel while it runs: what the components count together, and how it ends."""

from __future__ import annotations

from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU, PIPE_FRACTION, Occupancy, occupancy
from gpusim_des.line_site import LineSite
from gpusim_des.timeline import KernelTiming, WarpState
from gpusim_des.timing.line_states import scaled_states
from gpusim_des.timing.order import Environment, Kind, Occurrence, order
from gpusim_des.timing.program import PIPE_CLASSES, Program, Timing
from gpusim_des.timing.resources import Demand
from gpusim_des.timing.use import Use
from gpusim_des.trace import MEMORY_OPS, SHARED_OPS, KernelTrace, OpClass, Stream


class KernelRun:
    """State of one kernel in the simulation; ``done`` happens when its blocks and its writes are through (M8)."""

    def __init__(self, env: Environment, gpu: GPU, trace: KernelTrace, number: int, *, caches: bool = False) -> None:
        self.env = env
        self.gpu = gpu
        self.trace = trace
        self.number = number
        self.occupancy: Occupancy = occupancy(gpu, trace.config.threads_per_block, trace.registers, trace.shared_bytes)
        self.demand = Demand.of(trace.config.warps_per_block, self.occupancy)
        self.caches = caches
        self.line_states: dict[LineSite, list[int]] = {}
        """Warp-cycles by state, of every source line: of the instruction that a warp waited to issue (I7)."""
        self._stalls: list[int] | None = None
        self.resident_warp_cycles = 0
        self._active: list[list[tuple[int, int]]] = [[] for _ in range(gpu.sms)]
        self.mix = [0] * len(OpClass)
        """Issued instructions of every class."""
        self.thread_instructions = 0
        self.pipe_parts = [0] * len(PIPE_CLASSES)
        """Parts of cycles in which pipes were busy, over all of them (`gpusim_des.gpu.PIPE_FRACTION`)."""
        self.quarter_cycles = [0] * len(OpClass)
        """Quarter-cycles in the load/store units, by class."""
        self.l1_sectors = 0
        """Sectors of loads, also with caches off."""
        self.l1_hit_sectors = 0
        self.stored_sectors = 0
        self.ideal_load_sectors = 0
        self.ideal_store_sectors = 0
        self.l2_sectors = 0
        self.l2_hit_sectors = 0
        self.read_granules = 0
        self.write_granules = 0
        self.start_fs = env.now
        self.end_fs = env.now
        self.blocks_placed = 0
        self.blocks_retired = 0
        self.writes_under_way = 0
        self.begun = Event(env)
        """The first block is dispatched."""
        self.done = Event(env)
        """What is played of the kernel is through."""
        self.over = self.done
        """The kernel is through; later than `done` where only a sample of it is played (S1)."""
        self.windows: frozenset[int] = frozenset()
        """Blocks before whose placement a checkpoint is due."""
        self._timing = Timing(gpu)
        self._programs: dict[int, Program] = {}
        self.use_before = Use(env.now, [], [], [])
        self.use_after = self.use_before

    def begin(self) -> None:
        """Hear that the first block is dispatched now: the kernel's time begins (G2)."""
        self.start_fs = self.env.now
        self.begun.succeed()

    def checkpoint(self, use: Use) -> None:
        """Hear that a block of `windows` is about to be placed, and how busy the memory system was until now."""

    def played_out(self) -> None:
        """Hear that all that is played of the kernel is through."""

    def program(self, stream: Stream) -> Program:
        """Return the stream made ready; streams live as long as the trace, so their identity is a safe key."""
        program = self._programs.get(id(stream))
        if program is None:
            program = self._programs[id(stream)] = Program.of(
                stream, self.trace.sites(stream), self._timing, self._account
            )
        return program

    def _account(self, site: LineSite) -> list[int]:
        return self.line_states.setdefault(site, [0] * len(WarpState))

    @property
    def stalls(self) -> list[int]:
        """Warp-cycles by state, over all lines; what was estimated for all blocks, where only a sample was played."""
        if self._stalls is not None:
            return self._stalls
        return [sum(states[state] for states in self.line_states.values()) for state in WarpState]

    @stalls.setter
    def stalls(self, cycles: list[int]) -> None:
        self._stalls = cycles

    def was_resident(self, sm: int, start: int, end: int) -> None:
        """Hear that a block had warps on an SM from cycle `start` to `end`; cycles of several blocks count once.

        Blocks retire in the order of their ends, so only the latest stretches can touch a new one.
        """
        stretches = self._active[sm]
        while stretches and stretches[-1][1] >= start:
            before = stretches.pop()
            start, end = min(start, before[0]), max(end, before[1])
        stretches.append((start, end))

    def block_retired(self) -> None:
        """Count a block whose slot is free again."""
        self.blocks_retired += 1
        self.end_fs = max(self.end_fs, self.env.now)
        self._finish_if_through()

    def write_sent(self) -> None:
        """Count a write on its way to memory."""
        self.writes_under_way += 1

    def write_accepted(self, time_fs: int) -> None:
        """Count a write that memory has accepted, or will have at `time_fs`."""
        self.writes_under_way -= 1
        self.end_fs = max(self.end_fs, time_fs)
        self._finish_if_through()

    def _finish_if_through(self) -> None:
        if self.blocks_retired == self.trace.config.blocks and not self.writes_under_way:
            Occurrence(self.env, self.end_fs, order(Kind.HOST, age=self.number), [self._end])

    def _end(self, _: Any) -> None:
        self.done.succeed()

    def timing(self) -> KernelTiming:
        """Return the record of the finished kernel."""
        gpu, trace = self.gpu, self.trace
        cycles = -(-(self.end_fs - self.start_fs) // gpu.sm_period_fs)
        active = self._active_cycles()
        use = self.use_after.since(self.use_before)
        on = self.caches
        shared = sum(self.quarter_cycles[op] for op in SHARED_OPS)
        elapsed = self.end_fs - self.start_fs
        reads, writes = self._moved_bytes(use)
        slots = gpu.max_warps_per_sm * active
        suffixes = [state.suffix for state in WarpState]
        return KernelTiming(
            name=trace.name,
            start_fs=self.start_fs,
            end_fs=self.end_fs,
            cycles=cycles,
            blocks=trace.config.blocks,
            warps_per_block=trace.config.warps_per_block,
            blocks_per_sm=self.occupancy.blocks_per_sm,
            sms=gpu.sms,
            warp_instructions=sum(self.mix),
            resident_warp_cycles=self.resident_warp_cycles,
            sm_active_cycles=active,
            stalls=dict(zip(suffixes, self.stalls, strict=True)),
            line_stalls={
                site: {suffix: count for suffix, count in zip(suffixes, states, strict=True) if count}
                for site, states in scaled_states(self.line_states, self.stalls).items()
                if any(states)
            },
            achieved_occupancy=self.resident_warp_cycles / slots if slots else 0.0,
            theoretical_occupancy=self.occupancy.occupancy,
            occupancy_limiter=self.occupancy.limiter,
            dram_bytes=reads + writes,
            dram_read_bytes=reads,
            dram_write_bytes=writes,
            l1_sectors=self.l1_sectors if on else None,
            l1_hit_sectors=self.l1_hit_sectors if on else None,
            l2_sectors=self.l2_sectors if on else None,
            l2_hit_sectors=self.l2_hit_sectors if on else None,
            stored_sectors=self.stored_sectors,
            ideal_load_sectors=self.ideal_load_sectors,
            ideal_store_sectors=self.ideal_store_sectors,
            instructions={op.label: self.mix[op] for op in OpClass if self.mix[op]},
            thread_instructions=self.thread_instructions,
            pipe_utilization=self._pipe_utilization(active),
            # A kernel that was stopped has work in its units that they would have done later.
            load_store_utilization=min(1.0, sum(self.quarter_cycles) / (4 * active or 1)),
            shared_utilization=min(1.0, shared / (4 * active or 1)),
            wavefronts_per_instruction={
                op.label: self.quarter_cycles[op] / (4 * self.mix[op])
                for op in OpClass
                if op in MEMORY_OPS and self.mix[op]
            },
            dispatch_utilization=min(1.0, self.blocks_placed * gpu.dispatch_interval_fs / elapsed) if elapsed else 0.0,
            l2_utilization=use.mean(use.slices) if on else None,
            dram_utilization=use.mean(use.channels),
            busiest_channel=use.most(use.channels),
            busiest_atomic_unit=use.most(use.atomic_units),
            dram_peak_bytes_per_s=gpu.dram_bandwidth_bytes_per_s,
            sub_partitions=gpu.sub_partitions,
            complete=self.done.triggered,
            assumptions=trace.assumptions,
            number=self.number,
            grid=(*trace.config.grid,),
            block=(*trace.config.block,),
        )

    def _active_cycles(self) -> int:
        """Cycles in which an SM had a resident warp, over all SMs."""
        return sum(end - start for stretches in self._active for start, end in stretches)

    def _pipe_utilization(self, active_cycles: int) -> dict[str, float]:
        """Busy share of every pipe that was used at all; a pipe shared by the SM is one, others are one per part."""
        shares = {}
        for op, parts, shared in zip(PIPE_CLASSES, self.pipe_parts, self._timing.shared_by_sm, strict=True):
            if parts:
                pipes = 1 if shared else self.gpu.sub_partitions
                shares[op.label] = min(1.0, parts / (PIPE_FRACTION * pipes * active_cycles or 1))
        return shares

    def _moved_bytes(self, use: Use) -> tuple[int, int]:
        """Bytes read and written; of a kernel that was stopped, only as much as the channels had time for."""
        granule = self.gpu.dram_granule_bytes
        reads, writes = self.read_granules * granule, self.write_granules * granule
        most = sum(use.channels) * granule // self.gpu.granule_fs("read")
        if self.done.triggered or reads + writes <= most:
            return reads, writes
        return reads * most // (reads + writes), writes * most // (reads + writes)
