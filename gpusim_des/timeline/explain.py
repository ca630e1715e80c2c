"""What limits a kernel, in three sentences, read from its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpusim_des.timeline.states import WarpState

if TYPE_CHECKING:
    from gpusim_des.timeline.kernel import KernelTiming

BUSY = 0.6
"""A unit that is busy for this share of the time limits the kernel: what remains is start, end and unevenness."""

IDLE_SMS = 0.6
"""Below this share of active SM cycles, SMs without work are the first thing to say."""


SCATTERED = 2
"""Sectors over the ideal number from which on coalescing is the first thing to try."""


class Limit(NamedTuple):
    """A unit, the share of the kernel's duration in which it was busy, and how to say so."""

    key: str
    share: float
    text: str


def explain(k: KernelTiming) -> str:
    """Say what limits the kernel, whether its main stall is hidden, and what to try next."""
    if not k.warp_instructions:
        return "The kernel issued no instruction. There is nothing to hide. Launch one that does some work."
    limits = sorted(limits_of(k), key=lambda limit: -limit.share)
    first = limits[0] if limits[0].share >= BUSY else None
    begin = "" if k.complete else f"Up to cycle {k.cycles:,}, where the simulation was stopped: "
    said = begin + " ".join((_what_limits(k, first, limits[0]), _is_it_hidden(k, first), _what_next(k, first)))
    return said if k.sampled is None else f"{said} {k.sampled.sentence(k.end_fs - k.start_fs, k.dram_bytes)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _size(nbytes: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes} bytes"


def limits_of(k: KernelTiming) -> list[Limit]:
    """Everything that can be the bottleneck, as shares of the whole duration."""
    active = k.active_share
    rate = f"{k.dram_bytes_per_second / 1e9:,.0f} of {k.dram_peak_bytes_per_s / 1e9:,.0f} GB/s"
    limits = [
        Limit("dram", k.dram_utilization, f"DRAM limits this kernel: its channels are busy {{}} of the time ({rate})"),
        Limit(
            "issue",
            k.issue_slot_utilization * active,
            "Instruction issue limits this kernel: {} of the issue slots are used",
        ),
        Limit("dispatch", k.dispatch_utilization, "Block launch limits this kernel: it goes on for {} of the time"),
        Limit(
            "atomics",
            k.busiest_atomic_unit,
            "Atomic operations on few addresses limit this kernel: one L2 slice is busy with them {} of the time",
        ),
    ]
    if k.l2_utilization is not None:
        limits.append(Limit("l2", k.l2_utilization, "The L2 limits this kernel: its slices are busy {} of the time"))
    if k.busiest_channel > 2 * k.dram_utilization:
        mean = _percent(k.dram_utilization)
        text = f"One DRAM channel limits this kernel: it is busy {{}} of the time, all of them {mean} on average"
        limits.append(Limit("channel", k.busiest_channel, text))
    shared = k.shared_utilization > k.load_store_utilization / 2
    whose = "shared memory" if shared else "global memory instructions"
    text = f"The load/store units limit this kernel: they are busy {{}} of the time, mostly with {whose}"
    limits.append(Limit("shared" if shared else "load_store", k.load_store_utilization * active, text))
    limits += [
        Limit(pipe, share * active, f"The {pipe} pipes limit this kernel: they are busy {{}} of the time")
        for pipe, share in k.pipe_utilization.items()
    ]
    return limits


def _what_limits(k: KernelTiming, first: Limit | None, busiest: Limit) -> str:
    if first is not None:
        return first.text.format(_percent(first.share)) + "."
    if k.active_share < IDLE_SMS:
        blocks = "1 block" if k.blocks == 1 else f"{k.blocks:,} blocks"
        return (
            f"Idle SMs limit this kernel: {blocks} of {k.warps_per_block} warps on {k.sms} SMs "
            f"({k.waves:.2g} waves) keep an SM at work {_percent(k.active_share)} of the time."
        )
    name = {"dram": "DRAM", "issue": "instruction issue", "l2": "the L2", "load_store": "the load/store unit"}
    unit = name.get(busiest.key, f"the {busiest.key} pipe" if busiest.key in k.pipe_utilization else busiest.key)
    return f"Latency limits this kernel: no unit is busy, the busiest ({unit}) {_percent(busiest.share)} of the time."


