"""``gpusim_des.cuda`` on the host: decorators, launches, arrays, streams, events, and what is refused."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import gpusim_des as gs
import gpusim_des.cuda
from gpusim_des import cuda
from gpusim_des.cuda import current
from gpusim_des.trace import CopyMemory, LaunchKernel
from tests.thread_modules import module_of


@pytest.fixture(autouse=True)
def small_device() -> Iterator[gs.Device]:
    yield cuda.select("tiny")
    current._Current.device = None


@cuda.jit
def scale(a: Any, factor: Any) -> None:
    i = cuda.grid(1)
    if i < a.shape[0]:
        a[i] *= factor


# Devices ------------------------------------------------------------------------------------------------------------


def test_the_device_in_use_is_an_h100_until_another_is_chosen() -> None:
    current._Current.device = None
    assert cuda.device().gpu.name == "h100-sxm"
    assert cuda.device() is cuda.device()
    assert cuda.get_current_device().compute_capability == (9, 0)
    mine = gs.Device("t4")
    assert cuda.select(mine) is mine is cuda.device()
    info = cuda.select_device(0)
    assert (info.name, info.MULTIPROCESSOR_COUNT, info.WARP_SIZE, info.id) == ("t4", 40, 32, 0)
    assert cuda.is_available()
    with pytest.raises(gs.ModelError):
        cuda.select("no-such-gpu")
    with pytest.raises(gs.LaunchError, match=r"select_device\(1\): there is device 0 only"):
        cuda.select_device(1)


def test_both_ways_to_import_it_are_one_module() -> None:
    assert importlib.import_module("gpusim_des.cuda") is cuda is gs.cuda is gpusim_des.cuda


# Kernels ------------------------------------------------------------------------------------------------------------


def test_a_kernel_runs_on_host_arrays_which_are_copied_in_and_back() -> None:
    a = np.arange(6.0)
    scale[1, 32](a, 2)
    assert a.tolist() == [0, 2, 4, 6, 8, 10]
    commands = cuda.device().program.commands
    assert [(c.direction, c.nbytes) for c in commands if isinstance(c, CopyMemory)] == [("h2d", 48), ("d2h", 48)]
    assert sum(isinstance(c, LaunchKernel) for c in commands) == 1
    assert cuda.device().leaks() == []
    assert scale.launches[-1].counters.global_load_requests == 1
    assert cuda.device().simulate().kernels[0].name == "scale"


def test_wrappers_say_in_which_direction_arrays_are_copied() -> None:
    @cuda.jit
    def add(a: Any, b: Any, c: Any) -> None:
        i = cuda.grid(1)
        c[i] = a[i] + b[i]
        a[i] = 0

    a, b, c = np.arange(4.0), np.ones(4), np.full(4, 7.0)
    a.flags.writeable = False
    add[1, 4](cuda.In(a), cuda.InOut(b), cuda.Out(c))
    assert (a.tolist(), c.tolist()) == ([0, 1, 2, 3], [1, 2, 3, 4])
    copies = [c.direction for c in cuda.device().program.commands if isinstance(c, CopyMemory)]
    assert copies == ["h2d", "h2d", "d2h", "d2h"]
    with pytest.raises(gs.DeviceMemoryError, match=r"argument 'a' is a read-only array, and would be copied"):
        add[1, 4](a, b, c)
    with pytest.raises(gs.DeviceMemoryError, match=r"cuda.Out of a list: give a NumPy array"):
        add[1, 4](a, b, cuda.Out([1]))  # type: ignore[arg-type]
    with pytest.raises(gs.DeviceMemoryError, match=r"arguments 'b' and 'c' are views of the same memory"):
        add[1, 2](cuda.In(a), b[:2], b[1:3])
    assert cuda.device().leaks() == []


def test_what_a_failed_launch_was_given_is_unchanged_and_freed() -> None:
    a = np.arange(4.0)

    @cuda.jit
    def goes_too_far(a: Any) -> None:
        a[cuda.grid(1)] = 1

    with pytest.raises(gs.BoundsError, match=r"store to 'a'"):
        goes_too_far[1, 32](a)
    assert a.tolist() == [0, 1, 2, 3]
    assert cuda.device().leaks() == []
    with pytest.raises(gs.DeviceMemoryError, match="device memory"):  # the second one does not fit
        scale[1, 32](a, cuda.In(np.broadcast_to(np.float64(1), 1 << 28)))
    assert cuda.device().leaks() == []


def test_arguments_that_are_no_arrays() -> None:
    @cuda.jit
    def many(out: Any, flag: Any, pair: Any, nothing: Any, zero: Any) -> None:
        if nothing is None and flag:
            out[0] = pair[0] * 10 + pair[1] + zero

    out = np.zeros(1)
    many[1, 1](out, True, (3, 4.5), None, np.array(0.25))
    assert out.tolist() == [34.75]
    with pytest.raises(gs.DeviceMemoryError, match=r"argument \[1\] of type list: kernels get numbers, tuples"):
        many[1, 1](out, True, [1], None, 0)
    with pytest.raises(gs.DeviceMemoryError, match=r"argument 'text' of type str"):
        many[1, 1](out, True, "text", None, 0)
    with pytest.raises(TypeError, match=r"kernel 'many' takes \(out, flag, pair, nothing, zero\), got 1 argument"):
        many[1, 1](out)


def test_launches_are_kept_by_the_device() -> None:
    """So they are forgotten with its own, and another device knows none of them."""
    cuda.select("tiny")
    for factor in (2, 3):
        scale[1, 32](np.ones(4), factor)
    first, second = scale.launches
    assert (first, second) == tuple(cuda.device().launches)
    assert first.counters == second.counters
    gone = weakref.ref(first)
    del first, second
    used = cuda.device()
    cuda.select("h100-sxm")
    assert scale.launches == []
    cuda.select(used).forget_launches()
    assert scale.launches == []
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("launch", "error", "message"),
    [
        (lambda a: scale(a, 2), TypeError, r"scale is a kernel: launch it with scale\[blocks, threads\]\(a, factor\)"),
        (lambda a: scale[1](a, 2), gs.LaunchError, r"scale\[1\]: give 2 to 4 values"),
        (lambda a: scale[1, 2, 0, 0, 0](a, 2), gs.LaunchError, r"scale\[1, 2, 0, 0, 0\]: give 2 to 4 values"),
        (lambda a: scale[0, 32](a, 2), gs.LaunchError, r"grid"),
        (lambda a: scale[1, 4096](a, 2), gs.LaunchError, r"4,?096"),
        (lambda a: scale[1, 32, "s"](a, 2), gs.StreamError, r"stream = 's': give one that cuda.stream\(\) made, or 0"),
        (lambda a: scale[1, 32, 0, -8](a, 2), gs.LaunchError, r"dynamic_shared = -8"),
        (lambda a: scale.forall(0)(a, 2), gs.LaunchError, r"scale.forall\(0\): give the number of threads, at least 1"),
    ],
)
def test_launches_that_are_refused(launch: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        launch(np.arange(4.0))


def test_forall_finds_blocks_that_fill_the_gpu() -> None:
    """On ``tiny`` (512 threads a block and an SM) one block of 512 threads fills an SM, and so do two of 256."""
    a = np.arange(700.0)
    configured = scale.forall(700)
    assert (configured.griddim, configured.blockdim) == (2, 512)
    configured(a, 2)
    assert a[-1] == 1398
    assert scale.forall(700, tpb=64).griddim == 11
    assert repr(configured) == "<<cuda kernel scale(a, factor)>[2, 512]>"


def test_sizes_may_be_lists() -> None:
    a = np.arange(4.0)
    scale[[1], [32]](a, 3)
    assert a.tolist() == [0, 3, 6, 9]


def test_options_of_jit() -> None:
    @cuda.jit(max_registers=40, fastmath=True, debug=False, opt=True, cache=False, lineinfo=True, link=None)
    def kernel(a: Any) -> None:
        a[cuda.grid(1)] = 1

    kernel[1, 4](np.zeros(4))
    assert kernel.launches[-1].trace.registers == 40
    assert kernel.launches[-1].trace.assumptions == ()
    for options, message in (
        ({"link": ["a.cu"]}, r"cuda.jit\(link=\['a.cu'\]\): not possible here; code in CUDA C or PTX cannot run"),
        ({"argtypes": ["f4"]}, r"give the signature first, @cuda.jit\('void\(float32\[:\]\)'\)"),
        ({"speed": 11}, r"cuda.jit has no option 'speed'; it knows .*, max_registers"),
    ):
        with pytest.raises(TypeError, match=message):
            cuda.jit(**options)
    with pytest.raises(TypeError, match=r"cuda.jit of 5: give a function"):
        cuda.jit(5)


def test_device_functions_are_for_kernels() -> None:
    @cuda.jit("float32(float32)", device=True)
    def half(x: Any) -> Any:
        return x / 2

    @cuda.jit
    def halves(a: Any) -> None:
        a[cuda.grid(1)] = half(a[cuda.grid(1)])

    a = np.arange(3, dtype=np.float32)
    halves[1, 3](a)
    assert a.tolist() == [0, 0.5, 1]
    with pytest.raises(TypeError, match="half is a device function: only kernels can call it"):
        half(1.0)
    with pytest.raises(TypeError, match="half is a device function: kernels call it, and it cannot be launched"):
        half[1, 1]
    assert repr(half) == "<device function half(x)>"


SIGNATURES = [
    "void(float32[:], float32)",
    "(f4[::1], f4)",
    (numba.float32[:], numba.float32),
    numba.void(numba.float32[::1], numba.float32),
    ["void(float64[:, :], float32)", "void(float32[:], float32)"],
    [numba.void(numba.float32[:], numba.float32)],
    gs.void(gs.float32[:], gs.float32),
    (gs.float32[::1], gs.float32),
    [gs.void(gs.float64[:, :], gs.float32), gs.void(gs.float32[:], gs.float32)],
]


@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_signatures_convert_numbers_and_check_arrays(signature: Any) -> None:
    """With a ``float32`` the product is one of 32 bits; without a signature, ``0.1`` is a ``float64``."""

    def times(a: Any, x: Any) -> None:
        a[cuda.grid(1)] *= x

    product: Any = cuda.jit(signature)(times)
    a = np.ones(1, np.float32)
    product[1, 1](a, 0.1)
    assert "fp64" not in product.launches[-1].counters.instruction_mix
    with pytest.raises(gs.LaunchError, match=r"declared for .*float32\[:\], float32\).* got \(float64\[:\]"):
        product[1, 1](np.ones(1), 0.1)
    with pytest.raises(gs.LaunchError, match=r"got \(float32\[:, :\], int\): convert the arguments"):
        product[1, 1](np.ones((1, 1), np.float32), 1)
    with pytest.raises(gs.LaunchError, match=r"got \(float32\[:\]\)"):
        product[1, 1](a)


WITH_TYPES = """
import numpy as np
from numba import boolean, complex64, cuda, float32, float64, int32, intp, uint8, void

