"""Finds and runs experiments: scripts that set a formula beside the simulation, each with a `main` of one shape.

``main(gpu=…, out=…, quick=…)`` prints what it found, writes figures to `out` where that is a folder, and returns its
numbers and a `Comparison`. Everything else has a default. ``experiments/README.md`` is the recipe.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gpusim_des.check_result import check_result
from gpusim_des.compare_points import compare_points
from gpusim_des.comparison import Comparison
from gpusim_des.errors import SimError
from gpusim_des.explanations import alone_s, ends_s, reach, reading_s, waits
from gpusim_des.gpu.schema import suggest
from gpusim_des.textbook.chips import limited_by, without_waits
from gpusim_des.views.figure import save as save_figure

__all__ = [
    "alone_s",
    "check_result",
    "compare_points",
    "ends_s",
    "experiments_folder",
    "limited_by",
    "list_experiments",
    "load",
    "reach",
    "reading_s",
    "result_rows",
    "run",
    "run_several",
    "save",
    "script",
    "summary",
    "summary_rows",
    "title",
    "waits",
    "without_waits",
]

Main = Callable[..., tuple[Any, Comparison]]
"""An experiment: its numbers, in whatever form they have, and formula beside simulation."""


def experiments_folder() -> Path:
    """Folder of the shipped experiments.

    A wheel has them inside the package; in a checkout and an editable install they lie beside it.

    Raises
    ------
    SimError
        If there is none: the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "experiments", package.parent / "experiments"):
        if (folder / "latency_hiding.py").is_file():
            return folder
    raise SimError(f"no folder of experiments in {package} or beside it: the installation is incomplete")


def list_experiments() -> tuple[str, ...]:
    """Names of the shipped experiments, sorted.

    >>> "latency_hiding" in list_experiments()
    True
    """
    return tuple(sorted(path.stem for path in experiments_folder().glob("*.py")))


def load(name_or_path: str) -> ModuleType:
    """Load an experiment's module.

    Parameters
    ----------
    name_or_path
        A name from `list_experiments`, or the path of a ``.py`` file.

    Raises
    ------
    SimError
        If there is no such experiment, or it has no `main`.
    """
    if name_or_path.endswith(".py") or "/" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            raise SimError(f"there is no experiment file {name_or_path!r}; shipped: {', '.join(list_experiments())}")
    else:
        names = list_experiments()
        if name_or_path not in names:
            raise SimError(
                f"there is no experiment {name_or_path!r}: {suggest(name_or_path, names)}; 'all' runs every one, and a "
                "file of your own is given by a path that ends in .py"
            )
        path = experiments_folder() / f"{name_or_path}.py"
    spec = importlib.util.spec_from_file_location(f"experiment_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SimError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    if not callable(getattr(module, "main", None)):
        raise SimError(f"{path}: an experiment has a function main(gpu, out, quick), and this file has none")
    return module


def run(main: Main, out: Path | None = None, **options: Any) -> Comparison:
    """Run an experiment's `main` and save its comparison beside its figures, as ``NAME.csv`` and ``NAME.json``.

    Parameters
    ----------
    main
        Of an experiment.
    out
        Folder to write to; None writes nothing.
    options
        What `main` takes; an option that is None keeps its default.

    Raises
    ------
    SimError
        If `main` does not return its numbers and a `Comparison`; and what `main` raises.
    """
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    returned = main(out=out, **{key: value for key, value in options.items() if value is not None})
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Comparison)):
        raise SimError(
            f"{inspect.getfile(main)}: main() returned {type(returned).__name__}: must be its numbers and a "
            "Comparison, the latter from gs.compare"
        )
    table = returned[1]
    if out is not None:
        name = Path(inspect.getfile(main)).stem
        table.to_csv(out / f"{name}.csv")
        table.to_json(out / f"{name}.json")
    return table


