"""Instructions counted line by line, and what part each warp of a block had in the work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.counters import Counters
from gpusim_des.functional.event import Event
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import OpClass

_DATA = frozenset(
    {OpClass.GLOBAL_LOAD, OpClass.SHARED_LOAD, OpClass.SHUFFLE, OpClass.GLOBAL_ATOMIC, OpClass.SHARED_ATOMIC}
)
"""Classes whose results are data, not what a thread knows by its numbers."""

_COMPUTING = frozenset(
    {
        *(OpClass.INT, OpClass.FP32, OpClass.FP64, OpClass.FP16, OpClass.CONVERSION, OpClass.SFU, OpClass.TENSOR),
        *(OpClass.SHARED_ATOMIC, OpClass.GLOBAL_ATOMIC, OpClass.SHUFFLE, OpClass.VOTE),
    }
)


def count_events(
    counters: Counters, events: list[Event], all_lanes: NDArray[np.uint8], warps_per_block: int, *, lines_only: bool
) -> None:
    """Count the instructions of a chunk in total and line by line.

    Parameters
    ----------
    events
        What the chunk did, in order.
    all_lanes
        Threads of every warp.
    warps_per_block
        Warps lie block after block.
    lines_only
        Only the instructions that stand for source lines count.
    """
    full = bool((all_lanes == WARP_SIZE).all())
    last: tuple[NDArray[np.uint8], int, int, int] | None = None
    for event in events:
        if lines_only and event.op is not OpClass.INT:
            continue
        lanes = event.lanes
        if last is None or last[0] is not lanes:  # neighbouring instructions mostly share their lanes
            warps = int(np.count_nonzero(lanes))
            slots = WARP_SIZE * warps if full else int(all_lanes[lanes > 0].sum(dtype=np.int64))
            last = lanes, warps, int(lanes.sum(dtype=np.int64)), slots
        _, warps, active, slots = last
        if not warps:  # a product that became part of a multiply-add
            continue
        counters.count_instruction(event.op.label, warps, active)
        line = counters.line(event.site)
        line.instructions += warps
        line.active_lanes += active
        line.thread_slots += slots
        line.instruction_mix[event.op.label] += warps
    if not lines_only and warps_per_block > 1:
        _Roles(counters, events, len(all_lanes), warps_per_block).count()


class _Roles:
    """Which warps of a block compute with data, which only load, and who waits for whom at barriers."""

    def __init__(self, counters: Counters, events: list[Event], warps: int, warps_per_block: int) -> None:
        self._counters = counters
        self._events = events
        self._shape = warps // warps_per_block, warps_per_block
        self._is_data = np.array([event.op in _DATA for event in events] or [False])
        self._masks: dict[int, NDArray[np.bool_]] = {}

    def count(self) -> None:
        """Count idle warps and barriers of a single working warp."""
        computing = [self._computes(event) for event in self._events]
        if not any(computing):
            return
        idle = self._idle(computing)
        self._counters.idle_warps += int(idle.sum())
        self._scan(computing, idle)

    def _on(self, event: Event) -> NDArray[np.bool_]:
        """Warps that executed an instruction, one row per block; events mostly share their arrays of lanes."""
        key = id(event.lanes)
        if key not in self._masks:
            self._masks[key] = (event.lanes > 0).reshape(self._shape)
        return self._masks[key]

    def _computes(self, event: Event) -> bool:
        """Tell whether an instruction computes with data that was loaded or came from another lane."""
        if event.op not in _COMPUTING:
            return False
        if any(self._is_data[number] for number in event.producers):
            return True
        return any(bool((self._is_data[column] & (column >= 0)).any()) for column in event.columns)

    def _idle(self, computing: list[bool]) -> NDArray[np.bool_]:
        """Warps that load and never compute, in blocks in which others do."""
        loaded, computed = np.zeros(self._shape, bool), np.zeros(self._shape, bool)
        seen: set[tuple[int, bool]] = set()
        for event, computes in zip(self._events, computing, strict=True):
            target = computed if computes else loaded
            key = id(event.lanes), computes
            if (computes or event.op is OpClass.GLOBAL_LOAD) and key not in seen:
                seen.add(key)
                target |= self._on(event)
        idle: NDArray[np.bool_] = loaded & ~computed & computed.any(axis=1, keepdims=True)
        return idle

    def _scan(self, computing: list[bool], idle: NDArray[np.bool_]) -> None:
        counters, any_idle = self._counters, bool(idle.any())
        barriers = any(event.op is OpClass.BARRIER for event in self._events)
        if not (barriers or any_idle):
            return
        worked, behind = np.zeros(self._shape, bool), np.zeros((self._shape[0], 1), bool)
        since = np.zeros(self._shape, np.int64)
        """Instructions since the last barrier."""
        for event, computes in zip(self._events, computing, strict=True):
            on = self._on(event)
            if any_idle:
                counters.idle_warp_instructions += int(np.count_nonzero(on & idle))
            if not barriers:
                continue
            since += on
            if behind.any():
                counters.behind_barrier_instructions += int(np.count_nonzero(on & behind))
            if computes:
                worked |= on
            if event.op is OpClass.BARRIER:
                there = on.any(axis=1, keepdims=True)
                lone = there & (worked.sum(axis=1, keepdims=True) == 1)
                if lone.any():
                    counters.line(event.site).lone_barriers += int(lone.sum())
                    counters.lone_warp_instructions += int(since[lone & ~worked & ~idle].sum())
                worked &= ~there
                since *= ~there
                behind |= there
