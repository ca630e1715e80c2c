"""Operation classes of warp instructions (W2), and the units in which memory is moved."""

from __future__ import annotations

from enum import IntEnum

SECTOR_BYTES = 32
"""Bytes in a sector, the unit in which memory is moved (Nsight Compute, "Memory tables")."""

LINE_BYTES = 128
"""Bytes in a cache line: four sectors."""


class OpClass(IntEnum):
    """Operation class of a warp instruction (W2); interval, latency and pipe stand in the GPU model.

    The operand of a memory access is the number of bytes that a lane moves, 0 where that is not known.
    """

    INT = 0
    FP32 = 1
    FP64 = 2
    FP16 = 3
    CONVERSION = 4
    SFU = 5
    BRANCH = 6
    SHARED_LOAD = 7
    SHARED_STORE = 8
    SHUFFLE = 9
    GLOBAL_LOAD = 10
    GLOBAL_STORE = 11
    BARRIER = 12
    EXIT = 13
    VOTE = 14
    FENCE = 15
    GLOBAL_ATOMIC = 16
    SHARED_ATOMIC = 17
    TENSOR = 18
    """Matrix multiply-accumulate of a warp; its operand is an encoded `Mma`."""
    ASYNC_COPY = 19
    """From global to shared memory without registers; nothing waits for it but an `ASYNC_WAIT` that depends on it."""
    ASYNC_COMMIT = 20
    ASYNC_WAIT = 21
    """Waits for the copies that it depends on."""
    BULK_COPY = 22
    """Started by one thread, carried out by the SM's copy unit; its operand is a phase of a shared barrier."""
    BULK_WAIT = 23
    """Waits for all bulk copies of the block that have the same phase as operand, whichever warp started them."""

    @property
    def label(self) -> str:
        """Name in tables and files, for example ``global_load``."""
        return self.name.lower()


SHARED_OPS = frozenset({OpClass.SHARED_LOAD, OpClass.SHARED_STORE, OpClass.SHARED_ATOMIC, OpClass.SHUFFLE})
"""Classes that pass through the load/store unit without leaving the SM."""

GLOBAL_OPS = frozenset(
    {OpClass.GLOBAL_LOAD, OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC, OpClass.ASYNC_COPY, OpClass.BULK_COPY}
)
"""Classes that send sectors to memory."""

MEMORY_OPS = SHARED_OPS | GLOBAL_OPS
"""Classes that occupy the load/store unit."""
