"""``gpusim-des sweep FILE.toml``: many configurations of a kernel, from a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim_des.commands.output import PICTURES, check_file, plain_warnings, printable
from gpusim_des.commands.parser import whole_number
from gpusim_des.commands.progress import Progress
from gpusim_des.commands.run_command import WRONG_KERNEL
from gpusim_des.errors import SimError, UsageError

if TYPE_CHECKING:
    from gpusim_des.sweeps.table import SweepTable

MOST_TOLD = 5
"""Complaints about a kernel on standard error; rows have all."""

MAP_DEFAULTS: dict[str, object] = {"x": "registers", "y": "shared", "value": "seconds", "where": []}
"""What a heat map shows where nothing is said."""

FORM = """\
the file:
  kernel = "kernels.py:vector_add"    # beside this file
  grid = "cdiv(n, block)"             # a number, or an expression of arguments and block
  block = [64, 128, 256]              # a list is an axis: all axes are combined
  gpu = ["tiny", "h100-sxm"]
  registers = [32, 64]                # per thread
  shared = [0, 16384]                 # dynamic, bytes per block
  [args]                              # as in gpusim-des run --help
  n = [4096, 65536]
  a = "f32[n]:random"
  b = "f32[n]:random"
  c = "f32[n]"
more axes: sms (of a slice), policy (of warp schedulers: "gto", "lrr", "oldest"), caches ("on", "off"), engine, sample
a table [parameters] changes the GPU, fp32_latency_cycles = [4, 6] or dram_bandwidth = "2 TB/s"; gpus --show NAME lists
them; [16, 16] inside of a list is a size in x and y

Every finished row is written to the folder at once. A sweep that was killed goes on where it was; rows of earlier
sweeps in the same folder are used again where kernel, arguments, GPU and simulator are the same.

occupancy over registers and shared memory as a picture, of one block size, GPU and n where the file has several:
  gpusim-des sweep occupancy.toml --plot map.png --value achieved_occupancy --where block=256 gpu=tiny arg_n=4096

on a Dask cluster (pip install 'gpusim-des[cluster]'); this makes one of this machine, with two processes:
  dask scheduler --port 8786 &
  dask worker tcp://127.0.0.1:8786 --nworkers 2 --nthreads 1 &
  gpusim-des sweep occupancy.toml --cluster tcp://127.0.0.1:8786

exit codes: 0 done (rows of configurations that failed have their error), 2 wrong usage, or none could be measured,
3 the kernel is wrong in some of them (an index out of bounds, a deadlock, a race, an exception)
"""


def add_sweep(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "sweep",
        help="time a kernel in many configurations, in parallel",
        description="Run and time a kernel in all combinations of what a file lists.",
        epilog=FORM,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE.toml")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the rows (default: FILE-sweep beside the file)"
    )
    parser.add_argument("--workers", type=whole_number, help="processes (default: all cores)")
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="run on the Dask cluster of this scheduler, tcp://host:8786"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV as well")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a heat map (.png, .svg, .pdf)")
    parser.add_argument("--x", help=f"column of the heat map's x axis (default: {MAP_DEFAULTS['x']})")
    parser.add_argument("--y", help=f"of its y axis (default: {MAP_DEFAULTS['y']})")
    parser.add_argument(
        "--value",
        help="of its numbers: achieved_occupancy, theoretical_occupancy, or any column of --csv that is a number "
        f"(default: {MAP_DEFAULTS['value']})",
    )
    parser.add_argument(
        "--where", nargs="+", metavar="COLUMN=VALUE", help="rows of the heat map, where more things vary"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`.

    A configuration that fails has its error in its row, and the others go on. The exit code is 3 where the kernel is
    wrong in any of them, as for `run`, and 2 where none could be measured; standard error says why.
    """
    from gpusim_des.sweeps.sweep import run_planned  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy
    from gpusim_des.sweeps.sweep_file import read_sweep_file  # noqa: PLC0415
    from gpusim_des.sweeps.table import summary  # noqa: PLC0415 - as above

    _complete(options)
    where = _where(options.where)
    folder = options.out or options.file.parent / f"{options.file.stem}-sweep"
    if options.csv:
        check_file(options.csv, "--csv", made=folder)
    if options.plot:
        check_file(options.plot, "--plot", PICTURES, made=folder)
    asked = read_sweep_file(options.file)
    if options.plot:
        from gpusim_des.sweeps.map_request import check_map  # noqa: PLC0415 - as above

        check_map([p.columns for p in asked.planned], options.x, options.y, options.value, where)
    with plain_warnings(), Progress(f"sweeping {asked.kernel.name}", "configurations") as progress:
        table = run_planned(
            asked.kernel,
            asked.planned,
            folder=folder,
            workers=options.workers,
            cluster=options.cluster,
            progress=progress,
        )
    files, problem = [folder / "rows.jsonl"], None
    try:
        if options.csv:
            table.to_csv(options.csv)
            files.append(options.csv)
        if options.plot:
            _plot(table.to_rows(), options, where, asked.kernel.name)
            files.append(options.plot)
    except (SimError, OSError) as error:
        problem = error  # what was measured is printed first
    if options.json:
        sys.stdout.writelines(table.json_parts())
    else:
        failed = f", {len(table.failed)} of them failed" if table.failed else ""
        print(printable(summary(table.rows, options.value if options.plot else "")))
        print(f"\n{len(table)} configurations{failed}; {table.computed} measured now")
        print("\n".join(f"written: {file}" for file in files))
    code = _judged(table)
    if problem is not None:
        raise problem
    return code


