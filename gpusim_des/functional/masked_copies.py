"""Asynchronous copies in masked execution: many threads at once, on the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusim_des.functional import thread_copies
from gpusim_des.functional.bulk_copies import SharedBarrier

if TYPE_CHECKING:
    from gpusim_des.functional.masked_runtime import MaskedRuntime


def copy(runtime: MaskedRuntime, place: int, name: str, arguments: dict[str, Any]) -> Any:
    """Do one of the operations of asynchronous copies for the active threads."""
    runtime.changes += 1
    return _DOES[name](runtime, place, **arguments)


def _memcpy_async(runtime: MaskedRuntime, place: int, dst: Any, dst_index: Any, src: Any, src_index: Any) -> None:
    ends, made = thread_copies.ends(runtime, place, "pipeline_memcpy_async", dst, dst_index, src, src_index)
    runtime.machine.async_copies.copy(ends, runtime.mask, made, runtime.sites[place])


def _commit(runtime: MaskedRuntime, place: int) -> None:
    runtime.machine.async_copies.commit(runtime.mask, (), runtime.sites[place])


def _wait_prior(runtime: MaskedRuntime, place: int, n: Any) -> None:
    prior = thread_copies.number(runtime, place, n)
    runtime.machine.async_copies.wait_prior(prior, runtime.mask, (), runtime.sites[place])


def _shared_barrier(runtime: MaskedRuntime, place: int, name: Any) -> SharedBarrier:
    bulk = runtime.machine.bulk_copies
    barrier = bulk.barrier(thread_copies.barrier_name(runtime, place, name), runtime.sites[place])
    bulk.number(barrier, runtime.mask)
    return barrier


def _memcpy_async_bulk(
    runtime: MaskedRuntime, place: int, dst: Any, dst_start: Any, src: Any, src_start: Any, count: Any, bar: Any
) -> None:
    ends, made = thread_copies.ends(runtime, place, "memcpy_async_bulk", dst, dst_start, src, src_start, count)
    runtime.machine.bulk_copies.copy(bar, ends, runtime.mask, made, runtime.sites[place])


def _barrier_wait(runtime: MaskedRuntime, place: int, bar: Any) -> None:
    runtime.machine.bulk_copies.wait(bar, runtime.mask, (), runtime.sites[place])


_DOES: dict[str, Any] = {
    "pipeline_memcpy_async": _memcpy_async,
    "pipeline_commit": _commit,
    "pipeline_wait_prior": _wait_prior,
    "shared_barrier": _shared_barrier,
    "memcpy_async_bulk": _memcpy_async_bulk,
    "barrier_wait": _barrier_wait,
}
