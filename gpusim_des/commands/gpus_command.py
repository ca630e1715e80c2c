"""``gpusim-des gpus``: the models, and every number of one with its source."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_gpus(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("gpus", help="list the GPU models, or one with the source of every number")
    parser.add_argument(
        "--show", metavar="NAME", help="every parameter of a model (a name or a TOML file), with its source"
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`."""
    return _show(options) if options.show else _list(options)


def _show(options: argparse.Namespace) -> int:
    from gpusim_des.gpu import load_gpu, written_entries  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    entries = written_entries(options.show)
    if options.json:
        rows = {e.label: {"value": e.value, "source": e.source, "file": e.file.name} for e in entries}
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    print(load_gpu(options.show).title)
    file = None
    widths = [max(len(getattr(e, name)) for e in entries) for name in ("label", "value")]
    for e in entries:
        if e.file != file:
            file = e.file
            print(f"\n{file.name}")
        print(f"  {e.label:<{widths[0]}}  {e.value:<{min(widths[1], 24)}}  {e.source}".rstrip())
    return 0


def _list(options: argparse.Namespace) -> int:
    from gpusim_des.gpu import list_gpus, load_gpu  # noqa: PLC0415 - as in _show

    models = [load_gpu(name) for name in list_gpus()]
    if options.json:
        fields = ("name", "title", "compute_capability", "sms", "sm_clock_hz", "dram_bandwidth_bytes_per_s")
        rows: list[dict[str, Any]] = [{f: getattr(g, f) for f in (*fields, "l2_bytes", "memory_bytes")} for g in models]
        print(json.dumps(rows, indent=1))
        return 0
    print(f"{'name':<16}{'GPU':<34}{'cc':>5}{'SMs':>5}{'GHz':>7}{'GB/s':>8}{'L2 MiB':>8}{'GiB':>7}")
    for g in models:
        print(
            f"{g.name:<16}{g.title:<34}{g.compute_capability:>5}{g.sms:>5}{g.sm_clock_hz / 1e9:>7.3f}"
            f"{g.dram_bandwidth_bytes_per_s / 1e9:>8.0f}{g.l2_bytes / 2**20:>8.1f}{g.memory_bytes / 2**30:>7.0f}"
        )
    return 0