def _complete(options: argparse.Namespace) -> None:
    """Fill in what a heat map shows; refuse to be told where none is drawn."""
    alone = [f"--{name}" for name in MAP_DEFAULTS if getattr(options, name) is not None]
    if alone and not options.plot:
        raise UsageError(f"{', '.join(alone)}: for a heat map, which only --plot FILE draws")
    for name, default in MAP_DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)


def _judged(table: SweepTable) -> int:
    """Say what is wrong with the kernel, or why nothing could be measured; returns the exit code."""
    from gpusim_des.sweeps.table import complaints, varying  # noqa: PLC0415 - as above

    code = WRONG_KERNEL if table.wrong else 2 if len(table.failed) == len(table) else 0
    if code:
        lines = complaints(table.wrong or table.failed, varying(table.rows))
        for line in lines[:MOST_TOLD]:
            print(f"gpusim-des: {printable(line)}", file=sys.stderr)
        if len(lines) > MOST_TOLD:
            print(f"gpusim-des: {len(lines) - MOST_TOLD} more in the columns error and mistakes", file=sys.stderr)
    return code


def _where(texts: list[str]) -> dict[str, object]:
    pairs = [text.partition("=") for text in texts]
    wrong = next((text for text, (name, equals, _) in zip(texts, pairs, strict=True) if not (name and equals)), None)
    if wrong is not None:
        raise UsageError(f"--where {wrong!r}: write COLUMN=VALUE, for example gpu=h100-sxm")
    return {name: value for name, _, value in pairs}


def _plot(rows: list[dict[str, object]], options: argparse.Namespace, where: dict[str, object], kernel: str) -> None:
    from gpusim_des import views  # noqa: PLC0415 - as above

    seconds = options.value == "seconds"
    gpus = {str(row["gpu"]) for row in rows if all(str(row.get(name)) == wanted for name, wanted in where.items())}
    chosen = ", ".join(f"{name} = {wanted}" for name, wanted in where.items() if name != "gpu")
    try:
        axes = views.heat_map(
            rows,
            options.x,
            options.y,
            options.value,
            where=where,
            scale=1e6 if seconds else 1.0,
            label="time (µs)" if seconds else "",
            title=kernel + (f" on {gpus.pop()}" if len(gpus) == 1 else "") + (f", {chosen}" if chosen else ""),
        )
    except ValueError as error:
        raise UsageError(f"--plot: {error}; choose columns with --x, --y, --value and --where") from None
    views.save(axes, options.plot)
