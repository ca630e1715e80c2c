"""Reads of elements that nobody has written: poison here, whatever was there before on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.journal import Journal
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.reports import KernelReport, Reports
from gpusim_des.functional.source import Site
from gpusim_des.functional.touched import Access, Active, active_of, elements_of, in_parts
from gpusim_des.grid import Dim3, LaunchConfig


@dataclass(frozen=True, kw_only=True)
class UnwrittenRead(KernelReport):
    """A place in a kernel that reads elements which nobody has written, with an example.

    Attributes
    ----------
    kernel, array
        Names.
    memory
        ``shared`` or ``global``.
    element
        Index of the example's element, one number for each dimension.
    block, thread
        Who reads it.
    site
        Where.
    count
        How many threads read such elements there, each as often as it does.
    """

    array: str
    memory: Literal["shared", "global"]
    element: tuple[int, ...]
    thread: Dim3

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for all that are counted together."""
        return self.array, self.memory, self.site

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.memory == "shared":
            return "shared memory is not cleared: let a thread store to the element first, then put a barrier"
        return "device memory is not cleared: fill it first, with dev.memset, dev.memcpy or a kernel"

    @property
    def finding(self) -> str:
        """What is wrong in the example."""
        where = ", ".join(map(str, self.element))
        return (
            f"read of {self.memory} array {self.array}[{where}], which nobody has written: thread {self.thread} of "
            f"block {self.block} in line {self.line}"
        )


class _Elements:
    """Which parts of the memory of shared arrays were written: the same for all blocks, until they differ.

    Arrays of several types may show the same bytes; parts are the largest that make up the elements of all.
    """

    def __init__(self, array: SharedArray) -> None:
        self.unit = array.dtype.itemsize
        """Bytes of a part."""
        self.size = array.size
        """Parts in a block."""
        self.one: NDArray[np.bool_] = np.ones(self.size, bool)
        self.wide: NDArray[np.bool_] | None = None
        self._reach = 0
        """Bytes that arrays show: what lies behind them, nobody reads."""
        self._parts: dict[int, int] = {}
        """Of each element, by identity of the array."""
        self.left = True
        """Whether some may be left; found out at barriers."""

    def of(self, rows: int) -> NDArray[np.bool_]:
        """Flags of all blocks, one block after the other."""
        if self.wide is None:
            self.wide = np.tile(self.one, rows)
        return self.wide

    def parts_of(self, array: SharedArray) -> int:
        """Number of parts of each of its elements."""
        if id(array) not in self._parts:
            self._parts[id(array)] = self._add(array)
        return self._parts[id(array)]

    def _add(self, array: SharedArray) -> int:
        size = array.dtype.itemsize
        if size % self.unit:
            self._parts.clear()
            parts, self.unit = self.unit // gcd(size, self.unit), gcd(size, self.unit)
            self.size *= parts
            self.one = np.repeat(self.one, parts)
            self.wide = None if self.wide is None else np.repeat(self.wide, parts)
        reach = prod(array.shape) * size
        if reach > self._reach:
            new = slice(self._reach // self.unit, reach // self.unit)
            self.one[new] = False
            if self.wide is not None:
                self.wide.reshape(-1, self.size)[:, new] = False
            self._reach, self.left = reach, True
        return size // self.unit

    def look(self) -> None:
        """Find out whether everything is written by now."""
        self.left = self.left and not (self.one if self.wide is None else self.wide).all()


class UnwrittenReads:
    """Follows what a machine's blocks write, and looks for reads of the rest.

    Parameters
    ----------
    kernel, config, blocks, names
        Name, grid and block, numbers of the blocks in flight, names of arrays by identity.
    """

    def __init__(self, kernel: str, config: LaunchConfig, blocks: NDArray[np.int64], names: dict[int, str]) -> None:
        self.found: Reports[UnwrittenRead] = Reports()
        self._kernel = kernel
        self._config = config
        self._blocks = blocks
        self._names = names
        self._threads = np.arange(config.threads_per_block, dtype=np.int64)
        self._shared: dict[int, _Elements] = {}
        """By identity of their memory."""
        self._journal = Journal()

    def barrier(self) -> None:
        """All blocks have met: a good moment to find out whether something is left."""
        for elements in self._shared.values():
            elements.look()

    def wrote(self, array: DeviceArray | SharedArray, access: Access) -> None:
        """Take note of a store."""
        if isinstance(array, SharedArray):
            elements, parts = self._elements(array)
            if elements.left:
                flags, rows = self._flags(elements, access)
                flags[elements_of(in_parts(access, parts), (rows, len(self._threads)), elements.size)] = True
        elif array.unwritten is not None:
            flags, where = array.unwritten_flags(), elements_of(access, (len(self._blocks), len(self._threads)), 0)
            fresh = where[flags[where]]
            if fresh.size:
                self._journal.keep(flags, fresh, before=True)
                flags[fresh] = False

    def undo(self) -> None:
        """Forget what these blocks wrote to device memory: they run again, and shared memory is new then."""
        self._journal.undo()

    def arrived(self, array: SharedArray, elements: NDArray[np.int64]) -> None:
        """Take note of copies, elements counted over all blocks."""
        known, parts = self._elements(array)
        if known.left:
            flags = known.of(len(self._blocks)).reshape(-1, parts)
            flags[elements] = True

    def read(self, array: DeviceArray | SharedArray, access: Access, site: Site) -> None:
        """Look whether a read meets something that nobody has written."""
        if isinstance(array, SharedArray):
            elements, parts = self._elements(array)
            if not elements.left:
                return
            flags, rows = self._flags(elements, access)
            written = flags[elements_of(in_parts(access, parts), (rows, len(self._threads)), elements.size)]
            missing = ~(written if parts == 1 else written.reshape(-1, parts).all(axis=1))
        else:
            unwritten = array.unwritten
            if unwritten is None:
                return
            rows = len(self._blocks)
            where = elements_of(access, (rows, len(self._threads)), 0)
            missing = np.ones(len(where), bool) if unwritten is True else unwritten[where]
        if missing.any():
            active = active_of(access, rows, self._threads, array.size if isinstance(array, SharedArray) else 0)
            self._tell(array, active, np.flatnonzero(missing), len(self._blocks) // rows, site)

    def _elements(self, array: SharedArray) -> tuple[_Elements, int]:
        """What is known of an array's memory, and of how many parts its elements are."""
        elements = self._shared.get(array.identity)
        if elements is None:
            elements = self._shared[array.identity] = _Elements(array)
        return elements, elements.parts_of(array)

    def _flags(self, elements: _Elements, access: Access) -> tuple[NDArray[np.bool_], int]:
        """Flags that an access is about, and of how many blocks they are."""
        if elements.wide is None and access.alike:
            return elements.one, 1
        return elements.of(len(self._blocks)), len(self._blocks)

    def _tell(
        self, array: DeviceArray | SharedArray, active: Active, which: NDArray[Any], times: int, site: Site
    ) -> None:
        first = int(which[0])
        shared = isinstance(array, SharedArray)
        element = int(active.elements[first]) % array.size
        self.found.add(
            UnwrittenRead(
                kernel=self._kernel,
                array=self._names.get(id(array), array.name),
                memory="shared" if shared else "global",
                element=tuple(int(n) for n in np.unravel_index(element, array.shape)),
                block=self._config.grid.at(int(self._blocks[active.threads.rows[first]])),
                thread=self._config.block.at(int(active.threads.who[first])),
                site=site,
                count=len(which) * times,
            )
        )
