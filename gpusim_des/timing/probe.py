"""The only door from the engine to the timeline; it costs nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from gpusim_des.timeline import BlockSpan, Cause, IssueEvent, StateSpan, WarpHistory, WarpState
from gpusim_des.timing.warp import Warp

Detail = Literal["kernel", "sm", "warp"]
"""What is recorded: totals; spans of blocks as well; states and instructions of every warp as well."""


class Probe:
    """Collects what the chosen level of detail asks for."""

    def __init__(self, detail: Detail, watch: Collection[int] | None = None) -> None:
        self._wants_blocks = detail != "kernel"
        self._wants_warps = detail == "warp"
        self._watch = watch
        self.blocks: list[BlockSpan] = []
        self._kept: dict[int, list[BlockSpan]] = {}
        self.warps: list[WarpHistory] = []
        self._states: dict[int, list[StateSpan]] = {}
        self._issues: dict[int, list[IssueEvent]] = {}

    def watches(self, sm: int) -> bool:
        """Tell whether the states and instructions of an SM's warps are recorded."""
        return self._wants_warps and (self._watch is None or sm in self._watch)

    def keep(self, kernel: int, spans: list[BlockSpan]) -> None:
        """Collect the spans of one kernel's blocks in a list of its own, whatever the level of detail."""
        self._kept[kernel] = spans

    def block(self, span: BlockSpan) -> None:
        """Record a block whose slot is free again."""
        if self._wants_blocks:
            self.blocks.append(span)
        if span.kernel in self._kept:
            self._kept[span.kernel].append(span)

    def state(self, warp: Warp, state: WarpState, start: int, end: int, cause: Cause | None = None) -> None:
        """Record that a warp was in one state; call only for SMs that are watched."""
        spans = self._states.setdefault(warp.age, [])
        if spans and spans[-1].state == state and spans[-1].end_cycle == start and spans[-1].cause == cause:
            start = spans.pop().start_cycle
        spans.append(StateSpan(state, start, end, cause))

    def issue(self, warp: Warp, cycle: int) -> None:
        """Record an issued instruction; call only for SMs that are watched, before the warp moves on."""
        index = warp.next
        program = warp.program
        event = IssueEvent(cycle, index, program.ops[index].label, warp.complete[index], program.lines[index])
        self._issues.setdefault(warp.age, []).append(event)

    def take_states(self, age: int) -> list[StateSpan]:
        """Take out the states of a warp; there are none for an empty warp in a block that starts at once."""
        return self._states.pop(age, [])

    def exit(self, warp: Warp, kernel: int, sm: int) -> None:
        """Record the history of a warp that has left; call only for SMs that are watched."""
        states = self.take_states(warp.age)
        # Completion of a global load is known only after its issue was recorded.
        issues = [
            e if e.complete_cycle >= 0 else IssueEvent(e.cycle, e.index, e.op, warp.complete[e.index], e.line)
            for e in self._issues.pop(warp.age, [])
        ]
        self.warps.append(
            WarpHistory(
                kernel,
                warp.block.block,
                warp.number,
                sm,
                warp.sub_partition,
                warp.start,
                states[-1].end_cycle if states else warp.start,
                tuple(states),
                tuple(issues),
            )
        )
