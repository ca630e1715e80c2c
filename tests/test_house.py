"""The floor plan of gpusim_des/README.md, read from the imports themselves."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gpusim_des"

FLOORS = {
    "errors": 0,
    "version": 0,
    "units": 0,
    "grid": 0,
    "spill": 0,
    "line_site": 0,
    "whole_file": 0,
    "page_text": 0,
    "comparison": 0,
    "compare_points": 0,
    "check_result": 0,
    "notebook": 0,
    "statistics": 0,
    "timeline": 0,
    "trace": 1,
    "gpu": 1,
    "functional": 2,
    "timing": 2,
    "analytic": 2,
    "advice": 3,
    "views": 3,
    "results": 4,
    "simulation": 4,
    "source_html": 3,
    "source_view": 4,
    "launched": 4,
    "report": 4,
    "device_work": 4,
    "graph": 4,
    "capture": 4,
    "streams": 4,
    "host_side": 4,
    "device_memory": 4,
    "device_streams": 4,
    "device": 4,
    "readers": 4,
    "silicon": 4,
    "launch_on_arrays": 5,
    "sweeps": 5,
    "cuda": 5,
    "textbook": 5,
    "explanations": 5,
    "experiment": 5,
    "occupancy_report": 5,
    "occupancy_command": 5,
    "commands": 5,
    "cli": 5,
    "__init__": 5,
    "__main__": 6,
}
MAKERS = {"functional", "timing", "analytic"}
FILES = sorted(PACKAGE.rglob("*.py"))
EXPERIMENTS = sorted((PACKAGE.parent / "experiments").glob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> list[tuple[str, bool, bool]]:
    """Imported module, whether inside a function, whether only for type hints."""
    found: list[tuple[str, bool, bool]] = []

    def visit(node: ast.AST, *, inside: bool, typing: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / Path(*deeper.split("."))).with_suffix(".py").exists()
                found.append((deeper if is_module else node.module, inside, typing))
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            visit(child, inside=inside or is_function, typing=typing or is_typing)

    visit(ast.parse(path.read_text()), inside=False, typing=False)
    return found


def test_every_room_has_a_floor() -> None:
    assert {room(f) for f in FILES} == set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_run_downwards(path: Path) -> None:
    here = room(path)
    for name, _, _ in imports(path):
        parts = name.split(".")
        if parts[0] != "gpusim_des":
            continue
        there = parts[1] if len(parts) > 1 else "__init__"
        if there == here or (there == "__init__" and here in {"cli", "__main__"}):
            continue
        # Rooms on one floor may use each other where that makes no circle; the circle test sees to it.
        assert FLOORS[there] <= FLOORS[here], f"{here} imports {there}, which is above it"
        assert not (here in MAKERS and there in MAKERS), f"{here} imports {there}: makers meet only in the contracts"
        assert not (here == "views" and there in MAKERS - {"analytic"}), f"views imports {there}"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_libraries_stay_in_their_rooms(path: Path) -> None:
    for name, inside, typing in imports(path):
        library = name.split(".")[0]
        if library == "simpy":
            assert room(path) == "timing"
        if library in ("joblib", "cloudpickle", "distributed"):
            assert room(path) == "sweeps"
            assert inside, f"{path}: {library} is imported inside functions only"
        if library == "numba":
            assert path.name.startswith("compiled")
        if library == "matplotlib":
            assert room(path) == "views"
            assert inside or typing, f"{path}: matplotlib is imported inside functions only"


def test_no_circles() -> None:
    edges = {
        module(f): {name for name, _, typing in imports(f) if name.startswith("gpusim_des") and not typing}
        - {module(f)}
        for f in FILES
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"circle: {' -> '.join((*path, name))}"
        if name not in done:
            for other in sorted(edges.get(name, ())):
                visit(other, (*path, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def test_files_are_small() -> None:
    assert not [f for f in FILES if len(f.read_text().splitlines()) > 400]


def test_experiments_are_short() -> None:
    """A reader sees constants, table and figure at once; kernels and measurements are in the textbook."""
    lines = {path.name: len(path.read_text().splitlines()) for path in EXPERIMENTS}
    assert not {name: count for name, count in lines.items() if count > 150}


@pytest.mark.parametrize("path", [*EXPERIMENTS, *sorted((PACKAGE / "textbook").glob("*.py"))], ids=module)
def test_experiments_do_not_compute_formulas_with_the_code_that_they_check(path: Path) -> None:
    """Of the timing model they know what can be chosen, engine and caches, and nothing that it computes."""
    of_timing = {name for name, _, _ in imports(path) if name.startswith("gpusim_des.timing")}
    assert of_timing <= {"gpusim_des.timing.choice", "gpusim_des.timing.simulate"}
