"""What an access of a warp costs: sectors of global memory, passes through the banks of shared memory."""

from __future__ import annotations

import math

from gpusim_des.analytic.arguments import Curve, curve, require, whole
from gpusim_des.grid import WARP_SIZE

BANKS, BANK_BYTES = 32, 4
"""Of shared memory: neighbouring words of 4 bytes lie in neighbouring banks."""


@curve
def strided_sectors(stride: Curve, width_bytes: Curve = 4, *, first: Curve = 0, sector_bytes: Curve = 32) -> int:
    """Sectors that a warp touches whose lanes access every `stride`-th element.

    All between the first byte and the last one, but at most one per lane: the elements are no wider than a sector and
    lie at multiples of their width.

    Parameters
    ----------
    stride
        Elements from lane to lane, at least 1.
    width_bytes
        Of an element.
    first
        Element of the first lane, from the beginning of a sector.
    sector_bytes
        What memory moves at a time; 64 for the granules of some DRAMs.

    Raises
    ------
    ValueError
        If a number is not whole, `first` is below 0 or another one below 1, or a sector is no multiple of the width.

    References
    ----------
    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".

    Examples
    --------
    Neighbouring floats; from the second one on; every second and every 32nd one; and 16 bytes a lane:

    >>> strided_sectors(1), strided_sectors(1, first=1), strided_sectors([2, 32]).tolist(), strided_sectors(1, 16)
    (4, 5, [8, 32], 16)
    """
    width, sector = whole("width_bytes", width_bytes), whole("sector_bytes", sector_bytes)
    require("a whole number, at least 0", lambda value: value >= 0 and value == int(value), first=first)
    if sector % width:
        raise ValueError(f"sector_bytes = {sector}: must be a multiple of width_bytes = {width}")
    begin = int(first) * width
    end = begin + (WARP_SIZE - 1) * whole("stride", stride) * width + width - 1
    return min(WARP_SIZE, end // sector - begin // sector + 1)


@curve
def strided_passes(stride: Curve, width_bytes: Curve = 4) -> int:
    """Passes of a warp's access to shared memory whose lanes take every `stride`-th element: w · gcd(stride, 32 / w).

    A bank delivers one word in a pass, and lanes that are ``32 / gcd(stride, 32)`` apart meet in one. Elements of w
    words are served a w-th of the warp at a time, so that w passes are no conflict but the width of the banks.

    Parameters
    ----------
    stride
        Elements from lane to lane. With 0 all lanes read one word; a bank sends it to all at once, which the rule does
        not know.
    width_bytes
        Of an element: 4, 8 or 16.

    Raises
    ------
    ValueError
        If `stride` is not a whole number, at least 0, or the width is none of the three.

    References
    ----------
    NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks".

    Examples
    --------
    >>> strided_passes([1, 2, 8, 32, 33]), strided_passes(1, 16)
    (array([ 1,  2,  8, 32,  1]), 4)
    """
    require("a whole number, at least 0", lambda value: value >= 0 and value == int(value), stride=stride)
    require("4, 8 or 16", lambda value: value in (4, 8, 16), width_bytes=width_bytes)
    words = int(width_bytes) // BANK_BYTES
    return words * math.gcd(int(stride), BANKS // words)