_WAITING_FOR = {
    "barrier": "waiting for other warps at a barrier",
    "membar": "waiting behind a memory fence",
    "drain": "waiting for their last memory instructions",
    "branch_resolving": "waiting for branch targets",
    "long_scoreboard": "waiting for global memory",
    "short_scoreboard": "waiting for shared memory, shuffles or special functions",
    "wait": "waiting for the result of the instruction before",
    "lg_throttle": "waiting for room in the queue of global memory instructions",
    "mio_throttle": "waiting for room in the queue of shared memory instructions",
    "math_pipe_throttle": "waiting for a busy pipe",
    "not_selected": "eligible, while the scheduler issued others",
    "no_instruction": "starting up",
}


_MEMORY_LIMITS = ("load_store", "shared", "l2", "dram", "channel", "atomics")

_QUEUES = {"lg_throttle": _MEMORY_LIMITS, "mio_throttle": ("load_store", "shared")}
"""Limits in front of which warps queue in a state; in front of pipes it is ``math_pipe_throttle``."""


def _is_queue(k: KernelTiming, stall: str, first: Limit) -> bool:
    """Tell whether a state is the queue in front of what limits the kernel."""
    if stall == "math_pipe_throttle":
        return first.key in k.pipe_utilization
    return first.key in _QUEUES.get(stall, ())


def _is_it_hidden(k: KernelTiming, first: Limit | None) -> str:
    stall = k.main_stall
    if stall == "none":
        return "Warps never wait."
    share = _percent(k.stalls[stall] / k.resident_warp_cycles)
    text = f"Warps spend {share} of their time in {stall} ({_WAITING_FOR[stall]}), "
    if first is not None and _is_queue(k, stall, first):
        return f"{text}which is the queue in front of it: more warps would only make it longer."
    if first is not None and stall != WarpState.NOT_SELECTED.suffix:
        return f"{text}which is hidden: what limits the kernel is busy meanwhile, more warps would only wait longer."
    if stall == WarpState.NOT_SELECTED.suffix:
        return f"{text}which costs nothing: there are more warps than the schedulers need."
    return (
        f"{text}which is not hidden: a scheduler had an instruction to issue in only "
        f"{_percent(k.issue_slot_utilization)} of its active cycles."
    )


def _what_next(k: KernelTiming, first: Limit | None) -> str:
    lanes = k.thread_instructions / k.warp_instructions
    if first is not None:
        return _relief(k, first, lanes)
    if k.active_share < IDLE_SMS:
        if k.waves < 1:
            return f"Launch more and smaller blocks: at least {k.sms} for one on every SM, {_full(k)} to fill them all."
        return "Make the blocks equally long, or smaller, so that the last ones do not run alone."
    return _scattered(k) or _shorten(k, k.main_stall, lanes)


def _full(k: KernelTiming) -> str:
    return f"{k.sms * k.blocks_per_sm:,}"


def _scattered(k: KernelTiming) -> str:
    """What to say of loads or stores that touch far more sectors than neighbouring lanes would; empty if none do."""
    instructions = k.instructions
    kinds = (
        ("loads", k.l1_sectors or 0, k.ideal_load_sectors, ("global_load", "async_copy")),
        ("stores", k.stored_sectors, k.ideal_store_sectors, ("global_store",)),
    )
    scattered = [
        (total, name, ideal, max(1, sum(instructions.get(n, 0) for n in names)))
        for name, total, ideal, names in kinds
        if ideal and total >= SCATTERED * ideal
    ]
    if not scattered:
        return ""
    total, name, ideal, count = max(scattered)
    return (
        f"Coalesce the {name}: each touches {total / count:.3g} sectors, {ideal / count:.3g} would do; let "
        "neighbouring threads access neighbouring elements, or go through shared memory."
    )


