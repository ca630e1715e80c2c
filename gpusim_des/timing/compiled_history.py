"""Histories of warps from what the compiled engine wrote down: states, instructions and causes, as in `probe`."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import cast

from gpusim_des.timeline import Cause, IssueEvent, WarpHistory, WarpState
from gpusim_des.timing import compiled_layout as at
from gpusim_des.timing.causes import OTHERS_WERE_CHOSEN, turned_away_by
from gpusim_des.timing.compiled_words import GpuWords
from gpusim_des.timing.pipe import Unit
from gpusim_des.timing.probe import Probe
from gpusim_des.timing.program import Program
from gpusim_des.timing.warp import Warp
from gpusim_des.trace import OpClass

STATES = tuple(WarpState)
LABELS = {op: op.label for op in OpClass}


class Histories:
    """Reads the records of watched SMs one by one, in the order in which they were written."""

    def __init__(self, probe: Probe, gpu: GpuWords) -> None:
        self._probe = probe
        self._gpu = gpu
        self._units: dict[int, Unit] = {}
        self._issued: dict[int, list[tuple[int, int]]] = {}
        """By the warp's age: cycle of issue and place of the program of every instruction so far."""
        self._complete: dict[int, list[int]] = {}

    def read(self, record: list[int], programs: dict[int, Program]) -> None:
        """Read one record; `programs` tells which program lies at a place."""
        what, age, a, b, c, d, e, f = record
        if what == at.LOG_STATE:
            self._state(age, STATES[a], b, c, _cause(d, e, f))
        elif what == at.LOG_WAITED:
            self._waited(age, a, b, c, d, e, f)
        elif what == at.LOG_ISSUE:
            self._issued.setdefault(age, []).append((b, c))
        elif what == at.LOG_COMPLETE:
            self._complete.setdefault(age, []).append(b)
        elif what == at.LOG_OCCUPIED:
            self._unit(age).occupy(a, b, c)
        elif what == at.LOG_EARLY:
            self._unit(age).end_occupation(a)
        elif what == at.LOG_EXIT:
            self._exit(age, record[2:], programs)

    def _unit(self, place: int) -> Unit:
        if place not in self._units:
            self._units[place] = Unit(int(self._gpu.words[place + at.U_SEATS]), keep_log=True)
        return self._units[place]

    def _state(self, age: int, state: WarpState, start: int, end: int, cause: Cause | None = None) -> None:
        self._probe.state(cast("Warp", SimpleNamespace(age=age)), state, start, end, cause)

    def _waited(self, age: int, place: int, seat: int, state: int, unit: int, ready: int, cycle: int) -> None:
        """Divide the cycles in which a ready warp did not issue, as `WarpScheduler` does."""
        since = ready
        for start, end in self._unit(place).occupied_spans(ready, cycle, seat):
            if start > since:
                self._state(age, WarpState.NOT_SELECTED, since, start, OTHERS_WERE_CHOSEN)
            self._state(age, STATES[state], start, end, turned_away_by(unit))
            since = end
        if cycle > since:
            self._state(age, WarpState.NOT_SELECTED, since, cycle, OTHERS_WERE_CHOSEN)

    def _exit(self, age: int, fields: list[int], programs: dict[int, Program]) -> None:
        kernel, block, number, sm, part, start = fields
        states = self._probe.take_states(age)
        issues = []
        completed = self._complete.pop(age, [])
        for index, (cycle, place) in enumerate(self._issued.pop(age, [])):
            program = programs[place]
            issues.append(IssueEvent(cycle, index, LABELS[program.ops[index]], completed[index], program.lines[index]))
        end = states[-1].end_cycle if states else start
        history = WarpHistory(kernel, block, number, sm, part, start, end, tuple(states), tuple(issues))
        self._probe.warps.append(history)


@lru_cache(1 << 12)
def _cause(what: int, warp: int, index: int) -> Cause | None:
    if what == at.NEVER:
        return None
    if what == at.BLOCK_START_CAUSE:
        return Cause("block_start")
    if what == at.ACKNOWLEDGEMENT_CAUSE:
        return Cause("acknowledgement")
    return Cause("exit" if what == at.EXIT_CAUSE else OpClass(what).label, warp, index)
