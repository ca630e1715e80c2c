"""What a thread can ask for by name: methods of ``t`` and of arrays that are neither arithmetic nor plain access."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from gpusim_des.errors import KernelError
from gpusim_des.functional.source import Site


class Barrier(NamedTuple):
    """What ``t.syncthreads()`` returns: the kernel must yield it."""


class Operation:
    """A named operation, bound to the thread or to an array; rewritten kernels hand it to their runtime."""

    __slots__ = ("name", "owner", "signature")

    def __init__(self, name: str, owner: Any, signature: inspect.Signature) -> None:
        self.name = name
        self.owner = owner
        self.signature = signature

    def bind(self, site: Site, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name; raises `KernelError` for a wrong call."""
        try:
            bound = self.signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise KernelError(f"{self.name}{self.signature} called wrongly in {site}: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse: only a running kernel can do this."""
        raise KernelError(f"{self.name} belongs into a kernel: launch it with dev.launch(kernel, grid, block, ...)")


class operation:  # noqa: N801 - reads as a decorator
    """Decorates a method whose signature and documentation matter, and whose body the runtime supplies."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.__doc__ = method.__doc__
        self._name = method.__name__
        signature = inspect.signature(method)
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        self._signature = inspect.Signature(plain[1:])

    def __get__(self, owner: Any, _: type | None = None) -> Operation:
        return Operation(self._name, owner, self._signature)


ATOMICS = frozenset(
    {
        *("atomic_add", "atomic_sub", "atomic_max", "atomic_min", "atomic_nanmax", "atomic_nanmin"),
        *("atomic_and", "atomic_or", "atomic_xor", "atomic_inc", "atomic_dec", "atomic_exch", "atomic_cas"),
    }
)

COPIES = frozenset(
    {
        "pipeline_memcpy_async",
        "pipeline_commit",
        "pipeline_wait_prior",
        "shared_barrier",
        "memcpy_async_bulk",
        "barrier_wait",
    }
)
"""Asynchronous copies from global to shared memory, and what belongs to them."""


class Atomics:
    """Atomic operations of device and shared arrays, for thread-style kernels; all return the old value."""

    __slots__ = ()

    @operation
    def atomic_add(self, index: Any, value: Any) -> Any:
        """Add `value` to the element."""

    @operation
    def atomic_sub(self, index: Any, value: Any) -> Any:
        """Subtract `value` from the element."""

    @operation
    def atomic_and(self, index: Any, value: Any) -> Any:
        """Bitwise and of the element and `value`."""

    @operation
    def atomic_or(self, index: Any, value: Any) -> Any:
        """Bitwise or of the element and `value`."""

    @operation
    def atomic_xor(self, index: Any, value: Any) -> Any:
        """Bitwise exclusive or of the element and `value`."""

    @operation
    def atomic_inc(self, index: Any, value: Any) -> Any:
        """Add 1, or start at 0 again from `value` on."""

    @operation
    def atomic_dec(self, index: Any, value: Any) -> Any:
        """Subtract 1, or start at `value` again after 0 or above `value`."""

    @operation
    def atomic_max(self, index: Any, value: Any) -> Any:
        """Raise the element to `value` if it is below."""

    @operation
    def atomic_min(self, index: Any, value: Any) -> Any:
        """Lower the element to `value` if it is above."""

    @operation
    def atomic_exch(self, index: Any, value: Any) -> Any:
        """Replace the element."""

    @operation
    def atomic_cas(self, index: Any, compare: Any, value: Any) -> Any:
        """Replace the element if it equals `compare`."""


class Dim:
    """A size or an index with the names that CUDA gives it."""

    __slots__ = ("x", "y", "z")

    def __init__(self, x: Any, y: Any, z: Any) -> None:
        self.x = x
        self.y = y
        self.z = z

    def __repr__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


class Thread:
    """What a thread-style kernel sees of its thread: CUDA's names.

    Attributes
    ----------
    threadIdx, blockIdx
        Index of the thread in its block and of the block in the grid, with ``.x``, ``.y`` and ``.z``.
    blockDim, gridDim
        Sizes of the block and of the grid.
    linear, warp, lane
        Number of the thread in its block, of its warp in the block, and of the thread in its warp.
    """

    __slots__ = ("blockDim", "blockIdx", "gridDim", "lane", "linear", "threadIdx", "warp")

    def __init__(self, thread: Dim, block: Dim, block_dim: Dim, grid_dim: Dim, numbers: tuple[Any, Any, Any]) -> None:
        self.threadIdx = thread
        self.blockIdx = block
        self.blockDim = block_dim
        self.gridDim = grid_dim
        self.linear, self.warp, self.lane = numbers

    @operation
    def shared(self, name: str, shape: Any, dtype: Any, dynamic: bool = False) -> Any:
        """Array in the block's shared memory, the same one for all threads that give the same name.

        With `dynamic` it is taken from what the launch reserved as ``dynamic_shared``, which may go beyond the 48 KiB
        of static shared memory.
        """

    @operation
    def syncthreads(self) -> Any:
        """Barrier of the block; write ``yield t.syncthreads()``."""

    @operation
    def syncwarp(self) -> Any:
        """Barrier of the active lanes of the warp."""

    @operation
    def threadfence(self) -> Any:
        """Order this thread's writes before its later ones, as others see them."""

    @operation
    def shfl(self, value: Any, source_lane: Any) -> Any:
        """Value of lane `source_lane` modulo 32."""

    @operation
    def shfl_up(self, value: Any, delta: Any) -> Any:
        """Value of the lane `delta` lower, the own value where there is none."""

    @operation
    def shfl_down(self, value: Any, delta: Any) -> Any:
        """Value of the lane `delta` higher, the own value where there is none."""

    @operation
    def shfl_xor(self, value: Any, lane_mask: Any) -> Any:
        """Value of the lane whose number is this one's exclusive or `lane_mask`."""

    @operation
    def ballot(self, predicate: Any) -> Any:
        """Bit k set if lane k is active and its predicate holds (32-bit unsigned)."""

    @operation
    def any(self, predicate: Any) -> Any:
        """Tell whether the predicate holds for any active lane of the warp."""

    @operation
    def all(self, predicate: Any) -> Any:
        """Tell whether the predicate holds for all active lanes of the warp."""

    @operation
    def activemask(self) -> Any:
        """Bit k set if lane k is active (32-bit unsigned)."""

    @operation
    def pipeline_memcpy_async(self, dst: Any, dst_index: Any, src: Any, src_index: Any) -> Any:
        """Start copying an element of 4, 8 or 16 bytes from global to shared memory, without a register.

        The element is in shared memory when this thread has waited for the group of the copy.
        """

    @operation
    def pipeline_commit(self) -> Any:
        """End a group: it has all copies that this thread started since the last one."""

    @operation
    def pipeline_wait_prior(self, n: Any) -> Any:
        """Wait until at most the `n` newest groups that this thread has committed are unfinished."""

    @operation
    def shared_barrier(self, name: Any = None) -> Any:
        """Barrier for bulk copies, 8 bytes of shared memory: one for each name, or one for this call."""

    @operation
    def memcpy_async_bulk(self, dst: Any, dst_start: Any, src: Any, src_start: Any, count: Any, bar: Any) -> Any:
        """Start copying `count` contiguous elements from global to shared memory; for one thread of the block.

        Both ends begin at a multiple of 16 bytes, and so does the size. The copy belongs to the phase of `bar` that
        this thread would wait for next.
        """

    @operation
    def barrier_wait(self, bar: Any) -> Any:
        """Wait for the bulk copies of the present phase of `bar`; this thread is in the next phase afterwards."""
