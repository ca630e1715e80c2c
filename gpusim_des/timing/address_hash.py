"""Rule M4: which HBM channel an address belongs to, and how an access falls apart into packets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.gpu import GPU
from gpusim_des.trace import SECTOR_BYTES, WarpTrace


class Packet(NamedTuple):
    """The sectors of one access that go to one channel together."""

    channel: int
    sectors: int
    granules: int
    """DRAM bursts that hold them."""


def channels_of(sectors: NDArray[np.int64], gpu: GPU) -> NDArray[np.int64]:
    """Channel of every sector number (address / 32).

    ``linear`` deals interleave units out in turn. ``xor`` first folds the upper bits of the unit number onto the
    lower ones, so that no power-of-two stride meets one channel only; the modulo comes last because the number of
    channels need not be a power of two.

    >>> from gpusim_des.gpu import load_gpu
    >>> channels_of(np.arange(0, 40, 8), load_gpu("tiny")).tolist()
    [0, 1, 2, 3, 0]
    """
    unit = sectors // (gpu.channel_interleave_bytes // SECTOR_BYTES)
    if gpu.channel_hash == "xor":
        bits = max(1, (gpu.dram_channels - 1).bit_length())
        folded = unit.copy()
        for shift in range(bits, 48, bits):
            folded ^= unit >> shift
        unit = folded
    return unit % gpu.dram_channels


def packets_of(warps: list[WarpTrace], gpu: GPU) -> list[list[tuple[Packet, ...]]]:
    """Packets of every global access of every warp: ``result[warp][access]``, in the order of line addresses."""
    accesses = [len(w.bases) for w in warps]
    if not any(accesses):
        return [[] for _ in warps]
    sizes = np.concatenate([np.diff(w.footprint.starts) for w in warps])
    bases = np.concatenate([w.bases for w in warps])
    sectors = np.concatenate([w.footprint.offsets for w in warps]) + np.repeat(bases, sizes)
    starts = np.cumsum(sizes) - sizes
    channels = channels_of(sectors, gpu)
    granules = sectors // (gpu.dram_granule_bytes // SECTOR_BYTES)
    new_granule = np.ones(len(sectors), np.int64)
    new_granule[1:] = granules[1:] != granules[:-1]
    new_granule[starts] = 1
    one_channel = np.add.reduceat(channels != np.repeat(channels[starts], sizes), starts) == 0
    granule_counts = np.add.reduceat(new_granule, starts).tolist()
    flat = [
        (Packet(channel, size, count),)
        if same
        else _split(channels[start : start + size].tolist(), new_granule[start : start + size].tolist())
        for same, channel, size, count, start in zip(
            one_channel.tolist(),
            channels[starts].tolist(),
            sizes.tolist(),
            granule_counts,
            starts.tolist(),
            strict=True,
        )
    ]
    ends = np.cumsum(accesses).tolist()
    return [flat[end - count : end] for end, count in zip(ends, accesses, strict=True)]


def _split(channels: list[int], new_granule: list[int]) -> tuple[Packet, ...]:
    """Packets of an access that meets several channels, in the order in which it first meets them."""
    sectors: dict[int, int] = {}
    granules: dict[int, int] = {}
    for channel, new in zip(channels, new_granule, strict=True):
        sectors[channel] = sectors.get(channel, 0) + 1
        granules[channel] = granules.get(channel, 0) + new
    return tuple(Packet(c, sectors[c], granules[c]) for c in sectors)
