"""A sampled kernel while it runs: what is measured of it, and what it adds for the blocks that are not played."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU
from gpusim_des.timeline import BlockSpan, KernelTiming, SampledTime, WarpState
from gpusim_des.timing.checkpoint import (
    Checkpoint,
    Counts,
    counts_of,
    missing_counts,
    moved,
    moved_in_stretches,
    rates,
    set_counts,
)
from gpusim_des.timing.extrapolation import Extrapolation, Played
from gpusim_des.timing.extrapolation_error import error_of
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.order import Environment, Kind, Occurrence, order
from gpusim_des.timing.traffic import traffic
from gpusim_des.timing.use import Use
from gpusim_des.trace import (
    KernelTrace,
    OpClass,
    PlayedTrace,
    Sample,
    active_lanes,
    instruction_counts,
    moved_sectors,
    work,
)


class SampledRun(KernelRun):
    """State of a sampled kernel: ``done`` when the played blocks are through, ``over`` when the others would be.

    To the host the kernel ends when it is over (S2). In between nothing happens on the GPU.
    """

    def __init__(
        self, env: Environment, gpu: GPU, whole: KernelTrace, sample: Sample, number: int, *, caches: bool
    ) -> None:
        played = PlayedTrace(whole, sample)
        super().__init__(env, gpu, played, number, caches=caches)
        wave = self.occupancy.blocks_per_sm * gpu.sms
        if wave != sample.wave:
            raise LaunchError(
                f"kernel {whole.name!r} was sampled in waves of {sample.wave:,} blocks, but {gpu.title} holds {wave:,} "
                "at a time: simulate on the GPU that it was launched on, or launch it again"
            )
        self.over = type(self.done)(env)
        self.windows = frozenset(played.windows.tolist())
        self.spans: list[BlockSpan] = []
        """Spans of the played blocks, numbered as they are played."""
        self.beside_copies = False
        """Some copy over the link ran at the same time."""
        self.sample = sample
        self._whole = whole
        self._played = played
        self._checkpoints: list[Checkpoint] = []
        self._played_end_fs = 0
        self._added_fs = 0
        self._bounds_fs: dict[str, int] = {}
        self._added: tuple[Counts, Use] | None = None
        self._count_bounds: dict[str, int] = {}

    def checkpoint(self, use: Use) -> None:
        """Note what has been counted until now."""
        backlog = max(0, self.end_fs - use.time_fs)
        self._checkpoints.append(Checkpoint(self.blocks_placed, counts_of(self), use, backlog))

    def number_of(self, block: int) -> int:
        """Number in the grid of a played block."""
        return int(self._played.numbers[block])

    def played_out(self) -> None:
        """Find how long the blocks that are not played would take, and let that time pass."""
        starts, ends = (np.zeros(len(self.spans), np.int64) for _ in range(2))
        for span in self.spans:
            starts[span.block], ends[span.block] = span.start_fs, span.end_fs
        amounts = work(self._whole, self._played.numbers), work(self._whole, self.sample.others)
        estimate = Extrapolation(Played(self.sample, starts, ends, *amounts))
        missing = traffic(
            estimate,
            moved_in_stretches(self._checkpoints),
            moved(counts_of(self)),
            moved_sectors(self._whole, self._played.numbers),
            moved_sectors(self._whole, self.sample.others),
            self.gpu,
            caches=self.caches,
            warm=any(self.use_before.slices) or any(self.use_before.channels),
            atomics=self.mix[OpClass.GLOBAL_ATOMIC] > 0,
        )
        memory = rates(self._checkpoints, missing.warm, self.gpu.dram_granule_bytes)
        error = error_of(estimate, memory, self.gpu, caches=self.caches)
        self._played_end_fs = self.end_fs
        # Whole cycles: the last digits of what is computed with fractions differ from one computer to the next.
        period = self.gpu.sm_period_fs
        self._added_fs = max(0, round((estimate.added_fs + error.moved_fs) / period) * period)
        self._bounds_fs = {reason: round(bound / period) * period for reason, bound in error.bounds_fs.items()}
        self._added = missing_counts(estimate, self._checkpoints, missing, self._added_fs)
        self._count_bounds = missing.bounds
        Occurrence(self.env, self._played_end_fs + self._added_fs, order(Kind.HOST, age=self.number), [self._finish])

    def _finish(self, _: Any) -> None:
        self.over.succeed()

    def timing(self) -> KernelTiming:
        """Return the record of the kernel, with what is estimated for the blocks that were not played."""
        if self._added is None:
            config, sampled = self._whole.config, self._about(self.env.now)
            return replace(super().timing(), blocks=config.blocks, grid=(*config.grid,), sampled=sampled)
        end_fs = min(self.env.now, self._played_end_fs + self._added_fs)
        passed = (end_fs - self._played_end_fs) / self._added_fs if self._added_fs else 1.0
        whole = copy(self)
        whole.trace = self._whole
        whole.end_fs = end_fs
        counts, use = self._added
        set_counts(whole, counts_of(self) + np.rint(counts * passed).astype(np.int64))
        if self.over.triggered:
            whole._count_instructions()
        whole.l1_hit_sectors = min(whole.l1_hit_sectors, whole.l1_sectors)
        whole.l2_hit_sectors = min(whole.l2_hit_sectors, whole.l2_sectors)
        whole._fit_states()
        whole.blocks_placed = round(self.blocks_placed + passed * (self._whole.config.blocks - self.blocks_placed))
        whole.use_after = self.use_after.plus(use, passed)
        timing = KernelRun.timing(whole)
        return replace(timing, complete=self.over.triggered, sampled=self._about(self._played_end_fs))

    def _count_instructions(self) -> None:
        """Count the instructions of the whole grid as the launch's counters do: scouts stand for what is left out."""
        sample = self.sample
        ran = np.concatenate([sample.played, sample.others])
        there, seen = instruction_counts(self._whole, ran), instruction_counts(self._whole, sample.scouts)
        self.mix = [n + sample.left_out_count(m) for n, m in zip(there.tolist(), seen.tolist(), strict=True)]
        lanes = active_lanes(self._whole, sample.scouts)
        self.thread_instructions = active_lanes(self._whole, ran) + sample.left_out_count(lanes)

    def _fit_states(self) -> None:
        """Let the states add up: a cycle is selected for every instruction, the others share what is left of the time.

        Instructions are estimated from the work of blocks, states from the time that passes.
        """
        selected, most = sum(self.mix), self.gpu.max_warps_per_sm * self._active_cycles()
        self.stalls[WarpState.SELECTED] = 0
        waiting = sum(self.stalls)
        left = max(0, min(self.resident_warp_cycles, most) - selected)
        self.stalls = [cycles * left // max(1, waiting) for cycles in self.stalls]
        self.stalls[WarpState.SELECTED] = selected
        self.resident_warp_cycles = sum(self.stalls)

    def _active_cycles(self) -> int:
        """SMs stay at work in the time that is added as they were until the last block was placed."""
        period = self.gpu.sm_period_fs
        first, last = (limit(span.start_fs for span in self.spans) // period for limit in (min, max))
        before = sum(
            max(0, min(end, last) - max(start, first)) for stretches in self._active for start, end in stretches
        )
        added = (self.end_fs - self._played_end_fs) // period if self._added is not None else 0
        share = before / ((last - first) * self.gpu.sms) if last > first else 0.0
        return super()._active_cycles() + round(share * added * self.gpu.sms)

    def _about(self, end_fs: int) -> SampledTime:
        bounds = dict(self._bounds_fs) if self.over.triggered else {}
        if bounds and self.beside_copies:
            # How much of the added time copies would run beside the kernel, and take away from it, is not known.
            link = self.gpu.h2d_pinned_bytes_per_s + self.gpu.d2h_pinned_bytes_per_s
            duration = self._played_end_fs + self._added_fs - self.start_fs
            bounds["copies"] = duration * link // self.gpu.dram_bandwidth_bytes_per_s
        return SampledTime(
            blocks_simulated=self.blocks_retired,
            blocks_executed=self.sample.executed,
            blocks=self._whole.config.blocks,
            simulated_end_fs=end_fs,
            bounds_fs=bounds,
            count_bounds=self._bounds_of_counts() if bounds else {},
        )

    def _bounds_of_counts(self) -> dict[str, int]:
        bounds, granule = dict(self._count_bounds), self.gpu.dram_granule_bytes
        reads, writes = (bounds.pop(f"{what}_granules") * granule for what in ("read", "write"))
        if not self.caches:
            for name in ("l1_sectors", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors"):
                del bounds[name]
        return bounds | {"dram_read_bytes": reads, "dram_write_bytes": writes, "dram_bytes": reads + writes}
