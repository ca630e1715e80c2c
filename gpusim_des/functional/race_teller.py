"""Turns accesses that race into reports and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import LaunchError
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.races import AccessKind, Race, RacingAccess, Remedies, Scope
from gpusim_des.functional.reports import Reports
from gpusim_des.functional.shadow import ATOMIC, READ, WRITE
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_order import WHO, WHO_BITS, Numbers
from gpusim_des.grid import LaunchConfig

KINDS: dict[int, AccessKind] = {READ: "read", WRITE: "write", ATOMIC: "atomic"}
_SCOPES: dict[int, Scope] = {1: "warp", 2: "block", 3: "grid"}

MOST_MOMENTS = 1 << (63 - WHO_BITS)
"""Times that fit into a stamp."""


class Moment(NamedTuple):
    """One access of the machine: what it was and where."""

    kind: AccessKind
    site: Site


class Racing(NamedTuple):
    """Accesses of one moment that race, one entry for each."""

    elements: Numbers
    """Row-major position in the array."""
    who: Numbers
    rows: Numbers
    partners: Numbers
    """Stamp of the access that each races with."""
    distance: NDArray[np.int8]
    equal: NDArray[np.bool_]
    """Both write the same value."""
    weights: Numbers
    """For how many blocks it stands."""


class RaceTeller:
    """Makes `Race` objects of a launch's accesses; one for each machine.

    Parameters
    ----------
    kernel, config, remedies
        For the reports.
    moments
        What happened at every time so far.
    counters
        Where races are counted.
    """

    def __init__(
        self, kernel: str, config: LaunchConfig, remedies: Remedies, moments: list[Moment], counters: Counters
    ) -> None:
        self.log: Reports[Race] = Reports()
        self.moments = moments
        self._known: dict[tuple[AccessKind, Site], Moment] = {}
        self._kernel = kernel
        self._config = config
        self._remedies = remedies
        self._counters = counters

    def begin(self, kind: AccessKind, site: Site) -> int:
        """Note that something happens; returns the time."""
        time = len(self.moments)
        if time == MOST_MOMENTS:
            raise LaunchError(
                f"{self._kernel}: more than {MOST_MOMENTS:,} accesses were looked at, which is all that the search for "
                'races can tell apart; launch with races="shared", or "off", or fewer blocks'
            )
        self.moments.append(self._known.setdefault((kind, site), Moment(kind, site)))
        return time

    def wrote(self, partners: Numbers) -> NDArray[np.bool_]:
        """Tell which accesses, given by their stamps, are plain writes."""
        return np.array([self.moments[time].kind == "write" for time in (partners >> WHO_BITS).tolist()], bool)

    def tell(
        self,
        memory: Literal["shared", "global"],
        array: str,
        shape: tuple[int, ...],
        now: Moment,
        racing: Racing,
        block_of: Callable[[int, int], int],
    ) -> None:
        """Report accesses of the moment `now`; `block_of` gives a thread's block from its number and row."""
        threads = self._config.threads_per_block
        times, at = np.unique(racing.partners >> WHO_BITS, return_inverse=True)
        kinds: dict[Moment, int] = {}
        places = [kinds.setdefault(self.moments[time], len(kinds)) for time in times.tolist()]
        groups = (np.array(places)[at.reshape(-1)] << 3) | (racing.distance.astype(np.int64) << 1) | racing.equal
        keys, first, which = np.unique(groups, return_index=True, return_inverse=True)
        earlier = list(kinds)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, which.reshape(-1), racing.weights)
        for key, k, count in zip(keys.tolist(), first.tolist(), counts.tolist(), strict=True):
            if not count:
                continue
            then = earlier[key >> 3]
            row, who, partner = int(racing.rows[k]), int(racing.who[k]), int(racing.partners[k]) & WHO
            one, other = (
                RacingAccess(
                    moment.kind,
                    moment.site,
                    self._config.grid.at(block_of(number, row)),
                    self._config.block.at(number % threads),
                )
                for moment, number in ((then, partner), (now, who))
            )
            if then == now:  # one instruction: the lower thread first
                one, other = sorted((one, other), key=lambda side: (side.block[::-1], side.thread[::-1]))
            element = tuple(int(n) for n in np.unravel_index(int(racing.elements[k]), shape))
            equal = bool(key & 1)
            self.log.add(
                Race(
                    kernel=self._kernel,
                    array=array,
                    memory=memory,
                    element=element,
                    first=one,
                    second=other,
                    scope=_SCOPES[key >> 1 & 3],
                    equal_values=equal,
                    count=count,
                    remedies=self._remedies,
                )
            )
            if equal:
                self._counters.equal_value_races += count
            else:
                self._counters.races += count
