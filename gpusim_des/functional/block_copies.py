"""Block style: asynchronous copies from global to shared memory, thread by thread and in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusim_des.functional import copy_rules, provenance
from gpusim_des.functional.block_exchange import Exchange
from gpusim_des.functional.bulk_copies import SharedBarrier
from gpusim_des.functional.copy_rules import Ends
from gpusim_des.functional.lanes import Lanes, joint_producers, values_of
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import caller

if TYPE_CHECKING:
    from gpusim_des.functional.block_kernel import Index


class AsynchronousCopies(Exchange):
    """The part of a `Block` that copies from global to shared memory while its threads go on."""

    def pipeline_memcpy_async(
        self, dst: SharedArray, dst_index: Index, src: DeviceArray, src_index: Index, mask: Any = None
    ) -> None:
        """Start copying ``dst[dst_index] = src[src_index]``, an element of 4, 8 or 16 bytes, without a register.

        The element is in shared memory when the thread that copies it has waited for the group of the copy. Raises as
        `load` and `sload`, and `KernelError` for types that differ or are too narrow or too wide.
        """
        site, name = caller(), "pipeline_memcpy_async"
        copy_rules.check_arrays(self._machine.kernel_name, name, dst, src, site)
        copy_rules.check_size(self._machine.kernel_name, name, src, site)
        on, made = self._mask(mask, site)
        to, made_to = self._flat_index("asynchronous copy to", dst, dst_index, on, site)
        origin, made_origin = self._flat_index("asynchronous copy from", src, src_index, on, site)
        producers = provenance.joint(made, made_to, made_origin)
        self._machine.async_copies.copy(Ends(dst, to, src, origin), on, producers, site)

    def pipeline_commit(self, mask: Any = None) -> None:
        """End a group: it has all copies that a thread started since its last one."""
        site = caller()
        on, made = self._mask(mask, site)
        self._machine.async_copies.commit(on, made, site)

    def pipeline_wait_prior(self, n: Any, mask: Any = None) -> None:
        """Wait until at most the `n` newest groups that a thread has committed are unfinished."""
        site = caller()
        on, made = self._mask(mask, site)
        self._machine.async_copies.wait_prior(_number(self._machine, n), on, made, site)

    def shared_barrier(self, name: str) -> SharedBarrier:
        """Barrier for bulk copies, 8 bytes of shared memory; the same one for every call with this name."""
        bulk = self._machine.bulk_copies
        barrier = bulk.barrier(name, caller())
        bulk.number(barrier, self._machine.active)
        return barrier

    def memcpy_async_bulk(
        self,
        dst: SharedArray,
        dst_start: Index,
        src: DeviceArray,
        src_start: Index,
        count: Any,
        bar: SharedBarrier,
        mask: Any = None,
    ) -> None:
        """Start copying `count` contiguous elements; one thread of the block is active, the SM's copy unit does it.

        Both ends begin at a multiple of 16 bytes, and so does the size. The copy belongs to the phase of `bar` that the
        active thread would wait for next. Raises `BoundsError` for elements outside of either array, and `KernelError`
        for several active threads in a block.
        """
        site, name = caller(), "memcpy_async_bulk"
        copy_rules.check_arrays(self._machine.kernel_name, name, dst, src, site)
        on, made = self._mask(mask, site)
        to, made_to = self._flat_index("bulk copy to", dst, dst_start, on, site)
        origin, made_origin = self._flat_index("bulk copy from", src, src_start, on, site)
        producers = provenance.joint(made, made_to, made_origin, joint_producers(count))
        ends = Ends(dst, to, src, origin, _number(self._machine, count))
        self._machine.bulk_copies.copy(bar, ends, on, producers, site)

    def barrier_wait(self, bar: SharedBarrier, mask: Any = None) -> None:
        """Wait for the bulk copies of each thread's present phase of `bar`; the thread is in the next phase afterwards.

        Raises `DeadlockError` if no copy was started in that phase.
        """
        site = caller()
        on, made = self._mask(mask, site)
        self._machine.bulk_copies.wait(bar, on, made, site)


def _number(machine: Machine, operand: Any) -> Any:
    """Numbers of an operand; what is none is refused where the rule is known."""
    return values_of(machine, operand) if isinstance(operand, Lanes) else operand
