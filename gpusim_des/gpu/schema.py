"""The keys of a GPU model: where each stands in the TOML file, what it may hold, and the field it fills.

A key is named like its field without the unit, because the unit stands in the value: ``l2_size = "50 MiB"`` fills
``GPU.l2_bytes``. Cycles are SM clock cycles throughout; a number of cycles may also be given as a time, which becomes
the nearest whole number of cycles (a half rounds up).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpusim_des import units

Kind = Literal["text", "choice", "count", "quantity", "time", "sizes", "ratio"]

PIPE_CLASSES = ("int", "fp32", "fp64", "fp16", "conversion", "sfu", "branch")
"""Operation classes that have an arithmetic pipe (rules W2 and I5)."""

PIPE_SCOPES = ("sub-partition", "sm")
"""Whose lanes a pipe counts: each sub-partition has the lanes, or the whole SM shares them."""

SCHEDULER_POLICIES = ("gto", "lrr", "oldest")
"""Greedy then oldest, loose round robin, oldest first (rule I3)."""

TENSOR_TYPES = ("fp16", "bf16", "tf32", "fp64", "int8", "fp8")
"""Element types of tensor cores, as `gpusim_des.trace.MMA_TYPES`."""

YES_NO = ("yes", "no")

CHANNEL_HASHES = ("rotated", "linear")
"""How addresses are spread over the DRAM channels (rule M4)."""

DUPLEXES = ("full", "half")
"""Whether the link to the host carries both directions at once (rule H2)."""


MOST = 1 << 20
"""Largest count."""

MOST_BY_DIMENSION: dict[units.Dimension, int] = {
    "bytes": 1 << 40,
    "bytes/s": 10**18,
    "Hz": 10**10,
    "s": 10**16,
    "cycles": 1 << 24,
    "bytes/cycle": 1 << 20,
}
"""Largest quantities in the units of the fields: a TiB, an EB/s, 10 GHz, 10 s, 16 million cycles, a MiB per cycle.

