"""Waves: how often the SMs must be filled to run a grid, and how much of the last filling is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace

from gpusim_des.analytic.arguments import Curve, curve, require_amount, whole


@dataclass(frozen=True)
class Waves:
    """A grid divided into waves of blocks that are resident at the same time."""

    blocks_per_wave: int
    full: int
    """Waves that fill every SM."""
    tail_blocks: int
    """Blocks of the last wave when it fills less than all; 0 without a tail."""

    @property
    def count(self) -> int:
        """Waves in all, the tail included."""
        return self.full + (self.tail_blocks > 0)

    @property
    def exact(self) -> float:
        """Waves as a fraction, as Nsight Compute reports ``waves per multiprocessor``."""
        return self.full + self.tail_blocks / self.blocks_per_wave

    @property
    def tail_utilisation(self) -> float:
        """Share of the slots that the last wave fills, 0…1; 1 when every wave is full."""
        return self.tail_blocks / self.blocks_per_wave if self.tail_blocks else 1.0

    @property
    def utilisation(self) -> float:
        """Share of the slots that all waves fill together, 0…1."""
        return self.exact / self.count


def waves(blocks: int, blocks_per_sm: int, sms: int) -> Waves:
    """Divide a grid of `blocks` into waves, `blocks_per_sm` on each of `sms` SMs at a time.

    Blocks of equal duration are assumed; the simulator knows no waves, they only show in its results.

    Raises
    ------
    ValueError
        If a number is not a whole number, at least 1.

    References
    ----------
    NVIDIA, Deep Learning Performance: Matrix Multiplication Background, "Wave Quantization".

    Examples
    --------
    One block more than fits on the 108 SMs of an A100 makes a second, nearly empty wave:

    >>> w = waves(blocks=109, blocks_per_sm=1, sms=108)
    >>> w.count, w.full, w.tail_blocks
    (2, 1, 1)
    """
    total = whole("blocks", blocks)
    per_wave = whole("blocks_per_sm", blocks_per_sm) * whole("sms", sms)
    return Waves(blocks_per_wave=per_wave, full=total // per_wave, tail_blocks=total % per_wave)


@curve
def wave_count(blocks: Curve, blocks_per_sm: Curve, sms: Curve) -> int:
    """Waves of a grid, the tail included: the staircase ``⌈blocks / (blocks_per_sm × sms)⌉``.

    Arguments, errors and references are those of `waves`; here they may be arrays.

    Examples
    --------
    >>> wave_count([1, 108, 109, 216, 217], blocks_per_sm=1, sms=108)
    array([1, 1, 2, 2, 3])
    """
    return waves(blocks, blocks_per_sm, sms).count


@curve
def wave_utilisation(blocks: Curve, blocks_per_sm: Curve, sms: Curve) -> float:
    """Share of the slots that all waves fill, 0…1: the saw-tooth of wave quantization.

    Arguments, errors and references are those of `waves`; here they may be arrays.

    Examples
    --------
    >>> wave_utilisation([54, 108, 109, 216], blocks_per_sm=1, sms=108).round(3)
    array([0.5  , 1.   , 0.505, 1.   ])
    """
    return waves(blocks, blocks_per_sm, sms).utilisation


def list_schedule(durations: Sequence[float], slots: int, interval: float = 0.0) -> list[float]:
    """When each of many blocks ends, that take times of their own and go to the slot that is free first.

    That is what becomes of waves where blocks are not equal. Blocks start in the order given, the first one at 0, and
    ``max(list_schedule(…))`` is the time of all.

    Parameters
    ----------
    durations
        Of the blocks, in the order in which they are handed out; in any unit of time.
    slots
        Blocks that are resident at the same time: SMs × blocks per SM.
    interval
        Least time between the starts of two blocks, in the same unit.

    Raises
    ------
    ValueError
        If `slots` is not a whole number, at least 1, or a time is negative or not finite.

    References
    ----------
    Graham, R. L. (1966). Bounds for Certain Multiprocessing Anomalies. Bell System Technical Journal 45 (9).

    Examples
    --------
    On two SMs, three short blocks run beside a long one; equal blocks take whole waves:

    >>> list_schedule([3, 1, 1, 1], slots=2), list_schedule([2, 2, 2], slots=2)
    ([3.0, 1.0, 2.0, 3.0], [2.0, 2.0, 4.0])
    >>> list_schedule([2, 2, 2], slots=2, interval=0.5)  # the second one starts late, the third one in the first slot
    [2.0, 2.5, 4.0]
    """
    free = [0.0] * whole("slots", slots)
    require_amount(interval=interval)
    ends: list[float] = []
    for number, duration in enumerate(durations):
        require_amount(duration=duration)
        ends.append(max(free[0], number * interval) + duration)
        heapreplace(free, ends[-1])
    return ends
