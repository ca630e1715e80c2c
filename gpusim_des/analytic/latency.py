"""Little's law: how much must be under way at a time to hide a latency.

Bytes in flight = bandwidth × latency. A GPU has as many bytes in flight as its resident warps have asked for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from gpusim_des.analytic.arguments import Curve, curve, require_positive
from gpusim_des.gpu import GPULike, load_gpu

Traffic = Literal["read", "write", "mixed"]


@curve
def littles_law(per_second: Curve, latency_s: Curve) -> float:
    """Number under way at a time: ``L = λ W``.

    It holds for anything that comes and goes: bytes, instructions, blocks, requests in a queue.

    Parameters
    ----------
    per_second
        How many come and go each second, λ, for example bytes per second.
    latency_s
        Seconds that each stays, W.

    Raises
    ------
    ValueError
        If a number is not positive and finite.

    References
    ----------
    Little, J. D. C. (1961). A Proof for the Queuing Formula: L = λW. Operations Research 9 (3).

    Examples
    --------
    3.35 TB/s with 500 ns need 1.7 MB in flight:

    >>> littles_law(3.35e12, 500e-9)
    1675000.0
    """
    require_positive(per_second=per_second, latency_s=latency_s)
    return float(_exact(per_second) * _exact(latency_s))


@curve
def bytes_needed(gpu: GPULike, latency_s: Curve, kind: Traffic = "read") -> float:
    """Bytes that each SM must have in flight to saturate the DRAM; see `littles_law_bandwidth`.

    Examples
    --------
    >>> bytes_needed("tiny", latency_s=200e-9)
    6400.0
    """
    model = load_gpu(gpu)
    require_positive(latency_s=latency_s)
    return float(model.dram_bandwidth_bytes_per_s * model.efficiency(kind) * _exact(latency_s) / model.sms)


@curve
def littles_law_bandwidth(
    gpu: GPULike, warps_per_sm: Curve, bytes_per_warp: Curve, latency_s: Curve, kind: Traffic = "read"
) -> float:
    """DRAM bandwidth that a number of resident warps can ask for, at most what the DRAM gives, in bytes per second.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    warps_per_sm
        Resident warps per SM.
    bytes_per_warp
        Bytes that a warp keeps in flight, for example 128 for one 4-byte load per thread.
    latency_s
        Seconds from a request until the warp asks again.
    kind
        Traffic whose share of the peak limits the result.

    Raises
    ------
    ValueError
        If a number is not positive and finite, or the traffic is unknown.

    References
    ----------
    Little, J. D. C. (1961). A Proof for the Queuing Formula: L = λW. Operations Research 9 (3).
    Volkov, V. (2016). Understanding Latency Hiding on GPUs. PhD thesis, UC Berkeley.

    Examples
    --------
    On ``tiny``, two SMs with two warps each ask for 512 bytes per 200 ns, 2.56 GB/s; the DRAM could give 64:

    >>> littles_law_bandwidth("tiny", warps_per_sm=2, bytes_per_warp=128, latency_s=200e-9)
    2560000000.0

    A curve over warps:

    >>> littles_law_bandwidth("tiny", [2, 50, 64], 128, 200e-9) / 1e9
    array([ 2.56, 64.  , 64.  ])
    """
    model = load_gpu(gpu)
    require_positive(warps_per_sm=warps_per_sm, bytes_per_warp=bytes_per_warp, latency_s=latency_s)
    limit = model.dram_bandwidth_bytes_per_s * model.efficiency(kind)
    asked = model.sms * _exact(warps_per_sm) * _exact(bytes_per_warp) / _exact(latency_s)
    return float(min(limit, asked))


@curve
def warps_needed(gpu: GPULike, bytes_per_warp: Curve, latency_s: Curve, kind: Traffic = "read") -> int:
    """Warps per SM that must be resident to saturate the DRAM, rounded up.

    The result may exceed what an SM holds; then only more bytes per warp can hide the latency. Parameters, errors and
    references are those of `littles_law_bandwidth`.

    Examples
    --------
    64 GB/s × 200 ns = 12,800 bytes in flight, over two SMs and 128 bytes per warp:

    >>> warps_needed("tiny", bytes_per_warp=128, latency_s=200e-9)
    50
    """
    model = load_gpu(gpu)
    require_positive(bytes_per_warp=bytes_per_warp, latency_s=latency_s)
    in_flight = model.dram_bandwidth_bytes_per_s * model.efficiency(kind) * _exact(latency_s)
    return math.ceil(in_flight / (model.sms * _exact(bytes_per_warp)))


def _exact(value: float) -> Fraction:
    # The decimal that was written: 200e-9 as a binary fraction is a little more than 200 ns and would round up.
    return Fraction(repr(float(value)))
