"""What a resident warp can be doing (rule I7)."""

from __future__ import annotations

from enum import IntEnum


class WarpState(IntEnum):
    """What a resident warp does in one cycle, in the priority order of rule I7.

    The names are Nsight Compute's suffixes (``smsp__average_warps_issue_stalled_<suffix>``).
    """

    SELECTED = 0
    """The scheduler issued an instruction of this warp."""
    BARRIER = 1
    """Waiting for other warps of the block at a barrier."""
    MEMBAR = 2
    """Waiting for a memory fence."""
    DRAIN = 3
    """All instructions issued; memory operations are still under way."""
    BRANCH_RESOLVING = 4
    """Waiting for a branch target."""
    LONG_SCOREBOARD = 5
    """Waiting for a global or local load."""
    SHORT_SCOREBOARD = 6
    """Waiting for shared memory, the special function unit or a shuffle."""
    WAIT = 7
    """Waiting for a dependency of fixed latency."""
    LG_THROTTLE = 8
    """The queue for global and local memory instructions is full."""
    MIO_THROTTLE = 9
    """The queue for shared memory instructions is full."""
    MATH_PIPE_THROTTLE = 10
    """The arithmetic pipe is busy with another warp."""
    NOT_SELECTED = 11
    """Eligible, but the scheduler issued another warp."""
    NO_INSTRUCTION = 12
    """The block is starting up."""

    @property
    def suffix(self) -> str:
        """Nsight Compute's suffix of the state, for example ``long_scoreboard``."""
        return self.name.lower()
