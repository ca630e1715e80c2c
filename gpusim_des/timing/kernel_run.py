"""A kernel while it runs: what the components count together, and how it ends."""

from __future__ import annotations

from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU, Occupancy, occupancy
from gpusim_des.timeline import KernelTiming, WarpState
from gpusim_des.timing.order import Environment, Kind, Occurrence, order
from gpusim_des.timing.program import Program, latencies
from gpusim_des.trace import KernelTrace, Stream


class KernelRun:
    """State of one kernel in the simulation; ``done`` happens when its blocks and its writes are through (M8)."""

    def __init__(self, env: Environment, gpu: GPU, trace: KernelTrace, number: int, first_age: int = 0) -> None:
        self.env = env
        self.gpu = gpu
        self.trace = trace
        self.number = number
        self.occupancy: Occupancy = occupancy(gpu, trace.config.threads_per_block, trace.registers, trace.shared_bytes)
        self.stalls = [0] * len(WarpState)
        self.resident_warp_cycles = 0
        self._active: list[list[tuple[int, int]]] = [[] for _ in range(gpu.sms)]
        self.warp_instructions = 0
        self.read_granules = 0
        self.write_granules = 0
        self.start_fs = env.now
        self.end_fs = env.now
        self.blocks_retired = 0
        self.writes_under_way = 0
        self.done = Event(env)
        self._next_age = first_age
        self._latencies = latencies(gpu)
        self._programs: dict[int, Program] = {}

    def program(self, stream: Stream) -> Program:
        """Return the stream made ready; streams live as long as the trace, so their identity is a safe key."""
        program = self._programs.get(id(stream))
        if program is None:
            program = self._programs[id(stream)] = Program.of(stream, self._latencies)
        return program

    def next_age(self, warps: int) -> int:
        """Give ages to the warps of a newly dispatched block, rising over all kernels; returns the first one's (T2)."""
        age = self._next_age
        self._next_age += warps
        return age

    def was_resident(self, sm: int, start: int, end: int) -> None:
        """Hear that a block had warps on an SM from cycle `start` to `end`; cycles of several blocks count once.

        Blocks retire in the order of their ends, so only the latest stretches can touch a new one.
        """
        stretches = self._active[sm]
        while stretches and stretches[-1][1] >= start:
            start = min(start, stretches.pop()[0])
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
            Occurrence(self.env, self.end_fs, order(Kind.HOST), [self._end])

    def _end(self, _: Any) -> None:
        self.done.succeed()

    def timing(self) -> KernelTiming:
        """Return the record of the finished kernel."""
        gpu, trace = self.gpu, self.trace
        cycles = -(-(self.end_fs - self.start_fs) // gpu.sm_period_fs)
        active = sum(end - start for stretches in self._active for start, end in stretches)
        slots = gpu.max_warps_per_sm * active
        reads = self.read_granules * gpu.dram_granule_bytes
        writes = self.write_granules * gpu.dram_granule_bytes
        return KernelTiming(
            name=trace.name,
            start_fs=self.start_fs,
            end_fs=self.end_fs,
            cycles=cycles,
            blocks=trace.config.blocks,
            warps_per_block=trace.config.warps_per_block,
            blocks_per_sm=self.occupancy.blocks_per_sm,
            sms=gpu.sms,
            warp_instructions=self.warp_instructions,
            resident_warp_cycles=self.resident_warp_cycles,
            sm_active_cycles=active,
            stalls={state.suffix: self.stalls[state] for state in WarpState},
            achieved_occupancy=self.resident_warp_cycles / slots if slots else 0.0,
            theoretical_occupancy=self.occupancy.occupancy,
            occupancy_limiter=self.occupancy.limiter,
            dram_bytes=reads + writes,
            dram_read_bytes=reads,
            dram_write_bytes=writes,
            assumptions=trace.assumptions,
        )
