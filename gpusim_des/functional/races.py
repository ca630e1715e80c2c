"""Races: accesses of two threads to one element, at least one of them writing, which nothing puts in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpusim_des.functional.reports import Report
from gpusim_des.functional.source import Site
from gpusim_des.grid import Dim3

AccessKind = Literal["read", "write", "atomic", "copy", "bulk copy"]
Scope = Literal["warp", "block", "grid"]

_VERB: dict[AccessKind, str] = {
    "read": "reads",
    "write": "writes",
    "atomic": "updates",
    "copy": "copies into",
    "bulk copy": "copies into",
}

EQUAL_VALUES = 2
"""Rank from which on races are harmless."""


@dataclass(frozen=True)
class RacingAccess:
    """One side of a race.

    Examples
    --------
    >>> print(RacingAccess("write", Site("k.py", 9), Dim3(0, 0, 0), Dim3(33, 0, 0)))
    thread (33, 0, 0) writes it in line 9
    """

    kind: AccessKind
    """``read``, ``write``, ``atomic``, or ``copy`` and ``bulk copy``: asynchronous copies that are under way."""
    site: Site
    block: Dim3
    thread: Dim3

    @property
    def line(self) -> int:
        """Source line, 0 if unknown."""
        return self.site.line

    def __str__(self) -> str:
        return f"thread {self.thread} {_VERB[self.kind]} it in line {self.line}"


class Remedies(NamedTuple):
    """How a kernel of some style writes its barriers."""

    block: str = "blk.sync()"
    warp: str = "blk.syncwarp()"
    copies: str = "blk.pipeline_wait_prior(0)"
    bulk_copies: str = "blk.barrier_wait(bar)"


@dataclass(frozen=True, kw_only=True)
class Race(Report):
    """Two accesses that a GPU may do in either order, or at once: a pair of places in the source, with an example.

    Attributes
    ----------
    kernel, array
        Names.
    memory
        ``shared`` or ``global``.
    element
        Index of the example's element, one number for each dimension.
    first, second
        The example's accesses, in the order of lockstep execution.
    scope
        Who is not in order: ``warp``, lanes of one warp (in lockstep before Volta, a race since); ``block``, warps of
        one block; ``grid``, blocks.
    equal_values
        Both write the same value: it does not matter who comes last, although the rules forbid it.
    count
        How many accesses raced so, each counted once, with the access before it that it conflicts with. Between
        blocks this depends on the order in which they run, which is not the same vectorized and thread by thread.
    """

    kernel: str
    array: str
    memory: Literal["shared", "global"]
    element: tuple[int, ...]
    first: RacingAccess
    second: RacingAccess
    scope: Scope
    equal_values: bool
    remedies: Remedies = field(default=Remedies(), repr=False)

    @property
    def rank(self) -> int:
        """Place among races, the worst first: of different values before equal ones, of blocks before warps."""
        return EQUAL_VALUES * self.equal_values + (self.scope == "warp")

    @property
    def where(self) -> Dim3:
        """The block of the example."""
        return self.second.block

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for all races that are counted together."""
        first, second = self.first, self.second
        return self.array, first.kind, first.site, second.kind, second.site, self.scope, self.equal_values

    @property
    def kind(self) -> str:
        """What was done first and second: ``write-read``, ``read-write``, ``write-write``, ``atomic-write``."""
        return f"{self.first.kind}-{self.second.kind}"

    @property
    def same_instruction(self) -> bool:
        """Both accesses are one instruction of one warp, or of several warps in step."""
        return self.first.site == self.second.site and self.kind == "write-write"

    @property
    def remedy(self) -> str:
        """What puts the two in order."""
        one, other = self.first.line, self.second.line
        between = f"between line {one} and line {other}"
        if one >= other:
            between = f"behind line {one}, before line {other} comes again"
        if self.scope == "grid":
            return (
                "a block barrier does not order blocks, which run in any order: let every block write elements of its "
                "own, use atomic operations for all accesses, or launch a second kernel for what comes after"
            )
        kinds = self.first.kind, self.second.kind
        if "bulk copy" in kinds:
            return f"all threads wait for the copy, {self.remedies.bulk_copies}, {between}"
        if "copy" in kinds:
            alone = (self.first.block, self.first.thread) == (self.second.block, self.second.thread)
            meet = "" if alone else f", and then all threads meet, {self.remedies.block}"
            return f"the thread that copies waits for its copy, {self.remedies.copies}{meet}, {between}"
        if self.same_instruction and one == other:
            return "let one thread write it, for example if its number is 0, or use an atomic operation"
        barrier = self.remedies.warp if self.scope == "warp" else self.remedies.block
        if one == other:
            between = f"between the reads and the write of line {one}, which takes a variable, and behind it in a loop"
        mixed = " or use atomic operations for both" if "atomic" in kinds else ""
        if self.scope == "warp":
            return f"lanes of a warp are in step only before Volta: put {barrier} {between}{mixed}"
        return f"put {barrier} {between}{mixed}"

    @property
    def sites(self) -> tuple[Site, ...]:
        """Both places in the source."""
        return self.first.site, self.second.site

    @property
    def finding(self) -> str:
        """What is wrong in the example."""
        where = ", ".join(map(str, self.element))
        same = self.first.block == self.second.block
        block = f" in block {self.first.block}" if same else ""
        sides = [str(side) if same else f"{side} in block {side.block}" for side in (self.first, self.second)]
        equal = ", both the same value" if self.equal_values else ""
        return (
            f"race on {self.memory} array {self.array}[{where}]{block}: {sides[0]}, {sides[1]}{equal}, and nothing "
            "orders them"
        )


def worst_first(races: Iterable[Race]) -> tuple[Race, ...]:
    """Races of different values before those of equal ones, of whole blocks before those of warps, then by number."""
    return tuple(sorted(races, key=lambda race: (race.rank, -race.count)))
