"""Who does not choose gets the engine that is quicker, and hears which it was (E3); what is compiled is kept."""

import ast
import enum
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timing import choice
from gpusim_des.timing.choice import LARGE_WARP_INSTRUCTIONS, choose_engine
from gpusim_des.timing.compiled_jit import compiled_files, files_with_numbers
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace

PACKAGE = Path(gs.__file__).parent

SMALL_RUN = """
import gpusim_des as gs
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace
kernel = KernelTrace.of_blocks("k", [[WarpTrace.of([Instruction(OpClass.FP32)] * 4)]])
print(gs.__file__, simulate(gs.load_gpu("tiny"), [kernel], engine="compiled").kernels[0].cycles)
"""


def work(warp_instructions: int) -> KernelTrace:
    warp = WarpTrace.of([Instruction(OpClass.INT)] * 1000)
    rest = WarpTrace.of([Instruction(OpClass.INT)] * (warp_instructions % 1000))
    return KernelTrace.of_blocks("work", [[warp]] * (warp_instructions // 1000) + [[rest]])


def test_a_trace_counts_its_warp_instructions() -> None:
    assert [work(n).warp_instructions for n in (0, 999, 1000, 12_345)] == [0, 999, 1000, 12_345]


def test_the_size_of_all_kernels_together_decides() -> None:
    half = work(LARGE_WARP_INSTRUCTIONS // 2)
    assert choose_engine("auto", []) == "simpy"
    assert choose_engine("auto", [work(LARGE_WARP_INSTRUCTIONS - 1)]) == "simpy"
    assert choose_engine("auto", [work(LARGE_WARP_INSTRUCTIONS)]) == "compiled"
    assert [choose_engine("auto", [half] * n) for n in (1, 2)] == ["simpy", "compiled"]
    assert [choose_engine(name, [half] * 2) for name in ("simpy", "compiled")] == ["simpy", "compiled"]


def test_the_result_tells_which_engine_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    @gs.kernel
    def twice(t: Any, a: Any) -> None:
        a[t.threadIdx.x] = a[t.threadIdx.x] * 2

    dev = gs.Device("tiny")
    launch = dev.launch(twice, 1, 64, dev.to_device(np.ones(64, np.float32)))
    runs = []
    for limit in (launch.counters.warp_instructions + 1, launch.counters.warp_instructions):
        monkeypatch.setattr(choice, "LARGE_WARP_INSTRUCTIONS", limit)
        runs.append(dev.simulate())
    assert [run.engine for run in runs] == ["simpy", "compiled"]
    assert runs[0].timeline == runs[1].timeline


def defining_file(module: str, name: str) -> Path:
    """File of the package in which a name stands that can be imported from `module`."""
    file = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    if file.exists():
        return file
    inside = re.compile(rf"^(class )?{name}\b(\(|:| =)", re.MULTILINE)
    (found,) = [path for path in file.with_suffix("").rglob("*.py") if inside.search(path.read_text(encoding="utf-8"))]
    return found


def test_all_numbers_in_compiled_code_count_in_its_digest() -> None:
    """What is kept on disk is out of date when a number, tuple or enumeration changes that was taken from elsewhere."""
    taken = set()
    for path in compiled_files():
        module = importlib.import_module(f"gpusim_des.timing.{path.stem}")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gpusim_des."):
                values = {alias.name: getattr(module, alias.asname or alias.name) for alias in node.names}
                numbers = [n for n, value in values.items() if isinstance(value, int | tuple | enum.EnumType)]
                taken |= {defining_file(node.module, name) for name in numbers}
    assert taken - set(compiled_files()) == set(files_with_numbers())


def run_copy(package: Path, code: str, cache: Path) -> tuple[str, str]:
    """Run Python with a copy of the package and a cache of the user; returns what it prints last, and on stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    environment |= {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=package.parent
    )
    assert str(package) in done.stdout
    return done.stdout.split()[-1], done.stderr


@pytest.mark.slow
def test_compiling_is_announced_once_and_kept_for_the_user_where_the_package_cannot_be_written(tmp_path: Path) -> None:
    package, cache = tmp_path / "gpusim_des", tmp_path / "cache"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PACKAGE.parent / "models", tmp_path / "models")
    # A file in its place prevents Numba's folder, also for a root user, who may write anywhere.
    (package / "timing" / "__pycache__").write_text("")
    first, said = run_copy(package, SMALL_RUN, cache)
    assert "compiling the fast engine, once" in said
    assert list(cache.rglob("*.nbc"))
    again, said = run_copy(package, SMALL_RUN, cache)
    assert said == ""
    assert first == again
    (cache / "numba").rename(tmp_path / "elsewhere")
    cache.rmdir()
    cache.write_text("")
    assert run_copy(package, "from gpusim_des.timing import compiled_engine as e; print(e.__file__)", cache)[1] == ""
