"""Rule E1: the readable engine. It wires the components together and lets SimPy run them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from simpy import Event

from gpusim_des.errors import DeadlockError, LaunchError
from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.block_scheduler import BlockScheduler
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.memory_path import MemoryPath
from gpusim_des.timing.order import Environment
from gpusim_des.timing.probe import Detail, Probe
from gpusim_des.timing.sm import StreamingMultiprocessor
from gpusim_des.timing.warp import Warp
from gpusim_des.trace import KernelTrace

Progress = Callable[[str, int, int], None]
"""Hears the kernel's name, the blocks retired and the blocks in all."""


class SimpyEngine:
    """A GPU made of SimPy processes: SMs, their schedulers, HBM channels and the block scheduler."""

    def __init__(self, gpu: GPU, detail: Detail = "sm", progress: Progress | None = None) -> None:
        self.env = Environment()
        self.gpu = gpu
        self.probe = Probe(detail)
        self.memory = MemoryPath(self.env, gpu)
        self.block_scheduler = BlockScheduler(self.env, gpu)
        self.runs: list[KernelRun] = []
        self._progress = progress
        self.block_scheduler.sms = [
            StreamingMultiprocessor(self.env, gpu, number, self.memory, self.probe, self._block_retired)
            for number in range(gpu.sms)
        ]

    def run(self, traces: Sequence[KernelTrace]) -> Timeline:
        """Play the kernels one after another, each starting when the one before has ended.

        Raises
        ------
        LaunchError
            If a kernel's block fits on no SM; the message names the limiter.
        DeadlockError
            If blocks are left and nothing can happen any more.
        """
        host = self.env.process(self._host(traces))
        self.env.run()
        if not host.triggered:
            self._report_deadlock()
        self.probe.warps.sort(key=lambda w: (w.kernel, w.block, w.warp))
        return Timeline(
            self.gpu.title,
            self.gpu.sms,
            self.gpu.sm_period_fs,
            tuple(run.timing() for run in self.runs),
            tuple(self.probe.blocks),
            tuple(self.probe.warps),
        )

    def _host(self, traces: Sequence[KernelTrace]) -> Generator[Event, Any, None]:
        first_age = 0
        for number, trace in enumerate(traces):
            run = KernelRun(self.env, self.gpu, trace, number, first_age)
            first_age += trace.config.blocks * trace.config.warps_per_block
            if run.occupancy.blocks_per_sm == 0:
                raise LaunchError(
                    f"kernel {trace.name!r} never starts: a block of {trace.config.threads_per_block} threads with "
                    f"{trace.registers} registers per thread and {trace.shared_bytes:,} bytes of shared memory does "
                    f"not fit on an SM of {self.gpu.title}; the limiter is {run.occupancy.limiter}"
                )
            self.runs.append(run)
            self.env.process(self.block_scheduler.place_all(run))
            yield run.done

    def _block_retired(self) -> None:
        self.block_scheduler.block_retired()
        if self._progress is not None:
            run = self.runs[-1]
            self._progress(run.trace.name, run.blocks_retired, run.trace.config.blocks)

    def _report_deadlock(self) -> None:
        run = self.runs[-1]
        stuck = [
            f"block {block.run.trace.config.grid.at(block.block)} on SM {sm.number}: warps "
            f"{_numbers(w for w in block.warps if w.waits_at_barrier)} at a barrier, warps "
            f"{_numbers(w for w in block.warps if not w.waits_at_barrier and not w.finished)} on their way to it"
            for sm in self.block_scheduler.sms
            for block in sm.blocks
        ]
        raise DeadlockError(
            f"kernel {run.trace.name!r} is stuck at {self.env.now // self.gpu.sm_period_fs:,} cycles with "
            f"{run.trace.config.blocks - run.blocks_retired} blocks left; " + "; ".join(stuck[:8])
        )


def _numbers(warps: Iterable[Warp]) -> str:
    return ", ".join(str(w.number) for w in warps) or "none"
