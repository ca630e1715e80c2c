"""Addresses of a warp to sectors, lines and wavefronts: the arithmetic of coalescing and bank conflicts.

Pure functions on arrays with one row per warp and 32 columns, one per lane. They are the single place where these
rules are written; brute-force versions in the tests check them lane by lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.grid import WARP_SIZE

BANKS = 32
"""Shared-memory banks (CUDA C++ Programming Guide, "Shared memory", compute capability 5.0 and later)."""

BANK_BYTES = 4
"""Width of a bank in bytes (same source)."""

_SECTOR_SHIFT = 5
_SECTOR_BYTES = 1 << _SECTOR_SHIFT
_NOWHERE = np.iinfo(np.int64).max

_Addresses = NDArray[np.int64]
_Active = NDArray[np.bool_]


class Sectors(NamedTuple):
    """The 32-byte sectors that each warp of a request touches."""

    counts: NDArray[np.int32]
    """Distinct sectors of each warp, 0 for a warp with no active lane."""
    numbers: NDArray[np.int64]
    """Sector numbers (address / 32), warp after warp, ascending within a warp."""
    lines: NDArray[np.int32]
    """Distinct 128-byte lines of each warp."""


def is_unit_stride(addresses: _Addresses, itemsize: int, active: _Active | None) -> bool:
    """Tell whether all lanes are active and neighbours lie `itemsize` bytes apart: the coalesced case."""
    if active is not None:
        return False
    first = addresses[:1]  # the first warp decides most cases
    return bool((np.diff(first) == itemsize).all()) and bool((np.diff(addresses) == itemsize).all())


def is_broadcast(numbers: NDArray[np.int64], active: _Active | None) -> bool:
    """Tell whether all lanes are active and have one number in common, warp by warp."""
    if active is not None or not numbers.size or numbers[0, 0] != numbers[0, -1]:
        return False
    return bool((numbers == numbers[:, :1]).all())


def sectors(addresses: _Addresses, itemsize: int, active: _Active | None) -> Sectors:
    """Distinct 32-byte sectors of each warp.

    Parameters
    ----------
    addresses
        Byte address of every lane's first byte, shape (warps, 32).
    itemsize
        Bytes per lane, 1…32; an element that straddles a border touches both sectors.
    active
        Lanes that take part, same shape; ``None`` means all.

    Examples
    --------
    A warp that reads 32 consecutive floats touches 4 sectors; one float later, 5; every 32nd float, 32.

    >>> lanes = np.arange(32, dtype=np.int64)[None, :]
    >>> [int(sectors(lanes * 4 + 4 * o, 4, None).counts[0]) for o in (0, 1, 8)], sectors(lanes * 128, 4, None).counts
    ([4, 5, 4], array([32], dtype=int32))
    """
    aligned = itemsize & (itemsize - 1) == 0 and not (addresses & (itemsize - 1)).any()
    if is_unit_stride(addresses, itemsize, active):
        first = addresses[:, 0] >> _SECTOR_SHIFT
        last = (addresses[:, -1] + itemsize - 1) >> _SECTOR_SHIFT
        counts = last - first + 1
        ends = np.cumsum(counts)
        numbers = np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
        return Sectors(counts.astype(np.int32), numbers, ((last >> 2) - (first >> 2) + 1).astype(np.int32))
    touched = addresses >> _SECTOR_SHIFT
    if aligned and is_broadcast(touched, active):
        ones = np.ones(len(touched), np.int32)
        return Sectors(ones, touched[:, 0].copy(), ones)
    if not aligned:
        touched = np.concatenate([touched, (addresses + itemsize - 1) >> _SECTOR_SHIFT], axis=1)
        active = None if active is None else np.concatenate([active, active], axis=1)
    if active is not None:
        touched = np.where(active, touched, _NOWHERE)
    if (touched[:, 1:] < touched[:, :-1]).any():
        touched = np.sort(touched, axis=1)
    new = touched != _NOWHERE
    new[:, 1:] &= touched[:, 1:] != touched[:, :-1]
    line = touched >> 2
    new_line = touched != _NOWHERE
    new_line[:, 1:] &= line[:, 1:] != line[:, :-1]
    return Sectors(new.sum(axis=1, dtype=np.int32), touched[new], new_line.sum(axis=1, dtype=np.int32))


def wavefronts(addresses: _Addresses, itemsize: int, active: _Active | None) -> NDArray[np.int32]:
    """Passes through the 32 banks that each warp's request needs, 0 for a warp with no active lane.

    Lanes that touch the same 4-byte word share it. Elements of 8 bytes are served half a warp at a time, elements of
    16 bytes a quarter (CUDA C++ Programming Guide, "Shared memory", 64- and 128-bit accesses), also where all lanes
    read one element (8 bytes: measured in an H200's L1 cache, RRZE gpu-benches, gpu-strides; 16 bytes: assumption);
    smaller elements share words.

    Examples
    --------
    Word stride s needs gcd(s, 32) passes:

    >>> lanes = np.arange(32, dtype=np.int64)[None, :]
    >>> [int(wavefronts(lanes * 4 * s, 4, None)[0]) for s in (0, 1, 2, 3, 8, 32, 33)]
    [1, 1, 2, 1, 8, 32, 1]
    """
    words_per_lane = max(1, -(-itemsize // BANK_BYTES))
    groups = 1 << (words_per_lane - 1).bit_length()
    on_words = itemsize >= BANK_BYTES and not (addresses[:, 0] & (BANK_BYTES - 1)).any()
    if on_words and words_per_lane == groups and is_unit_stride(addresses, itemsize, active):
        return np.full(len(addresses), groups, np.int32)
    lanes = WARP_SIZE // groups
    total = np.zeros(len(addresses), np.int32)
    for g in range(groups):
        part = slice(g * lanes, (g + 1) * lanes)
        words, on = _words(addresses[:, part], itemsize, None if active is None else active[:, part])
        total += _passes(words, on)
    return total


def _words(addresses: _Addresses, itemsize: int, active: _Active | None) -> tuple[_Addresses, _Active | None]:
    """Numbers of the 4-byte words that elements touch, one column per lane and word, and which columns count."""
    if itemsize in {1, 2, BANK_BYTES} and not (addresses & (itemsize - 1)).any():
        return addresses >> 2, active
    first, last = addresses >> 2, (addresses + itemsize - 1) >> 2
    most = int((last - first).max(initial=0)) + 1
    words = first[:, :, None] + np.arange(most)
    inside = words <= last[:, :, None]
    if active is not None:
        inside &= active[:, :, None]
    flat = words.reshape(len(addresses), -1)
    return flat, None if inside.all() else inside.reshape(flat.shape)


def _passes(words: _Addresses, active: _Active | None) -> NDArray[np.int32]:
    """Largest number of different words that one bank must deliver, per row."""
    if is_broadcast(words, active):
        return np.ones(len(words), np.int32)
    low = words.min(axis=1, where=True if active is None else active, initial=_NOWHERE)
    high = words.max(axis=1, where=True if active is None else active, initial=-1)
    if (high - low < BANKS).all():  # the common case: the words lie so close that no two of them share a bank
        one: NDArray[np.bool_] = np.asarray(high >= 0)
        return one.astype(np.int32)
    if active is not None:
        words = np.where(active, words, _NOWHERE)
    if (words[:, 1:] < words[:, :-1]).any():
        words = np.sort(words, axis=1)
    new = words != _NOWHERE
    new[:, 1:] &= words[:, 1:] != words[:, :-1]
    rows, _ = np.nonzero(new)
    per_bank = np.bincount(rows * BANKS + words[new] % BANKS, minlength=len(words) * BANKS)
    most: NDArray[np.int64] = per_bank.reshape(len(words), BANKS).max(axis=1)
    return most.astype(np.int32)


def ideal_wavefronts(itemsize: int, active: _Active | None, warps: int) -> NDArray[np.int32]:
    """Passes that requests of this width need without any bank conflict: one for each part of the warp that is active.

    >>> ideal_wavefronts(4, None, 1), ideal_wavefronts(8, np.arange(32)[None, :] < 16, 1)
    (array([1], dtype=int32), array([1], dtype=int32))
    """
    groups = 1 << (max(1, -(-itemsize // BANK_BYTES)) - 1).bit_length()
    if active is None:
        return np.full(warps, groups, np.int32)
    parts = active.reshape(len(active), groups, WARP_SIZE // groups)
    busy: NDArray[np.int32] = np.asarray(parts.any(axis=2)).sum(axis=1, dtype=np.int32)
    return busy


def same_address(addresses: _Addresses, active: _Active | None) -> NDArray[np.int32]:
    """Largest number of active lanes with one address, per warp: the passes of an atomic operation.

    >>> same_address(np.array([[8, 8, 4] + [0] * 29]), np.array([[True, True, True] + [False] * 29]))
    array([2], dtype=int32)
    """
    on = np.ones(addresses.shape, bool) if active is None else active
    ordered = np.sort(np.where(on, addresses, _NOWHERE), axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = np.maximum.accumulate(np.where(new, np.arange(ordered.shape[1]), 0), axis=1)
    run = np.where(ordered != _NOWHERE, np.arange(ordered.shape[1]) - start + 1, 0)
    most: NDArray[np.int64] = run.max(axis=1)
    return most.astype(np.int32)


def sector_passes(addresses: _Addresses, active: _Active | None, touched: Sectors) -> NDArray[np.uint8]:
    """Operations on the busiest address of every sector of `touched`: what an atomic unit must do one by one (M7).

    `touched` are the sectors of the same addresses.

    >>> lanes = np.array([[0] * 24 + [4] * 4 + [32] * 4], np.int64)
    >>> sector_passes(lanes, None, sectors(lanes, 4, None))
    array([24,  4], dtype=uint8)
    """
    ordered = np.sort(addresses if active is None else np.where(active, addresses, _NOWHERE), axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.flatnonzero(new)
    runs = np.diff(np.append(starts, ordered.size))
    first = ordered.reshape(-1)[starts]
    on = first != _NOWHERE
    row, sector, runs = starts[on] // ordered.shape[1], first[on] >> _SECTOR_SHIFT, runs[on]
    begins = np.ones(len(row), bool)
    begins[1:] = (row[1:] != row[:-1]) | (sector[1:] != sector[:-1])
    passes = np.ones(len(touched.numbers), np.uint8)
    if len(runs):
        most = np.maximum.reduceat(runs, np.flatnonzero(begins))
        # An element across a sector border counts where it begins; its second sector adds no operation of its own.
        owner = np.repeat(np.arange(len(touched.counts)), touched.counts)
        keys = dict(zip(zip(row[begins].tolist(), sector[begins].tolist(), strict=True), most.tolist(), strict=True))
        if len(keys) == len(passes):
            return most.astype(np.uint8)
        for k, place in enumerate(zip(owner.tolist(), touched.numbers.tolist(), strict=True)):
            passes[k] = keys.get(place, 1)
    return passes


def write_passes(
    addresses: _Addresses, itemsize: int, active: _Active | None, touched: Sectors
) -> NDArray[np.uint8] | None:
    """Say for every sector of `touched` whether a store writes it whole, 1, or a part of it, 2 (M5).

    None where all are written whole. `touched` are the sectors of the same addresses. An element that straddles a
    border counts where it begins.

    >>> lanes = np.arange(32, dtype=np.int64)[None, :]
    >>> write_passes(lanes * 4, 4, None, sectors(lanes * 4, 4, None)) is None
    True
    >>> write_passes(lanes * 4 + 16, 4, None, sectors(lanes * 4 + 16, 4, None))
    array([2, 1, 1, 1, 2], dtype=uint8)
    """
    if is_unit_stride(addresses, itemsize, active) and not (addresses[:, 0] % _SECTOR_BYTES).any():
        return None  # 32 neighbours fill whole sectors, whatever their size
    ordered = np.sort(addresses if active is None else np.where(active, addresses, _NOWHERE), axis=1)
    new = ordered != _NOWHERE
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    row, _ = np.nonzero(new)
    # Sector numbers rise within a row, and so do those of `touched`: one key finds the place of each element.
    span = int(touched.numbers.max(initial=0)) + 1
    keys = np.repeat(np.arange(len(touched.counts)), touched.counts) * span + touched.numbers
    places = np.searchsorted(keys, row * span + (ordered[new] >> _SECTOR_SHIFT))
    written = np.bincount(places, minlength=len(keys)) * itemsize
    whole = written >= _SECTOR_BYTES
    return None if whole.all() else np.where(whole, 1, 2).astype(np.uint8)


def load_store_quarter_cycles(wavefront_counts: NDArray[np.int32], lines: NDArray[np.int32]) -> NDArray[np.int32]:
    """Time of global requests in the SM's load/store unit, in quarter-cycles (M1).

    ``max(wavefronts, (lines + 3) / 4)`` cycles: data banks or tag lookups, whichever takes longer; 0 for a warp with no
    active lane. A load takes `register_quarter_cycles` at the least.

    >>> load_store_quarter_cycles(np.array([1, 1, 32, 0]), np.array([1, 33, 32, 0])).tolist()
    [4, 36, 128, 0]
    """
    result: NDArray[np.int32] = np.where(lines > 0, np.maximum(4 * wavefront_counts, lines + 3), 0).astype(np.int32)
    return result


def register_quarter_cycles(lanes: NDArray[np.uint8], itemsize: int, bytes_per_cycle: int) -> NDArray[np.int32]:
    """Quarter-cycles in which the L1 hands what `lanes` lanes load to registers (M1).

    Lanes that load the same element count each.

    >>> register_quarter_cycles(np.array([32, 16, 1, 0], np.uint8), 4, 64).tolist()
    [8, 4, 1, 0]
    """
    return -(-4 * lanes.astype(np.int32) * itemsize // bytes_per_cycle)
