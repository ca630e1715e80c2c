"""What a compiled kernel needs of an SM."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelResources:
    """Registers and shared memory of one kernel, as the compiler chose them for one architecture."""

    name: str
    """As the tool wrote it, mangled; `short_name` makes it readable."""
    registers: int
    """Per thread, before the hardware rounds up."""
    shared_bytes: int
    """Static shared memory per block, without the system's reserve and without dynamic shared memory."""
    architecture: str | None = None
    """For example ``sm_90a``; ``None`` where the text does not say."""
    barriers: int | None = None
    stack_bytes: int = 0
    spill_bytes: int = 0
    """Spill stores and loads, bytes in the code (not per run); 0 where the text does not say."""