def _relief(k: KernelTiming, first: Limit, lanes: float) -> str:
    if first.key in ("dram", "l2", "load_store") and (scattered := _scattered(k)):
        return scattered
    if first.key == "shared":
        return _relieve_shared(k)
    remedies = {
        "dram": f"Move fewer bytes ({_size(k.dram_bytes)} now): smaller types, more reuse, kernels merged.",
        "l2": "Load each value once into shared memory or registers and use it several times.",
        "load_store": "Use wider loads (two or four elements per thread): fewer instructions for the same bytes.",
        "channel": "Change the pitch of the arrays or the order of the accesses so that they spread over all channels.",
        "atomics": "Combine first: within a warp or in shared memory, and do one atomic operation for all of them.",
        "dispatch": "Use larger blocks, or let each thread do several elements, so that fewer blocks have to start.",
        "fp64": "Use float32 where the precision allows it, or a GPU with more fp64 lanes.",
        "sfu": "Use fewer special functions: precompute, or replace divisions by multiplications.",
        "tensor": "This is what tensor cores are for: use a smaller type if the precision allows it.",
    }
    if first.key in remedies:
        return remedies[first.key]
    if lanes < 24:
        return f"Avoid divergence: only {lanes:.0f} of 32 lanes are active in an instruction, on average."
    return "Do the same with fewer instructions: unroll loops, hoist index arithmetic, use wider loads."


def _relieve_shared(k: KernelTiming) -> str:
    name, wavefronts = _worst_shared(k)
    if name == "shared_atomic" and wavefronts > 2:
        return (
            f"Spread the atomic operations: one takes {wavefronts:.0f} passes, because lanes meet at one address; "
            "combine within the warp first, or keep several copies of the counters."
        )
    if wavefronts > 2:
        return (
            f"Remove bank conflicts: a {name.replace('_', ' ')} takes {wavefronts:.0f} passes, 1 would do; pad the "
            "rows of the array by one element."
        )
    return "Keep more values in registers: compute several elements per thread from each value that is loaded."


def _worst_shared(k: KernelTiming) -> tuple[str, float]:
    """Class of shared memory instructions that takes most time in the load/store units, and its passes, mean."""
    shared = ("shared_load", "shared_store", "shared_atomic", "shuffle")
    passes = {name: count for name, count in k.wavefronts_per_instruction.items() if name in shared}
    name = max(passes, key=lambda n: passes[n] * k.instructions.get(n, 0), default="shared_load")
    return name, passes.get(name, 0.0)


def _shorten(k: KernelTiming, stall: str, lanes: float) -> str:
    if stall in ("long_scoreboard", "wait", "short_scoreboard") and k.theoretical_occupancy < 0.5:
        return (
            f"Raise the occupancy from {_percent(k.theoretical_occupancy)} (limited by "
            f"{k.occupancy_limiter.replace('_', ' ')}), or give each thread more independent work."
        )
    if stall == "branch_resolving" and lanes >= 24:
        return "Unroll the loops: their counters and branches cost more than what they do."
    if stall == "branch_resolving" or (lanes < 24 and stall != "barrier"):
        return (
            f"Branch less: {lanes:.0f} of 32 lanes are active in an instruction, on average; unroll loops, and let the "
            "threads of a warp take the same way."
        )
    remedies = {
        "long_scoreboard": "Start more loads before the first is used (more elements per thread), or run more warps.",
        "short_scoreboard": "Give each thread several independent chains, or keep values in registers.",
        "wait": "Give each thread several independent chains of arithmetic, or run more warps.",
        "barrier": "Use fewer barriers or smaller blocks: at each one all warps wait for the slowest.",
        "membar": "Fence less often, or let one thread per block do it.",
        "drain": "Store earlier, or coalesce the last stores.",
        "lg_throttle": "Use wider or fewer global memory instructions.",
        "mio_throttle": "Use wider or fewer shared memory instructions, and remove bank conflicts.",
        "math_pipe_throttle": "Spread the work over other pipes, or use fewer instructions of that kind.",
        "not_selected": "Use fewer instructions.",
        "no_instruction": "Let each block do more: starting and ending blocks costs more than what they do.",
        "none": "Run more warps.",
    }
    remedy = remedies[stall]
    return remedy.replace(", or run more warps", "") if k.theoretical_occupancy == 1 else remedy
