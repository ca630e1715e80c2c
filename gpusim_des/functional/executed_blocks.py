"""Runs some blocks of a launch, many at a time, and keeps what they did together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.accounting import DistinctSectors
from gpusim_des.functional.array_use import ArrayUses
from gpusim_des.functional.barriers import LeftBeforeBarrier
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.event import TooLong
from gpusim_des.functional.kernel_source import NotVectorizable
from gpusim_des.functional.lanes import BlocksDisagree
from gpusim_des.functional.left_out import LeftOut
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.overflow import IndexOverflow
from gpusim_des.functional.races import Race
from gpusim_des.functional.recorder import record
from gpusim_des.functional.reports import Reports
from gpusim_des.functional.unwritten import UnwrittenRead
from gpusim_des.trace import KernelTrace, OpClass


class Runner(Protocol):
    """Runs the blocks of a machine in the kernel's style."""

    vectorized: bool

    def run(self, machine: Machine) -> None:
        """Run the blocks of `machine` at once."""

    def fall_back(self, reason: NotVectorizable) -> None:
        """Go on thread by thread."""


class ExecutedBlocks:
    """What the blocks of a launch did that have run so far.

    Parameters
    ----------
    runner, make_machine
        How blocks run.
    trace
        Where it is written down.
    at_once
        Blocks that run at a time.
    left_out
        Follows what they write.
    check
        Hears of every machine that has run, and may refuse what it did.

    Attributes
    ----------
    counters, uses, trace
        What they counted, which arrays they used, what their warps did.
    races, unwritten, left, overflows
        Which accesses raced, which read what nobody had written, which barriers threads had left before, which indices
        wrapped.
    """

    def __init__(
        self,
        runner: Runner,
        trace: KernelTrace,
        make_machine: Callable[[NDArray[np.int64]], Machine],
        at_once: int,
        left_out: LeftOut,
        check: Callable[[Machine], None],
    ) -> None:
        self.counters = Counters()
        self.uses = ArrayUses()
        self.trace = trace
        self.at_once = at_once
        self.left_out = left_out
        self.races: Reports[Race] = Reports()
        self.unwritten: Reports[UnwrittenRead] = Reports()
        self.left: Reports[LeftBeforeBarrier] = Reports()
        self.overflows: Reports[IndexOverflow] = Reports()
        self._check = check
        self._touched = DistinctSectors()
        self._stored = DistinctSectors()
        self._runner = runner
        self._make_machine = make_machine

    @property
    def distinct_sectors(self) -> int:
        """Different sectors that the blocks so far have touched."""
        return self._touched.count

    @property
    def distinct_stored_sectors(self) -> int:
        """Different sectors that the blocks so far have written, atomically or not."""
        return self._stored.count

    def run(
        self,
        blocks: NDArray[np.int64],
        done: Callable[[int], None] | None = None,
        touched: DistinctSectors | None = None,
    ) -> Counters:
        """Run blocks with these linear numbers, which have not run before; returns what they counted.

        Blocks run many at a time. Where Python control flow depends on the block, the blocks in flight are taken apart
        by the value they disagree on and run again in groups. Where they execute more than memory should hold, they run
        again in halves, and so many at a time from then on (W4). `done` hears how many blocks have run now and then,
        `touched` of the sectors that they touch.
        """
        counted = Counters()
        end = 0
        while end < len(blocks):
            start, end = end, min(end + self.at_once, len(blocks))
            self._run_at_once(blocks[start:end], counted, touched)
            if done is not None:
                done(end - start)
        self.counters.add(counted)
        return counted

    def _run_at_once(self, some: NDArray[np.int64], counted: Counters, touched: DistinctSectors | None) -> None:
        runner, waiting = self._runner, [some]
        while waiting:
            blocks = waiting.pop()
            if not runner.vectorized and len(blocks) > 1:
                waiting.extend(blocks[::-1, None])
                continue
            machine = self._make_machine(blocks)
            try:
                runner.run(machine)
                self._check(machine)
                machine.finish()
            except BlocksDisagree as disagreement:
                machine.undo()
                waiting.extend(blocks[group] for group in reversed(disagreement.groups()))
                continue
            except TooLong:
                machine.undo()
                self.at_once = size = len(blocks) // 2
                waiting.extend((blocks[size:], blocks[:size]))
                continue
            except NotVectorizable as reason:
                machine.undo()
                runner.fall_back(reason)
                waiting.append(blocks)
                continue
            record(machine, self.trace)
            counted.add(machine.counters)
            for seen in (self._touched, touched):
                if seen is not None:
                    seen.add_all(event.sectors.numbers for event in machine.events if event.sectors is not None)
            if machine.uses.writes is not None:  # a sampled launch: others need not know
                stores = (
                    event for event in machine.events if event.op in (OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC)
                )
                self._stored.add_all(event.sectors.numbers for event in stores if event.sectors is not None)
            self.uses.join(machine.uses)
            self.left_out.note(machine)
            self.races.join(machine.watch.races)
            self.unwritten.join(machine.watch.unwritten.found)
            self.left.join(machine.watch.left)
            self.overflows.join(machine.watch.overflows)
