"""Records of the timeline: blocks on SMs, and warps with their states and instructions."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim_des.timeline.states import WarpState


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """One block on one SM, from dispatch to the moment its slot is free again (rule I1)."""

    kernel: int
    """Number of the kernel in the simulation."""
    block: int
    """Linear block number."""
    sm: int
    slot: int
    """Row of the block on its SM: the lowest one that was free."""
    start_fs: int
    end_fs: int


@dataclass(frozen=True, slots=True)
class Cause:
    """What ended a wait.

    ``warp`` and ``instruction`` name the instruction that did, where it was one: the number of the warp in the same
    block, and the instruction's number in that warp's stream. ``what`` says it in a word: an operation class such as
    ``global_load``, the name of a unit such as ``fp64``, ``exit``, ``block_start`` or ``scheduler``.
    """

    what: str
    warp: int | None = None
    instruction: int | None = None


@dataclass(frozen=True, slots=True)
class StateSpan:
    """A warp in one state for some cycles, ``start_cycle`` included and ``end_cycle`` excluded."""

    state: WarpState
    start_cycle: int
    end_cycle: int
    cause: Cause | None = None
    """What ended the wait; ``None`` for a warp that was selected, and where the simulation was stopped."""


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """One issued warp instruction."""

    cycle: int
    index: int
    """Number of the instruction in the warp's stream."""
    op: str
    """Operation class, for example ``fp32``."""
    complete_cycle: int
    """Cycle at which the result can be used."""
    line: int
    """Source line, 0 if unknown."""


@dataclass(frozen=True, slots=True)
class WarpHistory:
    """All states and instructions of one warp; recorded with ``detail="warp"``.

    The states tile the residency: each starts where the one before ends.
    """

    kernel: int
    block: int
    warp: int
    """Number of the warp in its block."""
    sm: int
    sub_partition: int
    start_cycle: int
    end_cycle: int
    states: tuple[StateSpan, ...]
    issues: tuple[IssueEvent, ...]
