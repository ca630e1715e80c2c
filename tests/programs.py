"""Programs for the timing model: written by hand and read back as pictures, or drawn at random.

A picture has one letter per cycle, so that an expected log can be written down, and checked, by hand::

    S selected        B barrier          D drain            r branch_resolving   L long_scoreboard
    s short_scoreboard  w wait           G lg_throttle      M mio_throttle       P math_pipe_throttle
    n not_selected    - no_instruction   (space) not resident
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.timeline import Timeline, WarpHistory, WarpState
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import GLOBAL_OPS, Instruction, KernelTrace, Mma, OpClass, WarpTrace

TINY = load_gpu("tiny")
"""Latencies: int, fp32 4; fp64 8; sfu, shared, shuffle 20; barrier, branch 10; a lone load 200 cycles."""

LETTERS = dict(zip(WarpState, "SBMDrLswGMPn-", strict=True)) | {WarpState.MEMBAR: "F"}


class Part(NamedTuple):
    """One instruction of a program."""

    kind: OpClass
    deps: tuple[int, ...] = ()
    quarters: int = 0
    """Quarter-cycles in the load/store unit."""
    sectors: tuple[int, ...] = ()
    operand: int = 0
    passes: tuple[int, ...] = ()
    """Operations of an atomic on the busiest address of every sector."""
    lanes: int = 32

    def __repr__(self) -> str:
        """Code that makes it again, what is usual left out."""
        usual = Part(self.kind)
        said = [f"{name}={value}" for name, value in self._asdict().items() if value != getattr(usual, name)]
        return f"Part({', '.join([f'OpClass.{self.kind.name}', *said])})"


def op(kind: OpClass, *deps: int, quarters: int = 0, operand: int = 0) -> Part:
    """One instruction that sends no sectors to memory: what it depends on, and its time in the load/store unit."""
    return Part(kind, deps, quarters, operand=operand)


def fp32(*deps: int) -> Part:
    return op(OpClass.FP32, *deps)


def sfu(*deps: int) -> Part:
    return op(OpClass.SFU, *deps)


def load(sectors: Iterable[int], *deps: int, quarters: int = 4) -> Part:
    return Part(OpClass.GLOBAL_LOAD, deps, quarters, tuple(sectors))


def store(sectors: Iterable[int], *deps: int, quarters: int = 4, passes: Iterable[int] = ()) -> Part:
    """Make a store; passes are 1 for a sector that is written whole, 2 for a part of one."""
    return Part(OpClass.GLOBAL_STORE, deps, quarters, tuple(sectors), passes=tuple(passes))


def atomic(sectors: Iterable[int], *deps: int, quarters: int = 4, passes: Iterable[int] = ()) -> Part:
    return Part(OpClass.GLOBAL_ATOMIC, deps, quarters, tuple(sectors), passes=tuple(passes))


def async_copy(sectors: Iterable[int], *deps: int, quarters: int = 4) -> Part:
    return Part(OpClass.ASYNC_COPY, deps, quarters, tuple(sectors))


def async_wait(*copies: int) -> Part:
    return op(OpClass.ASYNC_WAIT, *copies)


def bulk_copy(sectors: Iterable[int], *deps: int, phase: int = 0) -> Part:
    """Start a copy that counts for a phase of a barrier in shared memory."""
    return Part(OpClass.BULK_COPY, deps, 4, tuple(sectors), phase)


def bulk_wait(phase: int = 0) -> Part:
    return op(OpClass.BULK_WAIT, operand=phase)


def tensor(*deps: int, shape: tuple[int, int, int] = (16, 8, 16), of: str = "fp16") -> Part:
    """Multiply-accumulate of a warp, its factors of type `of`."""
    return op(OpClass.TENSOR, *deps, operand=Mma(*shape, of).encode())


BARRIER = op(OpClass.BARRIER)
BRANCH = op(OpClass.BRANCH)
FENCE = op(OpClass.FENCE)


def chain(length: int) -> list[Part]:
    """fp32 instructions, each depending on the one before."""
    return [fp32(*([i - 1] if i else [])) for i in range(length)]


def warp(*parts: Part) -> WarpTrace:
    instructions = [
        # Several instructions share a line, and some have none.
        Instruction(p.kind, p.deps, p.lanes, p.quarters, line=index // 2 % 5, operand=p.operand, passes=p.passes)
        for index, p in enumerate(parts)
    ]
    return WarpTrace.of(instructions, [p.sectors for p in parts if p.kind in GLOBAL_OPS])


def trace(*blocks: Sequence[Sequence[Part]], **launch: Any) -> KernelTrace:
    """Build a kernel from the programs of the warps of every block."""
    return KernelTrace.of_blocks("k", [[warp(*program) for program in block] for block in blocks], **launch)


def run(gpu: GPU, *blocks: Sequence[Sequence[Part]], **launch: Any) -> Timeline:
    """Play one kernel with caches off and record everything."""
    return simulate(gpu, [trace(*blocks, **launch)], detail="warp", caches="off")


def run_cached(gpu: GPU, *blocks: Sequence[Sequence[Part]], **launch: Any) -> Timeline:
    """Play one kernel with caches on and record everything."""
    return simulate(gpu, [trace(*blocks, **launch)], detail="warp")


def picture(history: WarpHistory) -> str:
    """One letter for every cycle of a warp, from cycle 0 on."""
    return " " * history.start_cycle + "".join(
        LETTERS[span.state] * (span.end_cycle - span.start_cycle) for span in history.states
    )


def pictures(timeline: Timeline) -> list[str]:
    """The pictures of all warps, by block and warp."""
    return [picture(history) for history in timeline.warps]


def issues(timeline: Timeline, number: int = 0) -> list[tuple[int, int, int]]:
    """Index, cycle of issue and cycle of completion of every instruction of warp `number` of the timeline."""
    return [(event.index, event.cycle, event.complete_cycle) for event in timeline.warps[number].issues]


# Random programs ----------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A GPU and the programs of the warps of every block."""

    gpu: GPU
    blocks: list[list[list[Part]]]

    def trace(self) -> KernelTrace:
        return trace(*self.blocks)


