"""The names of ``numba.cuda`` that mean something inside of a kernel only; on the host they say so."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gpusim_des.errors import KernelError
from gpusim_des.functional.operations import Operation


class CudaOperation(Operation):
    """A function of ``cuda`` that only a running kernel can call."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse: only a running kernel can do this."""
        raise _outside(f"cuda.{self.name}(...)")

    def __repr__(self) -> str:
        return f"<cuda.{self.name}{self.signature}>"


class Special:
    """A value that differs from thread to thread: ``cuda.laneid``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<cuda.{self.name}, in kernels only>"


class SpecialDim(Special):
    """``cuda.threadIdx`` and its like: they have ``.x``, ``.y`` and ``.z`` in a kernel."""

    @property
    def x(self) -> Any:
        """Along the first dimension."""
        raise _outside(f"cuda.{self.name}.x")

    @property
    def y(self) -> Any:
        """Along the second dimension."""
        raise _outside(f"cuda.{self.name}.y")

    @property
    def z(self) -> Any:
        """Along the third dimension."""
        raise _outside(f"cuda.{self.name}.z")


def _outside(what: str) -> KernelError:
    return KernelError(
        f"{what} has a meaning inside of a kernel only: mark the function with @cuda.jit and launch it, "
        "kernel[blocks, threads](...)"
    )


def _in_kernel(prefix: str = "") -> Callable[[Callable[..., Any]], CudaOperation]:
    def declare(function: Callable[..., Any]) -> CudaOperation:
        signature = inspect.signature(function)
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        done = CudaOperation(f"{prefix}{function.__name__}", None, inspect.Signature(plain))
        done.__doc__ = function.__doc__
        return done

    return declare


threadIdx = SpecialDim("threadIdx")
blockIdx = SpecialDim("blockIdx")
blockDim = SpecialDim("blockDim")
gridDim = SpecialDim("gridDim")
laneid = Special("laneid")
warpsize = 32


@_in_kernel()
def grid(ndim: Any) -> Any:
    """Position of the thread in the grid: a number for one dimension, a tuple for two or three."""


@_in_kernel()
def gridsize(ndim: Any) -> Any:
    """Threads of the grid along its dimensions: a number for one dimension, a tuple for two or three."""


# Barriers and fences ------------------------------------------------------------------------------------------------


@_in_kernel()
def syncthreads() -> Any:
    """Barrier of the block."""


@_in_kernel()
def syncthreads_count(predicate: Any) -> Any:
    """Barrier of the block that returns for how many threads the predicate holds."""


@_in_kernel()
def syncthreads_and(predicate: Any) -> Any:
    """Barrier of the block that returns 1 if the predicate holds for all threads, else 0."""


@_in_kernel()
def syncthreads_or(predicate: Any) -> Any:
    """Barrier of the block that returns 1 if the predicate holds for any thread, else 0."""


@_in_kernel()
def syncwarp(membermask: Any = 0xFFFFFFFF) -> Any:
    """Barrier of the lanes of a warp."""


@_in_kernel()
def threadfence() -> Any:
    """Order this thread's writes before its later ones, as the device sees them."""


@_in_kernel()
def threadfence_block() -> Any:
    """Order this thread's writes before its later ones, as its block sees them; costs what `threadfence` does."""


@_in_kernel()
def threadfence_system() -> Any:
    """Order this thread's writes before its later ones, as the host sees them; costs what `threadfence` does."""


# Lanes of a warp ----------------------------------------------------------------------------------------------------


@_in_kernel()
def shfl_sync(mask: Any, value: Any, src_lane: Any) -> Any:
    """Value of lane `src_lane` modulo 32."""


@_in_kernel()
def shfl_up_sync(mask: Any, value: Any, delta: Any) -> Any:
    """Value of the lane `delta` lower, the own value where there is none."""


@_in_kernel()
def shfl_down_sync(mask: Any, value: Any, delta: Any) -> Any:
    """Value of the lane `delta` higher, the own value where there is none."""


@_in_kernel()
def shfl_xor_sync(mask: Any, value: Any, lane_mask: Any) -> Any:
    """Value of the lane whose number is this one's exclusive or `lane_mask`."""


@_in_kernel()
def all_sync(mask: Any, predicate: Any) -> Any:
    """Tell whether the predicate holds for all lanes of the mask."""


@_in_kernel()
def any_sync(mask: Any, predicate: Any) -> Any:
    """Tell whether the predicate holds for any lane of the mask."""


@_in_kernel()
def eq_sync(mask: Any, predicate: Any) -> Any:
    """Tell whether all lanes of the mask have the same predicate."""


@_in_kernel()
def ballot_sync(mask: Any, predicate: Any) -> Any:
    """Bit k is set if the predicate holds in lane k of the mask."""