BIG = float32(3)


@cuda.jit(float64(float32), device=True)
def half(x):
    return x / 2


@cuda.jit(void(float32[:], int32, uint8[:]))
def kernel(a, n, flags):
    s = cuda.shared.array(32, float32)
    seen = cuda.local.array(1, dtype=boolean)
    i = cuda.threadIdx.x
    s[i] = float32(i) * BIG + float32(half(float32(n)))
    seen[0] = i > 3
    cuda.syncthreads()
    a[i] = s[31 - i] + intp(i)
    flags[i] = uint8(seen[0]) + uint8(300)


def run():
    a, flags = cuda.device_array(32, dtype=float32), cuda.to_device(np.zeros(32, np.uint8))
    kernel[1, 32](a, 7, flags)
    return a.copy_to_host(), flags.copy_to_host(), complex64(1)
"""


@pytest.mark.parametrize(
    "line",
    [
        "from gpusim_des import boolean, complex64, cuda,",
        "from gpusim_des import cuda\nfrom numba import boolean, complex64,",
    ],
    ids=["ours", "Numba's"],
)
def test_types_come_with_the_same_import_line(line: str, tmp_path: Path) -> None:
    """Numba's own types are welcome as well; ``uint8(300)`` is 44."""
    source = WITH_TYPES.replace("from numba import boolean, complex64, cuda,", line)
    assert source != WITH_TYPES
    a, flags, number = module_of(source, tmp_path).run()
    assert a.dtype == np.float32
    assert a.tolist() == [3 * (31 - i) + 3.5 + i for i in range(32)]
    assert flags.tolist() == [44 + (i > 3) for i in range(32)]
    assert number == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gs.float32[3], r"float32\[3\]: give a colon for each dimension, for example float32\[:, :\]"),
        (lambda: gs.void(gs.float32, "x"), r"void\('x'\): give types such as float32, int32\[:\]"),
    ],
)
def test_types_that_are_none(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("float32[:]", r"signature 'float32\[:\]': write void\(types of the arguments\)"),
        ("void(float33)", r"'float33' is no type; possible are int32"),
        ("void(float32[x])", r"'float32\[x\]' is no type"),
        ((int,), r"<class 'int'> in a signature: possible are numbers and arrays of numbers"),
    ],
)
def test_signatures_that_cannot_be_read(signature: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        cuda.jit(signature)


def test_whole_numbers_take_no_fractions() -> None:
    @cuda.jit("void(int32[:], int32)")
    def fill(a: Any, x: Any) -> None:
        a[cuda.grid(1)] = x

    a = np.zeros(1, np.int32)
    fill[1, 1](a, np.int64(7))
    assert a.tolist() == [7]
    with pytest.raises(gs.LaunchError, match=r"declared for \(int32\[:\], int32\), and got \(int32\[:\], float\)"):
        fill[1, 1](a, 7.5)


def test_the_host_program_knows_the_lines_of_the_user() -> None:
    """Launch, copies and their warnings belong to this file, not to the package."""
    a = np.arange(np.int64(4), dtype=np.float64)
    scale[np.int64(1), (np.int32(32), 1)](a, 2)
    here = test_the_host_program_knows_the_lines_of_the_user.__code__.co_firstlineno + 3
    commands = cuda.device().program.commands
    assert [c.line for c in commands if isinstance(c, CopyMemory | LaunchKernel)] == 3 * [here]
    with pytest.warns(gs.PageableCopyWarning) as found:
        cuda.to_device(a, stream=cuda.stream())
    assert found[0].filename == __file__
