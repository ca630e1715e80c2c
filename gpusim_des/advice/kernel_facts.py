"""What advice on a launch is made from: its counters, its shape, the GPU, and where its time is likely to go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpusim_des.advice.cost import Cost
from gpusim_des.functional.counters import AccessSite, Counters
from gpusim_des.functional.source_text import source_text
from gpusim_des.gpu import GPU, Occupancy, occupancy
from gpusim_des.grid import LaunchConfig
from gpusim_des.line_site import LineSite


@dataclass(frozen=True)
class KernelFacts:
    """One finished launch, as the checks see it."""

    name: str
    config: LaunchConfig
    counters: Counters
    gpu: GPU
    registers: int
    shared_bytes: int
    """Static and dynamic, of a block."""
    array_types: frozenset[str]
    """Element types of the device arrays among the arguments."""
    filename: str = ""
    """Source file of the kernel; empty where it is not known."""

    @cached_property
    def occupancy(self) -> Occupancy:
        """Blocks that fit on an SM, and what limits them."""
        return occupancy(self.gpu, self.config.threads_per_block, self.registers, self.shared_bytes)

    @property
    def wave(self) -> int:
        """Blocks that the GPU holds at a time."""
        return self.occupancy.blocks_per_sm * self.gpu.sms

    @property
    def types(self) -> frozenset[str]:
        """Element types of all arrays, shared ones included."""
        return self.array_types | {dtype for _, dtype in self.counters.shared_arrays.values()}

    @cached_property
    def cost(self) -> Cost:
        """Where the time is likely to go."""
        return Cost.of(self.counters, self.gpu, self.config.blocks, self.wave)

    def place(self, site: LineSite | AccessSite) -> str:
        """Name a line of the source, with its file where that is not the kernel's."""
        return str(LineSite(site.filename if self.filename not in ("", site.filename) else "", site.line))

    def code(self, site: LineSite | AccessSite) -> str:
        """Text of a line of the source."""
        return source_text(site.filename).line(site.line) if site.filename else ""
