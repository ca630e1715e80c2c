"""Every error the simulator raises on purpose, and the warnings of the host side.

Two families: a wrong *argument* is a ``ValueError`` or ``TypeError`` as well as a `SimError`, so that ordinary
Python code can catch it; a wrong *kernel* is a `KernelError`, whose text names array, index, legal range, block,
thread and source line. Every message names the value, the rule and the remedy.
"""

from __future__ import annotations


class SimError(Exception):
    """Base of all errors raised by gpusim_des on purpose."""


class ModelError(SimError, ValueError):
    """A GPU model is wrong: an unknown name, a typo in a file, or numbers that contradict each other."""


class LaunchError(SimError, ValueError):
    """A launch that no GPU would accept: grid, block, registers or shared memory outside the limits."""


class DeviceMemoryError(SimError, ValueError):
    """Device memory used against its rules: freed arrays, wrong sizes, wrong types."""


class StreamError(SimError, ValueError):
    """Streams, events or graphs used against their rules: a destroyed stream, an event that nobody recorded."""


class TraceError(SimError, ValueError):
    """A trace that cannot be played: a dependency that points forward, a count below zero."""


class ReadError(SimError, ValueError):
    """A file that cannot be read: cut off, of another kind, or without what is looked for."""


class UsageError(SimError, ValueError):
    """What was typed on the command line or written in a sweep's file is wrong."""


class SweepError(SimError, ValueError):
    """A sweep that cannot go on: its folder is in use or damaged, or the disk is full."""


class KernelError(SimError):
    """A kernel did something that is wrong on a GPU."""


class MaskError(KernelError, ValueError):
    """A mask or an operand does not have one entry per thread."""


class BoundsError(KernelError, IndexError):
    """A kernel touched an element outside an array."""


class DeadlockError(KernelError):
    """Warps wait for something that can never happen, for example a barrier that cannot fill."""


class CycleLimitError(SimError):
    """A simulation reached the number of cycles that it was allowed; `partial` holds what was simulated until then."""

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


class SimulationInterrupted(KeyboardInterrupt):
    """A simulation was interrupted from the keyboard; `partial` holds what was simulated until then."""

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


class SweepWarning(UserWarning):
    """A row of a sweep that is damaged and will be computed again."""


class PageableCopyWarning(UserWarning):
    """An asynchronous copy of pageable host memory, which is not asynchronous."""


class HostBufferChangedWarning(UserWarning):
    """A pinned source changed before its copy was known to be done."""


class StreamRaceWarning(UserWarning):
    """Two operations touch one array, at least one writes it, and nothing puts them in order."""


class RaceWarning(UserWarning):
    """Threads of a kernel access one element, at least one writes it, and nothing puts them in order."""


class BarrierWarning(UserWarning):
    """Threads of a block reach a barrier although others have left the kernel."""


class IndexOverflowWarning(UserWarning):
    """An index was computed in 32 bits and did not fit."""


class UnwrittenReadWarning(UserWarning):
    """A kernel reads elements that nobody has written."""


class SampledResultWarning(UserWarning):
    """Somebody read results of a sampled launch where blocks were left out: poison."""


class PendingWorkWarning(UserWarning):
    """A stream was destroyed whose work the host never waited for."""