ORDINARY = tuple(
    kind
    for kind in OpClass
    if kind not in GLOBAL_OPS
    and kind not in (OpClass.BARRIER, OpClass.EXIT, OpClass.TENSOR, OpClass.FENCE, OpClass.BULK_WAIT)
    and kind not in (OpClass.SHARED_ATOMIC, OpClass.ASYNC_COMMIT, OpClass.ASYNC_WAIT)
)


PLAIN = (*ORDINARY, OpClass.GLOBAL_LOAD, OpClass.GLOBAL_LOAD, OpClass.GLOBAL_STORE)
"""Classes to draw from; those that come more than once come more often."""

ACCESSES = (*[OpClass.GLOBAL_LOAD] * 5, *[OpClass.GLOBAL_STORE] * 2, OpClass.FP32, OpClass.SHARED_LOAD)

EVERYTHING = (
    *PLAIN,
    *[OpClass.GLOBAL_ATOMIC] * 2,
    *[OpClass.ASYNC_COPY] * 2,
    OpClass.ASYNC_COMMIT,
    OpClass.ASYNC_WAIT,
    OpClass.BULK_WAIT,
    OpClass.FENCE,
    OpClass.SHARED_ATOMIC,
    OpClass.TENSOR,
)


LATENCIES = range(1, 13)

GPUS: dict[str, Sequence[Any]] = {
    "sms": (1, 2, 3),
    "sm_clock": ("1 GHz", "700 MHz"),
    "sub_partitions": (1, 2, 4),
    "max_blocks_per_sm": (1, 2, 3, 4),
    "scheduler_policy": ("gto", "lrr", "oldest"),
    "barrier_latency": range(7),
    "branch_latency": LATENCIES,
    "block_start": range(7),
    "block_end": range(7),
    "load_store_queue_depth": (1, 2, 3, 4),
    "dispatch_interval_fs": (1, 600_000, 7_000_000),
    "shared_latency": LATENCIES,
    "shuffle_latency": LATENCIES,
    "l1_latency": (1,),
    "l2_latency": range(8, 13),
    "l2_far_latency": range(13, 18),
    "l2_partitions": (1, 2),
    "l2_bandwidth": ("64 GB/s", "200 GB/s"),
    "l2_size": ("1 KiB", "4 KiB", "256 KiB"),
    "atomic_interval": range(1, 6),
    "dram_latency": range(24, 61),
    "port_in": (32, 64),
    "port_out": (32, 64),
    "dram_channels": range(1, 6),
    "channel_hash": ("linear", "rotated"),
    "dram_granule": (32, 64),
    "dram_efficiency_write": (1, "3/4"),
    "dram_efficiency_mixed": (1, "2/3"),
    "fp64_scope": ("sub-partition", "sm"),
    "sfu_scope": ("sub-partition", "sm"),
    **{f"{pipe}_lanes": (8, 16, 32) for pipe in ("int", "fp32", "fp64", "fp16", "conversion", "sfu")},
    **{f"{pipe}_latency_cycles": LATENCIES for pipe in ("int", "fp32", "fp64", "fp16", "conversion", "sfu")},
}
"""Numbers of small GPUs, to draw from."""

