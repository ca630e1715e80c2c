"""``gpusim-des run FILE.py:KERNEL``: run and time a kernel of one's own."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim_des.commands.output import check_file, plain_warnings, printable, writable
from gpusim_des.commands.parser import whole_number
from gpusim_des.commands.progress import Progress
from gpusim_des.errors import UsageError
from gpusim_des.whole_file import whole_file

if TYPE_CHECKING:
    from gpusim_des.functional.block_kernel import KernelFunction
    from gpusim_des.sweeps.configuration import Configuration, Measured

WRONG_KERNEL = 3
"""Exit code after a kernel that is wrong: an index out of bounds, a deadlock, a race, an exception."""

ARGUMENTS = """\
arguments, one NAME=VALUE for each parameter of the kernel (quote what has brackets):
  n=1024             a whole number; n=1e-3 or n=2.5 a number, n=true a truth
  n=i64:1024         a number of a type
  m=n//2             computed from other arguments: + - * // %, cdiv(a, b), min, max
  x=f32[n]:random    an array: type, sizes, what it holds
  x=f32[64,64]       several dimensions, zeros
  x=data.npy         an array that numpy.save wrote
  types: f16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 c64 c128 bool, or NumPy's names
  what arrays hold: zeros, ones, arange, random (0 to 1; whole numbers 0 to 99; equal in each run), random(7) (another
    seed), empty (memory that nobody has written), or a number

example: kernels.py holds
  import gpusim_des as gs

  @gs.kernel
  def vector_add(t, a, b, c, n):
      i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
      if i < n:
          c[i] = a[i] + b[i]

  gpusim-des run kernels.py:vector_add --gpu h100-sxm --grid "cdiv(n, block)" --block 256 \\
      --arg n=65536 "a=f32[n]:random" "b=f32[n]:random" "c=f32[n]" --save block256.json
  gpusim-des run kernels.py:vector_add --gpu h100-sxm --grid "cdiv(n, block)" --block 64 \\
      --arg n=65536 "a=f32[n]:random" "b=f32[n]:random" "c=f32[n]" --save block64.json
  gpusim-des compare block256.json block64.json

