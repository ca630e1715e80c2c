"""What no GPU model may contain: values outside their range, and values that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from gpusim_des.errors import ModelError
from gpusim_des.gpu.parameters import Parameters
from gpusim_des.gpu.schema import KEYS, MOST_BY_DIMENSION, PIPE_CLASSES, Key
from gpusim_des.units import format_bytes

MOST_WARPS = 1 << 18
"""Warps that a GPU may have room for: thirty times as many as the largest of today."""

SLOWEST_PIPE = Fraction(1, 1 << 16)
"""Least share of its peak that a pipe may keep up."""

LONGEST_SHOWN = 60
"""Characters of a value that a message shows."""

LONGEST_SERVICE_FS = 10**12
"""Longest time that one sector or granule may take: a millisecond."""

LONGEST_BATCH_FS = 10**15
"""Longest time that a batch may take, a second: engines add up 2048 of them in 64 bits (rule M6)."""

SERVICE_RULE = "it must be a whole number of femtoseconds, at least 1 and at most a millisecond (rule T1)"


def check(gpu: Parameters) -> None:
    """Refuse `gpu` if one of its values is out of range or contradicts another.

    Raises
    ------
    ModelError
        Naming the key or keys, the value and the rule.
    """
    flaw = next(_flaws(gpu), None)
    if flaw is not None:
        raise ModelError(f"GPU model {gpu.name!r}: {flaw}")


def _flaws(gpu: Parameters) -> Iterator[str]:
    # Lazy on purpose: a contradiction is looked for only among values that are in range.
    for key in KEYS:
        value = getattr(gpu, key.field) if key.field else None
        if value is not None or not key.optional:
            yield from _value_flaws(key, value)
    yield from _pipe_flaws(gpu)
    yield from _sm_contradictions(gpu)
    yield from _shared_memory_contradictions(gpu)
    yield from _memory_contradictions(gpu)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _value_flaws(key: Key, value: object) -> Iterator[str]:
    rule = {
        "count": _number_rule,
        "quantity": _number_rule,
        "time": _number_rule,
        "sizes": _sizes_rule,
        "ratio": _ratio_rule,
        "choice": _choice_rule,
        "text": _text_rule,
    }[key.kind](key, value)
    if rule:
        shown = str(value) if isinstance(value, Fraction) else repr(value)
        if len(shown) > LONGEST_SHOWN:
            shown = f"{shown[:LONGEST_SHOWN]}…, {len(shown):,} characters"
        yield f"{key.label} ({key.field} = {shown}): {rule}"


def _number_rule(key: Key, value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return "must be a whole number or a text with a unit"
    if value < key.minimum:
        return f"must be at least {key.minimum}"
    return "" if value <= key.maximum else f"must be at most {key.maximum}"


def _sizes_rule(key: Key, value: object) -> str:
    if not isinstance(value, tuple) or not value or not all(_is_int(part) for part in value):
        return "must be a tuple of whole numbers of bytes, not empty"
    rising = list(value) == sorted(set(value)) and value[0] >= key.minimum and value[-1] <= key.maximum
    return "" if rising else f"must rise from at least {key.minimum} to at most {key.maximum}, each size once"


def _ratio_rule(_key: Key, value: object) -> str:
    return "" if isinstance(value, Fraction) and 0 < value <= 1 else "must be a fraction above 0 and at most 1"


def _choice_rule(key: Key, value: object) -> str:
    return "" if value in key.choices else f"must be one of {', '.join(key.choices)}"


def _text_rule(_key: Key, value: object) -> str:
    return "" if isinstance(value, str) and value.strip() else "must be a text that is not empty"


def _pipe_flaws(gpu: Parameters) -> Iterator[str]:
    names = tuple(pipe.name for pipe in gpu.pipes)
    if names != PIPE_CLASSES:
        yield f"pipes: must be {', '.join(PIPE_CLASSES)}, in this order, but are {', '.join(names)}"
        return
    for pipe in gpu.pipes:
        for field in ("lanes", "latency_cycles"):
            value = getattr(pipe, field)
            if not _is_int(value) or value < 1:
                yield f"pipes.{pipe.name} ({pipe.name}_{field} = {value!r}): must be a whole number, at least 1"
            elif value > MOST_BY_DIMENSION["cycles"]:
                yield (
                    f"pipes.{pipe.name} ({pipe.name}_{field} = {value}): must be at most {MOST_BY_DIMENSION['cycles']}"
                )
        if not isinstance(pipe.sustained, Fraction) or not 0 < pipe.sustained <= 1:
            yield f"pipes.{pipe.name} ({pipe.name}_sustained = {pipe.sustained}): must be above 0 and at most 1"
        elif pipe.sustained < SLOWEST_PIPE:
            yield f"pipes.{pipe.name} ({pipe.name}_sustained = {pipe.sustained}): must be at least {SLOWEST_PIPE}"
    branch = gpu.pipe("branch").latency_cycles
    if branch != gpu.branch_latency_cycles:
        yield (
            f"the latency of pipes.branch, {branch} cycles, contradicts front_end.branch_latency, "
            f"{gpu.branch_latency_cycles} cycles: they are one value"
        )


def _sm_contradictions(gpu: Parameters) -> Iterator[str]:
    for larger, smaller in (
        ("max_threads_per_sm", "max_threads_per_block"),
        ("max_warps_per_sm", "max_blocks_per_sm"),
        ("registers_per_sm", "registers_per_block"),
        ("registers_per_block", "register_allocation_unit"),
    ):
        high, low = getattr(gpu, larger), getattr(gpu, smaller)
        if low > high:
            yield f"sm.{smaller} = {low} contradicts sm.{larger} = {high}: it cannot be larger"
    if gpu.sms * gpu.max_warps_per_sm > MOST_WARPS:
        yield (
            f"sms = {gpu.sms} with sm.max_warps_per_sm = {gpu.max_warps_per_sm} makes room for "
            f"{gpu.sms * gpu.max_warps_per_sm} warps: it must be for at most {MOST_WARPS}, so that counts of their "
            "cycles stay below 2^63 (rule T1)"
        )
    for whole in ("max_warps_per_sm", "registers_per_sm"):
        value = getattr(gpu, whole)
        if value % gpu.sub_partitions:
            yield (
                f"sm.{whole} = {value} contradicts sm.sub_partitions = {gpu.sub_partitions}: "
                "every sub-partition has the same share, so it must divide evenly"
            )
    if gpu.max_threads_per_sm > gpu.max_warps_per_sm * gpu.warp_size:
        yield (
            f"sm.max_threads_per_sm = {gpu.max_threads_per_sm} contradicts sm.max_warps_per_sm = "
            f"{gpu.max_warps_per_sm}: that many warps hold {gpu.max_warps_per_sm * gpu.warp_size} threads"
        )


def _shared_memory_contradictions(gpu: Parameters) -> Iterator[str]:
    largest = gpu.shared_bytes_per_sm - gpu.shared_bytes_reserved_per_block
    for name, low, other, high in (
        ("sm.shared_per_block", gpu.shared_bytes_per_block, "sm.shared_per_sm less the reserve", largest),
        ("sm.shared_per_block_optin", gpu.shared_bytes_per_block_optin, "sm.shared_per_sm less the reserve", largest),
        (
            "sm.shared_per_block",
            gpu.shared_bytes_per_block,
            "sm.shared_per_block_optin",
            gpu.shared_bytes_per_block_optin,
        ),
        ("sm.shared_per_sm", gpu.shared_bytes_per_sm, "memory.l1_size", gpu.l1_bytes),
    ):
        if low > high:
            yield f"{name} = {format_bytes(low)} contradicts {other} = {format_bytes(high)}: it cannot be larger"
    if gpu.shared_carveouts_bytes[-1] != gpu.shared_bytes_per_sm:
        yield (
            f"the last of sm.shared_carveouts = {format_bytes(gpu.shared_carveouts_bytes[-1])} contradicts "
            f"sm.shared_per_sm = {format_bytes(gpu.shared_bytes_per_sm)}: the largest carve-out is all of it"
        )


def _memory_contradictions(gpu: Parameters) -> Iterator[str]:
    if gpu.dram_granule_bytes not in (32, 64):
        yield f"memory.dram_granule = {format_bytes(gpu.dram_granule_bytes)}: must be 32 B or 64 B (rule M6)"
    # A 128-byte line lives on one channel, so a channel boundary may not cut it.
    if gpu.channel_interleave_bytes % 128:
        yield f"memory.channel_interleave = {format_bytes(gpu.channel_interleave_bytes)}: must be a multiple of 128 B"
    if gpu.l2_partial_write_services < gpu.l2_write_services:
        yield (
            f"memory.l2_partial_write_services = {gpu.l2_partial_write_services}: must be at least l2_write_services = "
            f"{gpu.l2_write_services}, for a part is merged into its sector (rule M5)"
        )
    if gpu.l2_partitions not in (1, 2):
        yield f"memory.l2_partitions = {gpu.l2_partitions}: must be 1 or 2 (rule M5)"
    for kind in ("read", "write", "mixed"):
        if not 1 <= gpu.granule_fs(kind) <= LONGEST_SERVICE_FS:
            yield (
                f"memory.dram_bandwidth = {gpu.dram_bandwidth_bytes_per_s} B/s: at the efficiency of {kind} traffic "
                f"one granule takes {gpu.granule_fs(kind)} fs on one of {gpu.dram_channels} channels; {SERVICE_RULE}"
            )
    if not 1 <= gpu.l2_sector_fs <= LONGEST_SERVICE_FS:
        yield (
            f"memory.l2_bandwidth = {gpu.l2_bandwidth_bytes_per_s} B/s: one sector takes {gpu.l2_sector_fs} fs in one "
            f"of {gpu.dram_channels} slices; {SERVICE_RULE}"
        )
    for name, nbytes, batch_fs in (
        ("dram_read_batch", gpu.dram_read_batch_bytes, gpu.dram_batch_fs("read")),
        ("dram_write_batch", gpu.dram_write_batch_bytes, gpu.dram_batch_fs("write")),
    ):
        if batch_fs > LONGEST_BATCH_FS:
            yield (
                f"memory.{name} = {format_bytes(nbytes)}: on one of {gpu.dram_channels} channels of together "
                f"{gpu.dram_bandwidth_bytes_per_s} B/s it takes {batch_fs} fs, and must take at most a second (rule "
                "M6); choose a smaller one, or 0 B for none"
            )
    yield from _latency_contradictions(gpu)


def _latency_contradictions(gpu: Parameters) -> Iterator[str]:
    order = ["l1", "l2", *(["l2_far"] if gpu.l2_partitions == 2 else []), "dram"]
    for near, far in pairwise(order):
        low, high = getattr(gpu, f"{near}_latency_cycles"), getattr(gpu, f"{far}_latency_cycles")
        if low >= high:
            yield (
                f"memory.{near}_latency = {low} cycles contradicts memory.{far}_latency = {high} cycles: "
                "what is farther away takes longer"
            )
    if gpu.l2_fixed_latency_fs <= 0:
        yield (
            f"memory.l2_latency = {gpu.l2_latency_cycles} cycles contradicts the speed of the path: the load/store "
            f"unit, the ports and one sector in its slice alone take {-gpu.l2_fixed_latency_fs} fs longer than that"
        )
    if gpu.dram_fixed_latency_fs <= 0:
        yield (
            f"memory.dram_latency = {gpu.dram_latency_cycles} cycles contradicts the speed of the path: the load/store "
            f"unit, the ports and one granule alone take {-gpu.dram_fixed_latency_fs} fs longer than that"
        )
    if gpu.dram_extra_fs <= 0:
        yield (
            f"memory.dram_latency = {gpu.dram_latency_cycles} cycles contradicts memory.l2_latency = "
            f"{gpu.l2_latency_cycles} cycles: one granule on its channel alone takes {-gpu.dram_extra_fs} fs longer "
            "than their difference"
        )
