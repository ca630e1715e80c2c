"""What is said when a kernel is wrong: the value, the rule and the remedy, with block, thread and source line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import BoundsError, DeadlockError, KernelError
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE, LaunchConfig


def outside(
    index: NDArray[Any], size: int, mask: NDArray[np.bool_] | None, shape: tuple[int, int]
) -> NDArray[np.bool_] | None:
    """Active threads whose index is outside 0…size - 1; ``None``: there are none.

    >>> outside(np.array([[3, -1, 4]]), 4, np.array([[True, False, True]]), (1, 3))
    array([[False, False,  True]])
    """
    if index.size and index.min() >= 0 and index.max() < size:
        return None
    bad = np.broadcast_to((index < 0) | (index >= size), shape)
    bad = bad if mask is None else bad & mask
    return bad if bad.any() else None


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


class UnreachedBarrierError(DeadlockError):
    """A barrier that a part of a block only reaches; `block` is its number."""

    def __init__(self, message: str, block: int) -> None:
        super().__init__(message)
        self.block = block


def barrier_not_reached(
    kernel_name: str, site: Site, there: NDArray[np.bool_], config: LaunchConfig, block: int, elsewhere: str = ""
) -> UnreachedBarrierError:
    """Error of a barrier that only some threads of a block reach; `there` has one entry per thread.

    `elsewhere` says where the others are, if that is known.
    """
    away = np.flatnonzero(~there)
    warps = sorted({int(t) // WARP_SIZE for t in away})
    others = elsewhere or f"(warps {ranges(warps)}, first thread {int(away[0])})"
    one_place = " at the same place" if elsewhere else ""
    return UnreachedBarrierError(
        f"{kernel_name}: block {config.grid.at(block)} waits forever at the barrier in {site}: "
        f"{len(away)} of {len(there)} threads never reach it {others}; a barrier must be reached by all threads of the "
        f"block{one_place}, so move it out of the branch",
        block,
    )


def places_of(waiting: list[tuple[int, Site, bool]], left: list[int]) -> str:
    """Say where the threads of a block are: number, position, and whether in a later iteration of the first position.

    >>> at = Site("k.py", 14), Site("k.py", 18)
    >>> places_of([(0, at[0], False), (1, at[0], False), (2, at[1], False)], [4])
    '(threads 0-1 wait in line 14, threads 2 in line 18; threads 4 have ended)'
    """
    groups: dict[str, list[int]] = {}
    for number, site, later in waiting:
        groups.setdefault(f"in line {site.line}{' of another iteration' if later else ''}", []).append(number)
    parts = [
        f"threads {_some(numbers)} {'wait ' * (not k)}{where}" for k, (where, numbers) in enumerate(groups.items())
    ]
    gone = f"; threads {_some(left)} have ended" if left else ""
    return f"({', '.join(parts)}{gone})"


def writes_to_host(kernel_name: str, site: Site, target: object) -> KernelError:
    """Error of a kernel that assigns to something outside of the device."""
    return KernelError(
        f"{kernel_name}: {site} writes to a {type(target).__name__} of the host: kernels write to device arrays "
        "(dev.to_device), shared arrays (t.shared) and lists that they made themselves"
    )


def no_barrier(kernel_name: str, site: Site, token: object) -> KernelError:
    """Error of a yield of something that is no barrier."""
    return KernelError(
        f"{kernel_name}: yield of {token!r} in {site}: kernels yield t.syncthreads() and nothing else; call the others "
        "without yield"
    )


def not_in_mask(kernel_name: str, site: Site, lane: int, members: int) -> KernelError:
    """Error of a lane that takes part in an operation whose member mask does not name it."""
    return KernelError(
        f"{kernel_name}: lane {lane} calls an operation of a warp in {site} with the mask {members:#010x}, in which "
        "its own bit is not set: the mask names the lanes that take part, and each of them calls; 0xffffffff names all"
    )


def a_kind(thing: object) -> str:
    """Name of a thing's type, as a user knows it.

    >>> a_kind(0.5), a_kind([])
    ('a float', 'a list')
    """
    return "a list" if isinstance(thing, list) else f"a {type(thing).__name__}"


def no_number(kernel_name: str, site: Site, operand: object, *, unassigned: bool) -> KernelError:
    """Error of an operand that is no number."""
    if unassigned:
        return KernelError(f"{kernel_name}: a variable is used in {site} before it was assigned")
    return KernelError(
        f"{kernel_name}: {site} computes with a {type(operand).__name__}: numbers and elements of arrays are possible"
    )


def part_of_a_warp(access: str, config: LaunchConfig, block: int, warp: int, there: NDArray[np.bool_]) -> KernelError:
    """Error of an operation of whole warps; `there` has one entry per thread of the warp."""
    on = np.flatnonzero(there).tolist()
    remedy = (
        "branch on blk.warp, which keeps warps whole"
        if len(on) < len(there)
        else f"a block of {config.threads_per_block} threads is no multiple of {WARP_SIZE}, round it up"
    )
    return KernelError(
        f"{access}: mma needs all {WARP_SIZE} lanes of a warp: {_warp_at(config, block, warp)} has {len(on)} "
        f"(lanes {ranges(on)}); {remedy}"
    )


def differs_within_warp(
    access: str, name: str, config: LaunchConfig, block: int, warp: int, values: NDArray[Any]
) -> KernelError:
    """Error of an argument that must be the same in all lanes of a warp."""
    found = np.unique(values).tolist()
    shown = ", ".join(str(v) for v in found[:4]) + (", …" if len(found) > 4 else "")
    return KernelError(
        f"{access}: {name} differs between the lanes of {_warp_at(config, block, warp)} (values {shown}): a warp has "
        "one fragment, so compute it from blk.warp and the block's numbers"
    )


def fragment_outside(
    access: str,
    array: tuple[int, ...],
    region: tuple[int, int],
    corner: tuple[NDArray[Any], NDArray[Any]],
    axis: int,
    bad: NDArray[np.bool_],
    config: LaunchConfig,
    blocks: NDArray[np.int64],
) -> BoundsError:
    """Error of a fragment that reaches out of its array; `corner` and `bad` have shape (blocks, warps)."""
    block, warp = (int(k) for k in np.argwhere(bad)[0])
    row, col = (int(part[block, warp]) for part in corner)
    first = (row, col)[axis]
    index = first if first < 0 else first + region[axis] - 1
    return BoundsError(
        f"{access}: {region[0]} × {region[1]} elements at ({row}, {col}): index {index:,} of dimension {axis} (shape "
        f"{array}) is outside 0…{array[axis] - 1:,} ({_warp_at(config, int(blocks[block]), warp)}); make the array a "
        "multiple of the fragment, or keep such warps out with blk.branch"
    )


def misaligned(
    access: str, config: LaunchConfig, block: int, warp: int, beyond: int, pitch: int, piece: int
) -> KernelError:
    """Error of lanes that move several elements at addresses that are no multiples of their size.

    The fragment begins `beyond` bytes after a multiple of `piece`, its rows lie `pitch` bytes apart.
    """
    return KernelError(
        f"{access}: each lane moves {piece} bytes, at an address that must be a multiple of {piece}; the fragment of "
        f"{_warp_at(config, block, warp)} begins {beyond} bytes beyond one, its rows lie {pitch:,} bytes apart: "
        f"move the corner, or pad the array's rows to a multiple of {piece} bytes"
    )


def _warp_at(config: LaunchConfig, block: int, warp: int) -> str:
    return f"warp {warp} of block {config.grid.at(block)}"


def ranges(numbers: list[int]) -> str:
    """Shorten ascending numbers.

    >>> ranges([0, 1, 2, 3, 7])
    '0-3, 7'
    """
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][-1:] = [n] if len(parts[-1]) == 2 else [parts[-1][0], n]
        else:
            parts.append([n])
    return ", ".join("-".join(str(n) for n in p) for p in parts)


def _some(numbers: list[int]) -> str:
    """Shorten ascending numbers to a few.

    >>> _some([1, 3, 5, 7, 9, 11]), _some([1, 2, 5])
    ('1, 3, 5, … (6 of them)', '1-2, 5')
    """
    parts = ranges(numbers).split(", ")
    return ", ".join(parts) if len(parts) <= 4 else f"{', '.join(parts[:3])}, … ({len(numbers)} of them)"
