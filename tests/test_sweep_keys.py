"""Keys of configurations: all that a result depends on is in them, and nothing that is by chance."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.gpu import load_gpu, written_entries
from gpusim_des.sweeps.argument import parse_argument
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.sweeps.content import content
from gpusim_des.sweeps.fingerprint import Fingerprints
from gpusim_des.sweeps.kernel_file import load_module
from tests.sweep_kernels import dies_at, scale
from tests.test_sweep import ROOT

# Configurations ------------------------------------------------------------------------------------------------------


def key(kernel: gs.ThreadKernel, **change: Any) -> str:
    args = change.pop("args", {"n": 100, "x": np.zeros(100, np.float32)})
    asked: dict[str, Any] = {"gpu": load_gpu("tiny"), "grid": 4, "block": 32, "args": args}
    return Fingerprints(kernel).key(Configuration(**{**asked, **change}))


def test_keys_depend_on_everything_that_a_result_depends_on() -> None:
    same = key(scale)
    assert key(scale) == same
    assert key(scale, grid="cdiv(n, block)") == same
    assert key(scale, gpu=replace(load_gpu("tiny"), source_notes=())) == same  # where numbers come from does not matter
    other = [
        key(scale, grid=5),
        key(scale, block=64),
        key(scale, registers=33),
        key(scale, shared=16),
        key(scale, caches="off"),
        key(scale, engine="simpy"),
        key(scale, sample="auto"),
        key(scale, sms=1),
        key(scale, gpu=load_gpu("tiny").replace(fp32_latency_cycles=5)),
        key(scale, args={"n": 100, "x": np.ones(100, np.float32)}),
        key(scale, args={"n": 100, "x": np.zeros(100, np.int32)}),
        key(scale, args={"n": 100, "x": np.zeros((10, 10), np.float32)}),
        key(scale, args={"n": 100.0, "x": np.zeros(100, np.float32)}),
        key(scale, args={"n": 101, "x": np.zeros(100, np.float32)}),
        key(dies_at),  # type: ignore[arg-type]
    ]
    assert len({same, *other}) == len(other) + 1


def written(gpu: str = "tiny", **args: str) -> str:
    read = {name: parse_argument(name, text) for name, text in {"n": "512", "x": "f32[512]", **args}.items()}
    return key(scale, gpu=load_gpu(gpu), args=read)


@pytest.mark.parametrize(
    "texts",
    [
        {"n": "256*2"},
        {"n": "5_1_2"},
        {"x": "f32[n]"},
        {"x": "f32[ n ]:zeros"},
        {"x": "float32[512]:0"},
        {"n": "cdiv(1024, 2)", "x": "f32[2*256]:0.0"},
    ],
)
def test_keys_do_not_depend_on_how_an_argument_is_written(texts: dict[str, str]) -> None:
    assert written(**texts) == written()
    assert written(x="f32[n]:random(0)") == written(x="f32[n]:random")
    assert written(x="bool[n]:true") == written(x="bool[n]:ones")


def test_keys_of_arguments_that_differ() -> None:
    texts: list[dict[str, str]] = [
        {},
        {"n": "511"},
        {"n": "512.0"},
        {"n": "i64:512"},
        {"x": "f64[512]"},
        {"x": "f32[512,1]"},
        {"x": "f32[512]:1"},
        {"x": "f32[512]:-0.0"},
        {"x": "f32[512]:empty"},
        {"x": "f32[512]:arange"},
        {"x": "f32[512]:random"},
        {"x": "f32[512]:random(1)"},
        {"x": "f32[m]"},
        {"x": "f32[k]"},
    ]
    assert len({written(**each) for each in texts}) == len(texts)


def test_keys_do_not_depend_on_the_name_of_a_gpus_file(tmp_path: Path) -> None:
    text = Path(str(written_entries("tiny")[0].file)).read_text()
    for name, source in (("one", text), ("two", text), ("three", text.replace('"1 GHz"', '"1.1 GHz"'))):
        (tmp_path / f"{name}.toml").write_text(source)
    one, two, three = (written(gpu=str(tmp_path / f"{name}.toml")) for name in ("one", "two", "three"))
    assert one == two != three


# What a kernel uses by name ------------------------------------------------------------------------------------------

KERNELS = """
import functools
import re
import types
from enum import Enum
import numpy as np
import gpusim_des as gs
import helpers
import helpers as renamed
from helpers import Cfg

