"""Rule M4: which slice and channel an address belongs to, and how an access falls apart into packets."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.gpu import GPU
from gpusim_des.timing.cache import SECTORS_PER_LINE
from gpusim_des.trace import LINE_BYTES, SECTOR_BYTES, WarpTrace

MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)
"""The golden ratio's fraction times 2^64, and the first mixing factor of SplitMix64 (Steele, Lea and Flood 2014)."""

Lines = tuple[tuple[int, int], ...]
"""Line numbers (address / 128), each with a mask of its sectors."""


class Packet(NamedTuple):
    """The sectors of one access that go to one channel together."""

    channel: int
    sectors: int
    granules: int
    """DRAM bursts that hold them."""
    lines: Lines
    passes: int
    """Summed over the sectors: operations on its busiest address, which an atomic unit does one by one (M7); of a store
    1, and 2 for each sector of which it writes a part (M5)."""


Packets = tuple[Packet, ...]


def channels_of(sectors: NDArray[np.int64], gpu: GPU) -> NDArray[np.int64]:
    """Channel of every sector number (address / 32).

    ``linear`` deals interleave units out in turn. ``rotated`` does as well, but begins each round at another channel,
    found by scrambling the round's number: a stream still meets every channel once in a round, and no stride meets
    few channels only.

    >>> from gpusim_des.gpu import load_gpu
    >>> channels_of(np.arange(0, 40, 8), load_gpu("tiny")).tolist()
    [0, 1, 2, 3, 0]
    """
    unit = sectors // (gpu.channel_interleave_bytes // SECTOR_BYTES)
    if gpu.channel_hash == "rotated":
        unit = unit + _first_channel(unit // gpu.dram_channels, gpu.dram_channels)
    return unit % gpu.dram_channels


def _first_channel(rounds: NDArray[np.int64], channels: int) -> NDArray[np.int64]:
    """Channel at which each round over the channels begins: as good as random, but always the same."""
    mixed = rounds.astype(np.uint64)
    for multiplier, shift in zip(MULTIPLIERS, (17, 29), strict=True):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(multiplier)
    high = mixed >> np.uint64(32)
    return (high * np.uint64(channels) >> np.uint64(32)).astype(np.int64)


def packets_of(warps: list[WarpTrace], gpu: GPU) -> list[list[Packets]]:
    """Packets of every global access of every warp: ``result[warp][access]``, in the order of line addresses."""
    accesses = [len(w.bases) for w in warps]
    if not any(accesses):
        return [[] for _ in warps]
    pieces, channel_numbers, first = access_pieces(
        np.concatenate([np.diff(w.footprint.starts) for w in warps]),
        np.concatenate([w.bases for w in warps]),
        np.concatenate([w.footprint.offsets for w in warps]),
        np.concatenate([w.footprint.sector_passes for w in warps]).astype(np.int64),
        gpu,
    )
    channels, lines, masks = channel_numbers.tolist(), pieces.lines.tolist(), pieces.masks.tolist()
    sector_counts, granule_counts, pass_counts = (
        pieces.sectors.tolist(),
        pieces.granules.tolist(),
        pieces.passes.tolist(),
    )
    flat: list[Packets] = []
    for begin, end in pairwise([*first.tolist(), len(lines)]):
        if end - begin == 1:
            at = begin
            whole = ((lines[at], masks[at]),)
            packet = Packet(channels[at], sector_counts[at], granule_counts[at], whole, pass_counts[at])
            flat.append((packet,))
            continue
        by_channel: dict[int, list[int]] = {}
        for at in range(begin, end):
            by_channel.setdefault(channels[at], []).append(at)
        flat.append(
            tuple(
                Packet(
                    channel,
                    sum(sector_counts[at] for at in places),
                    sum(granule_counts[at] for at in places),
                    tuple((lines[at], masks[at]) for at in places),
                    sum(pass_counts[at] for at in places),
                )
                for channel, places in by_channel.items()
            )
        )
    ends = np.cumsum(accesses).tolist()
    return [flat[end - count : end] for end, count in zip(ends, accesses, strict=True)]


class Pieces(NamedTuple):
    """The lines of accesses, one after another; arrays of one length."""

    starts: NDArray[np.int64]
    lines: NDArray[np.int64]
    masks: NDArray[np.int64]
    sectors: NDArray[np.int64]
    granules: NDArray[np.int64]
    passes: NDArray[np.int64]


def access_pieces(
    sizes: NDArray[np.int64],
    bases: NDArray[np.int64],
    offsets: NDArray[np.int64],
    passes: NDArray[np.int64],
    gpu: GPU,
) -> tuple[Pieces, NDArray[np.int64], NDArray[np.int64]]:
    """Lines of some global accesses, the channel of each, and where each access begins among them.

    An access has `sizes` sectors: its base plus the offsets, which lie one access after another, as the passes do.
    """
    sectors = offsets + np.repeat(bases, sizes)
    starts = np.cumsum(sizes) - sizes
    granules = sectors // (gpu.dram_granule_bytes // SECTOR_BYTES)
    pieces = _line_pieces(sectors, starts, granules, passes)
    channels = channels_of(pieces.lines * SECTORS_PER_LINE, gpu)
    return pieces, channels, np.searchsorted(pieces.starts, starts)


def _line_pieces(
    sectors: NDArray[np.int64], access_starts: NDArray[np.int64], granules: NDArray[np.int64], passes: NDArray[np.int64]
) -> Pieces:
    lines = sectors // SECTORS_PER_LINE
    begins = np.ones(len(sectors), bool)
    begins[1:] = lines[1:] != lines[:-1]
    begins[access_starts] = True
    starts = np.flatnonzero(begins)
    new_granule = np.ones(len(sectors), np.int64)
    new_granule[1:] = granules[1:] != granules[:-1]
    new_granule[starts] = 1
    return Pieces(
        starts,
        lines[starts],
        np.bitwise_or.reduceat(np.int64(1) << (sectors % SECTORS_PER_LINE), starts),
        np.diff(np.append(starts, len(sectors))),
        np.add.reduceat(new_granule, starts),
        np.add.reduceat(passes, starts),
    )


def bulk_packets(packets: Packets, gpu: GPU) -> Packets:
    """Take the packets of a bulk copy apart: one for each run of lines in one interleave unit, by address.

    A copy unit asks for one piece after another; it does not wait until it knows all lines of a channel.
    """
    lines_per_unit = gpu.channel_interleave_bytes // LINE_BYTES
    pairs = gpu.dram_granule_bytes == 2 * SECTOR_BYTES
    pieces: dict[int, list[tuple[int, int]]] = {}
    channels: dict[int, int] = {}
    for packet in packets:
        for line, mask in packet.lines:
            pieces.setdefault(line // lines_per_unit, []).append((line, mask))
            channels[line // lines_per_unit] = packet.channel
    parts = []
    for unit in sorted(pieces):
        lines = tuple(sorted(pieces[unit]))
        sectors = sum(mask.bit_count() for _, mask in lines)
        granules = sum((((mask | mask >> 1) & 0b0101) if pairs else mask).bit_count() for _, mask in lines)
        parts.append(Packet(channels[unit], sectors, granules, lines, sectors))
    return tuple(parts)
