"""The one SIMT machine: executes an operation for many blocks at once, checks it, counts it and records it.

Every front end ends here. The interface knows no Python syntax: masked loads, stores, arithmetic, branches and
barriers on plain arrays, each with the events that produced its operands and a source position. Arrays have shape
(blocks, threads) or anything that broadcasts to it; an *event* is one operation of the chunk, and becomes an
instruction of every warp in which it had an active lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import BoundsError, DeadlockError, KernelError, LaunchError
from gpusim_des.functional import coalescing
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.memory import MAX_ITEM_BYTES, DeviceArray, SharedArray, is_plain
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE, LaunchConfig
from gpusim_des.trace import OpClass

Counting = Literal["auto", "declared"]
Producers = tuple[int, ...]
Mask = NDArray[np.bool_] | None
"""Active threads, broadcastable to (blocks, threads); ``None`` means all."""


@dataclass(slots=True)
class Event:
    """One operation of the chunk; arrays have one entry per warp of the chunk, block after block."""

    op: OpClass
    lanes: NDArray[np.uint8]
    producers: Producers
    line: int
    quarter_cycles: NDArray[np.int32] | None = None
    sectors: coalescing.Sectors | None = None


class Machine:
    """Executes one chunk of blocks in lockstep.

    Parameters
    ----------
    config
        Grid and block.
    blocks
        Linear numbers of the blocks in flight.
    counting
        ``"auto"`` counts operators as well, ``"declared"`` only what the kernel declares.
    kernel_name
        For messages.
    shared_limit_bytes, dynamic_shared_bytes
        Limit of shared memory per block, and the part of it that the launch took.
    """

    def __init__(
        self,
        config: LaunchConfig,
        blocks: NDArray[np.int64],
        *,
        counting: Counting,
        kernel_name: str,
        shared_limit_bytes: int,
        dynamic_shared_bytes: int,
    ) -> None:
        self.config = config
        self.blocks = blocks
        self.counting = counting
        self.kernel_name = kernel_name
        self.shared_limit_bytes = shared_limit_bytes
        self.dynamic_shared_bytes = dynamic_shared_bytes
        self.shape = (len(blocks), config.threads_per_block)
        self.warps = len(blocks) * config.warps_per_block
        self._padded = config.warps_per_block * WARP_SIZE
        self._full_warps = self._padded == config.threads_per_block
        threads = np.full(config.warps_per_block, WARP_SIZE, np.uint8)
        threads[-1] -= self._padded - config.threads_per_block
        self._all_lanes: NDArray[np.uint8] = np.tile(threads, len(blocks))
        self._lanes_cache: tuple[NDArray[np.bool_], NDArray[np.uint8]] | None = None
        self._journal: list[tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]]] = []
        self._shared_bytes = 0
        self.events: list[Event] = []
        self.counters = Counters(blocks=len(blocks), threads=len(blocks) * config.threads_per_block)

    # Counting -------------------------------------------------------------------------------------------------------

    def lanes(self, mask: Mask) -> NDArray[np.uint8]:
        """Active lanes of every warp of the chunk."""
        if mask is None:
            return self._all_lanes
        if self._lanes_cache is None or self._lanes_cache[0] is not mask:
            rows = self._by_warp(mask, fill=False)
            self._lanes_cache = (mask, rows.sum(axis=1, dtype=np.uint8))
        return self._lanes_cache[1]

    def instruction(self, op: OpClass, mask: Mask, producers: Producers, site: Site) -> int:
        """Count one instruction of class `op` and return its event number."""
        return self._record(Event(op, self.lanes(mask), producers, site.line))

    def sequence(self, ops: tuple[OpClass, ...], mask: Mask, producers: Producers, site: Site) -> Producers:
        """Count a dependent sequence of instructions; returns the producers of its result."""
        for op in ops:
            producers = (self.instruction(op, mask, producers, site),)
        return producers

    def _record(self, event: Event) -> int:
        warps = int(np.count_nonzero(event.lanes))
        self.counters.warp_instructions += warps
        self.counters.active_lanes += int(event.lanes.sum(dtype=np.int64))
        self.counters.instruction_mix[event.op.label] += warps
        self.events.append(event)
        return len(self.events) - 1

    def _by_warp(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Rows of 32 lanes, one per warp; lanes beyond the block get `fill`."""
        whole = np.broadcast_to(values, self.shape)
        if not self._full_warps:
            padded = np.full((self.shape[0], self._padded), fill, whole.dtype)
            padded[:, : self.shape[1]] = whole
            whole = padded
        return whole.reshape(self.warps, WARP_SIZE)

    def _active_by_warp(self, mask: Mask) -> NDArray[np.bool_] | None:
        if mask is None and self._full_warps:
            return None
        return self._by_warp(np.ones((1, 1), bool) if mask is None else mask, fill=False)

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
        event, requests, touched = self._global_event(OpClass.GLOBAL_LOAD, array, index, mask, producers, site)
        self.counters.global_load_requests += requests
        self.counters.global_load_sectors += len(touched.numbers)
        self.counters.global_load_bytes_requested += array.dtype.itemsize * int(event.lanes.sum(dtype=np.int64))
        return values, self._record(event)

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
        self._write(array.flat, index, values, mask)
        event, requests, touched = self._global_event(OpClass.GLOBAL_STORE, array, index, mask, producers, site)
        self.counters.global_store_requests += requests
        self.counters.global_store_sectors += len(touched.numbers)
        self.counters.global_store_bytes_requested += array.dtype.itemsize * int(event.lanes.sum(dtype=np.int64))
        return self._record(event)

    def _global_event(
        self, op: OpClass, array: DeviceArray, index: NDArray[Any], mask: Mask, producers: Producers, site: Site
    ) -> tuple[Event, int, coalescing.Sectors]:
        size = array.dtype.itemsize
        addresses = self._by_warp(index, fill=0).astype(np.int64) * size + array.address
        active = self._active_by_warp(mask)
        touched = coalescing.sectors(addresses, size, active)
        banks = coalescing.wavefronts(addresses, size, active)
        quarters = coalescing.load_store_quarter_cycles(banks, touched.lines)
        event = Event(op, self.lanes(mask), producers, site.line, quarters, touched)
        return event, int(np.count_nonzero(event.lanes)), touched

    def _write(self, data: NDArray[Any], index: NDArray[Any], values: NDArray[Any], mask: Mask) -> None:
        where = np.broadcast_to(index, self.shape)
        what = np.broadcast_to(values, self.shape)
        if mask is not None:
            on = np.broadcast_to(mask, self.shape)
            where, what = where[on], what[on]
        flat = where.reshape(-1)
        if len(self.blocks) > 1:
            # Blocks that turn out to disagree on control flow run again in groups: keep what is overwritten.
            self._journal.append((data, flat.astype(np.int64), data[flat]))
        data[flat] = what.reshape(-1)

    def undo(self) -> None:
        """Take back every write to global memory of this chunk."""
        for data, index, before in reversed(self._journal):
            data[index] = before
        self._journal.clear()

    # Shared memory --------------------------------------------------------------------------------------------------

    def shared(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> SharedArray:
        """Declare an array in the shared memory of every block in flight."""
        kind = np.dtype(dtype)
        if not is_plain(kind):
            raise KernelError(
                f"{self.kernel_name}: shared array {name!r} of type {kind}: shared memory holds numbers, truth values "
                f"and records of 1 to {MAX_ITEM_BYTES} bytes"
            )
        address = -(-self._shared_bytes // kind.itemsize) * kind.itemsize
        needed = address + int(np.prod(shape, dtype=object)) * kind.itemsize
        total = needed + self.dynamic_shared_bytes
        if total > self.shared_limit_bytes:
            raise LaunchError(
                f"{self.kernel_name}: shared array {name!r} of shape {shape} brings the block to {total:,} bytes of "
                f"shared memory ({self.dynamic_shared_bytes:,} of them dynamic): this GPU allows "
                f"{self.shared_limit_bytes:,} per block; use a smaller tile or a smaller element type"
            )
        self._shared_bytes = needed
        self.counters.shared_bytes_per_block = max(self.counters.shared_bytes_per_block, needed)
        return SharedArray(name, shape, kind, address, len(self.blocks))

    def shared_load(
        self, array: SharedArray, index: NDArray[Any], mask: Mask, producers: Producers, site: Site
    ) -> tuple[NDArray[Any], int]:
        """Read a shared array for the active threads, 0 for the others; returns the values and the event."""
        self.check_bounds("shared load of", array.name, array.size, index, mask, site)
        rows = np.arange(self.shape[0])[:, None]
        if mask is None:
            values = np.broadcast_to(array.data[rows, np.broadcast_to(index, self.shape)], self.shape)
        else:
            safe = np.where(mask, index, 0)
            values = np.where(mask, array.data[rows, safe], np.zeros((), array.dtype))
        return values, self._shared_event(OpClass.SHARED_LOAD, array, index, mask, producers, site)

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
        whole = np.broadcast_to(index, self.shape) + np.arange(self.shape[0])[:, None] * array.size
        on = None if mask is None else np.broadcast_to(mask, self.shape)
        flat = array.data.reshape(-1)
        what = np.broadcast_to(values, self.shape)
        flat[whole if on is None else whole[on]] = what if on is None else what[on]
        return self._shared_event(OpClass.SHARED_STORE, array, index, mask, producers, site)

    def _shared_event(
        self, op: OpClass, array: SharedArray, index: NDArray[Any], mask: Mask, producers: Producers, site: Site
    ) -> int:
        size = array.dtype.itemsize
        addresses = self._by_warp(index, fill=0).astype(np.int64) * size + array.address
        passes = coalescing.wavefronts(addresses, size, self._active_by_warp(mask))
        lanes = self.lanes(mask)
        self.counters.shared_requests += int(np.count_nonzero(lanes))
        self.counters.shared_wavefronts += int(passes.sum(dtype=np.int64))
        return self._record(Event(op, lanes, producers, site.line, (4 * passes).astype(np.int32)))

    # Control --------------------------------------------------------------------------------------------------------

    def branch(self, taken: NDArray[np.bool_], mask: Mask, producers: Producers, site: Site) -> None:
        """Count a branch of the active threads on `taken`."""
        event = Event(OpClass.BRANCH, self.lanes(mask), producers, site.line)
        both = np.broadcast_to(taken if mask is None else taken & mask, self.shape)
        yes = self._by_warp(both, fill=False).sum(axis=1, dtype=np.uint8)
        self.counters.branches += int(np.count_nonzero(event.lanes))
        self.counters.divergent_branches += int(np.count_nonzero((yes > 0) & (yes < event.lanes)))
        self._record(event)

    def barrier(self, mask: Mask, producers: Producers, site: Site) -> None:
        """Block-wide barrier; raises `DeadlockError` if it is reached by a part of a block only."""
        on = np.broadcast_to(True if mask is None else mask, self.shape)
        there = on.any(axis=1)
        stuck = there & ~on.all(axis=1)
        if stuck.any():
            row = int(np.argmax(stuck))
            away = np.flatnonzero(~on[row])
            warps = sorted({int(t) // WARP_SIZE for t in away})
            raise DeadlockError(
                f"{self.kernel_name}: block {self._block_name(row)} waits forever at the barrier in {site}: "
                f"{len(away)} of {self.shape[1]} threads never reach it (warps {_ranges(warps)}, first thread "
                f"{int(away[0])}); a barrier must be reached by all threads of the block, so move it out of the branch"
            )
        self.counters.barriers += int(np.count_nonzero(there))
        self._record(Event(OpClass.BARRIER, self.lanes(mask), producers, site.line))

    def shuffle_down(
        self, values: NDArray[Any], delta: int, mask: Mask, producers: Producers, site: Site
    ) -> tuple[NDArray[Any], int]:
        """Value of the lane `delta` higher in the same warp, the own value where there is none."""
        rows = self._by_warp(values, fill=0)
        lane = np.arange(WARP_SIZE)
        threads = np.tile(self._all_lanes[: self.config.warps_per_block], self.shape[0])[:, None]
        source = np.where(lane + delta < threads, np.minimum(lane + delta, WARP_SIZE - 1), lane)
        moved = np.take_along_axis(rows, source, axis=1).reshape(self.shape[0], self._padded)[:, : self.shape[1]]
        result = moved if mask is None else np.where(mask, moved, np.broadcast_to(values, self.shape))
        lanes = self.lanes(mask)
        quarters = np.where(lanes > 0, np.int32(4), np.int32(0)).astype(np.int32)
        return result, self._record(Event(OpClass.SHUFFLE, lanes, producers, site.line, quarters))

    def finish(self) -> None:
        """End the chunk: every warp exits."""
        if self.counting == "auto":
            self._record(Event(OpClass.EXIT, self._all_lanes, (), 0))
        self._journal.clear()

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
        if index.size and index.min() >= 0 and index.max() < size:
            return
        bad = np.broadcast_to((index < 0) | (index >= size), self.shape)
        if mask is not None:
            bad = bad & mask
        if not bad.any():
            return
        row, thread = (int(k) for k in np.argwhere(bad)[0])
        value = int(np.broadcast_to(index, self.shape)[row, thread])
        keep = "i >= 0" if value < 0 else f"i < {size}"
        raise BoundsError(
            f"{self.kernel_name}: {verb} {name!r} in {site}: index {value:,}{where} is outside 0…{size - 1:,} "
            f"(block {self._block_name(row)}, thread {self.config.block.at(thread)}; {_threads(int(bad.sum()))} of "
            f"these blocks outside); keep such threads out with a mask, for example mask={keep}"
            + (" (a negative index does not count from the end on a GPU)" if value < 0 else "")
        )

    def _block_name(self, row: int) -> str:
        return str(self.config.grid.at(int(self.blocks[row])))


def _threads(number: int) -> str:
    return f"{number:,} thread{'s' if number != 1 else ''}"


def _ranges(numbers: list[int]) -> str:
    """Shorten ascending numbers: ``0-3, 7``."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][-1:] = [n] if len(parts[-1]) == 2 else [parts[-1][0], n]
        else:
            parts.append([n])
    return ", ".join("-".join(str(n) for n in p) for p in parts)
