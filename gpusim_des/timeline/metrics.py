"""A kernel's figures under Nsight Compute's names.

The names are those of Nsight Compute's metrics (its documentation, "Metrics reference"), so that a simulated figure can
be laid beside a measured one. ``metrics.md`` beside this file says what each stands for here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpusim_des.timeline.kernel import KernelTiming

PIPES = {
    "alu": ("int",),
    "fma": ("fp32",),
    "fp16": ("fp16",),
    "fp64": ("fp64",),
    "xu": ("sfu", "conversion"),
    "cbu": ("branch",),
    "tensor": ("tensor",),
}
"""Nsight Compute's pipe → the classes of instructions that run on it here."""


SCALED: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "byte/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")),
}
"""Larger or smaller units in which values are shown, largest first."""

LSU_CLASSES = frozenset(
    {
        *("global_load", "global_store", "global_atomic", "async_copy", "bulk_copy"),
        *("shared_load", "shared_store", "shared_atomic", "shuffle"),
    }
)
"""Classes that pass through the load/store unit."""


class Metric(NamedTuple):
    """A value with its unit; ``None`` where this run did not model it, or asked for nothing of the kind."""

    value: float | None
    unit: str
    meaning: str
    absence: str = "not modelled"
    """What to say instead of a value that is ``None``."""

    def __str__(self) -> str:
        if self.value is None:
            return self.absence
        value, unit = self.value, self.unit
        if unit in SCALED:
            value, unit = next(((value / f, u) for f, u in SCALED[unit] if value >= f), (value, unit))
        shown = f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
        return f"{shown} {unit}".rstrip()


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _compute_share(k: KernelTiming) -> float:
    """Busiest of the schedulers and the arithmetic pipes, as a share of the whole duration."""
    return max([k.issue_slot_utilization, *k.pipe_utilization.values()]) * k.active_share


def _dram_share(k: KernelTiming) -> float:
    return k.dram_bytes_per_second / k.dram_peak_bytes_per_s if k.dram_peak_bytes_per_s else 0.0


def _memory_share(k: KernelTiming) -> float:
    """Busiest of the load/store units, the L2 and DRAM, as a share of the whole duration."""
    return max(k.load_store_utilization * k.active_share, k.l2_utilization or 0.0, _dram_share(k))


def _per_issue(k: KernelTiming, warp_cycles: int) -> float:
    return warp_cycles / k.warp_instructions if k.warp_instructions else 0.0


_Rule = tuple[str, str, str, Callable[["KernelTiming"], float | None]]

