"""The kernels of a run on one roofline chart, each by the bytes of every level of memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusim_des.analytic import Roofs, counted_operations, roofs
from gpusim_des.gpu import GPU, GPULike, load_gpu
from gpusim_des.timeline import HasTimeline, KernelTiming, Timeline
from gpusim_des.trace import SECTOR_BYTES
from gpusim_des.views import figure
from gpusim_des.views.roofline import RooflinePoint, roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_KERNELS = 8
"""Names on a chart, those that took longest."""

LEVELS = "DRAM", "L2", "L1"

PIPES = (("fp64", "fp32", "fp16"), ("int",), ("sfu", "conversion"))
"""What a kernel is for, first: most of them compute indices with whole numbers beside it."""


@dataclass(frozen=True)
class _Work:
    """What all launches of one kernel did; instructions are warp instructions by class."""

    name: str
    seconds: float
    instruction_mix: Counter[str]
    nbytes: dict[str, int]
    """Level of memory → bytes."""

    @property
    def sector_bytes(self) -> int:
        """Bytes in all sectors; those of DRAM where nothing else is counted."""
        return self.nbytes.get("L1", self.nbytes["DRAM"])


def kernel_roofline(sim: HasTimeline | Timeline, gpu: GPULike, *, ax: Axes | None = None) -> Axes:
    """Draw the kernels of a run under the roofs of its GPU, once by the bytes of each memory that moved any.

    Operations are those of the pipe that the kernel is for, counted as `gpusim_des.analytic.roofs` counts them:
    floating-point numbers before whole ones. Kernels with tensor instructions are left out, because a run does not know
    their shapes. Launches of one name are added up, and those that took longest are shown.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline; any ``detail`` will do.
    gpu
        The GPU of the run: a model, or the name or path of one.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.

    Raises
    ------
    ValueError
        If no kernel computes anything with bytes from memory.
    ModelError
        If there is no such GPU.
    """
    model = load_gpu(gpu)
    known = roofs(model)
    points = roofline_points(figure.timeline_of(sim), known)
    if not points:
        raise ValueError("no kernel of this run both computes and moves bytes: a roofline has nothing to show")
    pipes = tuple(dict.fromkeys(point.compute for point in points))
    levels = tuple(level for level in LEVELS if level in {point.memory for point in points})
    memory = LEVELS if len(levels) > 1 else ("DRAM",)
    return roofline(known, points, ax=ax, compute=pipes, memory=memory, title=_title(model, levels))


def roofline_points(record: Timeline, known: Roofs) -> list[RooflinePoint]:
    """Return the points of `kernel_roofline`; empty if no kernel computes anything with bytes from memory."""
    return [point for work in _works(record.kernels) for point in _points(work, known)]


def _title(gpu: GPU, levels: Iterable[str]) -> str:
    names = list(levels)
    by = f", by the bytes of {' and '.join([', '.join(names[:-1]), names[-1]])}" if len(names) > 1 else ""
    return f"Roofline of {gpu.title}{by}"


def _works(kernels: Iterable[KernelTiming]) -> list[_Work]:
    """What kernels did, by name, the longest first."""
    named: dict[str, list[KernelTiming]] = {}
    for kernel in kernels:
        named.setdefault(kernel.name, []).append(kernel)
    works = [_work(name, launches) for name, launches in named.items()]
    return sorted(works, key=lambda work: -work.seconds)[:MOST_KERNELS]


def _work(name: str, launches: list[KernelTiming]) -> _Work:
    mix: Counter[str] = Counter()
    for kernel in launches:
        mix.update(kernel.instructions)
    stored = sum(k.stored_sectors for k in launches)
    sectors = {
        "L1": sum(k.l1_sectors or 0 for k in launches) + stored,
        "L2": sum(k.l2_sectors or 0 for k in launches) + stored,
    }
    cached = all(k.l2_sectors is not None for k in launches)
    nbytes = {level: SECTOR_BYTES * n for level, n in sectors.items() if cached}
    nbytes["DRAM"] = sum(k.dram_bytes for k in launches)
    return _Work(name, sum(k.seconds for k in launches), mix, nbytes)


def _points(work: _Work, known: Roofs) -> Iterator[RooflinePoint]:
    pipe = _pipe(work, known)
    if pipe is None or not work.seconds or work.instruction_mix["tensor"]:
        return
    operations = counted_operations(work, pipe)
    for level, nbytes in work.nbytes.items():
        if nbytes:
            yield RooflinePoint(work.name, operations / nbytes, operations / work.seconds, pipe, level)


def _pipe(work: _Work, known: Roofs) -> str | None:
    """Pipe that the kernel is for: of the first kind that it uses at all, the one that it keeps busy longest."""
    for kind in PIPES:
        used = {p: counted_operations(work, p) / known.compute[p] for p in kind if p in known.compute}
        if any(used.values()):
            return max(used, key=lambda p: used[p])
    return None
