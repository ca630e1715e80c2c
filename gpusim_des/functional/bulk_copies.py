"""Bulk copies from global to shared memory, which a shared barrier tells when they are complete (``cp.async.bulk``).

One thread starts a copy and the SM's copy unit carries it out. A barrier in shared memory counts phases: a copy belongs
to the phase of the thread that starts it, which is the number of waits that this thread has completed, and shared
memory changes when the first thread of the block waits for that phase.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import DeadlockError, KernelError
from gpusim_des.functional import coalescing, copy_rules
from gpusim_des.functional.accounting import AccessCost, count_bulk
from gpusim_des.functional.array_use import ArrayUse
from gpusim_des.functional.copy_rules import BULK_BYTES, Ends
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import SECTOR_BYTES, OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.machine import Machine, Mask

PHASES = 1 << 16
"""Phases that a trace tells apart: its operand is the number of the barrier times this, plus the phase."""

_ROW_SHIFT = 32

_Numbers = NDArray[np.int64]


class SharedBarrier:
    """A barrier in the shared memory of every block in flight, made by ``shared_barrier``."""

    def __init__(self, name: str, shape: tuple[int, int]) -> None:
        self.name = name
        self.numbers: NDArray[np.int32] = np.full(shape[0], -1, np.int32)
        """Number of the barrier in every block, in the order in which the block declares them; -1 before."""
        self.waits: NDArray[np.int32] = np.zeros(shape, np.int32)
        """Waits that every thread has completed."""
        self.copies: dict[tuple[int, int], list[tuple[SharedArray, int, NDArray[Any]]]] = {}
        """What a wait will write, by block in flight and phase; empty after the first wait."""

    def __repr__(self) -> str:
        return f"<SharedBarrier {self.name!r}>"


class Started(NamedTuple):
    """Bulk copies that began in one step, at most one in each block; arrays have one entry per copy."""

    barrier: SharedBarrier
    target: SharedArray
    source: DeviceArray
    rows: _Numbers
    """Blocks in flight that copy."""
    threads: _Numbers
    phases: _Numbers
    to: _Numbers
    origin: _Numbers
    elements: _Numbers


class BulkCopies:
    """The shared barriers of the blocks of a machine, and the copies under way."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._barriers: dict[str, SharedBarrier] = {}
        self._declared: NDArray[np.int32] = np.zeros(machine.shape[0], np.int32)
        self._watched: dict[tuple[str, int, int], list[tuple[SharedArray, int, int]]] = {}
        """Copies that were counted and not yet waited for, by barrier, block in flight and phase."""

    def barrier(self, name: Any, site: Site) -> SharedBarrier:
        """Return the barrier of this name, made at the first call: 8 bytes of shared memory."""
        if not isinstance(name, str) or not name:
            raise KernelError(
                f"{self._machine.kernel_name}: shared_barrier({name!r}) in {site}: give a name in quotes, one for each "
                "barrier"
            )
        if name not in self._barriers:
            self._machine.shared(name, (1,), np.int64)
            self._barriers[name] = SharedBarrier(name, self._machine.shape)
        return self._barriers[name]

    def number(self, barrier: SharedBarrier, mask: Mask) -> None:
        """Give the barrier the next number in those blocks of active threads that do not know it yet."""
        new = self._machine.everyone(mask).any(axis=1) & (barrier.numbers < 0)
        barrier.numbers[new] = self._declared[new]
        self._declared[new] += 1

    # Copies ---------------------------------------------------------------------------------------------------------

    def copy(self, barrier: Any, ends: Ends, mask: Mask, producers: Producers, site: Site) -> None:
        """Start a copy of the one active thread of each block, and count it."""
        self.count_copy(self.start(barrier, ends, mask, site), mask, producers, site)

    def start(self, barrier: Any, ends: Ends, mask: Mask, site: Site) -> Started:
        """Read what the one active thread of each block copies, without counting it."""
        machine = self._machine
        self._check_barrier("memcpy_async_bulk", barrier, site)
        on = machine.everyone(mask)
        self._check_alone(on, site)
        name = "memcpy_async_bulk count"
        many = copy_rules.whole(machine.kernel_name, name, "elements", 1, ends.elements, on, site)
        target, source = ends.target, ends.source
        label = machine.names.get(id(source), source.name)
        for verb, array, array_name, first in (
            ("bulk copy to", target, target.name, ends.to),
            ("bulk copy from", source, label, ends.origin),
        ):
            machine.check_bounds(verb, array_name, array.size, first, mask, site)
            last = first.astype(np.int64) + many - 1
            machine.check_bounds(verb, array_name, array.size, last, mask, site, ", of the last element,")
        rows = np.flatnonzero(on.any(axis=1))
        threads = on[rows].argmax(axis=1)
        to, origin, count = (
            np.broadcast_to(numbers, machine.shape)[rows, threads].astype(np.int64)
            for numbers in (ends.to, ends.origin, many)
        )
        done = Started(barrier, target, source, rows, threads, barrier.waits[rows, threads], to, origin, count)
        self._check_alignment(done, site)
        for row, phase, begin, start, n in zip(
            *(part.tolist() for part in (rows, done.phases, to, origin, count)), strict=True
        ):
            values = source.flat[start : start + n].copy()
            barrier.copies.setdefault((row, phase), []).append((target, begin, values))
        return done

    def count_copy(self, started: Started, mask: Mask, producers: Producers, site: Site) -> None:
        """Count copies that were started: in each block an instruction of one lane."""
        machine, source = self._machine, started.source
        if not len(started.rows):
            return
        self._watch(started, site)
        size = source.dtype.itemsize
        begin = source.address + started.origin * size
        first, last = begin // SECTOR_BYTES, (begin + started.elements * size - 1) // SECTOR_BYTES
        sizes = last - first + 1
        ends = np.cumsum(sizes)
        numbers = np.repeat(first - (ends - sizes), sizes) + np.arange(ends[-1])
        warps = started.rows * machine.config.warps_per_block + started.threads // WARP_SIZE
        counts, lines, quarters = (np.zeros(machine.warps, np.int32) for _ in range(3))
        counts[warps] = sizes
        lines[warps] = (last >> 2) - (first >> 2) + 1
        quarters[warps] = 4
        label = machine.names.get(id(source), source.name)
        machine.uses.add(ArrayUse(source.owner, "read", int(begin.min()), int((begin + started.elements * size).max())))
        count_bulk(machine.counters, started.target, label, started.elements, sizes, site)
        operand = np.zeros(machine.warps, np.int32)
        operand[warps] = started.barrier.numbers[started.rows] * PHASES + started.phases % PHASES
        cost = AccessCost(quarters, coalescing.Sectors(counts, numbers, lines))
        machine.instruction(OpClass.BULK_COPY, mask, producers, site, operand, cost)

    def _watch(self, started: Started, site: Site) -> None:
        """Tell the machine's watch which elements are read, and on their way."""
        machine, size = self._machine, started.source.dtype.itemsize
        for n in np.unique(started.elements).tolist():
            some = started.elements == n
            on, ends = np.zeros(machine.shape, bool), np.zeros((2, *machine.shape), np.int64)
            where = started.rows[some], started.threads[some]
            on[where], ends[0][where], ends[1][where] = True, started.origin[some], started.to[some]
            machine.watch.access(OpClass.BULK_COPY, started.source, ends[0], on, site, n * size)
            machine.watch.start_copy(started.target, ends[1], on, site, n)
        for row, phase, begin, n in zip(
            *(part.tolist() for part in (started.rows, started.phases, started.to, started.elements)), strict=True
        ):
            key = started.barrier.name, row, phase
            self._watched.setdefault(key, []).append((started.target, begin, n))

    # Waits ----------------------------------------------------------------------------------------------------------

    def wait(self, barrier: Any, mask: Mask, producers: Producers, site: Site) -> None:
        """Let the active threads wait for the copies of their phase, and count it."""
        self.count_wait(barrier, self.finish(barrier, mask, site), mask, producers, site)

    def finish(self, barrier: Any, mask: Mask, site: Site) -> NDArray[np.int32]:
        """Write the copies of the phases that active threads are in, without counting; returns the phases."""
        self._check_barrier("barrier_wait", barrier, site)
        on = self._machine.everyone(mask)
        phases: NDArray[np.int32] = barrier.waits
        rows, threads = np.nonzero(on)
        for key in np.unique(rows << _ROW_SHIFT | phases[rows, threads]).tolist():
            row, phase = divmod(key, 1 << _ROW_SHIFT)
            copies = barrier.copies.get((row, phase))
            if copies is None:
                raise self._nothing_started(barrier, row, phase, site)
            for target, begin, values in copies:
                target.data[row, begin : begin + len(values)] = values
            copies.clear()
        barrier.waits = phases + on
        return phases

    def count_wait(
        self, barrier: SharedBarrier, phases: NDArray[np.int32], mask: Mask, producers: Producers, site: Site
    ) -> None:
        """Count a wait for these phases; lanes of a warp in different phases take turns, the earliest first."""
        machine = self._machine
        rest = on = machine.everyone(mask)
        for key in np.unique(np.nonzero(on)[0] << _ROW_SHIFT | phases[on]).tolist():
            row, phase = divmod(key, 1 << _ROW_SHIFT)
            for target, begin, n in self._watched.pop((barrier.name, row, phase), ()):
                machine.watch.finish_copy(target, np.full(n, row), begin + np.arange(n), None)
        numbers = np.repeat(barrier.numbers, machine.config.warps_per_block) * PHASES
        late = np.iinfo(np.int32).max
        while rest.any():
            first = machine.by_warp(np.where(rest, phases, late), fill=late).min(axis=1)
            per_thread = np.repeat(first, WARP_SIZE).reshape(machine.shape[0], -1)[:, : machine.shape[1]]
            turn = rest & (phases == per_thread)
            operand = np.where(first == late, 0, numbers + first % PHASES).astype(np.int32)
            who = mask if np.array_equal(turn, on) else turn
            machine.instruction(OpClass.BULK_WAIT, who, producers, site, operand)
            rest = rest & ~turn

    # Errors ---------------------------------------------------------------------------------------------------------

    def _check_barrier(self, operation: str, barrier: Any, site: Site) -> None:
        what = f"{self._machine.kernel_name}: {operation} in {site}"
        if not isinstance(barrier, SharedBarrier):
            raise KernelError(f"{what} on a {type(barrier).__name__}: give a barrier made by shared_barrier")
        if self._barriers.get(barrier.name) is not barrier:
            raise KernelError(
                f"{what} on barrier {barrier.name!r} of another launch: call shared_barrier in the kernel"
            )

    def _check_alone(self, on: NDArray[np.bool_], site: Site) -> None:
        """Refuse a copy that several threads of a block would start."""
        active = on.sum(axis=1)
        if (active > 1).any():
            row = int(np.argmax(active > 1))
            machine = self._machine
            block = machine.config.grid.at(int(machine.blocks[row]))
            raise KernelError(
                f"{machine.kernel_name}: memcpy_async_bulk in {site} by {int(active[row])} threads of block {block}: "
                f"one thread of a block starts a bulk copy; keep the others out {machine.guard.format('tid == 0')}"
            )

    def _check_alignment(self, asked: Started, site: Site) -> None:
        """Refuse a size or an address that is no multiple of 16 bytes."""
        size = asked.source.dtype.itemsize
        what = f"{self._machine.kernel_name}: memcpy_async_bulk in {site}"
        for number in asked.elements.tolist():
            if number * size % BULK_BYTES:
                raise KernelError(
                    f"{what} of {number} element{'s' if number > 1 else ''} of {size} bytes, {number * size} bytes in "
                    f"all: the size of a bulk copy is a multiple of {BULK_BYTES} bytes; copy the rest one by one"
                )
        step = BULK_BYTES // math.gcd(size, BULK_BYTES)
        label = self._machine.names.get(id(asked.source), asked.source.name)
        for array, name, verb, starts in (
            (asked.target, asked.target.name, "to", asked.to),
            (asked.source, label, "from", asked.origin),
        ):
            wrong = starts[(array.address + starts * size) % BULK_BYTES != 0]
            if not wrong.size:
                continue
            remedy = f"choose an element whose number is a multiple of {step}"
            if array.address % BULK_BYTES:
                remedy = f"{name!r} itself begins at {array.address}, so declare it before smaller arrays and barriers"
            raise KernelError(
                f"{what} {verb} element {wrong[0]} of {name!r}, at byte address {array.address + wrong[0] * size}: "
                f"both ends of a bulk copy begin at a multiple of {BULK_BYTES} bytes; {remedy}"
            )

    def _nothing_started(self, barrier: SharedBarrier, row: int, phase: int, site: Site) -> DeadlockError:
        machine = self._machine
        block = machine.config.grid.at(int(machine.blocks[row]))
        return DeadlockError(
            f"{machine.kernel_name}: block {block} waits forever for phase {phase} of barrier {barrier.name!r} in "
            f"{site}: no bulk copy was started in this phase before; start one above every wait, "
            "memcpy_async_bulk(…, barrier) by one thread, and let that thread take part in the waits"
        )
