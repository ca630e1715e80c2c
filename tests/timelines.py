"""Hand-made timelines as fixtures, small enough to check every number by hand.

A test module asks for them with ``pytest_plugins = ["tests.timelines"]``.
"""

from __future__ import annotations

import pytest

from gpusim_des.timeline import BlockSpan, IssueEvent, KernelTiming, StateSpan, Timeline, WarpHistory, WarpState

PERIOD_FS = 500_000
"""An SM clock of 2 GHz."""

NO_STALLS = {state.suffix: 0 for state in WarpState}


def kernel(name: str, start: int, end: int, blocks: int, stalls: dict[str, int] | None = None) -> KernelTiming:
    """A kernel from cycle `start` to `end` on two SMs with four warp slots each."""
    shares = NO_STALLS | (stalls or {"selected": 30, "long_scoreboard": 60, "wait": 10})
    resident = sum(shares.values())
    return KernelTiming(
        name=name,
        start_fs=start * PERIOD_FS,
        end_fs=end * PERIOD_FS,
        cycles=end - start,
        blocks=blocks,
        warps_per_block=2,
        blocks_per_sm=1,
        sms=2,
        warp_instructions=shares["selected"],
        resident_warp_cycles=resident,
        sm_active_cycles=2 * (end - start),
        stalls=shares,
        achieved_occupancy=resident / (8 * (end - start)),
        theoretical_occupancy=0.5,
        occupancy_limiter="shared memory",
        dram_bytes=4096,
        dram_read_bytes=4096,
        dram_write_bytes=0,
    )


def block(number: int, sm: int, start: int, end: int, *, kernel: int = 0, slot: int = 0) -> BlockSpan:
    """A block from cycle `start` to `end`."""
    return BlockSpan(kernel, number, sm, slot, start * PERIOD_FS, end * PERIOD_FS)


def history(span: BlockSpan, warp: int) -> WarpHistory:
    """A warp that starts up, issues a load, waits for it, issues an addition and drains."""
    start, end = span.start_fs // PERIOD_FS, span.end_fs // PERIOD_FS
    load, add = start + 4 + warp, end - 6
    edges = [
        (WarpState.NO_INSTRUCTION, start, load),
        (WarpState.SELECTED, load, load + 1),
        (WarpState.LONG_SCOREBOARD, load + 1, add),
        (WarpState.SELECTED, add, add + 1),
        (WarpState.DRAIN, add + 1, end),
    ]
    return WarpHistory(
        kernel=span.kernel,
        block=span.block,
        warp=warp,
        sm=span.sm,
        sub_partition=warp,
        start_cycle=start,
        end_cycle=end,
        states=tuple(StateSpan(state, a, b) for state, a, b in edges),
        issues=(
            IssueEvent(load, 0, "global_load", add, 3),
            IssueEvent(add, 1, "fp32", add + 4, 4),
        ),
    )


@pytest.fixture
def three_waves() -> Timeline:
    """Six blocks on two SMs in three waves, one block per SM at a time; two warps in each block."""
    spans = tuple(block(n, n % 2, 10 + 30 * (n // 2), 40 + 30 * (n // 2)) for n in range(6))
    return Timeline(
        gpu_name="tiny",
        sms=2,
        sm_period_fs=PERIOD_FS,
        kernels=(kernel("add", 10, 100, 6),),
        blocks=spans,
        warps=tuple(history(s, w) for s in spans for w in (0, 1)),
    )


@pytest.fixture
def two_kernels() -> Timeline:
    """Two kernels of two streams: the second starts on SM 1 while the first still runs on SM 0."""
    return Timeline(
        gpu_name="tiny",
        sms=2,
        sm_period_fs=PERIOD_FS,
        kernels=(
            kernel("add", 0, 60, 3),
            kernel("_scale", 40, 90, 2, {"selected": 5, "barrier": 94, "branch_resolving": 1}),
        ),
        blocks=(
            block(0, 0, 0, 30),
            block(1, 1, 0, 32),
            block(2, 0, 30, 60),
            block(0, 1, 40, 70, kernel=1, slot=0),
            block(1, 1, 41, 90, kernel=1, slot=1),
        ),
    )


@pytest.fixture
def no_detail() -> Timeline:
    """What ``detail="kernel"`` records."""
    return Timeline(gpu_name="tiny", sms=2, sm_period_fs=PERIOD_FS, kernels=(kernel("add", 0, 100, 6),))
