"""The one SIMT machine: executes an operation for many blocks at once, checks it, counts it and records it.

Every front end ends here. The interface knows no Python syntax: masked loads, stores, arithmetic, branches and
barriers on plain arrays, each with the events that produced its operands and a source position. Arrays have shape
(blocks, threads) or anything that broadcasts to it; an *event* is one operation of the chunk, and becomes an
instruction of every warp in which it had an active lane.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional import atomics, complaints, provenance, warp_exchange
from gpusim_des.functional.accounting import NO_ACCESS, AccessCost, count_access
from gpusim_des.functional.array_use import ArrayUses
from gpusim_des.functional.async_copies import AsyncCopies
from gpusim_des.functional.bulk_copies import BulkCopies
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.event import Event, TooLong
from gpusim_des.functional.journal import Journal
from gpusim_des.functional.line_accounting import count_events
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.shared_memory import SharedLimits, SharedMemory
from gpusim_des.functional.source import UNKNOWN, Site
from gpusim_des.functional.watch import LaunchWatch, Watch
from gpusim_des.grid import WARP_SIZE, LaunchConfig
from gpusim_des.trace import LINE_BYTES, OpClass

Counting = Literal["auto", "declared", "lines"]
Array = DeviceArray | SharedArray
Mask = NDArray[np.bool_] | None
"""Active threads, broadcastable to (blocks, threads); ``None`` means all."""


class Machine:
    """Executes one chunk of blocks in lockstep.

    Parameters
    ----------
    config, blocks
        Grid and block; linear numbers of the blocks in flight.
    counting
        ``"auto"`` counts operators as well, ``"declared"`` only what the kernel declares.
    kernel_name, guard
        For messages: the guard is how a kernel of this style keeps threads out of an access.
    shared_limits
        What a block may have of shared memory.
    names
        Names of device arrays by identity: the kernel's parameters.
    l1_bytes_per_cycle
        What the L1 hands to registers in a cycle.
    most_instructions
        Warp instructions after which `TooLong` is raised.
    watch
        What the launch looks for beside the results.
    """

    def __init__(
        self,
        config: LaunchConfig,
        blocks: NDArray[np.int64],
        *,
        counting: Counting,
        kernel_name: str,
        shared_limits: SharedLimits,
        names: dict[int, str] | None = None,
        guard: str = "with a mask, for example mask={}",
        l1_bytes_per_cycle: int = LINE_BYTES,
        most_instructions: int | None = None,
        watch: LaunchWatch | None = None,
    ) -> None:
        self.names = names or {}
        self.config = config
        self.blocks = blocks
        self.counting = counting
        self.kernel_name = kernel_name
        self.guard = guard
        self._l1_bytes_per_cycle = l1_bytes_per_cycle
        self.shape = (len(blocks), config.threads_per_block)
        self.warps = len(blocks) * config.warps_per_block
        self._most_events = None if most_instructions is None else most_instructions // self.warps
        self._padded = config.warps_per_block * WARP_SIZE
        self._full_warps = self._padded == config.threads_per_block
        lanes = np.full(config.warps_per_block, WARP_SIZE, np.uint8)
        lanes[-1] -= self._padded - config.threads_per_block
        self._all_lanes: NDArray[np.uint8] = np.tile(lanes, len(blocks))
        self._lanes_cache: tuple[NDArray[np.bool_], NDArray[np.uint8]] | None = None
        self._journal = Journal()
        self.shared_memory = SharedMemory(kernel_name, shared_limits)
        self.active: Mask = None
        """Threads of the branch that a block-style kernel is in; the front end narrows its masks by it."""
        self.left: Mask = None
        """Threads that have returned from the kernel."""
        self._read: set[int] = set()  # events whose results some instruction reads
        self._absorbed: dict[int, NDArray[np.uint8]] = {}
        """Products in multiply-adds, with the lanes they would have had."""
        self.async_copies, self.bulk_copies, self.uses = AsyncCopies(self), BulkCopies(self), ArrayUses()
        self.events: list[Event] = []
        threads = len(blocks) * config.threads_per_block
        self.counters = Counters(blocks=len(blocks), threads=threads, idle_lanes=self.warps * WARP_SIZE - threads)
        self.watch = Watch(self, watch or LaunchWatch())

    # Counting -------------------------------------------------------------------------------------------------------

    def lanes(self, mask: Mask) -> NDArray[np.uint8]:
        """Active lanes of every warp of the chunk."""
        if mask is None:
            return self._all_lanes
        if self._lanes_cache is None or self._lanes_cache[0] is not mask:
            rows = self.by_warp(mask, fill=False)
            self._lanes_cache = (mask, rows.sum(axis=1, dtype=np.uint8))
        return self._lanes_cache[1]

    def instruction(
        self,
        op: OpClass,
        mask: Mask,
        producers: Producers,
        site: Site,
        operand: NDArray[np.int32] | int = 0,
        cost: AccessCost = NO_ACCESS,
    ) -> int:
        """Count one instruction of class `op` and return its event number, -1 if no thread is active."""
        lanes = self.lanes(mask)
        warps = int(np.count_nonzero(lanes))
        if not warps:
            return -1
        numbers, columns = self._origins(producers, mask)
        self._read.update(numbers)
        for number in self._absorbed.keys() & set(numbers):  # somebody else wants the product as well
            self.events[number].lanes = self._absorbed.pop(number)
        if len(self.events) == self._most_events:
            raise TooLong
        self.events.append(Event(op, lanes, numbers, site, *cost, columns, operand))
        return len(self.events) - 1

    def sequence(self, ops: tuple[OpClass, ...], mask: Mask, producers: Producers, site: Site) -> Producers:
        """Count a dependent sequence of instructions; returns the producers of its result."""
        for op in ops:
            producers = (self.instruction(op, mask, producers, site),)
        return producers

    def line(self, mask: Mask, site: Site) -> int:
        """Count a source line that threads execute, in the mode that counts lines."""
        return self.instruction(OpClass.INT, mask, (), site) if self.counting == "lines" else -1

    def multiply_add(self, op: OpClass, product: int, mask: Mask, producers: Producers, site: Site) -> Producers | None:
        """Contract an addition with the product that only it reads, as compilers do; ``None`` if that cannot be.

        `producers` are those of the other operand. The product comes back to life if another instruction reads it.
        """
        event = self.events[product]
        alike = event.op is op and not event.columns and np.array_equal(event.lanes, self.lanes(mask))
        if product in self._read or not alike:
            return None
        self._absorbed[product] = event.lanes
        event.lanes = np.zeros_like(event.lanes)
        return (self.instruction(op, mask, (*event.producers, *producers), site),)

    def _origins(self, producers: Producers, mask: Mask) -> tuple[tuple[int, ...], tuple[NDArray[np.int32], ...]]:
        """Events that all warps depend on, and those that differ from warp to warp."""
        numbers = {p for p in producers if isinstance(p, int) and p >= 0}
        columns: list[NDArray[np.int32]] = []
        for producer in producers:
            if isinstance(producer, np.ndarray):
                rows = self.by_warp(producer if mask is None else np.where(mask, producer, np.int32(-1)), fill=-1)
                common, differing = provenance.per_warp(rows, self.lanes(mask) > 0)
                numbers.update(common)
                columns += differing
        return tuple(sorted(numbers)), tuple(columns)

    def everyone(self, mask: Mask) -> NDArray[np.bool_]:
        """Active threads in the shape (blocks, threads)."""
        return np.broadcast_to(True if mask is None else mask, self.shape)

    def by_warp(self, values: NDArray[Any], fill: Any, blocks: int | None = None) -> NDArray[Any]:
        """Rows of 32 lanes, one per warp, of all blocks or of the first ones; lanes beyond the block get `fill`."""
        whole = np.broadcast_to(values, (self.shape[0] if blocks is None else blocks, self.shape[1]))
        if not self._full_warps:
            padded = np.full((len(whole), self._padded), fill, whole.dtype)
            padded[:, : self.shape[1]] = whole
            whole = padded
        return whole.reshape(-1, WARP_SIZE)

    def _rows(self, mask: Mask, blocks: int | None = None) -> NDArray[np.bool_]:
        return self.by_warp(np.asarray(True if mask is None else mask), fill=False, blocks=blocks)

    # Global memory --------------------------------------------------------------------------------------------------

    def load(
        self, array: DeviceArray, name: str, index: NDArray[Any], mask: Mask, producers: Producers, site: Site
    ) -> tuple[NDArray[Any], int]:
        """Read ``array[index]`` for the active threads, 0 for the others; returns the values and the event."""
        self.check_bounds("load of", name, array.size, index, mask, site)
        data = array.flat
        if mask is None:
            values = np.broadcast_to(data[index], self.shape)
        else:
            values = np.where(mask, data[np.where(mask, index, 0)], np.zeros((), array.dtype))
        values = np.broadcast_to(values, self.shape)
        return values, self.access(OpClass.GLOBAL_LOAD, array, index, mask, producers, site)

    def store(
        self,
        array: DeviceArray,
        name: str,
        index: NDArray[Any],
        values: NDArray[Any],
        mask: Mask,
        producers: Producers,
        site: Site,
    ) -> int:
        """Write ``array[index] = values`` for the active threads; of several writers the highest thread wins."""
        self.check_bounds("store to", name, array.size, index, mask, site)
        event = self.access(OpClass.GLOBAL_STORE, array, index, mask, producers, site, values=values)
        self.write(array.flat, *self._active_elements(index, values, mask=mask))
        return event

    def access(
        self,
        op: OpClass,
        array: Array,
        index: NDArray[Any],
        mask: Mask,
        producers: Producers,
        site: Site,
        width: int = 0,
        values: Any = None,
    ) -> int:
        """Count an access without doing it; returns its event. A lane moves `width` bytes, else one element."""
        if not self.lanes(mask).any():
            return -1
        self.watch.access(op, array, index, mask, site, width, values)
        cost = self.cost(op, array, index, mask, site, width)
        return self.instruction(op, mask, producers, site, width or array.dtype.itemsize, cost)

    def cost(
        self, op: OpClass, array: Array, index: NDArray[Any], mask: Mask, site: Site, width: int = 0
    ) -> AccessCost:
        """Count an access of some active threads, but no instruction; returns what it costs."""
        # Blocks mostly use the same places of their shared memory: then one of them stands for all.
        alike = isinstance(array, SharedArray) and all(x is None or x.ndim < 2 or len(x) == 1 for x in (index, mask))
        blocks = 1 if alike else self.shape[0]
        addresses = self.by_warp(index, 0, blocks).astype(np.int64) * array.dtype.itemsize + array.address
        active = None if mask is None and self._full_warps else self._rows(mask, blocks)
        label, lanes = self.names.get(id(array), array.name), self.lanes(mask)[: len(addresses)]
        self.uses.add_access(op, array, addresses, width, active)
        copies = self.shape[0] // blocks
        l1 = self._l1_bytes_per_cycle
        return count_access(self.counters, op, array, label, addresses, active, lanes, site, width, copies, l1)

    def atomic(
        self,
        array: Array,
        label: str,
        name: str,
        index: NDArray[Any],
        numbers: list[NDArray[Any]],
        mask: Mask,
        producers: Producers,
        site: Site,
    ) -> tuple[NDArray[Any], int]:
        """Do an atomic operation of the active threads, one after the other; returns the old values and the event."""
        self.check_bounds(f"{name} on", label, array.size, index, mask, site)
        on = self.everyone(mask)
        where = np.broadcast_to(index, self.shape)
        if isinstance(array, SharedArray):
            op, data = OpClass.SHARED_ATOMIC, array.data.reshape(-1)
            where = where + np.arange(self.shape[0])[:, None] * array.size
        else:
            op, data = OpClass.GLOBAL_ATOMIC, array.flat
        flat = where[on].astype(np.int64)
        if isinstance(array, DeviceArray):
            self._journal.note(data, flat)
        old = np.zeros(self.shape, array.dtype)
        old[on] = atomics.perform(name, data, flat, [np.broadcast_to(n, self.shape)[on] for n in numbers])
        return old, self.access(op, array, index, mask, producers, site, values=name)

    def _active_elements(self, *parts: NDArray[Any], mask: Mask) -> list[NDArray[Any]]:
        on = ... if mask is None else np.broadcast_to(mask, self.shape)
        return [np.broadcast_to(part, self.shape)[on].reshape(-1) for part in parts]

    def write(self, data: NDArray[Any], index: NDArray[Any], values: NDArray[Any]) -> None:
        """Write elements of global memory without counting it, in a way that `undo` can take back."""
        self._journal.note(data, index)
        data[index] = values

    def undo(self) -> None:
        """Take back every write to global memory of this chunk."""
        self._journal.undo()
        self.watch.undo()

    # Shared memory --------------------------------------------------------------------------------------------------

    def shared(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, *, dynamic: bool = False) -> SharedArray:
        """Declare an array in the shared memory of every block in flight, in the launch's `dynamic` part or before."""
        array = self.shared_memory.declare(name, shape, dtype, len(self.blocks), dynamic=dynamic)
        self.counters.shared_arrays[name] = array.shape, array.dtype.name
        used = self.shared_memory.static_bytes
        self.counters.shared_bytes_per_block = max(self.counters.shared_bytes_per_block, used)
        return array

    def shared_load(
        self, array: SharedArray, index: NDArray[Any], mask: Mask, producers: Producers, site: Site
    ) -> tuple[NDArray[Any], int]:
        """Read a shared array for the active threads, 0 for the others; returns the values and the event."""
        self.check_bounds("shared load of", array.name, array.size, index, mask, site)
        values = np.broadcast_to(array.read(index if mask is None else np.where(mask, index, 0)), self.shape)
        if mask is not None:
            values = np.where(mask, values, np.zeros((), array.dtype))
        return values, self.access(OpClass.SHARED_LOAD, array, index, mask, producers, site)

    def shared_store(
        self,
        array: SharedArray,
        index: NDArray[Any],
        values: NDArray[Any],
        mask: Mask,
        producers: Producers,
        site: Site,
    ) -> int:
        """Write a shared array for the active threads; of several writers the highest thread wins."""
        self.check_bounds("shared store to", array.name, array.size, index, mask, site)
        whole = index.astype(np.int64) + np.arange(self.shape[0])[:, None] * array.size
        where, what = self._active_elements(whole, values, mask=mask)
        event = self.access(OpClass.SHARED_STORE, array, index, mask, producers, site, values=values)
        array.data.reshape(-1)[where] = what
        return event

    # Control --------------------------------------------------------------------------------------------------------

    def branch(self, taken: NDArray[np.bool_], mask: Mask, producers: Producers, site: Site) -> int:
        """Count a branch of the active threads on `taken`."""
        lanes = self.lanes(mask)
        both = np.broadcast_to(taken if mask is None else taken & mask, self.shape)
        yes = self.by_warp(both, fill=False).sum(axis=1, dtype=np.uint8)
        self.counters.count_branch(site, lanes, yes)
        return self.instruction(OpClass.BRANCH, mask, producers, site)

    def shuffle(
        self, name: str, values: NDArray[Any], other: NDArray[Any], mask: Mask, producers: Producers, site: Site
    ) -> tuple[NDArray[Any], int]:
        """Values that active threads get from other lanes of their warp (`warp_exchange.shuffled`), and the event."""
        active = self._rows(mask)
        rows = warp_exchange.shuffled(name, self.by_warp(values, fill=0), self.by_warp(other, fill=0), active)
        moved = rows.reshape(self.shape[0], self._padded)[:, : self.shape[1]]
        result = moved if mask is None else np.where(mask, moved, np.broadcast_to(values, self.shape))
        return result, self.count_shuffle(mask, producers, site)

    def count_shuffle(self, mask: Mask, producers: Producers, site: Site) -> int:
        """Count a shuffle without doing it."""
        quarters = np.where(self.lanes(mask) > 0, np.int32(4), np.int32(0)).astype(np.int32)
        return self.instruction(OpClass.SHUFFLE, mask, producers, site, cost=AccessCost(quarters))

    def vote(
        self, name: str, predicate: NDArray[np.bool_], mask: Mask, producers: Producers, site: Site
    ) -> tuple[NDArray[Any], int]:
        """Answer of a vote of the active lanes of every warp (`warp_exchange.voted`), and the event."""
        active = self._rows(mask)
        answer = warp_exchange.voted(name, self.by_warp(predicate, fill=False), active)
        rows = np.broadcast_to(answer, (self.warps, WARP_SIZE))
        result = rows.reshape(self.shape[0], self._padded)[:, : self.shape[1]]
        return result, self.instruction(OpClass.VOTE, mask, producers, site)

    def finish(self) -> None:
        """End the chunk: every warp exits."""
        if self.counting == "auto":
            self.instruction(OpClass.EXIT, None, (), UNKNOWN)
        self._journal.clear()
        warps_per_block, lines_only = self.config.warps_per_block, self.counting == "lines"
        count_events(self.counters, self.events, self._all_lanes, warps_per_block, lines_only=lines_only)

    # Errors ---------------------------------------------------------------------------------------------------------

    def check_bounds(
        self, verb: str, name: str, size: int, index: NDArray[Any], mask: Mask, site: Site, where: str = ""
    ) -> None:
        """Refuse an index of an active thread outside 0…size - 1; `where` names the dimension if there are several."""
        if index.dtype.kind not in "iu":
            raise KernelError(
                f"{self.kernel_name}: {verb} {name!r} in {site} has an index of type {index.dtype}: "
                "indices are integers; convert with .astype(np.int32)"
            )
        bad = complaints.outside(index, size, mask, self.shape)
        if bad is not None:
            access, whole = f"{self.kernel_name}: {verb} {name!r} in {site}", np.broadcast_to(index, self.shape)
            raise complaints.out_of_bounds(
                access, size, whole, bad, self.config, self.blocks, where=where, guard=self.guard
            )