Far beyond any chip, and small enough for 64-bit times and counts (rule T1).
"""


@dataclass(frozen=True)
class Key:
    """One key of a model file and the field of `gpusim_des.gpu.GPU` that it fills."""

    section: str
    """TOML table, empty for the top of the file."""
    name: str
    field: str
    kind: Kind
    dimension: units.Dimension | None = None
    minimum: int = 1
    """Least legal value, in the unit of the field."""
    choices: tuple[str, ...] = ()
    optional: bool = False
    most: int = 0
    """Largest legal value, where it is not the one of all counts or of the dimension."""

    @property
    def maximum(self) -> int:
        """Largest legal value, in the unit of the field."""
        return self.most or (MOST if self.dimension is None else MOST_BY_DIMENSION[self.dimension])

    @property
    def label(self) -> str:
        """The key as messages name it, for example ``memory.l2_size``."""
        return f"{self.section}.{self.name}" if self.section else self.name


def _count(section: str, *names: str, most: int = 0) -> list[Key]:
    return [Key(section, name, name, "count", most=most) for name in names]


def _size(section: str, name: str, field: str, minimum: int = 1, most: int = 0) -> Key:
    return Key(section, name, field, "quantity", "bytes", minimum, most=most)


def _cycles(section: str, name: str, minimum: int = 1) -> Key:
    return Key(section, name, f"{name}_cycles", "quantity", "cycles", minimum)


def _times(section: str, *names: str) -> list[Key]:
    return [Key(section, name, f"{name}_fs", "time", "s", minimum=0) for name in names]


def _rates(section: str, *names: str) -> list[Key]:
    return [Key(section, name, f"{name}_bytes_per_s", "quantity", "bytes/s") for name in names]


def _ratio(section: str, name: str) -> Key:
    return Key(section, name, name, "ratio")


KEYS: tuple[Key, ...] = (
    Key("", "title", "title", "text"),
    Key("", "compute_capability", "compute_capability", "text"),
    # An event's place in the order (rule T2) has 16 bits for the SM and 8 for the sub-partition.
    *_count("", "sms", most=(1 << 16) - 1),
    Key("", "sm_clock", "sm_clock_hz", "quantity", "Hz", minimum=10**6),
    *_count("sm", "max_warps_per_sm", most=(1 << 16) - 1),
    *_count("sm", "max_threads_per_sm", "max_blocks_per_sm", "max_threads_per_block"),
    *_count("sm", "registers_per_sm", "registers_per_block", "register_allocation_unit"),
    *_count("sm", "warp_allocation_granularity", "max_registers_per_thread"),
    *_count("sm", "sub_partitions", most=254),
    _size("sm", "shared_per_sm", "shared_bytes_per_sm"),
    _size("sm", "shared_per_block", "shared_bytes_per_block"),
    _size("sm", "shared_per_block_optin", "shared_bytes_per_block_optin"),
    _size("sm", "shared_reserved_per_block", "shared_bytes_reserved_per_block", minimum=0),
    _size("sm", "shared_allocation_unit", "shared_allocation_unit_bytes"),
    Key("sm", "shared_carveouts", "shared_carveouts_bytes", "sizes", "bytes", minimum=0),
    # Counted since compute capability 9.0.
    Key("sm", "barriers_per_sm", "barriers_per_sm", "count", optional=True),
    *_count("sm", "shared_banks"),
    Key("sm", "async_copies", "async_copies", "choice", choices=YES_NO),
    Key("sm", "bulk_copies", "bulk_copies", "choice", choices=YES_NO),
    Key("front_end", "scheduler_policy", "scheduler_policy", "choice", choices=SCHEDULER_POLICIES),
    _cycles("front_end", "barrier_latency", minimum=0),
    _cycles("front_end", "branch_latency"),
    _cycles("front_end", "block_start", minimum=0),
    _cycles("front_end", "block_end", minimum=0),
    *_count("front_end", "load_store_queue_depth", most=1 << 8),
    Key("front_end", "dispatch_interval", "dispatch_interval_fs", "time", "s"),
    *(Key("tensor", name, f"tensor_{name}", "count", minimum=0) for name in TENSOR_TYPES),
    Key("tensor", "latency", "tensor_latency_cycles", "quantity", "cycles"),
    _cycles("memory", "shared_latency"),
    _cycles("memory", "shuffle_latency"),
    _size("memory", "l1_size", "l1_bytes"),
    Key("memory", "l1_width", "l1_bytes_per_cycle", "quantity", "bytes/cycle"),
    _cycles("memory", "l1_latency"),
    _size("memory", "l2_size", "l2_bytes", most=1 << 32),
    Key("memory", "l2_bandwidth", "l2_bandwidth_bytes_per_s", "quantity", "bytes/s"),
    *_count("memory", "l2_write_services", most=16),
    *_count("memory", "l2_partial_write_services", most=16),
    _cycles("memory", "l2_latency"),
    *_count("memory", "l2_partitions"),
    _cycles("memory", "l2_far_latency"),
    _cycles("memory", "atomic_interval"),
    _cycles("memory", "dram_latency"),
    Key("memory", "port_out", "port_out_bytes_per_cycle", "quantity", "bytes/cycle"),
    Key("memory", "port_in", "port_in_bytes_per_cycle", "quantity", "bytes/cycle"),
    _size("memory", "request_size", "request_bytes", most=1 << 20),
    _size("memory", "store_buffer", "store_buffer_bytes", minimum=32, most=1 << 24),
    Key("memory", "bulk_rate", "bulk_bytes_per_cycle", "quantity", "bytes/cycle", minimum=32),
    _cycles("memory", "bulk_overhead", minimum=0),
    _size("memory", "memory_size", "memory_bytes", most=1 << 60),
    Key("memory", "dram_bandwidth", "dram_bandwidth_bytes_per_s", "quantity", "bytes/s"),
    *_count("memory", "dram_channels", most=1 << 12),
    # Redundant on purpose: a file may state both, and then the two must agree.
    Key("memory", "dram_channel_bandwidth", "", "quantity", "bytes/s", optional=True),
    _size("memory", "channel_interleave", "channel_interleave_bytes", minimum=256),
    Key("memory", "channel_hash", "channel_hash", "choice", choices=CHANNEL_HASHES),
    _size("memory", "dram_granule", "dram_granule_bytes"),
    _size("memory", "dram_read_batch", "dram_read_batch_bytes", minimum=0),
    _size("memory", "dram_write_batch", "dram_write_batch_bytes", minimum=0),
    _ratio("memory", "dram_efficiency_read"),
    _ratio("memory", "dram_efficiency_write"),
    _ratio("memory", "dram_efficiency_mixed"),
    *_times("host", "launch_call", "copy_call", "launch_latency", "kernel_gap", "graph_gap", "synchronize_latency"),
    *_count("host", "hardware_queues"),
    *_count("host", "max_concurrent_kernels", most=1 << 16),
    Key("host", "late_kernel_signals", "late_kernel_signals", "choice", choices=YES_NO),
    *_count("copies", "copy_engines"),
    Key("copies", "link_duplex", "link_duplex", "choice", choices=DUPLEXES),
    *_times("copies", "copy_latency"),
    *_rates("copies", "h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable"),
)
"""Every key but those of the pipes, in the order of a model file."""


def _pipe_keys(pipe: str) -> tuple[Key, ...]:
    section = f"pipes.{pipe}"
    lanes = Key(section, "lanes", f"{pipe}_lanes", "count")
    scope = Key(section, "scope", f"{pipe}_scope", "choice", choices=PIPE_SCOPES)
    sustained = Key(section, "sustained", f"{pipe}_sustained", "ratio", optional=True)
    if pipe == "branch":  # its latency is front_end.branch_latency: one value, one key
        return lanes, scope, sustained
    return lanes, scope, sustained, Key(section, "latency", f"{pipe}_latency_cycles", "quantity", "cycles")


PIPE_KEYS: dict[str, tuple[Key, ...]] = {pipe: _pipe_keys(pipe) for pipe in PIPE_CLASSES}
"""The keys of every ``[pipes.<class>]`` table."""

ALL_KEYS: tuple[Key, ...] = KEYS + tuple(key for keys in PIPE_KEYS.values() for key in keys)
"""Every key of a model file."""

SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(key.section for key in ALL_KEYS))
"""Every table of a model file; the empty name is the top."""


MOST_SUGGESTIONS = 3
"""Names that a suggestion lists at most."""

SHORTEST_PART = 3
"""Letters from which on a part of a name, not only its beginning, points to it."""


def suggest(wrong: str, known: Iterable[str]) -> str:
    """Say which known name `wrong` resembles, or list them all when none does.

    Names that begin with `wrong` come first, then names that contain it, then similar ones; case and punctuation do
    not count. Of several that begin with or contain it the shortest say least that was not meant, so they lead.

    >>> suggest("H100", ["a100-sxm", "h100-pcie", "h100-sxm"])
    "did you mean 'h100-sxm' or 'h100-pcie'?"
    >>> suggest("l2_sise", ["l1_size", "l2_size", "sms"])
    "did you mean 'l2_size'?"
    >>> suggest("zzz", ["a", "b"])
    'known: a, b'
    """
    names = list(known)
    asked = _bare(wrong)
    near = [name for name in names if asked and _bare(name).startswith(asked)]
    if not near and len(asked) >= SHORTEST_PART:
        near = [name for name in names if asked in _bare(name)]
    near = sorted(near, key=len)[:MOST_SUGGESTIONS] or difflib.get_close_matches(wrong.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(names)}"


def _bare(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
