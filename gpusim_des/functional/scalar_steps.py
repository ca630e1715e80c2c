"""What one thread did and where it waits: steps with keys, from which the interpreter makes instructions of warps.

Every step has a key: the places and iterations that lead to it. Threads of a warp whose steps have the same key execute
one instruction together; sorting keys gives the lockstep order, because places are numbered in the order of evaluation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import Site
from gpusim_des.trace import OpClass

Key = tuple[int, ...]
Array = DeviceArray | SharedArray


class Step(NamedTuple):
    """One thread's part in one instruction."""

    key: Key
    op: OpClass | None
    """``None``: a counted source line."""
    producers: tuple[Key, ...]
    site: Site
    array: Array | None = None
    flat: int = 0
    taken: bool = False
    target: SharedArray | None = None
    """Where an asynchronous copy goes."""
    target_flat: int = 0
    value: Any = None
    """What a store wrote, the name of an atomic operation, the scope of a fence, or whom a barrier of warps is for."""


class Meeting(NamedTuple):
    """Where a thread waits: for its block at a barrier or a bulk copy, for its warp at an operation of lanes."""

    key: Key
    name: str
    site: Site
    arguments: dict[str, Any]
