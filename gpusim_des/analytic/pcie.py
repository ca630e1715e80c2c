"""The link between host and GPU: every copy pays a latency, large ones the bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gpusim_des.analytic.arguments import Curve, curve, require_amount, require_positive
from gpusim_des.gpu import GPULike, load_gpu

Direction = Literal["h2d", "d2h"]
"""From host to device, or back."""


@curve
def copy_seconds(nbytes: Curve, latency_s: Curve, bytes_per_s: Curve) -> float:
    """Time of one copy: ``latency + bytes / bandwidth``.

    Parameters
    ----------
    nbytes
        Size of the copy.
    latency_s
        Seconds that a copy of nothing takes.
    bytes_per_s
        Bandwidth of a copy without end.

    Raises
    ------
    ValueError
        If a number is not finite, the size or the latency is negative, or the bandwidth is not positive.

    References
    ----------
    Hockney, R. (1994). The Communication Challenge for MPP. Parallel Computing 20 (3), with r∞ and n½.

    Examples
    --------
    With 10 µs and 12.5 GB/s, 125 kB take twice the latency:

    >>> copy_seconds(125_000, 10e-6, 12.5e9)
    2e-05
    """
    require_amount(nbytes=nbytes, latency_s=latency_s)
    require_positive(bytes_per_s=bytes_per_s)
    return float(latency_s + nbytes / bytes_per_s)


@curve
def copy_bandwidth(nbytes: Curve, latency_s: Curve, bytes_per_s: Curve) -> float:
    """Bytes per second that a copy really moves, its latency included.

    Parameters and errors are those of `copy_seconds`, except that a copy of nothing without latency is refused.

    Examples
    --------
    >>> copy_bandwidth([125_000, 12_500_000], 10e-6, 12.5e9) / 1e9
    array([ 6.25      , 12.37623762])
    """
    seconds = copy_seconds(nbytes, latency_s, bytes_per_s)
    if seconds == 0:
        raise ValueError(f"nbytes = {nbytes} without latency takes no time: give a size or a latency above 0")
    return float(nbytes / seconds)


@curve
def half_bandwidth_bytes(latency_s: Curve, bytes_per_s: Curve) -> float:
    """Size at which a copy reaches half of the bandwidth: ``latency × bandwidth``, Hockney's n½.

    Parameters and errors are those of `copy_seconds`.

    Examples
    --------
    >>> round(half_bandwidth_bytes(10e-6, 12.5e9))
    125000
    """
    require_amount(latency_s=latency_s)
    require_positive(bytes_per_s=bytes_per_s)
    return float(latency_s * bytes_per_s)


@dataclass(frozen=True)
class Link:
    """One direction of a GPU's link to the host, for one kind of host memory."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, nbytes: Curve) -> Any:
        """Time of a copy of `nbytes`; see `copy_seconds`."""
        return copy_seconds(nbytes, self.latency_s, self.bytes_per_s)

    def bandwidth(self, nbytes: Curve) -> Any:
        """Bytes per second of a copy of `nbytes`; see `copy_bandwidth`."""
        return copy_bandwidth(nbytes, self.latency_s, self.bytes_per_s)

    @property
    def half_bandwidth_bytes(self) -> float:
        """Size at which a copy reaches half of the bandwidth."""
        return float(half_bandwidth_bytes(self.latency_s, self.bytes_per_s))


def link(gpu: GPULike, direction: Direction = "h2d", *, pinned: bool = True) -> Link:
    """Take the link's numbers from a GPU model.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    direction
        ``"h2d"`` or ``"d2h"``.
    pinned
        Whether the host's memory is page-locked.

    Raises
    ------
    ValueError
        If the direction is unknown.
    ModelError
        If there is no such GPU.

    Examples
    --------
    On ``tiny`` a copy takes 10 µs and 1 ns per byte:

    >>> link("tiny").seconds(10_000), link("tiny").half_bandwidth_bytes
    (2e-05, 10000.0)
    """
    model = load_gpu(gpu)
    if direction not in ("h2d", "d2h"):
        raise ValueError(f"direction = {direction!r}: possible are 'h2d' and 'd2h'")
    rate = getattr(model, f"{direction}_{'pinned' if pinned else 'pageable'}_bytes_per_s")
    return Link(model.copy_latency_fs / 10**15, float(rate))
