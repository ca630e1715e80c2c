"""Rules I3, I4 and I7: a warp scheduler picks one eligible warp per cycle and accounts for everybody's waiting."""

from __future__ import annotations

from bisect import insort
from operator import attrgetter

from gpusim_des.timeline import WarpState
from gpusim_des.timing.causes import OTHERS_WERE_CHOSEN, cause_of, turned_away_by
from gpusim_des.timing.pipe import Unit
from gpusim_des.timing.probe import Probe
from gpusim_des.timing.warp import Warp

_age = attrgetter("age")


class WarpScheduler:
    """The scheduler of one sub-partition.

    ``ready`` holds the warps whose operands are complete, oldest first. A ready warp is eligible when its unit is free.
    ``units`` are the sub-partition's pipes and its load/store queue; ``seats`` say how each of them knows the
    sub-partition, because some are shared by the SM. ``probe`` is ``None`` where nobody looks.
    """

    __slots__ = ("_last", "_policy", "_probe", "ready", "retry", "seats", "units")

    def __init__(self, policy: str, units: list[Unit], seats: list[int], probe: Probe | None) -> None:
        self.units = units
        self.seats = seats
        self.ready: list[Warp] = []
        self.retry = 0
        """Earliest cycle at which a ready warp could be eligible, after `pick` found none."""
        self._policy = policy
        self._last: Warp | None = None
        self._probe = probe

    def enter(self, warp: Warp) -> None:
        """Accept a warp whose operands are complete from this cycle on."""
        unit = warp.program.units[warp.next]
        warp.occupied_at_ready = self.units[unit].occupied_before(warp.ready, self.seats[unit])
        insort(self.ready, warp, key=_age)

    def pick(self, cycle: int) -> Warp | None:
        """Choose the warp that issues in this cycle by the policy, or note when to try again."""
        units = self.units
        last = self._last
        if self._policy == "gto":
            if last in self.ready and units[last.program.units[last.next]].free <= cycle:
                return last
            candidates = self.ready
        elif self._policy == "lrr" and last is not None:
            younger = [w for w in self.ready if w.age > last.age]
            candidates = younger + self.ready[: len(self.ready) - len(younger)]
        else:
            candidates = self.ready
        retry = None
        for warp in candidates:
            free = units[warp.program.units[warp.next]].free
            if free <= cycle:
                return warp
            if retry is None or free < retry:
                retry = free
        assert retry is not None
        self.retry = retry
        return None

    def take(self, warp: Warp, cycle: int) -> None:
        """Remove the picked warp from the ready ones and account for its cycles up to this one."""
        self.ready.remove(warp)
        self._last = warp
        self.account(warp)
        if cycle > warp.ready:
            self._account_for_waiting(warp, cycle)
        warp.program.accounts[warp.next][WarpState.SELECTED] += 1
        if self._probe is not None:
            self._probe.state(warp, WarpState.SELECTED, cycle, cycle + 1)
        warp.issued = cycle
        warp.since = cycle + 1

    def _account_for_waiting(self, warp: Warp, cycle: int) -> None:
        """Divide the cycles in which a ready warp did not issue: its unit was occupied, or another warp was chosen."""
        program, index = warp.program, warp.next
        stalls = program.accounts[index]
        unit, seat = self.units[program.units[index]], self.seats[program.units[index]]
        turned_away = unit.occupied_before(cycle, seat) - warp.occupied_at_ready
        state = program.turned_away[index]
        stalls[state] += turned_away
        stalls[WarpState.NOT_SELECTED] += cycle - warp.ready - turned_away
        if self._probe is not None:
            at = warp.ready
            for start, end in unit.occupied_spans(at, cycle, seat):
                if start > at:
                    self._probe.state(warp, WarpState.NOT_SELECTED, at, start, OTHERS_WERE_CHOSEN)
                self._probe.state(warp, state, start, end, turned_away_by(program.units[index]))
                at = end
            if cycle > at:
                self._probe.state(warp, WarpState.NOT_SELECTED, at, cycle, OTHERS_WERE_CHOSEN)

    def account(self, warp: Warp) -> None:
        """Turn a warp's deadlines into states: each reason holds from where the one before ended."""
        since = warp.since
        stalls = warp.program.accounts[warp.next]
        for state, until in warp.deadlines:
            if until > since:
                stalls[state] += until - since
                if self._probe is not None:
                    self._probe.state(warp, state, since, until, cause_of(warp, state, until))
                since = until
        warp.since = since

    def cut(self, warp: Warp, cycle: int) -> None:
        """Account for a warp's cycles before `cycle`, whatever it is in the middle of."""
        warp.plan_cut(cycle)
        self.account(warp)
        if warp.since < cycle:
            self._account_for_waiting(warp, cycle)
