"""How much of a program ran at once, what that gained, and what prevented more."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gpusim_des.timeline.busy import busy_fs, serial_fs, times
from gpusim_des.timeline.obstacles import obstacles
from gpusim_des.timeline.operations import FS_PER_S, Operation
from gpusim_des.timeline.timeline import Timeline
from gpusim_des.units import duration


@dataclass(frozen=True)
class Overlap:
    """What ran at once, from the first call of the host to the end of everything; times in seconds.

    Busy times are those in which at least one operation of the kind ran. `copy_and_compute_s` and `both_copies_s`
    include `all_three_s`.
    """

    total_s: float
    serial_s: float
    """Durations of all operations, one after the other."""
    ideal_s: float
    """Busy time of the busiest unit: a copy engine, the SMs, HBM. No order of issue can be faster."""
    h2d_s: float
    d2h_s: float
    kernels_s: float
    both_copies_s: float
    copy_and_compute_s: float
    all_three_s: float
    in_memory_s: float = 0.0
    """Copies within the device and memsets."""
    idle_s: float = 0.0
    """Nothing ran on the device."""
    notes: tuple[str, ...] = ()
    """What prevented overlap, worst first."""

    @property
    def speedup(self) -> float:
        """Serial sum over the total; below 1 where calls and latencies cost more than overlap gained."""
        return self.serial_s / self.total_s if self.total_s else 1.0

    @property
    def best_speedup(self) -> float:
        """Serial sum over the ideal."""
        return self.serial_s / self.ideal_s if self.ideal_s else 1.0

    def __str__(self) -> str:
        def row(name: str, seconds: float, remark: str = "") -> str:
            share = f"{seconds / self.total_s:5.0%}" if self.total_s else ""
            return f"{name:<20} {duration(seconds):>9} {share:>6}  {remark}".rstrip()

        gain = f"speed-up {self.speedup:.2f}" if self.speedup >= 1 else "no speed-up: calls and latencies cost more"
        rows = [
            row("total", self.total_s),
            row("one after the other", self.serial_s, gain),
            row("ideal overlap", self.ideal_s, f"speed-up {self.best_speedup:.2f}"),
            row("copies to device", self.h2d_s),
            row("copies to host", self.d2h_s),
            row("kernels", self.kernels_s),
            *([row("within the device", self.in_memory_s)] if self.in_memory_s else []),
            row("both directions", self.both_copies_s),
            row("copy and kernel", self.copy_and_compute_s),
            row("all three", self.all_three_s),
            row("nothing", self.idle_s),
        ]
        return "\n".join([*rows, *(f"- {note}" for note in self.notes)])


def overlap(timeline: Timeline) -> Overlap:
    """Tell how much of a timeline's copies and kernels ran at once, and what prevented more.

    Examples
    --------
    Two copies of 3 µs, one to the device and one to the host, of which the second begins 1 µs after the first:

    >>> copies = [("h2d", 0, 3), ("d2h", 1, 4)]
    >>> timeline = Timeline("tiny", 2, 500_000, operations=tuple(
    ...     Operation(n, kind, kind + " a", n, 0, start * 10**9, end * 10**9, engine=f"copy engine {n}")
    ...     for n, (kind, start, end) in enumerate(copies)))
    >>> print(overlap(timeline))
    total                     4 µs   100%
    one after the other       6 µs   150%  speed-up 1.50
    ideal overlap             3 µs    75%  speed-up 2.00
    copies to device          3 µs    75%
    copies to host            3 µs    75%
    kernels                   0 µs     0%
    both directions           2 µs    50%
    copy and kernel           0 µs     0%
    all three                 0 µs     0%
    nothing                   0 µs     0%
    """
    operations = timeline.operations
    running = times(operations)
    units: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        # One engine for both directions is one unit; without an engine the kind says what it occupies.
        units[operation.engine or operation.kind].append(operation)

    def seconds(*wanted: set[str]) -> float:
        """Time in which all kinds of one of the sets ran."""
        return sum(fs for kinds, fs in running.items() if any(kinds >= kind for kind in wanted)) / FS_PER_S

    return Overlap(
        total_s=timeline.end_fs / FS_PER_S,
        serial_s=serial_fs(operations) / FS_PER_S,
        ideal_s=max((busy_fs(unit) for unit in units.values()), default=0) / FS_PER_S,
        h2d_s=seconds({"h2d"}),
        d2h_s=seconds({"d2h"}),
        kernels_s=seconds({"kernel"}),
        both_copies_s=seconds({"h2d", "d2h"}),
        copy_and_compute_s=seconds({"h2d", "kernel"}, {"d2h", "kernel"}, {"d2d", "kernel"}),
        all_three_s=seconds({"h2d", "d2h", "kernel"}),
        in_memory_s=seconds({"d2d"}, {"memset"}),
        idle_s=(timeline.end_fs - sum(running.values())) / FS_PER_S,
        notes=tuple(obstacle.note for obstacle in obstacles(timeline)),
    )
