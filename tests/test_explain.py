"""What is said about ten kernels, held against what an expert would say; and the figures behind it."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timeline import KernelTiming, WarpState, metrics
from gpusim_des.timeline.metrics import PIPES
from tests.ten_kernels import KERNELS, simulate

SAYS = {
    "vector add": ("DRAM limits", "long_scoreboard", "which is hidden", "Move fewer bytes"),
    "strided copy": ("DRAM limits", "long_scoreboard", "Coalesce the loads: each touches 32 sectors"),
    "naive matmul": (
        "load/store units limit",
        "global memory instructions",
        "Coalesce the loads: each touches 16.5 sec",
    ),
    "tiled matmul": ("load/store units limit", "shared memory", "Keep more values in registers"),
    "transpose with conflicts": (
        "load/store units limit",
        "shared memory",
        "Remove bank conflicts: a shared load takes 32 passes",
    ),
    "reduction": ("Latency limits", "which is not hidden", "more elements per thread"),
    "histogram with one hot bin": ("Atomic operations on few addresses limit", "Combine first"),
    "divergent loop": ("int pipes limit", "Avoid divergence: only 17 of 32 lanes"),
    "tiny grid": (
        "Idle SMs limit",
        "1 block of 8 warps on 4 SMs",
        "not hidden",
        "Launch more and smaller blocks: at least 4",
    ),
    "fp64 chain": ("fp64 pipes limit", "math_pipe_throttle", "queue in front of it", "float32"),
}


@cache
def timing(name: str) -> KernelTiming:
    return simulate(name).kernels[0]


@pytest.mark.parametrize("name", KERNELS)
def test_explain_says_what_an_expert_would_say(name: str) -> None:
    text = timing(name).explain()
    for part in SAYS[name]:
        assert part in text
    assert text.count(". ") == 2, "three sentences"


@pytest.mark.parametrize("name", KERNELS)
def test_figures_of_every_kernel_hang_together(name: str) -> None:
    """I7 and M10: stalls add up, shares lie between 0 and 1, mix and lanes fit the issued instructions."""
    k = timing(name)
    assert sum(k.stalls.values()) == k.resident_warp_cycles
    assert k.stalls["selected"] == k.warp_instructions == sum(k.instructions.values())
    assert k.warp_instructions <= k.thread_instructions <= 32 * k.warp_instructions
    shares = [k.active_share, k.load_store_utilization, k.shared_utilization, k.dram_utilization, k.busiest_channel]
    shares += [k.issue_slot_utilization, k.busiest_atomic_unit, *k.pipe_utilization.values()]
    assert all(0 <= share <= 1 for share in shares)
    assert k.l2_utilization is not None
    assert 0 <= k.l2_utilization <= 1
    figures = k.metrics()
    latency = figures["smsp__average_warp_latency_per_inst_issued.ratio"].value
    parts = [m.value or 0.0 for name, m in figures.items() if name.startswith("smsp__average_warps_issue_stalled_")]
    assert sum(parts) == pytest.approx(latency)
    assert figures["smsp__inst_executed.sum"].value == k.warp_instructions


def test_speed_of_light_names_the_side_that_limits() -> None:
    compute, memory = "sm__throughput", "gpu__compute_memory_throughput"
    suffix = ".avg.pct_of_peak_sustained_elapsed"
    for name, side in (("vector add", memory), ("fp64 chain", compute), ("transpose with conflicts", memory)):
        shares = {s: timing(name).metrics()[s + suffix].value or 0.0 for s in (compute, memory)}
        assert max(shares, key=shares.__getitem__) == side
        assert shares[side] > 80


def test_what_is_not_modelled_is_none_and_says_so() -> None:
    off = dataclasses.replace(timing("vector add"), l1_sectors=None, l2_sectors=None, l2_utilization=None)
    figures = metrics(off)
    for name in ("l1tex__t_sector_hit_rate.pct", "lts__t_sector_op_read_hit_rate.pct", "lts__t_sectors_op_read.sum"):
        assert figures[name].value is None
        assert str(figures[name]) == "not modelled with caches off"
    assert "L2" not in off.explain()


def test_a_rate_of_nothing_is_no_zero() -> None:
    """The divergent loop loads nothing, so there is no hit rate, although the caches are modelled."""
    figures = timing("divergent loop").metrics()
    assert figures["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"].value == 0
    assert str(figures["l1tex__t_sector_hit_rate.pct"]) == "nothing was asked for"


def test_the_table_of_metrics_lists_every_name() -> None:
    table = (Path(gs.__file__).parent / "timeline" / "metrics.md").read_text()
    rows = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}
    states, pipes = (s.suffix for s in WarpState), PIPES
    listed = {r for r in rows if "<" not in r}
    listed |= {r.replace("<state>", state) for state in states for r in rows if "<state>" in r}
    listed |= {r.replace("<pipe>", pipe) for pipe in pipes for r in rows if "<pipe>" in r}
    assert listed == set(timing("tiny grid").metrics())


@pytest.mark.parametrize("state", [s for s in WarpState if s is not WarpState.SELECTED])
def test_every_stall_has_a_remedy(state: WarpState) -> None:
    """A kernel in which nothing is busy and warps wait for one thing only."""
    quiet = dataclasses.replace(
        timing("reduction"),
        stalls=dict.fromkeys((s.suffix for s in WarpState), 0) | {"selected": 1, state.suffix: 99},
        resident_warp_cycles=100,
        pipe_utilization={},
        load_store_utilization=0.0,
        warp_instructions=1,
        thread_instructions=32,
        dram_utilization=0.0,
        busiest_channel=0.0,
    )
    text = quiet.explain()
    assert f"99 % of their time in {state.suffix}" in text
    assert text.startswith("Latency limits this kernel")
    if state is WarpState.BRANCH_RESOLVING:
        assert text.endswith("Unroll the loops: their counters and branches cost more than what they do.")


def test_an_empty_kernel_has_nothing_to_explain() -> None:
    dev = gs.Device("tiny")
    dev.launch(gs.block_kernel(_nothing), 1, 32, count="declared")
    assert dev.simulate().explain().startswith("_nothing: The kernel issued no instruction.")


def _nothing(blk: gs.Block) -> None:
    pass


@gs.kernel
def shared_counter(t: Any, c: Any) -> Any:
    counter = t.shared("counter", (1,), np.int32)
    for _ in range(16):
        counter.atomic_add(0, 1)
    yield t.syncthreads()
    c[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = counter[0]


@gs.kernel
def long_loop(t: Any, c: Any) -> None:
    x = np.float32(1)
    for _ in range(400):
        x = x * np.float32(0.5) + np.float32(1)
    c[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = x


@gs.kernel
def one_element(t: Any, c: Any) -> None:
    c[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = np.float32(1)


@pytest.mark.parametrize(
    ("kernel", "blocks", "threads", "says"),
    [
        (shared_counter, 16, 256, ("load/store units limit", "Spread the atomic operations: one takes 32 passes")),
        (one_element, 512, 64, ("Block launch limits", "Use larger blocks")),
    ],
    ids=["a shared counter", "many small blocks"],
)
def test_what_the_ten_kernels_do_not_show(kernel: Any, blocks: int, threads: int, says: tuple[str, ...]) -> None:
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=4))
    dev.launch(
        kernel, blocks, threads, dev.malloc(blocks * threads, np.int32 if kernel is shared_counter else np.float32)
    )
    text = dev.simulate(detail="kernel").explain()
    for part in says:
        assert part in text


def test_a_stopped_simulation_says_so() -> None:
    dev = gs.Device("tiny")
    dev.launch(long_loop, 2, 64, dev.malloc(128, np.float32))
    with pytest.raises(gs.CycleLimitError) as stopped:
        dev.simulate(max_cycles=3200)  # the launch takes 3,000
    assert isinstance(stopped.value.partial, gs.Simulation)
    assert stopped.value.partial.explain().startswith("long_loop: Up to cycle 200, where the simulation was stopped: ")


@gs.kernel
def wide_copy(t: Any, a: Any, b: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[i]


@gs.kernel
def every_second(t: Any, a: Any, b: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[2 * i]


def test_wide_elements_are_no_scattered_ones() -> None:
    """16 bytes a lane make 16 sectors of a warp, and need them; every second float makes 8, and needs 4."""
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=2))
    n = 1 << 13
    wide = [dev.to_device(np.zeros(n, np.complex128)) for _ in range(2)]
    narrow, half = dev.to_device(np.zeros(2 * n, np.float32)), dev.malloc(n, np.float32)
    dev.forget_launches()
    dev.launch(wide_copy, n // 256, 256, *wide)
    dev.launch(every_second, n // 256, 256, narrow, half)
    first, second = dev.simulate(detail="kernel").kernels
    assert (first.l1_sectors, first.ideal_load_sectors) == (n // 2, n // 2)
    assert (first.stored_sectors, first.ideal_store_sectors) == (n // 2, n // 2)
    assert "Coalesce" not in first.explain()
    assert (second.l1_sectors, second.ideal_load_sectors) == (n // 4, n // 8)
    assert "Coalesce the loads: each touches 8 sectors, 4 would do" in second.explain()