CACHES: dict[str, Sequence[Any]] = {
    "l1_latency": range(1, 8),
    "l2_size": ("512 B", "1 KiB", "256 KiB"),
    "dram_channels": (1, 2, 3),
    "store_buffer": ("128 B", "256 B", "4 KiB"),
    "dram_read_batch": ("0 B", "1 KiB", "64 KiB"),
    "dram_write_batch": ("0 B", "3 KiB", "256 KiB"),
    "l2_write_services": (1, 2),
    "l2_partial_write_services": (2, 3, 5),
    "bulk_rate": (32, 128),
    "bulk_overhead": range(1, 10),
    "tensor_latency_cycles": LATENCIES,
}
"""Numbers that leave a few lines in the L2, and a store buffer that fills now and then."""


def small_l1(size: int, *, all_shared: bool) -> dict[str, Any]:
    """Changes that leave an L1 of so many bytes, or none beside shared memory."""
    shared = dict.fromkeys(("shared_per_sm", "shared_per_block", "shared_per_block_optin"), size)
    return {**shared, "l1_size": size, "shared_carveouts": (size,) if all_shared else (0, size)}


@st.composite
def gpus(draw: st.DrawFn, /, **fixed: Any) -> GPU:
    """Small GPUs with all kinds of numbers."""
    return TINY.replace(**{**{name: draw(st.sampled_from(values)) for name, values in GPUS.items()}, **fixed})


@st.composite
def small_caches(draw: st.DrawFn) -> dict[str, Any]:
    """Changes that leave a few lines in the L1, or none, and in the L2, and a small store buffer."""
    l1 = small_l1(draw(st.sampled_from([256, 512, 1024])), all_shared=draw(st.sampled_from([False, False, True])))
    return {**l1, **{name: draw(st.sampled_from(values)) for name, values in CACHES.items()}}


@st.composite
def instruction(draw: st.DrawFn, index: int, classes: Sequence[OpClass] = PLAIN, span: int = 40) -> Part:
    """Any instruction of these classes, at place `index`: up to three operands, small footprints near each other."""
    deps: tuple[int, ...] = ()
    if index:
        deps = tuple(sorted(draw(st.sets(st.integers(max(0, index - 6), index - 1), max_size=3))))
    kind = draw(st.sampled_from(classes))
    quarters = draw(st.sampled_from([4, 4, 5, 8, 19]))
    sectors: tuple[int, ...] = ()
    passes: tuple[int, ...] = ()
    operand = 0
    if kind in GLOBAL_OPS:
        first, offsets = draw(st.integers(0, span)), draw(st.sets(st.integers(0, span // 2), min_size=1, max_size=6))
        sectors = tuple(sorted(first + offset for offset in offsets))
    if kind is OpClass.GLOBAL_ATOMIC and draw(st.booleans()):
        passes = tuple(draw(st.integers(1, 9)) for _ in sectors)
    if kind is OpClass.GLOBAL_STORE and draw(st.booleans()):
        passes = tuple(draw(st.integers(1, 2)) for _ in sectors)
    if kind is OpClass.TENSOR:
        operand = draw(st.sampled_from([Mma(8, 8, 4, "fp16"), Mma(8, 8, 6, "fp16"), Mma(16, 8, 8, "tf32")])).encode()
    if kind is OpClass.BULK_WAIT:
        operand = draw(st.integers(0, 1))
    return Part(kind, deps, quarters, sectors, operand, passes)


@st.composite
def programs(
    draw: st.DrawFn, barriers: int = 0, longest: int = 5, classes: Sequence[OpClass] = PLAIN, span: int = 40
) -> list[Part]:
    """A warp's program: `barriers` barriers with other instructions before, between and after them.

    Bulk copies come first: a copy behind something that waits for it would never start.
    """
    parts: list[Part] = []
    if OpClass.BULK_WAIT in classes:
        copies = draw(st.lists(st.tuples(st.integers(0, span), st.integers(0, 1)), max_size=2))
        parts += [bulk_copy(range(first, first + 12), phase=phase) for first, phase in copies]
    for segment in range(barriers + 1):
        if segment:
            parts.append(BARRIER)
        for _ in range(draw(st.integers(0, longest))):
            parts.append(draw(instruction(len(parts), classes, span)))
    if draw(st.booleans()):
        parts.append(op(OpClass.EXIT))
    return parts


@st.composite
def cases(draw: st.DrawFn, classes: Sequence[OpClass] = PLAIN, *, caches: bool = False) -> Case:
    """A small grid on a small GPU; warps of a block have equally many barriers, or leave early with fewer.

    With `caches` the GPU has small ones, and accesses are close to each other.
    """
    warps = draw(st.integers(1, 4))
    blocks = []
    for _ in range(draw(st.integers(1, 4))):
        barriers = draw(st.integers(0, 2))
        counts = [draw(st.sampled_from([barriers, barriers, max(0, barriers - 1)])) for _ in range(warps)]
        blocks.append([draw(programs(count, classes=classes, span=14 if caches else 40)) for count in counts])
    return Case(draw(gpus(**(draw(small_caches()) if caches else {}))), blocks)
