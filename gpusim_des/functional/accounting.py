"""What memory accesses cost, counted in total, per array and per place in the source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import coalescing
from gpusim_des.functional.counters import AccessCounts, AccessSite, Counters
from gpusim_des.functional.line_counts import MOST_ELEMENTS, AccessPattern, lane_stride
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import Site
from gpusim_des.trace import LINE_BYTES, SECTOR_BYTES, OpClass

Array = DeviceArray | SharedArray


class AccessCost(NamedTuple):
    """What one access costs every warp."""

    quarter_cycles: NDArray[np.int32] | None = None
    """Time in the load/store unit."""
    sectors: coalescing.Sectors | None = None
    """Sectors of a global access."""
    passes: NDArray[np.uint8] | None = None
    """Operations on the busiest address of each sector of a global atomic."""


NO_ACCESS = AccessCost()
"""Of an instruction that is no access."""

ROW_BYTES = coalescing.BANKS * coalescing.BANK_BYTES
"""What all banks of shared memory take in one pass."""

_KIND = {
    OpClass.GLOBAL_LOAD: "load",
    OpClass.SHARED_LOAD: "load",
    OpClass.GLOBAL_STORE: "store",
    OpClass.SHARED_STORE: "store",
    OpClass.GLOBAL_ATOMIC: "atomic",
    OpClass.SHARED_ATOMIC: "atomic",
    OpClass.ASYNC_COPY: "load",
    OpClass.BULK_COPY: "load",
}


def count_access(
    counters: Counters,
    op: OpClass,
    array: Array,
    label: str,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_] | None,
    lanes: NDArray[np.uint8],
    site: Site,
    width: int = 0,
    copies: int = 1,
    l1_bytes_per_cycle: int = LINE_BYTES,
) -> AccessCost:
    """Count one access and return what it costs.

    `addresses` and `active` have one row of 32 lanes per warp, `lanes` are the active lanes of each warp. A lane moves
    `width` neighbouring bytes, one element if it is 0. An access to shared memory counts for `copies` such groups of
    warps. `l1_bytes_per_cycle` is what the L1 hands to registers.
    """
    size, kind = width or array.dtype.itemsize, _KIND[op]
    requests, threads = copies * int(np.count_nonzero(lanes)), copies * int(lanes.sum(dtype=np.int64))
    passes = np.tile(coalescing.wavefronts(addresses, size, active), copies)
    if not requests:  # code that runs though no thread takes part leaves no trace
        return AccessCost((4 * passes).astype(np.int32))
    if op in {OpClass.SHARED_ATOMIC, OpClass.GLOBAL_ATOMIC}:
        serial = np.tile(coalescing.same_address(addresses, active), copies)
    memory = "shared" if isinstance(array, SharedArray) else "global"
    where = AccessSite(label, memory, kind, site.line, site.column, site.filename)
    place = counters.accesses.setdefault(where, AccessCounts())
    place.requests += requests
    place.threads += threads
    place.nbytes += threads * size
    touched: coalescing.Sectors | None = None
    serialized: NDArray[np.uint8] | None = None
    if kind == "atomic":
        place.serial_passes += int(serial.sum(dtype=np.int64))
        count_hits(counters, where, array, addresses, active, copies)
    if memory == "shared":
        least = coalescing.ideal_wavefronts(size, active, len(lanes))
        ideal = copies * int(least.sum(dtype=np.int64))
        if kind == "atomic":
            passes = np.maximum(passes, serial)
            counters.shared_atomic_requests += requests
        else:  # atomics on one address are not a matter of strides
            note_stride(counters, where, passes[: len(lanes)] - least, addresses, active, copies)
        counters.shared_requests += requests
        counters.shared_accesses += threads
        counters.shared_ideal_wavefronts += ideal
        counters.shared_wavefronts += int(passes.sum(dtype=np.int64))
        place.ideal_wavefronts += ideal
        quarters = (4 * passes).astype(np.int32)
    else:
        touched = coalescing.sectors(addresses, size, active)
        counters.count_global(kind, requests, len(touched.numbers), threads, threads * size)
        if kind == "atomic":
            counters.atomic_serialization += int(serial.sum(dtype=np.int64))
            serialized = coalescing.sector_passes(addresses, active, touched)
        elif kind == "store":
            serialized = coalescing.write_passes(addresses, size, active, touched)
        least = -(-lanes.astype(np.int32) * size // SECTOR_BYTES)
        place.sectors += len(touched.numbers)
        place.ideal_sectors += int(least.sum(dtype=np.int64))
        note_stride(counters, where, touched.counts - least, addresses, active, copies)
        quarters = coalescing.load_store_quarter_cycles(passes, touched.lines)
        if op is OpClass.GLOBAL_LOAD:
            quarters = np.maximum(quarters, coalescing.register_quarter_cycles(lanes, size, l1_bytes_per_cycle))
    place.wavefronts += int(passes.sum(dtype=np.int64))
    return AccessCost(quarters, touched, serialized)


def count_bulk(
    counters: Counters,
    target: SharedArray,
    label: str,
    elements: NDArray[np.int64],
    sectors: NDArray[np.int64],
    site: Site,
) -> None:
    """Count bulk copies, each a load of one request; shared memory is written in rows of 128 bytes."""
    size = target.dtype.itemsize
    requests, threads, touched = len(elements), int(elements.sum()), int(sectors.sum())
    rows = int((-(-elements * size // ROW_BYTES)).sum())
    counters.count_global("load", requests, touched, threads, threads * size)
    counters.shared_requests += rows
    counters.shared_accesses += rows
    counters.shared_wavefronts += rows
    counters.shared_ideal_wavefronts += rows
    for place, counts in (
        (
            AccessSite(label, "global", "load", site.line, site.column, site.filename),
            # A copy of one range is as good as it gets.
            AccessCounts(requests, threads, threads * size, touched, requests, ideal_sectors=touched),
        ),
        (
            AccessSite(target.name, "shared", "store", site.line, site.column, site.filename),
            AccessCounts(rows, rows, threads * size, 0, rows, rows),
        ),
    ):
        counters.accesses.setdefault(place, AccessCounts()).add(counts)


def note_stride(
    counters: Counters,
    where: AccessSite,
    beyond: NDArray[np.int32],
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_] | None,
    copies: int,
) -> None:
    """Note how far apart the lanes of an access lie that costs more than it must; `beyond` is how much, by warp."""
    worst = int(np.argmax(beyond))
    if beyond[worst] <= 0:
        return
    stride = lane_stride(addresses[worst], None if active is None else active[worst])
    excess = copies * int(beyond.clip(0).sum(dtype=np.int64))
    counters.patterns.setdefault(where, AccessPattern()).strides[stride] += excess


def count_hits(
    counters: Counters,
    where: AccessSite,
    array: Array,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_] | None,
    copies: int,
) -> None:
    """Count the atomic operations on every element of an array, if it has few."""
    if array.size > MOST_ELEMENTS:
        return
    elements = (addresses if active is None else addresses[active]).reshape(-1) - array.address
    hits = copies * np.bincount(elements // array.dtype.itemsize, minlength=array.size)
    counters.patterns.setdefault(where, AccessPattern()).add(AccessPattern(hits=hits))


class DistinctSectors:
    """The different sectors that a launch touched: compulsory traffic, in a bit per sector of the pages it touched.

    Examples
    --------
    >>> seen = DistinctSectors()
    >>> seen.add(np.array([5, 6, 5, 1 << 40]))
    >>> seen.count
    3
    """

    _PAGE = 1 << 20

    def __init__(self) -> None:
        self._pages: dict[int, NDArray[np.bool_]] = {}

    def add(self, numbers: NDArray[Any]) -> None:
        """Take note of sector numbers."""
        pages = numbers // self._PAGE
        low, high = (int(pages.min()), int(pages.max())) if len(numbers) else (0, -1)
        several = low != high
        for page in np.unique(pages).tolist() if several else range(low, high + 1):
            seen = self._pages.setdefault(page, np.zeros(self._PAGE, bool))
            inside = numbers[pages == page] if several else numbers
            seen[inside - page * self._PAGE] = True

    def add_all(self, parts: Iterable[NDArray[Any]]) -> None:
        """Take note of the sector numbers of several accesses."""
        for numbers in parts:
            self.add(numbers)

    @property
    def count(self) -> int:
        """How many different ones so far."""
        return sum(int(np.count_nonzero(seen)) for seen in self._pages.values())
