"""``gpusim-des occupancy``: of a launch that is typed in, of a build, of a trace of the profiler."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim_des.commands.output import PICTURES, check_file
from gpusim_des.commands.parser import whole_number
from gpusim_des.errors import LaunchError, ReadError

if TYPE_CHECKING:
    from gpusim_des.gpu import SMLimits
    from gpusim_des.occupancy_report import Asked
    from gpusim_des.readers import KernelResources

DEFAULT_GPU = "h100-sxm"


def add_occupancy(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "occupancy",
        help="blocks per SM, what limits them, and what would help",
        description="Occupancy by NVIDIA's allocation rules: of a launch, or of every kernel in a tool's output.",
    )
    parser.add_argument(
        "--gpu",
        help="GPU model, TOML file, or compute capability such as 8.6 or sm_86 "
        f"(default: what the file names, else {DEFAULT_GPU})",
    )
    parser.add_argument("--threads", type=whole_number, help="threads per block")
    parser.add_argument("--registers", type=whole_number, help="registers per thread (default: 32)")
    parser.add_argument(
        "--shared",
        type=whole_number,
        default=0,
        help="bytes of shared memory per block; with --ptxas and --cuobjdump dynamic ones",
    )
    parser.add_argument("--carveout", type=whole_number, help="percent of shared memory preferred (default: the most)")
    parser.add_argument(
        "--barriers", type=whole_number, default=1, help="barriers of the kernel (default: %(default)s)"
    )
    parser.add_argument("--sweep", choices=("block", "registers", "shared"), help="what if this one were another")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the sweep (.png, .svg, .pdf)")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--ptxas", metavar="FILE", help="output of nvcc -Xptxas -v; - reads standard input")
    source.add_argument("--cuobjdump", metavar="FILE", help="output of cuobjdump --dump-resource-usage; - as above")
    source.add_argument("--profiler", type=Path, metavar="FILE", help="trace of PyTorch's profiler, .json or .json.gz")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`."""
    if options.plot is not None and options.sweep is None:
        raise LaunchError("--plot draws a sweep: say --sweep block, --sweep registers or --sweep shared")
    if options.plot is not None:
        check_file(options.plot, "--plot", PICTURES)
    read = next((name for name in ("ptxas", "cuobjdump", "profiler") if getattr(options, name) is not None), None)
    if read is not None and (options.sweep is not None or options.registers is not None):
        raise LaunchError(f"--{read} takes the registers from the file: leave out --sweep, --plot and --registers")
    if options.profiler is not None:
        if options.threads is not None or options.shared:
            raise LaunchError("--profiler takes all of a launch from the trace: leave out --threads and --shared")
        return _profiler(options)
    if options.threads is None:
        reason = f"--{read} does not say how large blocks are" if read else "an occupancy is that of a block size"
        raise LaunchError(f"--threads is missing: {reason}")
    return _compiled(options, read) if read else _typed(options)


def _asked(options: argparse.Namespace, limits: SMLimits) -> Asked:
    from gpusim_des.occupancy_report import Asked  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    registers = 32 if options.registers is None else options.registers
    return Asked(limits, options.threads, registers, options.shared, options.carveout, options.barriers)


def _typed(options: argparse.Namespace) -> int:
    from gpusim_des import occupancy_report as report  # noqa: PLC0415 - as above
    from gpusim_des.analytic import what_if  # noqa: PLC0415
    from gpusim_des.gpu import sm_limits  # noqa: PLC0415

    asked = _asked(options, sm_limits(options.gpu or DEFAULT_GPU))
    answer = report.one_launch_json(asked) if options.json else {}
    text = "" if options.json else report.one_launch(asked)
    if options.sweep is not None:
        curve = what_if(asked.limits, options.sweep, *asked.arguments[1:])
        answer["sweep"] = report.sweep_json(curve)
        text += "\n\n" + report.sweep(curve)
        if options.plot is not None:
            from gpusim_des import views  # noqa: PLC0415

            views.save(views.occupancy_curve(curve), options.plot)
            answer["plot"] = str(options.plot)
            text += f"\n\nwritten: {options.plot}"
    _say(options, answer, text)
    return 0


def _compiled(options: argparse.Namespace, tool: str) -> int:
    from gpusim_des import occupancy_report as report  # noqa: PLC0415 - as above
    from gpusim_des.gpu import named_capability, occupancy, sm_limits  # noqa: PLC0415
    from gpusim_des.readers import read_cuobjdump, read_ptxas  # noqa: PLC0415

    text = _text(getattr(options, tool))
    given = None if options.gpu is None else sm_limits(options.gpu)
    if tool == "ptxas":
        kernels = read_ptxas(text)
    else:
        # The dump of a cubin names no architecture: then it is that of the GPU.
        kernels = read_cuobjdump(text, None if given is None else "sm_" + given.compute_capability.replace(".", ""))
    if given is not None:
        # A build for several architectures: that of the GPU, if it is among them.
        own = [k for k in kernels if named_capability(k.architecture or "") == given.compute_capability]
        kernels = own or kernels
    pairs: list[tuple[KernelResources, SMLimits]] = []
    for kernel in kernels:
        capability = named_capability(kernel.architecture or "")
        if given is None and capability is None:
            raise ReadError(f"the dump does not say what {kernel.name!r} was compiled for: give --gpu")
        pairs.append((kernel, given or sm_limits(str(capability))))
    for limits in dict.fromkeys(limits for _, limits in pairs):
        # What was typed in is refused outright; a kernel that makes it too much is told so in its row.
        occupancy(limits, options.threads, 0, options.shared, options.carveout, options.barriers)
    rows = report.compiled_rows(pairs, _asked(options, pairs[0][1]))
    head = f"{options.threads} threads per block" + f", {options.shared:,} B of dynamic shared memory" * bool(
        options.shared
    )
    where = "" if given is None else f" on {report.title(given)}"
    _say(options, rows, f"{head}{where}\n\n{report.compiled_table(rows)}")
    return 0


def _profiler(options: argparse.Namespace) -> int:
    from gpusim_des import occupancy_report as report  # noqa: PLC0415 - as above
    from gpusim_des.gpu import GPU, sm_limits  # noqa: PLC0415
    from gpusim_des.readers import read_profiler  # noqa: PLC0415

    trace = read_profiler(options.profiler)
    given = None if options.gpu is None else sm_limits(options.gpu)
    kernels, elsewhere = [], False
    for kernel in trace.kernels:
        device = trace.devices.get(kernel.device)
        if given is None and device is None:
            raise ReadError(f"{options.profiler}: the trace does not describe its device {kernel.device}: give --gpu")
        limits = given or sm_limits(device.compute_capability if device else "")
        sms = limits.sms if isinstance(limits, GPU) else device.sms if device else None
        elsewhere |= device is not None and (limits.compute_capability, sms) != (device.compute_capability, device.sms)
        kernels.append((kernel, limits, sms))
    rows = report.profiled_rows(kernels, elsewhere=elsewhere)
    names = [report.title(given)] if given else [f"{d.name} ({d.compute_capability})" for d in trace.devices.values()]
    _say(options, rows, f"{', '.join(dict.fromkeys(names))}\n\n{report.profiled_table(rows)}")
    return 0


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    return Path(file).read_text(encoding="utf-8", errors="replace")


def _say(options: argparse.Namespace, answer: Any, text: str) -> None:
    print(json.dumps(answer, indent=1) if options.json else text)
