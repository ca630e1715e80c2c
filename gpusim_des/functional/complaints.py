"""What is said when a kernel is wrong: the value, the rule and the remedy, with block, thread and source line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import BoundsError, DeadlockError, KernelError
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE, LaunchConfig


def out_of_bounds(
    access: str,
    size: int,
    index: NDArray[Any],
    bad: NDArray[np.bool_],
    config: LaunchConfig,
    blocks: NDArray[np.int64],
    *,
    where: str,
    guard: str,
) -> BoundsError:
    """Error of an index outside 0…size - 1.

    `access` names kernel, operation, array and line; `index` and `bad` have shape (blocks, threads); `where` names the
    dimension; `guard` is the remedy with ``{}`` in place of the condition.
    """
    row, thread = (int(k) for k in np.argwhere(bad)[0])
    value, number = int(index[row, thread]), int(bad.sum())
    condition = "i >= 0" if value < 0 else f"i < {size}"
    return BoundsError(
        f"{access}: index {value:,}{where} is outside 0…{size - 1:,} (block {config.grid.at(int(blocks[row]))}, thread "
        f"{config.block.at(thread)}; {number:,} thread{'s' if number != 1 else ''} of these blocks outside); keep such "
        f"threads out {guard.format(condition)}"
        + (" (a negative index does not count from the end on a GPU)" if value < 0 else "")
    )


def barrier_not_reached(
    kernel_name: str, site: Site, there: NDArray[np.bool_], config: LaunchConfig, block: int
) -> DeadlockError:
    """Error of a barrier that only some threads of a block reach; `there` has one entry per thread."""
    away = np.flatnonzero(~there)
    warps = sorted({int(t) // WARP_SIZE for t in away})
    return DeadlockError(
        f"{kernel_name}: block {config.grid.at(block)} waits forever at the barrier in {site}: "
        f"{len(away)} of {len(there)} threads never reach it (warps {_ranges(warps)}, first thread "
        f"{int(away[0])}); a barrier must be reached by all threads of the block, so move it out of the branch"
    )


def writes_to_host(kernel_name: str, site: Site, target: object) -> KernelError:
    """Error of a kernel that assigns to something outside of the device."""
    return KernelError(
        f"{kernel_name}: {site} writes to a {type(target).__name__} of the host: kernels write to device arrays "
        "(dev.to_device), shared arrays (t.shared) and lists that they made themselves"
    )


def no_number(kernel_name: str, site: Site, operand: object, *, unassigned: bool) -> KernelError:
    """Error of an operand that is no number."""
    if unassigned:
        return KernelError(f"{kernel_name}: a variable is used in {site} before it was assigned")
    return KernelError(
        f"{kernel_name}: {site} computes with a {type(operand).__name__}: numbers and elements of arrays are possible"
    )


def _ranges(numbers: list[int]) -> str:
    """Shorten ascending numbers.

    >>> _ranges([0, 1, 2, 3, 7])
    '0-3, 7'
    """
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][-1:] = [n] if len(parts[-1]) == 2 else [parts[-1][0], n]
        else:
            parts.append([n])
    return ", ".join("-".join(str(n) for n in p) for p in parts)
