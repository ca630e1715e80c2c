"""Every reproduction by name: a function of a GPU model and a point's inputs that returns the simulated figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusim_des.gpu import GPU
from gpusim_des.silicon import (
    arithmetic,
    caches,
    chases,
    counts,
    launches,
    matmuls,
    reductions,
    streams,
    transfers,
    transposes,
)

Reproduction = Callable[[GPU, Mapping[str, Any]], float]

REPRODUCTIONS: dict[str, Reproduction] = {
    **arithmetic.REPRODUCTIONS,
    **caches.REPRODUCTIONS,
    **chases.REPRODUCTIONS,
    **counts.REPRODUCTIONS,
    **launches.REPRODUCTIONS,
    **matmuls.REPRODUCTIONS,
    **reductions.REPRODUCTIONS,
    **streams.REPRODUCTIONS,
    **transfers.REPRODUCTIONS,
    **transposes.REPRODUCTIONS,
}
"""Names are those of the functions; `gpusim_des.silicon.target.Target.reproduction` is one of them."""
