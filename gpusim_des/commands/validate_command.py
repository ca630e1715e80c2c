"""``gpusim-des validate``: published measurements of real GPUs beside their simulation."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim_des.commands.progress import Progress
from gpusim_des.errors import SimError
from gpusim_des.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpusim_des.silicon import Result


def add_validate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "validate",
        help="simulate published measurements of real GPUs, and print the errors",
        description="Simulates what was measured on real GPUs. Measurements from which the GPU models took parameters, "
        "counts, and figures of which only ratios count stand apart from the predictions.",
    )
    parser.add_argument("--gpu", help="targets of this GPU model only")
    parser.add_argument("--target", action="append", default=[], help="this target only; may be given several times")
    parser.add_argument("--list", action="store_true", help="list the targets and what was measured, without a run")
    parser.add_argument("--quick", action="store_true", help="a few points of each target: minutes, not an hour")
    parser.add_argument(
        "--from",
        dest="records",
        type=Path,
        action="append",
        metavar="FILE",
        help="validation.json of an earlier run: its figures instead of a run; may be given several times",
    )
    parser.add_argument("--out", type=Path, help="folder for a figure, the table and all points as JSON")
    parser.add_argument("--readme", type=Path, help="file whose validation table is written anew")
    parser.add_argument("--json", action="store_true", help="print all points as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`."""
    from gpusim_des import silicon  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    targets = silicon.choose(options.target, options.gpu)
    if options.list:
        wide = max(len(target.name) for target in targets)
        for target in targets:
            print(f"{target.name:<{wide}}  {target.gpu:<14}{target.title} ({target.source})")
        return 0
    readme = _readme(options.readme) if options.readme is not None else ""
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    if options.quick and not any(target.quick_points for target in targets):
        raise SimError(f"{', '.join(t.name for t in targets)}: no quick points; leave out --quick")

    chosen = [target.quick_points if options.quick else target.points for target in targets]
    total, done = sum(map(len, chosen)), 0
    tell = Progress("validation", "points", lines=True)
    tell(done, total)

    def progress(result: Result) -> None:
        nonlocal done
        said = f"{result.target.name}: {len(result.outcomes)} points, {result.error:.1%} off, {result.seconds:.0f} s"
        print(said, file=sys.stderr, flush=True)
        done += len(result.outcomes)
        tell(done, total)

    if options.records:
        results = _earlier(options.records, {target.name for target in targets})
    else:
        results = silicon.validate(targets, quick=options.quick, progress=progress)
    print(json.dumps(silicon.as_records(results), indent=1) if options.json else silicon.as_text(results))
    if options.out is not None:
        _write(options.out, results)
    if options.readme is not None:
        with whole_file(options.readme) as draft:
            draft.write_text(silicon.put_block(readme, silicon.block(results, _made(options))), encoding="utf-8")
    return 0


def _earlier(paths: Sequence[Path], names: set[str]) -> tuple[Result, ...]:
    """Read results of earlier runs, in the order of the targets; the later file wins."""
    from gpusim_des import silicon  # noqa: PLC0415 - as above

    found: dict[str, Result] = {}
    for path in paths:
        try:
            results = silicon.from_records(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError):
            raise SimError(f"{path}: not the validation.json of gpusim-des validate --out") from None
        found.update({result.target.name: result for result in results if result.target.name in names})
    if not found:
        raise SimError(f"{', '.join(map(str, paths))}: none of the chosen targets")
    return tuple(found[target.name] for target in silicon.list_targets() if target.name in found)


def _readme(path: Path) -> str:
    """Read a README, and refuse one without a table before an hour is spent."""
    from gpusim_des import silicon  # noqa: PLC0415 - as above

    text = path.read_text(encoding="utf-8")
    try:
        silicon.read_block(text)
    except ValueError as error:
        raise SimError(f"{path}: {error}") from None
    return text


def _made(options: argparse.Namespace) -> str:
    """Say by what and when a table was made."""
    chosen = [*(f"--target {name}" for name in options.target), *([f"--gpu {options.gpu}"] if options.gpu else [])]
    words = ["gpusim-des validate", *(["--quick"] if options.quick else []), *chosen]
    day = datetime.now(timezone.utc).date().isoformat()
    return f"Made by `{' '.join(words)}` with version {version('gpusim-des')} on {day}."


def _write(folder: Path, results: Sequence[Result]) -> None:
    """Write the figure, the table and the points."""
    from gpusim_des import silicon, views  # noqa: PLC0415 - as above

    points = [
        views.Measured(r.target.group, o.point.measured, o.simulated, r.section == "predictions")
        for r in results
        for o in r.outcomes
    ]
    picture, table, data = (folder / name for name in ("validation.png", "validation.txt", "validation.json"))
    views.save(views.measured(points, title="Simulated against measured"), picture)
    for path, text in ((table, silicon.as_text(results)), (data, json.dumps(silicon.as_records(results), indent=1))):
        with whole_file(path) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
    for path, what in ((picture, "all points"), (table, "the table"), (data, "the numbers")):
        print(f"written: {path} ({what})", file=sys.stderr)
