"""Records of the host side: what the host thread did, and what ran in streams and on engines (H1 to H3)."""

from __future__ import annotations

from dataclasses import dataclass

FS_PER_S = 10**15
"""Femtoseconds in a second."""


@dataclass(frozen=True, slots=True)
class HostSpan:
    """The host thread in one call, or at work of its own."""

    name: str
    """The call, for example ``launch vector_add``, ``memcpy h2d a``, ``synchronize``."""
    start_fs: int
    end_fs: int
    waits: bool = False
    """The host was blocked: it waited for the device."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """A kernel, copy or memset in a stream.

    ``wait_reason`` says what it waited for last between issue and start: ``stream order``, ``event``, ``default
    stream``, ``copy engine``, ``hardware queue``, ``kernel slot``, ``SMs`` (all blocks of another kernel first),
    ``launch latency``, ``graph order`` or ``none``;
    ``waited_for`` names the operation that ended it.
    """

    number: int
    """In the order of issue."""
    kind: str
    """``kernel``, ``h2d``, ``d2h``, ``d2d`` or ``memset``."""
    name: str
    stream: int
    issued_fs: int
    """When the host had handed it to the device."""
    start_fs: int
    end_fs: int
    nbytes: int = 0
    engine: str = ""
    """What it occupied: ``copy engine 0``, ``compute``, ``HBM``."""
    wait_reason: str = "none"
    waited_for: str = ""
    pageable: bool = False
    """A copy of pageable host memory: it blocked the host."""
    blocking: bool = False
    """A copy whose call was asked to return when it was done."""
    dram_bytes: int = 0
    """Bytes that a copy or memset moved in DRAM, dirty lines that it drove out of the L2 included; kernels have their
    own count."""
    kernel: int = -1
    """Number of the kernel in the simulation, -1 for others."""
    line: int = 0
    last_wait_fs: int = -1
    """When the wait for ``wait_reason`` began, after all earlier waits; -1: at the issue."""

    @property
    def direction(self) -> str:
        """``h2d``, ``d2h`` or ``d2d`` of a copy."""
        return self.kind

    @property
    def start_s(self) -> float:
        """Start in seconds."""
        return self.start_fs / FS_PER_S

    @property
    def end_s(self) -> float:
        """End in seconds."""
        return self.end_fs / FS_PER_S

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return (self.end_fs - self.start_fs) / FS_PER_S

    @property
    def wait_s(self) -> float:
        """Seconds from issue to start."""
        return (self.start_fs - self.issued_fs) / FS_PER_S

    @property
    def last_wait_s(self) -> float:
        """Seconds for which nothing but ``wait_reason`` held it up; 0 if it did not wait."""
        if self.wait_reason == "none":
            return 0.0
        return (self.start_fs - max(self.issued_fs, self.last_wait_fs)) / FS_PER_S