def run_several(
    names: Sequence[str],
    out: Path | None = None,
    *,
    gpu: str | None = None,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Comparison | str]:
    """Run experiments one after another; of several, one that fails leaves its error's text and the others go on.

    `progress` is called with experiments done and experiments in all, first with none.

    Raises
    ------
    SimError, ValueError, OSError
        What the only experiment raises, or before anything has run if one cannot be loaded.
    """
    mains = {Path(name).stem: load(name).main for name in names}
    results: dict[str, Comparison | str] = {}
    tell = progress or (lambda *_: None)
    tell(0, len(mains))
    for number, (name, main) in enumerate(mains.items(), start=1):
        print(f"== {name} ({number} of {len(mains)})", file=sys.stderr, flush=True)
        try:
            results[name] = run(main, out, gpu=gpu, quick=quick)
        except (SimError, ValueError, OSError) as error:
            if len(mains) == 1:
                raise
            results[name] = f"{type(error).__name__}: {error}"
        tell(number, len(mains))
    return results


def save(ax: Any, path: Path) -> None:
    """Write the figure that `ax` belongs to, as `gs.views.save` does, and say where it is."""
    save_figure(ax, path)
    print(f"written: {path}")


def title(name: str) -> str:
    """First line of an experiment's description, without running it.

    >>> title("wave_quantization")
    'Wave quantization: the time of a kernel climbs in steps, one for each full load of the GPU.'
    """
    text = (experiments_folder() / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def script(main: Main, **more: str) -> None:
    """Command line of one experiment: ``--gpu --out --quick``, and more options of `main` by name with their help.

    Leaves with exit code 1 if a difference is unexplained, and with 2 after wrong arguments.
    """
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(inspect.getmodule(main)), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = {name: parameter.default for name, parameter in inspect.signature(main).parameters.items()}
    parser.add_argument("--gpu", help=f"GPU model: a name or a TOML file (default: {defaults['gpu']})")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller runs: done in seconds")
    hints = get_type_hints(main)
    for name, text in more.items():
        kinds = [kind for kind in get_args(hints[name]) or [hints[name]] if kind is not type(None)]
        if get_origin(hints[name]) is Literal:
            parser.add_argument(f"--{name}", choices=kinds, help=f"{text} (default: {defaults[name]})")
        else:
            parser.add_argument(f"--{name}", type=kinds[0], help=text)
    options = vars(parser.parse_args())
    try:
        table = run(main, options.pop("out"), **options)
    except (SimError, OSError, ValueError) as error:
        parser.error(str(error))
    sys.exit(0 if table.passed else 1)


def summary_rows(results: Mapping[str, Comparison | str]) -> list[dict[str, str | float | None]]:
    """A row for each experiment and formula: worst difference and verdict; a text in place of a table failed."""
    rows: list[dict[str, str | float | None]] = []
    for name, table in results.items():
        if isinstance(table, str):
            rows.append({"experiment": name, "formula": table, "worst_difference": None, "verdict": "failed"})
            continue
        for formula in dict.fromkeys(row.name for row in table.rows):
            part = Comparison(tuple(row for row in table.rows if row.name == formula))
            rows.append(
                {
                    "experiment": name,
                    "formula": formula,
                    "worst_difference": part.worst_difference,
                    "verdict": part.verdict,
                }
            )
    return rows


def result_rows(results: Mapping[str, Comparison | str]) -> list[dict[str, str | float | None]]:
    """All rows of all tables, each with its experiment, for JSON; a text in place of a table is an ``error``."""
    rows: list[dict[str, str | float | None]] = []
    for name, table in results.items():
        if isinstance(table, str):
            rows.append({"experiment": name, "error": table, "verdict": "failed"})
        else:
            rows += [{"experiment": name, **row} for row in table.finite_rows()]
    return rows


def summary(results: Mapping[str, Comparison | str]) -> str:
    """One table over several experiments: experiment, formula, worst difference, pass or explained.

    >>> from gpusim_des.comparison import compare
    >>> print(summary({"demo": compare(100, 99, name="Little's law")}))
    experiment  formula       worst difference  verdict
    demo        Little's law            -1.00%  pass
    """
    cells = [("experiment", "formula", "worst difference", "verdict")]
    for row in summary_rows(results):
        worst = row["worst_difference"]
        difference = "" if worst is None else f"{worst:+.2%}"
        cells.append((str(row["experiment"]), str(row["formula"]), difference, str(row["verdict"])))
    wide = [max(len(line[k]) for line in cells) for k in range(3)]
    return "\n".join(f"{e:<{wide[0]}}  {f:<{wide[1]}}  {d:>{wide[2]}}  {v}" for e, f, d, v in cells)
