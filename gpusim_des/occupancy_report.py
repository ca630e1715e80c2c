"""Occupancy in words and tables: of one launch, of the kernels of a build, of the kernels of a profiler's trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpusim_des.analytic import Change, OccupancyCurve, next_better, occupancy, waves
from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU, Occupancy, SMLimits
from gpusim_des.grid import cdiv
from gpusim_des.readers import KernelResources, ProfiledKernel, short_name
from gpusim_des.units import format_bytes

RESOURCES = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_mem": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
}
"""What a limit is called in tables."""

PROFILER_SHARED_BYTES = 48 * 1024
"""Shared memory above which the profiler of PyTorch knows no occupancy and prints 0 %."""

NAME_WIDTH = 48


@dataclass(frozen=True)
class Asked:
    """A launch shape, and on what."""

    limits: SMLimits
    threads: int
    registers: int
    shared_bytes: int
    carveout: int | None = None
    barriers: int = 1

    @property
    def arguments(self) -> tuple[SMLimits, int, int, int, int | None, int]:
        """Arguments of the formulas."""
        return self.limits, self.threads, self.registers, self.shared_bytes, self.carveout, self.barriers


def title(limits: SMLimits) -> str:
    """Name of a GPU or compute capability for people."""
    return f"{limits.title} ({limits.compute_capability})" if isinstance(limits, GPU) else limits.name


def named_limiters(result: Occupancy) -> str:
    """Limiters for people, joined by ``+``."""
    return " + ".join(RESOURCES[name] for name in result.limiters)


def one_launch(asked: Asked) -> str:
    """Limits, limiter and what would help, as text."""
    limits, result = asked.limits, occupancy(*asked.arguments)
    shared = f"{asked.shared_bytes:,} B of shared memory per block"
    resident = (
        f"{result.active_warps} of {limits.max_warps_per_sm} warps, {_count(result.blocks_per_sm, 'block')} per SM"
    )
    share = f"{100 * result.occupancy:.4g}%"
    shape = f"{_count(asked.threads, 'thread')} per block, {_count(asked.registers, 'register')} per thread, {shared}"
    lines = [
        f"{title(limits)}: {shape}",
        "",
        f"occupancy      {share}   {resident}",
        f"limited by     {named_limiters(result)}",
        "",
        "               blocks per SM",
    ]
    for name, limit in result.limits.items():
        mark = "  <- limiter" if name in result.limiters else ""
        lines.append(f"{RESOURCES[name]:<15}{'-' if limit is None else limit:>4}   {_why(name, asked, result)}{mark}")
    lines += ["", "next better"]
    changes = next_better(*asked.arguments)
    lines += [f"  {change}: {_gain(change)}" for change in changes]
    if not changes:
        full = result.active_warps == limits.max_warps_per_sm
        lines.append("  nothing: every warp slot is taken" if full else "  no single change of one of the three")
    return "\n".join(lines)


def _why(name: str, asked: Asked, result: Occupancy) -> str:
    limits = asked.limits
    if result.limits[name] is None:
        return "none used"
    if name == "warps":
        return f"{cdiv(asked.threads, limits.warp_size)} of {limits.max_warps_per_sm} warps a block"
    if name == "registers":
        per_warp = result.allocated_registers_per_warp
        return (
            f"{result.allocated_registers_per_block:,} a block: {asked.registers} a thread stored as "
            f"{per_warp / limits.warp_size:g}, {per_warp:,} a warp, {result.warps_per_sub_partition} warps in each of "
            f"{limits.sub_partitions} sub-partitions"
        )
    if name == "shared_mem":
        reserve = limits.shared_bytes_reserved_per_block
        extra = f", {reserve:,} of them reserved" if reserve else ""
        room = format_bytes(result.carveout_bytes)
        return f"{result.allocated_shared_bytes_per_block:,} B a block{extra}; {room} on an SM"
    if name == "barriers":
        return f"{asked.barriers} of {limits.barriers_per_sm} a block"
    return "slots of an SM"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _gain(change: Change) -> str:
    then = change.occupancy
    return (
        f"{_count(then.blocks_per_sm, 'block')}, {100 * then.occupancy:.4g}% (then limited by {named_limiters(then)})"
    )


def one_launch_json(asked: Asked) -> dict[str, Any]:
    """`one_launch` for machines."""
    result = occupancy(*asked.arguments)
    return {
        "gpu": asked.limits.name,
        "compute_capability": asked.limits.compute_capability,
        "threads": asked.threads,
        "registers": asked.registers,
        "shared_bytes": asked.shared_bytes,
        "carveout": asked.carveout,
        "barriers": asked.barriers,
        **_result_json(result),
        "next_better": [
            {
                "what": c.what,
                "threads": c.threads,
                "registers": c.registers,
                "shared_bytes": c.shared_bytes,
                "blocks_per_sm": c.occupancy.blocks_per_sm,
                "occupancy": c.occupancy.occupancy,
            }
            for c in next_better(*asked.arguments)
        ],
    }


def _result_json(result: Occupancy) -> dict[str, Any]:
    return {
        "blocks_per_sm": result.blocks_per_sm,
        "active_warps": result.active_warps,
        "occupancy": result.occupancy,
        "limiters": list(result.limiters),
        "limits": dict(result.limits),
        "allocated_registers_per_warp": result.allocated_registers_per_warp,
        "allocated_registers_per_block": result.allocated_registers_per_block,
        "warps_per_sub_partition": result.warps_per_sub_partition,
        "allocated_shared_bytes_per_block": result.allocated_shared_bytes_per_block,
        "carveout_bytes": result.carveout_bytes,
    }


def sweep(curve: OccupancyCurve) -> str:
    """A what-if curve as a table of its steps."""
    what = {"block": "threads", "registers": "registers", "shared": "shared bytes"}[curve.axis]
    lines = [f"{what:>17}  blocks  warps  occupancy  limited by"]
    for first, last, blocks in curve.steps():
        low, high = int(curve.values[first]), int(curve.values[last])
        span = f"{low:,}" if low == high else f"{low:,} – {high:,}"
        warps = curve.active_warps[first : last + 1]
        limiter = " + ".join(RESOURCES[name] for name in str(curve.limiter[first]).split("+"))
        here = " <- asked" if curve.chosen is not None and low <= curve.chosen <= high else ""
        few, many = int(warps.min()), int(warps.max())
        slots = curve.limits.max_warps_per_sm
        shares = f"{100 * few / slots:.3g}" if few == many else f"{100 * few / slots:.3g}–{100 * many / slots:.3g}"
        lines.append(
            f"{span:>17}  {blocks:>6}  {few if few == many else f'{few}–{many}':>5}  {shares + '%':>9}  {limiter}{here}"
        )
    return "\n".join(lines)


def sweep_json(curve: OccupancyCurve) -> dict[str, Any]:
    """A what-if curve for machines: every point."""
    return {
        "axis": curve.axis,
        "values": curve.values.tolist(),
        "blocks_per_sm": curve.blocks_per_sm.tolist(),
        "active_warps": curve.active_warps.tolist(),
        "occupancy": curve.occupancy.tolist(),
        "limiter": curve.limiter.tolist(),
    }


def compiled_rows(kernels: Sequence[tuple[KernelResources, SMLimits]], asked: Asked) -> list[dict[str, Any]]:
    """Occupancy of every compiled kernel, given block size, dynamic shared memory and carve-out in `asked`."""
    rows = []
    for kernel, limits in kernels:
        barriers = 1 if kernel.barriers is None else max(1, kernel.barriers)
        shape = (asked.threads, kernel.registers, kernel.shared_bytes + asked.shared_bytes, asked.carveout, barriers)
        row: dict[str, Any] = {
            "name": kernel.name,
            "short_name": short_name(kernel.name),
            "gpu": limits.name,
            "architecture": kernel.architecture,
            "threads": asked.threads,
            "registers": kernel.registers,
            "shared_bytes": shape[2],
            "barriers": kernel.barriers,
            "spill_bytes": kernel.spill_bytes,
        }
        try:
            changes = next_better(limits, *shape)
            row |= {**_result_json(occupancy(limits, *shape)), "next_better": str(changes[0]) if changes else None}
        except LaunchError as error:
            row |= {"occupancy": None, "error": str(error)}
        rows.append(row)
    return rows


def compiled_table(rows: Sequence[dict[str, Any]]) -> str:
    """`compiled_rows` as text."""
    columns = f"{'arch':<8}{'regs':>5}{'shared':>8}{'blocks':>8}{'occup.':>8}"
    lines = [f"{'kernel':<{NAME_WIDTH}} {columns}  limited by, remarks"]
    for row in rows:
        head = (
            f"{cut(row['short_name']):<{NAME_WIDTH}} {row['architecture'] or '-':<8}"
            f"{row['registers']:>5}{row['shared_bytes']:>8}"
        )
        if row["occupancy"] is None:
            lines.append(f"{head}{'-':>8}{'-':>8}  impossible: {row['error']}")
            continue
        remarks = [" + ".join(RESOURCES[name] for name in row["limiters"])]
        remarks += [f"{row['spill_bytes']} B spilled"] * bool(row["spill_bytes"])
        remarks += [f"better: {row['next_better']}"] * bool(row["next_better"])
        lines.append(f"{head}{row['blocks_per_sm']:>8}{100 * row['occupancy']:>7.4g}%  {'; '.join(remarks)}")
    return "\n".join(lines)


def profiled_rows(
    kernels: Sequence[tuple[ProfiledKernel, SMLimits, int | None]], *, elsewhere: bool
) -> list[dict[str, Any]]:
    """Occupancy, limiter and waves of every kernel of a trace, beside the profiler's own figure.

    The profiler's figure is an estimate that looks at the grid, too: blocks per SM, or as many as the grid has for each
    SM, times threads over the most threads of an SM. ``estimate`` is the same by the rules of this package. The two are
    compared unless the rows ask for a GPU `elsewhere`, other than that of the trace.
    """
    rows = []
    for kernel, limits, sms in kernels:
        row: dict[str, Any] = {
            "name": kernel.name,
            "short_name": short_name(kernel.name),
            "gpu": limits.name,
            "launches": kernel.launches,
            "total_us": kernel.total_us,
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            "registers": kernel.registers,
            "shared_bytes": kernel.shared_bytes,
            "profiler_percent": kernel.profiler_percent,
        }
        rows.append(row)
        try:
            result = occupancy(limits, kernel.threads, kernel.registers, kernel.shared_bytes)
        except LaunchError as error:
            row |= {"occupancy": None, "waves": None, "note": f"impossible: {error}"}
            continue
        row |= {**_result_json(result), "waves": None, "estimate": None}
        if sms and result.blocks_per_sm:
            row["waves"] = waves(kernel.blocks, result.blocks_per_sm, sms).exact
            resident = min(result.blocks_per_sm, kernel.blocks / sms)
            row["estimate"] = resident * kernel.threads / limits.max_threads_per_sm
        row["note"] = _note(kernel, None if elsewhere else row["estimate"])
    return rows


def _note(kernel: ProfiledKernel, estimate: float | None) -> str:
    if kernel.profiler_percent is None:
        return ""
    if kernel.shared_bytes > PROFILER_SHARED_BYTES and kernel.profiler_percent == 0:
        return "the profiler's 0% is wrong: it knows no shared memory above 48 KB"
    if estimate is not None and abs(100 * estimate - kernel.profiler_percent) > 1:
        return f"the profiler says {kernel.profiler_percent:.0f}%, the rules {100 * estimate:.0f}%"
    return ""


def profiled_table(rows: Sequence[dict[str, Any]]) -> str:
    """`profiled_rows` as text."""
    launch = f"{'runs':>5}{'µs':>9}{'blocks':>9}{'thr.':>6}{'regs':>5}{'shared':>8}"
    answer = f"{'per SM':>8}{'occup.':>8}{'waves':>8}{'est.':>6}{'prof.':>7}"
    lines = [f"{'kernel':<{NAME_WIDTH}} {launch}{answer}  limited by"]
    notes = []
    for row in rows:
        blocks, threads = (row[n][0] * row[n][1] * row[n][2] for n in ("grid", "block"))
        head = (
            f"{cut(row['short_name']):<{NAME_WIDTH}} {row['launches']:>5}{row['total_us']:>9.1f}{blocks:>9}{threads:>6}"
            f"{row['registers']:>5}{row['shared_bytes']:>8}"
        )
        mark = ""
        if row["note"]:
            if row["note"] not in notes:
                notes.append(row["note"])
            mark = f" [{notes.index(row['note']) + 1}]"
        profiler = "-" if row["profiler_percent"] is None else f"{row['profiler_percent']:.0f}%"
        if row["occupancy"] is None:
            lines.append(f"{head}{'-':>8}{'-':>8}{'-':>8}{'-':>6}{profiler:>7} {mark}")
            continue
        wave = "-" if row["waves"] is None else f"{row['waves']:.2f}"
        estimate = "-" if row["estimate"] is None else f"{int(100 * row['estimate'] + 0.5)}%"
        limiter = " + ".join(RESOURCES[name] for name in row["limiters"])
        lines.append(
            f"{head}{row['blocks_per_sm']:>8}{100 * row['occupancy']:>7.4g}%{wave:>8}{estimate:>6}{profiler:>7}  "
            f"{limiter}{mark}"
        )
    lines += ["", "occup.: by the SM's limits; est.: by the grid as well, as the profiler means its figure (prof.)"]
    lines += [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(lines)


def cut(name: str) -> str:
    """Shorten a name in its middle: the ends of compiled names tell them apart."""
    if len(name) <= NAME_WIDTH:
        return name
    half = (NAME_WIDTH - 1) // 2
    return name[: NAME_WIDTH - 1 - half] + "…" + name[-half:]