_FIXED: tuple[_Rule, ...] = (
    ("gpu__time_duration.sum", "s", "time from start to end", lambda k: k.seconds),
    ("sm__cycles_elapsed.max", "cycle", "the same in SM cycles", lambda k: k.cycles),
    ("sm__cycles_active.sum", "cycle", "cycles with a resident warp, all SMs", lambda k: k.sm_active_cycles),
    (
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "%",
        "achieved occupancy",
        lambda k: 100 * k.achieved_occupancy,
    ),
    (
        "sm__maximum_warps_per_active_cycle_pct",
        "%",
        "theoretical occupancy",
        lambda k: 100 * k.theoretical_occupancy,
    ),
    ("launch__waves_per_multiprocessor", "", "blocks over blocks resident at a time", lambda k: k.waves),
    ("smsp__inst_executed.sum", "inst", "issued warp instructions", lambda k: k.warp_instructions),
    (
        "sm__inst_executed_pipe_lsu.sum",
        "inst",
        "issued memory instructions and shuffles",
        lambda k: sum(count for name, count in k.instructions.items() if name in LSU_CLASSES),
    ),
    (
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "thread/inst",
        "active lanes of an instruction, mean",
        lambda k: _per_issue(k, k.thread_instructions),
    ),
    (
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "%",
        "issue slots used",
        lambda k: 100 * k.issue_slot_utilization,
    ),
    (
        "smsp__warps_eligible.avg.per_cycle_active",
        "warp",
        "warps of a scheduler that could have issued, mean",
        lambda k: k.eligible_warps_per_scheduler,
    ),
    (
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "cycle/inst",
        "resident warp-cycles per issued instruction",
        lambda k: _per_issue(k, k.resident_warp_cycles),
    ),
    (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "sector",
        "sectors that loads asked the L1 for",
        lambda k: k.l1_sectors,
    ),
    ("l1tex__t_sector_hit_rate.pct", "%", "of those, found in the L1", lambda k: _percent(k.l1_hit_rate)),
    ("lts__t_sectors_op_read.sum", "sector", "sectors that loads and atomics asked the L2 for", lambda k: k.l2_sectors),
    ("lts__t_sector_op_read_hit_rate.pct", "%", "of those, found in the L2", lambda k: _percent(k.l2_hit_rate)),
    (
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "%",
        "busy time of the L2 slices, mean",
        lambda k: _percent(k.l2_utilization),
    ),
    ("dram__bytes_read.sum", "byte", "bytes that DRAM delivered, in whole granules", lambda k: k.dram_read_bytes),
    ("dram__bytes_write.sum", "byte", "bytes that DRAM took, in whole granules", lambda k: k.dram_write_bytes),
    ("dram__bytes.sum.per_second", "byte/s", "mean DRAM throughput", lambda k: k.dram_bytes_per_second),
    (
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "DRAM throughput over the data sheet's",
        lambda k: 100 * _dram_share(k),
    ),
    (
        "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active",
        "%",
        "busy time of the load/store units",
        lambda k: 100 * k.load_store_utilization,
    ),
    (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "speed of light, compute: busiest of issue and pipes",
        lambda k: 100 * _compute_share(k),
    ),
    (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "%",
        "speed of light, memory: busiest of load/store, L2 and DRAM",
        lambda k: 100 * _memory_share(k),
    ),
)


def _pipe_rules(pipe: str) -> tuple[_Rule, _Rule]:
    classes = PIPES[pipe]
    return (
        (
            f"sm__inst_executed_pipe_{pipe}.sum",
            "inst",
            f"issued instructions of class {' and '.join(classes)}",
            lambda k: sum(k.instructions.get(name, 0) for name in classes),
        ),
        (
            f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active",
            "%",
            f"busy time of the {classes[0]} pipe" if len(classes) == 1 else f"of the busier of {' and '.join(classes)}",
            lambda k: 100 * max(k.pipe_utilization.get(name, 0.0) for name in classes),
        ),
    )


def _stall_rule(state: str) -> _Rule:
    return (
        f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio",
        "cycle/inst",
        f"warp-cycles in state {state} per issued instruction",
        lambda k: _per_issue(k, k.stalls[state]),
    )


def metrics(kernel: KernelTiming) -> dict[str, Metric]:
    """Figures of a kernel under Nsight Compute's names.

    The entries ``smsp__average_warps_issue_stalled_…`` add up to ``smsp__average_warp_latency_per_inst_issued.ratio``.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def halve(blk, a):
    ...     blk.store(a, blk.tx, blk.load(a, blk.tx) * np.float32(0.5))
    >>> dev = gs.Device("tiny")
    >>> a = dev.to_device(np.ones(32, np.float32))
    >>> dev.forget_launches()  # otherwise the copy leaves its bytes in the L2
    >>> launch = dev.launch(halve, 1, 32, a)
    >>> figures = dev.simulate().kernels[0].metrics()
    >>> str(figures["dram__bytes_read.sum"]), str(figures["l1tex__t_sector_hit_rate.pct"])
    ('128 byte', '0 %')
    >>> str(dev.simulate(caches="off").kernels[0].metrics()["l1tex__t_sector_hit_rate.pct"])
    'not modelled with caches off'
    """
    rules = [*_FIXED, *(rule for pipe in PIPES for rule in _pipe_rules(pipe)), *map(_stall_rule, kernel.stalls)]
    absence = "not modelled with caches off" if kernel.l2_sectors is None else "nothing was asked for"
    return {name: Metric(value(kernel), unit, meaning, absence) for name, unit, meaning, value in rules}
