"""A finished launch, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpusim_des.functional.counters import Counters
from gpusim_des.grid import LaunchConfig
from gpusim_des.results import counters_to_plain
from gpusim_des.trace import KernelTrace, Sample


@dataclass(frozen=True)
class Launch:
    """One finished launch: its results are in device memory, its time is found by `Device.simulate`."""

    name: str
    config: LaunchConfig
    counters: Counters
    trace: KernelTrace
    vectorized: bool = True
    """Many threads ran at once; false for a thread kernel that had to run thread by thread."""
    captured: bool = False
    """The launch went into a graph and has not run: counters and trace are empty. `Graph.launch` returns full ones."""
    incomplete: tuple[str, ...] = ()
    """Arrays that are poison where a sample left out what the kernel would have written."""
    unsampled: str = ""
    """Why all blocks were executed, although a sample was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the launch and what it counted as plain data that JSON can hold; times are `Simulation.to_dict`'s."""
        return {
            "name": self.name,
            "grid": list(self.config.grid),
            "block": list(self.config.block),
            "registers": self.trace.registers,
            "shared_bytes": self.trace.shared_bytes,
            "vectorized": self.vectorized,
            "notice": self.notice,
            "counters": counters_to_plain(self.counters),
        }

    @property
    def sample(self) -> Sample | None:
        """Which blocks were executed; ``None``: all of them."""
        return self.trace.sample

    @property
    def notice(self) -> str:
        """Say what is not exact about this launch; empty if all of it is, and no sample was asked for."""
        if self.unsampled:
            return f"all {self.config.blocks:,} blocks were executed: {self.unsampled}"
        if self.sample is None:
            return ""
        arrays = ", ".join(map(repr, self.incomplete))
        poison = f"; {arrays} {'are' if len(self.incomplete) > 1 else 'is'} poison where they were left out"
        return (
            f"{self.sample.executed:,} of {self.config.blocks:,} blocks were executed, the counters are estimates"
            f"{poison if arrays else ''}"
        )
