"""Waves: how often the SMs must be filled to run a grid, and how much of the last filling is empty."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim_des.analytic.arguments import Curve, curve, whole


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