C = 1
TABLE = np.arange(4)
LISTED = [np.arange(4000), {"a": lambda x: 4 * x}]
CHOSEN = {"low", "high", "middle"}

def helper(x, by=1):
    return 2 * x * by

class Mine(Cfg):
    STEP = 4
    def __init__(self):
        self.weight = 8
        self.by = lambda x: 3 * x
    def method(self, x):
        return 5 * x + self.weight
    @functools.cached_property
    def once(self):
        return 21
    @staticmethod
    def fixed(x):
        return 6 * x

class Color(Enum):
    RED = 1
    BLUE = 2

ONE = Mine()
PATTERN = re.compile("a|b")
FIXED = types.MappingProxyType({"side": 22})
PART = functools.partial(helper, by=7)

@functools.lru_cache
def cached(n):
    return 11 * n

@gs.kernel
def k(t, x):
    x[t.threadIdx.x] = helper(x[t.threadIdx.x] + C) * TABLE[0]

@gs.block_kernel
def b(blk, x):
    import late
    y = helpers.f(Cfg.TILE) + renamed.deeper.CONST + LISTED[0][2000] + LISTED[1]["a"](1) + ONE.method(2) + Mine.fixed(3)
    blk.store(x, blk.tx, y + PART(1) + cached(2) + Color.RED.value + len(CHOSEN) + late.g() + ONE.once
              + FIXED["side"] + len(PATTERN.pattern))
"""
HELPERS = """
import deeper
from deeper import again
class Cfg:
    TILE = 1
def f(x):
    return again(x) + 1
def unused(x):
    return 17
"""
DEEPER = """
CONST = 13
def again(x):
    return 14 * x
"""
LATE = """
def g():
    return 15
"""
FILES = {"kernels": KERNELS, "helpers": HELPERS, "deeper": DEEPER, "late": LATE}


def loaded(folder: Path, files: dict[str, str]) -> Any:
    """Write files, and load the module of the kernels from them, in a process that has seen none of them."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
    return load_module(folder / "kernels.py")


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Files are edited within a second, and Python tells edits by seconds and sizes.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in FILES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("kernel", "file", "before", "after"),
    [
        ("k", "kernels", "x[t.threadIdx.x] + C", "x[t.threadIdx.x] - C"),  # the kernel
        ("k", "kernels", "return 2 * x", "return 3 * x"),  # its helper
        ("k", "kernels", "C = 1", "C = 2"),  # a constant
        ("k", "kernels", "TABLE = np.arange(4)", "TABLE = np.arange(5)"),
        ("k", "kernels", "by=1", "by=2"),  # a default
        ("b", "kernels", "LISTED = [np.arange(4000)", "LISTED = [np.array([*range(2000), 7, *range(2001, 4000)])"),
        ("b", "kernels", "lambda x: 4 * x", "lambda x: 5 * x"),  # in a dictionary in a list
        ("b", "kernels", '"low", "high"', '"low", "higher"'),  # in a set
        ("b", "kernels", "self.weight = 8", "self.weight = 9"),  # of an object
        ("b", "kernels", "lambda x: 3 * x", "lambda x: 2 * x"),
        ("b", "kernels", "return 5 * x", "return 6 * x"),  # a method
        ("b", "kernels", "return 6 * x", "return 7 * x"),  # a static method
        ("b", "kernels", "STEP = 4", "STEP = 5"),  # of a class
        ("b", "kernels", "RED = 1", "RED = 3"),
        ("b", "kernels", "return 21", "return 20"),  # a cached property
        ("b", "kernels", '"a|b"', '"a|c"'),
        ("b", "kernels", '"side": 22', '"side": 20'),
        ("b", "kernels", "by=7", "by=8"),  # of a partial function
        ("b", "kernels", "return 11 * n", "return 12 * n"),  # behind a cache
        ("b", "helpers", "TILE = 1", "TILE = 9"),  # a class of a neighbour file
        ("b", "helpers", "again(x) + 1", "again(x) + 2"),  # helpers.f
        ("b", "helpers", "return 17", "return 18"),  # might be looked up by a text
        ("b", "deeper", "CONST = 13", "CONST = 12"),  # renamed.deeper.CONST
        ("b", "deeper", "return 14 * x", "return 15 * x"),  # a neighbour of the neighbour
        ("b", "late", "return 15", "return 16"),  # imported by the kernel itself
    ],
)
def test_keys_see_what_a_kernel_uses(kernel: str, file: str, before: str, after: str, tmp_path: Path) -> None:
    assert FILES[file].count(before) == 1
    changed = {**FILES, file: FILES[file].replace(before, after)}
    remarked = {**FILES, "kernels": KERNELS + "# a remark below\n"}
    keys = []
    for number, files in enumerate((FILES, changed, remarked)):
        found = getattr(loaded(tmp_path / str(number), files), kernel)
        keys.append(content("k", found))
        assert content("k", found) == keys[-1]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize(
    "statement",
    [
        "from . import part\n    y = part.g()",
        "from .part import g\n    y = g()",
        "import package.part\n    y = package.part.g()",
        "from package import part\n    y = part.g()",
        "def inner():\n        from .part import g as h\n        return h()\n    y = inner()",
    ],
)
def test_keys_see_modules_of_a_package(statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = f"import gpusim_des as gs\n@gs.block_kernel\ndef k(blk):\n    {statement}\n    blk.compute(y)\n"
    keys = []
    for number, value in enumerate((1, 1, 2)):
        folder = tmp_path / str(number) / "package"
        folder.mkdir(parents=True)
        for name, text in (("__init__", ""), ("kernels", kernel), ("part", f"def g():\n    return {value}\n")):
            (folder / f"{name}.py").write_text(text)
        for name in ("package", "package.kernels", "package.part"):
            sys.modules.pop(name, None)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder.parent))
            keys.append(content("k", importlib.import_module("package.kernels").k))
    for name in ("package", "package.kernels", "package.part"):
        sys.modules.pop(name, None)
    assert keys[0] == keys[1] != keys[2]