exit codes: 0 done, 2 wrong usage, 3 the kernel is wrong (an index out of bounds, a deadlock, a race, an exception)
"""


def add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "run",
        help="run and time a kernel of your own",
        description="Run a kernel from a file: results, counters, and the time that it would take on a GPU.",
        epilog=ARGUMENTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kernel", metavar="FILE.py:KERNEL", help="a function marked with @gs.kernel or @gs.block_kernel"
    )
    add_launch_options(parser)
    parser.add_argument("--copies", action="store_true", help="time the copies of the arrays to the device as well")
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="write page, figures, trace, result, text to a folder"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the result (.json or .json.gz), for compare")
    parser.add_argument("--json", action="store_true", help="print counters and figures as JSON")
    parser.set_defaults(run=run)


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Add what a launch and its simulation need."""
    parser.add_argument("--grid", required=True, metavar="X[,Y[,Z]]", help='blocks, for example 64 or "cdiv(n, block)"')
    parser.add_argument(
        "--block", required=True, metavar="X[,Y[,Z]]", help="threads of a block, for example 256 or 16,16"
    )
    parser.add_argument(
        "--arg", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="arguments of the kernel, see below"
    )
    parser.add_argument("--gpu", default="h100-sxm", help="GPU model: a name or a TOML file (default: %(default)s)")
    parser.add_argument("--sms", type=whole_number, help="simulate a slice with this many SMs (default: the whole GPU)")
    parser.add_argument("--registers", type=whole_number, help="registers per thread (default: 32, an assumption)")
    parser.add_argument(
        "--shared", type=whole_number, default=0, help="bytes of dynamic shared memory per block (default: 0)"
    )
    parser.add_argument("--sample", help="execute a sample of the blocks: a number of waves (at least 6) or auto")
    parser.add_argument("--caches", choices=("on", "off"), default="on", help="default: %(default)s")
    parser.add_argument(
        "--races",
        choices=("shared", "global", "off"),
        default="shared",
        help="where to look for races",
    )
    parser.add_argument("--engine", choices=("auto", "simpy", "compiled"), default="auto", help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`.

    A kernel that cannot go on raises `KernelError`, which that turns into exit code 3. Mistakes that do not end a
    launch, such as races, are told on standard error behind the figures, with the same code.
    """
    from gpusim_des.sweeps.kernel_file import load_kernel  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    kernel = load_kernel(options.kernel)
    configuration = configuration_of(options)
    with writable(options.report, "--report") if options.report else nullcontext():
        if options.save:
            check_file(options.save, "--save", made=options.report)
        done = _measure(kernel, configuration, copies=options.copies)
        if options.save:
            done.simulation.save(options.save)
        files = _report(done, options.report) if options.report else []
        _say(options, done, [*files, *([options.save] if options.save else [])])
    for mistake in done.launch.mistakes:
        print(f"gpusim-des: {printable(str(mistake))}", file=sys.stderr)
    return WRONG_KERNEL if done.launch.mistakes else 0


def configuration_of(options: argparse.Namespace) -> Configuration:
    """What was typed, as a configuration; raises `UsageError`."""
    from gpusim_des.gpu import load_gpu  # noqa: PLC0415 - as above
    from gpusim_des.sweeps.argument import parse_argument  # noqa: PLC0415
    from gpusim_des.sweeps.configuration import Configuration  # noqa: PLC0415

    args: dict[str, Any] = {}
    for text in options.arg:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--arg {text!r}: write NAME=VALUE, for example n=1024 or x=f32[1024]:random")
        if name in args:
            raise UsageError(f"--arg {name} is given twice: {text!r}")
        args[name] = parse_argument(name, value)
    return Configuration(
        gpu=load_gpu(options.gpu),
        sms=options.sms,
        grid=options.grid,
        block=options.block,
        args=args,
        registers=options.registers,
        shared=options.shared,
        caches=options.caches,
        engine=options.engine,
        sample=sample_of(options.sample),
        races=options.races,
    )


def sample_of(text: str | None) -> Any:
    """Number of waves of a sample, ``auto`` or none; raises `UsageError`."""
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--sample {text!r}: a number of waves, at least 6, or auto") from None


def _measure(kernel: KernelFunction, configuration: Configuration, *, copies: bool) -> Measured:
    from gpusim_des.sweeps.configuration import measure  # noqa: PLC0415 - as above

    told = Progress(f"executing {kernel.name}"), Progress(f"simulating {kernel.name}")
    with plain_warnings(), told[0] as executing, told[1] as simulating:
        return measure(
            kernel, configuration, detail="sm", copies=copies, executing=executing, simulating=simulating.of_kernel
        )


def _report(done: Measured, folder: Path) -> list[Path]:
    """Write everything about a run to a folder: the report, the result and a text; returns the files."""
    sim = done.simulation
    files = sim.report(folder)
    sim.save(folder / "result.json")
    counters = f"{done.launch.counters.summary()}\n\n{done.launch.counters.access_table()}"
    text = f"{summary(done)}\n\n{advice(done)}\n\n{sim.source()}\n\n{counters}\n"
    with whole_file(folder / "report.txt") as draft:
        draft.write_text(text, encoding="utf-8")
    return [folder / "report.txt", *files, folder / "result.json"]


def summary(done: Measured) -> str:
    """What a run was and took, in a few lines."""
    from gpusim_des.units import duration, size  # noqa: PLC0415 - as above

    launch, sim = done
    (kernel,) = sim.kernels
    shape = f"grid {launch.config.grid}, block {launch.config.block}, {launch.trace.registers} registers per thread"
    bound = f" ± {kernel.relative_error:.1%}" if kernel.sampled else ""
    occupancy = f"{kernel.achieved_occupancy:.1%} achieved, {kernel.theoretical_occupancy:.1%} theoretical"
    lines = [
        f"{launch.name} on {sim.timeline.gpu_name}",
        shape,
        *(f"assumed: {assumption}" for assumption in kernel.assumptions),
        *([launch.notice] if launch.notice else []),
        "",
        f"time            {duration(kernel.seconds)}{bound}, {kernel.cycles:,} cycles",
        f"occupancy       {occupancy}, limited by {kernel.occupancy_limiter}",
        f"DRAM            {size(kernel.dram_bytes)}, {kernel.dram_bytes_per_second / 1e9:,.4g} GB/s",
        f"main stall      {kernel.main_stall}",
    ]
    if len(sim.timeline.operations) > 1:
        lines += ["", str(sim.overlap())]
    return printable("\n".join([*lines, "", sim.explain()]))


def advice(done: Measured) -> str:
    """What costs time, worst first, a line each."""
    found = "\n".join(f"- {printable(str(each))}" for each in done.simulation.advice())
    return f"advice, worst first:\n{found}" if found else "nothing to mend that counters or times tell"


def _say(options: argparse.Namespace, done: Measured, files: list[Path]) -> None:
    if options.json:
        answer = {
            "launch": done.launch.to_dict(),
            "kernel": done.simulation.to_rows()[0],
            "explain": done.simulation.explain(),
            "advice": [asdict(each) for each in done.simulation.advice()],
            "files": [str(file) for file in files],
        }
        print(json.dumps(answer, indent=1))
        return
    print(f"{summary(done)}\n\n{advice(done)}\n")
    print(done.launch.counters.summary())
    for file in files:
        print(f"{'' if file != files[0] else chr(10)}written: {file}")
