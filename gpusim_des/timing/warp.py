"""A resident warp: its place in the program, its scoreboard, and the account of its cycles (rules I4 and I7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim_des.timeline import WarpState
from gpusim_des.timing.address_hash import Packets
from gpusim_des.timing.program import Program
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.timing.resident_block import ResidentBlock

NEVER = -1
"""Result not known yet, in the scoreboard."""

_BARRIER, _MEMBAR, _BRANCH = WarpState.BARRIER, WarpState.MEMBAR, WarpState.BRANCH_RESOLVING
_LONG, _SHORT, _WAIT = WarpState.LONG_SCOREBOARD, WarpState.SHORT_SCOREBOARD, WarpState.WAIT
_BULK_WAIT = OpClass.BULK_WAIT
_DRAIN, _START = WarpState.DRAIN, WarpState.NO_INSTRUCTION


class Warp:
    """One warp on an SM.

    Its waiting is kept as deadlines: until which cycle each reason of rule I7 holds. Deadlines in priority order cut
    the time since the last issue into states, without looking at every cycle.
    """

    __slots__ = (
        "acknowledged_until",
        "age",
        "barrier_until",
        "block",
        "blocked",
        "branch_until",
        "complete",
        "deadlines",
        "global_access",
        "in_flight",
        "issued",
        "last_memory",
        "last_result",
        "left",
        "left_at",
        "membar_until",
        "memory_access",
        "next",
        "number",
        "occupied_at_ready",
        "packets",
        "program",
        "quarter_cycles",
        "ready",
        "since",
        "start",
        "start_until",
        "sub_partition",
        "unacknowledged",
        "waits_at_barrier",
        "waits_at_fence",
    )

    def __init__(
        self,
        block: ResidentBlock,
        number: int,
        age: int,
        sub_partition: int,
        program: Program,
        quarter_cycles: list[int],
        packets: list[Packets],
    ) -> None:
        self.block = block
        self.number = number
        self.age = age
        """Dispatch order: blocks in the order of dispatch, warps in the order of their numbers (T2)."""
        self.sub_partition = sub_partition
        self.program = program
        self.quarter_cycles = quarter_cycles
        self.packets = packets
        self.next = 0
        """Number of the next instruction."""
        self.complete = [NEVER] * len(program.ops)
        """Scoreboard: cycle at which each instruction's result can be used."""
        self.memory_access = 0
        self.global_access = 0
        self.in_flight = 0
        """Memory instructions whose end is not known yet, writes aside."""
        self.unacknowledged = 0
        """Packets of writes whose acknowledgement is not known yet."""
        self.acknowledged_until = 0
        """Cycle of the last acknowledgement that is known."""
        self.issued = NEVER
        """Cycle of the last issue."""
        self.since = 0
        """First cycle that is not accounted for yet."""
        self.ready = 0
        """Cycle from which all operands are complete."""
        self.occupied_at_ready = 0
        self.waits_at_barrier = False
        self.waits_at_fence = False
        self.left = False
        """The warp has exited, or is certain to at a known cycle."""
        self.left_at = 0
        """That cycle."""
        self.blocked = False
        """An operand of the next instruction is under way and nobody knows yet when it comes."""
        self.barrier_until = 0
        self.membar_until = 0
        self.branch_until = 0
        self.start = 0
        """Cycle at which the warp became resident."""
        self.start_until = 0
        """Cycle from which it may issue."""
        self.last_memory = 0
        """Cycle at which the last memory operation so far is done."""
        self.last_result = 0
        """Cycle at which the last other result so far is complete."""
        self.deadlines: list[tuple[WarpState, int]] = []
        """Reasons that keep the next instruction back and the cycles at which they end, in the order of I7."""

    @property
    def finished(self) -> bool:
        """All instructions are issued."""
        return self.next == len(self.program.ops)

    def begin(self, cycle: int, start_cycle: int) -> None:
        """Become resident at `cycle`, with the first instruction possible at `start_cycle` (G3)."""
        self.start = self.since = cycle
        self.issued = cycle - 1
        self.start_until = start_cycle

    def plan(self) -> bool:
        """Find out until when the next instruction is kept back; returns whether that is known yet."""
        program, complete = self.program, self.complete
        long = short = wait = 0
        for producer in program.deps[self.next]:
            cycle = complete[producer]
            if cycle == NEVER:
                self.blocked = True
                return False
            state = program.waiting[producer]
            if state is _WAIT:
                wait = cycle if cycle > wait else wait
            elif state is _LONG:
                long = cycle if cycle > long else long
            else:
                short = cycle if cycle > short else short
        if program.ops[self.next] is _BULK_WAIT:
            cycle = self.block.phase_end(program.operands[self.next])
            if cycle == NEVER:
                self.blocked = True
                return False
            long = max(long, cycle)
        self.blocked = False
        deadlines = self.deadlines = []
        ready = self.issued + 1
        if not self.next and self.start_until > ready:
            ready = self.start_until
            deadlines.append((_START, ready))
        for state, until in (
            (_BARRIER, self.barrier_until),
            (_MEMBAR, self.membar_until),
            (_BRANCH, self.branch_until),
            (_LONG, long),
            (_SHORT, short),
            (_WAIT, wait),
        ):
            if until > ready:
                ready = until
                deadlines.append((state, until))
        self.ready = ready
        return True

    def plan_cut(self, cycle: int) -> None:
        """Deadlines where the simulation ends at `cycle`: what is under way counts until then."""
        self.complete = [cycle if done == NEVER else done for done in self.complete]
        if self.waits_at_barrier or self.waits_at_fence:
            self.deadlines = [(_BARRIER if self.waits_at_barrier else _MEMBAR, cycle)]
        elif self.finished:
            self.last_memory = max(self.last_memory, cycle)
            self.plan_drain()
        else:
            self.block.end_phases(cycle)
            self.plan()
        self.deadlines = [(state, min(until, cycle)) for state, until in self.deadlines]

    def plan_drain(self) -> int:
        """Deadlines after the last issue: memory first, then other results; returns the cycle of the exit."""
        deadlines = self.deadlines = []
        end = self.issued + 1
        if not self.next and self.start_until > end:
            end = self.start_until
            deadlines.append((_START, end))
        for state, until in (
            (_BARRIER, self.barrier_until),
            (_MEMBAR, self.membar_until),
            (_DRAIN, self.last_memory),
            (_BRANCH, self.branch_until),
            (_WAIT, self.last_result),
        ):
            if until > end:
                end = until
                deadlines.append((state, until))
        return end