def test_keys_are_equal_in_every_process(tmp_path: Path) -> None:
    """No address, no order by chance: other processes, and other seeds of hashes, come to the same."""
    loaded(tmp_path, FILES)
    program = (
        "import sys\nfrom pathlib import Path\nfrom gpusim_des.sweeps.content import content\n"
        "from gpusim_des.sweeps.kernel_file import load_module\n"
        f"print(content('b', load_module(Path({str(tmp_path)!r}) / 'kernels.py').b))"
    )
    said = {
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT,
                       env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}).stdout.strip()
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert said == {content("b", loaded(tmp_path, FILES).b)}


def test_a_file_that_was_edited_but_not_loaded_again_has_a_key_of_its_own(tmp_path: Path) -> None:
    """A process that has loaded the file before runs the old code: its rows are not those of the new file."""
    old = loaded(tmp_path, FILES).b
    before = content("b", old)
    (tmp_path / "deeper.py").write_text(DEEPER.replace("return 14 * x", "return 15 * x"))
    between = content("b", old)
    new = content("b", loaded(tmp_path, {**FILES, "deeper": DEEPER.replace("return 14 * x", "return 15 * x")}).b)
    assert len({before, between, new}) == 3


def test_a_sweep_sees_a_changed_neighbour_and_goes_on_with_objects(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpu": "tiny", "grid": 1, "block": 32, "args": {"x": "f32[32]"}, "workers": 1}
    asked["folder"] = tmp_path / "rows"
    for files, computed in ((FILES, 1), (FILES, 0), ({**FILES, "helpers": HELPERS.replace("TILE = 1", "TILE = 9")}, 1)):
        table = gs.sweep(loaded(tmp_path / "files", files).b, **asked)
        assert (table.computed, table.failed) == (computed, [])


def test_an_object_that_cannot_be_taken_apart_is_named(tmp_path: Path) -> None:
    source = KERNELS.replace("C = 1\n", "import threading\nC = [threading.Lock()]\n")
    kernel = loaded(tmp_path, {**FILES, "kernels": source}).k
    with pytest.raises(gs.SweepError, match=r"C = <unlocked _thread\.lock .*give the kernel what it needs of it"):
        gs.sweep(kernel, gpu="tiny", grid=1, block=32, args={"x": "f32[32]"}, folder=tmp_path / "rows", workers=1)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(values, values)
def test_content_is_equal_where_values_are(a: Any, b: Any) -> None:
    """``repr`` tells these values apart, 1 from True and 0.0 from -0.0 as well."""
    assert (content("a", a) == content("b", b)) == (repr(a) == repr(b))


def test_content_of_a_circle() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    other: list[Any] = [1, [1]]
    assert content("c", circle) != content("c", other)
    assert content("r", random.Random(1)) == content("r", random.Random(1)) != content("r", random.Random(2))
