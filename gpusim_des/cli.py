"""The command line, ``gpusim-des``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim_des.commands.calibrate_command import add_calibrate
from gpusim_des.commands.compare_command import add_compare
from gpusim_des.commands.completion import add_completion
from gpusim_des.commands.gpus_command import add_gpus
from gpusim_des.commands.output import in_words, show_anywhere, writable
from gpusim_des.commands.parser import Parser, whole_number
from gpusim_des.commands.progress import Progress
from gpusim_des.commands.run_command import WRONG_KERNEL, add_run
from gpusim_des.commands.sweep_command import add_sweep
from gpusim_des.commands.validate_command import add_validate
from gpusim_des.errors import KernelError, SimError
from gpusim_des.occupancy_command import add_occupancy

if TYPE_CHECKING:
    from gpusim_des.gpu import GPU


DEMO_SMS = 16
"""SMs that the demo simulates where nobody asks for a number: enough for every effect, and done in seconds."""

BROKEN_PIPE = 141
"""Exit code where nobody reads the output any more: 128 and the number of SIGPIPE."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of the signal, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    0 done, 1 formula and simulation differ for no stated reason, 2 wrong usage or a wrong model, 3 the kernel is wrong,
    130 interrupted, 141 nobody reads the output.
    """
    for stream in (sys.stdout, sys.stderr):
        show_anywhere(stream)
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        return int(options.run(options))
    except KeyboardInterrupt:
        # On a terminal the cursor stands at the end of a progress line.
        print("\n" * sys.stderr.isatty() + "gpusim-des: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it ends
        return BROKEN_PIPE
    except KernelError as error:
        print(f"gpusim-des: {error}", file=sys.stderr)
        return WRONG_KERNEL
    except OSError as error:
        print(f"gpusim-des: {in_words(error)}", file=sys.stderr)
        return 2
    except SimError as error:
        print(f"gpusim-des: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = Parser(
        prog="gpusim-des", description="A GPU performance simulator that needs no GPU."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="time one kernel at five occupancies and set it against Little's law")
    demo.add_argument("--gpu", default="h100-sxm", help="GPU model: a name or a TOML file (default: %(default)s)")
    demo.add_argument(
        "--sms",
        type=whole_number,
        help=f"SMs of the slice that is simulated (default: {DEMO_SMS}, or all of a smaller GPU)",
    )
    demo.add_argument("--out", type=Path, default=Path("demo-out"), help="folder to write to (default: %(default)s)")
    demo.add_argument("--json", action="store_true", help="print the table as JSON")
    demo.set_defaults(run=_demo)

    experiment = commands.add_parser("experiment", help="set a formula beside the simulation, in a table and figures")
    experiment.add_argument("name", help="name of an experiment, a .py file of your own, or 'all'; 'list' lists them")
    experiment.add_argument("--gpu", help="GPU model: a name or a TOML file (default: each experiment's own)")
    experiment.add_argument("--quick", action="store_true", help="fewer and smaller runs")
    experiment.add_argument("--out", type=Path, default=Path("out"), help="folder to write to (default: %(default)s)")
    experiment.add_argument("--json", action="store_true", help="print the rows of all tables as JSON")
    experiment.set_defaults(run=_experiment)

    add_run(commands)
    add_sweep(commands)
    add_compare(commands)
    add_gpus(commands)
    add_occupancy(commands)
    add_validate(commands)
    add_calibrate(commands)
    add_completion(commands)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from gpusim_des.gpu import load_gpu  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    whole = load_gpu(options.gpu)
    gpu = whole.slice(sms=min(DEMO_SMS, whole.sms) if options.sms is None else options.sms)
    with writable(options.out):
        return _run_demo(options, gpu)


def _run_demo(options: argparse.Namespace, gpu: GPU) -> int:
    from gpusim_des import views  # noqa: PLC0415 - as in _demo
    from gpusim_des.textbook import latency_hiding  # noqa: PLC0415 - as in _demo

    points = []
    for blocks in latency_hiding.occupancies(gpu):
        with Progress(f"{gpu.title}, {blocks} blocks per SM") as progress:
            point, sim = latency_hiding.measure(gpu, blocks, progress.of_kernel)
        points.append(point)
    axes = views.latency_curve(
        points,
        peak_gbs=latency_hiding.dram_limit_gbs(gpu),
        peak_label="DRAM, reads and writes mixed",
        more_laws={"Little's law with block cost": [point.with_block_cost_gbs for point in points]},
        title=f"Latency hiding: vector add on {gpu.title}",
    )
    picture, trace, timeline = (options.out / n for n in ("latency_hiding.png", "trace.json", "timeline.png"))
    views.save(axes, picture)
    views.save(views.timeline(sim), timeline)
    sim.save_trace(trace)
    if options.json:
        files = {"picture": str(picture), "timeline": str(timeline), "trace": str(trace)}
        print(json.dumps({"gpu": gpu.title, "points": latency_hiding.as_rows(points), **files}, indent=1))
    else:
        print(f"Vector add on {gpu.title}, {latency_hiding.THREADS} threads per block, occupancy set by shared memory")
        print("(results checked against NumPy, caches off, 32 registers per thread assumed)\n")
        print(latency_hiding.table(points))
        print("\n" + latency_hiding.explanation(gpu, points))
        print(f"\nwritten: {picture} (the table as a curve)")
        print(f"written: {timeline} (blocks on SMs in the last run)")
        print(f"written: {trace} (the last run; open it at https://ui.perfetto.dev)")
    return 0


def _experiment(options: argparse.Namespace) -> int:
    from gpusim_des import experiment  # noqa: PLC0415 - as in _demo

    if options.name == "list":
        listed = {name: experiment.title(name) for name in experiment.list_experiments()}
        print(json.dumps(listed, indent=1) if options.json else "\n".join(f"{n:<20}{t}" for n, t in listed.items()))
        return 0
    names = experiment.list_experiments() if options.name == "all" else (options.name,)
    with writable(options.out), redirect_stdout(sys.stderr) if options.json else nullcontext():
        tell = Progress("done", "experiments", lines=True) if len(names) > 1 else None
        results = experiment.run_several(names, options.out, gpu=options.gpu, quick=options.quick, progress=tell)
    if options.json:
        print(json.dumps(experiment.result_rows(results), indent=1))
    else:
        print("\n" + experiment.summary(results))
    return 0 if all(not isinstance(table, str) and table.passed for table in results.values()) else 1
