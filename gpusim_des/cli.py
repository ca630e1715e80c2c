"""The command line, ``gpusim-des``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim_des.calibrate_command import add_calibrate
from gpusim_des.errors import SimError
from gpusim_des.occupancy_command import add_occupancy
from gpusim_des.validate_command import add_validate

if TYPE_CHECKING:
    from gpusim_des.gpu import GPU


DEMO_SMS = 16
"""SMs that the demo simulates where nobody asks for a number: enough for every effect, and done in seconds."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of the signal, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    0 done, 1 formula and simulation differ for no stated reason, 2 wrong usage or a wrong model, 130 interrupted.
    """
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        return int(options.run(options))
    except KeyboardInterrupt:
        # On a terminal the cursor stands at the end of a progress line.
        print("\n" * sys.stderr.isatty() + "gpusim-des: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (SimError, OSError) as error:
        print(f"gpusim-des: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpusim-des", description="A GPU performance simulator that needs no GPU.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="time one kernel at five occupancies and set it against Little's law")
    demo.add_argument("--gpu", default="h100-sxm", help="GPU model: a name or a TOML file (default: %(default)s)")
    demo.add_argument(
        "--sms", type=int, help=f"SMs of the slice that is simulated (default: {DEMO_SMS}, or all of a smaller GPU)"
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

    gpus = commands.add_parser("gpus", help="list the GPU models")
    gpus.add_argument("--json", action="store_true", help="print the table as JSON")
    gpus.set_defaults(run=_gpus)

    add_occupancy(commands)
    add_validate(commands)
    add_calibrate(commands)
    return parser


class _Progress:
    """Says on stderr how far the work is: one line that is written over on a terminal, else a line per step."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._said = 0.0
        if not self._terminal:
            print(what, file=sys.stderr, flush=True)

    def __call__(self, kernel: str, done: int, total: int) -> None:
        if self._terminal and (done == total or time.monotonic() - self._said > 0.1):
            self._said = time.monotonic()
            end = "\n" if done == total else ""
            print(f"\r{self._what}: {kernel} {done:,} of {total:,} blocks", end=end, file=sys.stderr, flush=True)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Make a folder before the work begins, so that a wrong one is told at once; take it back if the work fails."""
    made: list[Path] = []
    try:
        made += [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _remove_empty(made)
        taken = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "a file of this name is in the way" if taken else (error.strerror or str(error)).lower()
        culprit = next((str(path) for path in (folder, *folder.parents) if path.is_file()), "") if taken else ""
        where = f" ({culprit})" if culprit and culprit != str(folder) else ""
        raise OSError(f"cannot write to the folder {folder}: {reason}{where}; choose another one with --out") from None
    try:
        yield
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # it holds something, or was never made
            folder.rmdir()


def _demo(options: argparse.Namespace) -> int:
    from gpusim_des.gpu import load_gpu  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    whole = load_gpu(options.gpu)
    gpu = whole.slice(sms=min(DEMO_SMS, whole.sms) if options.sms is None else options.sms)
    with _writable(options.out):
        return _run_demo(options, gpu)


def _run_demo(options: argparse.Namespace, gpu: GPU) -> int:
    from gpusim_des import latency_hiding, views  # noqa: PLC0415 - as in _demo

    points = []
    for blocks in latency_hiding.occupancies(gpu):
        point, sim = latency_hiding.measure(gpu, blocks, _Progress(f"{gpu.title}, {blocks} blocks per SM"))
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
    with _writable(options.out), redirect_stdout(sys.stderr) if options.json else nullcontext():
        results = experiment.run_several(names, options.out, gpu=options.gpu, quick=options.quick)
    if options.json:
        print(json.dumps(experiment.result_rows(results), indent=1))
    else:
        print("\n" + experiment.summary(results))
    return 0 if all(not isinstance(table, str) and table.passed for table in results.values()) else 1


def _gpus(options: argparse.Namespace) -> int:
    from gpusim_des.gpu import list_gpus, load_gpu  # noqa: PLC0415 - as in _demo

    models = [load_gpu(name) for name in list_gpus()]
    if options.json:
        rows = [
            {
                "name": g.name,
                "title": g.title,
                "compute_capability": g.compute_capability,
                "sms": g.sms,
                "sm_clock_hz": g.sm_clock_hz,
                "dram_bandwidth_bytes_per_s": g.dram_bandwidth_bytes_per_s,
                "l2_bytes": g.l2_bytes,
                "memory_bytes": g.memory_bytes,
            }
            for g in models
        ]
        print(json.dumps(rows, indent=1))
        return 0
    print(f"{'name':<16}{'GPU':<34}{'cc':>5}{'SMs':>5}{'GHz':>7}{'GB/s':>8}{'L2 MiB':>8}{'GiB':>7}")
    for g in models:
        print(
            f"{g.name:<16}{g.title:<34}{g.compute_capability:>5}{g.sms:>5}{g.sm_clock_hz / 1e9:>7.3f}"
            f"{g.dram_bandwidth_bytes_per_s / 1e9:>8.0f}{g.l2_bytes / 2**20:>8.1f}{g.memory_bytes / 2**30:>7.0f}"
        )
    return 0