@_in_kernel()
def match_any_sync(mask: Any, value: Any) -> Any:
    """Bit k is set if lane k of the mask has the same value."""


@_in_kernel()
def match_all_sync(mask: Any, value: Any) -> Any:
    """The mask and true if all of its lanes have the same value, else 0 and false."""


@_in_kernel()
def activemask() -> Any:
    """Bit k is set if lane k is active."""


@_in_kernel()
def lanemask_lt() -> Any:
    """Bit k is set if k is below the own lane number."""


# Numbers ------------------------------------------------------------------------------------------------------------


@_in_kernel()
def popc(x: Any) -> Any:
    """Number of bits that are set."""


@_in_kernel()
def brev(x: Any) -> Any:
    """The bits in reverse order."""


@_in_kernel()
def clz(x: Any) -> Any:
    """Number of zero bits above the highest one that is set."""


@_in_kernel()
def ffs(x: Any) -> Any:
    """Position of the lowest bit that is set, from 1 on; 0 if none is."""


@_in_kernel()
def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` with one rounding."""


@_in_kernel()
def cbrt(a: Any) -> Any:
    """Cube root."""


@_in_kernel()
def selp(a: Any, b: Any, c: Any) -> Any:
    """`b` if `a`, else `c`."""


# Memory -------------------------------------------------------------------------------------------------------------


class Shared:
    """``cuda.shared``: memory that the threads of a block share."""

    @staticmethod
    @_in_kernel("shared.")
    def array(shape: Any, dtype: Any) -> Any:
        """Array in shared memory; of shape 0, all that the launch reserved as dynamic shared memory."""


class Local:
    """``cuda.local``: memory that every thread has for itself."""

    @staticmethod
    @_in_kernel("local.")
    def array(shape: Any, dtype: Any) -> Any:
        """Array of the thread; in registers where all its indices are constants."""


class Const:
    """``cuda.const``: memory that kernels only read."""

    @staticmethod
    @_in_kernel("const.")
    def array_like(ndarray: Any) -> Any:
        """Return a host array as constants of the kernel."""


class Atomic:
    """``cuda.atomic``: operations on elements that no other thread can get between; all return the old value."""

    @staticmethod
    @_in_kernel("atomic.")
    def add(ary: Any, idx: Any, val: Any) -> Any:
        """Add."""

    @staticmethod
    @_in_kernel("atomic.")
    def sub(ary: Any, idx: Any, val: Any) -> Any:
        """Subtract."""

    @staticmethod
    @_in_kernel("atomic.")
    def max(ary: Any, idx: Any, val: Any) -> Any:
        """Raise to `val` if below."""

    @staticmethod
    @_in_kernel("atomic.")
    def min(ary: Any, idx: Any, val: Any) -> Any:
        """Lower to `val` if above."""

    @staticmethod
    @_in_kernel("atomic.")
    def nanmax(ary: Any, idx: Any, val: Any) -> Any:
        """Raise to `val` if below; a number wins over NaN."""

    @staticmethod
    @_in_kernel("atomic.")
    def nanmin(ary: Any, idx: Any, val: Any) -> Any:
        """Lower to `val` if above; a number wins over NaN."""

    @staticmethod
    @_in_kernel("atomic.")
    def and_(ary: Any, idx: Any, val: Any) -> Any:
        """Bitwise and."""

    @staticmethod
    @_in_kernel("atomic.")
    def or_(ary: Any, idx: Any, val: Any) -> Any:
        """Bitwise or."""

    @staticmethod
    @_in_kernel("atomic.")
    def xor(ary: Any, idx: Any, val: Any) -> Any:
        """Bitwise exclusive or."""

    @staticmethod
    @_in_kernel("atomic.")
    def inc(ary: Any, idx: Any, val: Any) -> Any:
        """Add 1, or start at 0 again from `val` on; of unsigned whole numbers."""

    @staticmethod
    @_in_kernel("atomic.")
    def dec(ary: Any, idx: Any, val: Any) -> Any:
        """Subtract 1, or start at `val` again after 0 or above `val`; of unsigned whole numbers."""

    @staticmethod
    @_in_kernel("atomic.")
    def exch(ary: Any, idx: Any, val: Any) -> Any:
        """Replace."""

    @staticmethod
    @_in_kernel("atomic.")
    def cas(ary: Any, idx: Any, old: Any, val: Any) -> Any:
        """Replace if it equals `old`."""

    @staticmethod
    @_in_kernel("atomic.")
    def compare_and_swap(ary: Any, old: Any, val: Any) -> Any:
        """Replace the first element if it equals `old`."""


shared, local, const, atomic = Shared(), Local(), Const(), Atomic()
