"""Quantization of a matrix product: whole tiles cover its edges, and whole waves of tiles fill the SMs."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim_des.analytic.arguments import Curve, curve, whole
from gpusim_des.analytic.waves import Waves, waves
from gpusim_des.grid import cdiv


@dataclass(frozen=True)
class Quantization:
    """A product of m × n results, cut into tiles of which each is the work of one block."""

    tiles: int
    waves: Waves
    tile_utilisation: float
    """Share of the tiles' area that holds results, 0…1: tile quantization."""

    @property
    def wave_utilisation(self) -> float:
        """Share of the block slots that all waves fill, 0…1: wave quantization."""
        return self.waves.utilisation

    @property
    def utilisation(self) -> float:
        """Both together: useful work over what the SMs could have done in that time, 0…1."""
        return self.tile_utilisation * self.wave_utilisation


def matmul_quantization(m: int, n: int, *, tile_m: int, tile_n: int, sms: int, blocks_per_sm: int = 1) -> Quantization:
    """Tiles and waves of a matrix product with m × n results.

    Time goes in whole waves: a product that needs one tile more than fits takes another wave. All tiles are assumed to
    take the same time, whether they are full or not.

    Parameters
    ----------
    m, n
        Rows and columns of the result.
    tile_m, tile_n
        Rows and columns that one block computes.
    sms
        Of the GPU.
    blocks_per_sm
        Blocks that an SM holds at a time.

    Raises
    ------
    ValueError
        If a number is not a whole number, at least 1.

    References
    ----------
    NVIDIA, Deep Learning Performance: Matrix Multiplication Background, "Tile Quantization" and "Wave Quantization".

    Examples
    --------
    On the 108 SMs of an A100, one row and column more than 1792 double the time:

    >>> q = matmul_quantization(1792, 1792, tile_m=256, tile_n=128, sms=108)
    >>> q.tiles, q.waves.count, q.tile_utilisation
    (98, 1, 1.0)
    >>> q = matmul_quantization(1793, 1793, tile_m=256, tile_n=128, sms=108)
    >>> q.tiles, q.waves.count, round(q.utilisation, 3)
    (120, 2, 0.454)
    """
    rows, columns = whole("m", m), whole("n", n)
    high, wide = whole("tile_m", tile_m), whole("tile_n", tile_n)
    tiles = cdiv(rows, high) * cdiv(columns, wide)
    return Quantization(tiles, waves(tiles, blocks_per_sm, sms), rows * columns / (tiles * high * wide))


@curve
def matmul_utilisation(
    m: Curve, n: Curve, *, tile_m: Curve, tile_n: Curve, sms: Curve, blocks_per_sm: Curve = 1
) -> float:
    """Useful share of a matrix product's time by tiles and waves, 0…1, also over arrays of sizes.

    Arguments, errors and references are those of `matmul_quantization`.

    Examples
    --------
    >>> sizes = [1792, 1793]
    >>> matmul_utilisation(sizes, sizes, tile_m=256, tile_n=128, sms=108).round(3)
    array([0.907, 0.454])
    """
    return matmul_quantization(m, n, tile_m=tile_m, tile_n=tile_n, sms=sms, blocks_per_sm=blocks_per_sm).utilisation
