"""``print`` and ``breakpoint()`` in kernels: whose take effect, what the debugger shows, right results."""

from __future__ import annotations

import bdb
import io
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des import cuda

Captured = pytest.CaptureFixture[str]


@gs.kernel
def doubles(t: Any, a: Any, n: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        x = a[i] * 2
        breakpoint()
        y = x + 1
        a[i] = y


DOUBLED = [2 * k + 1.0 for k in range(40)]


def run(kernel: Any, *more: Any, grid: Any = 2, block: Any = 32, **options: Any) -> list[float]:
    """Launch on 40 numbers; returns them afterwards."""
    dev = gs.Device("tiny")
    a = dev.to_device(np.arange(40, dtype=np.float32))
    dev.launch(kernel, grid, block, a, *more, **options)
    found: list[float] = dev.to_host(a).tolist()
    return found


def script(monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    """Let the debugger read these commands."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{c}\n" for c in commands)))
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)  # pytest has one of its own
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)


def answers(capsys: Captured) -> list[str]:
    """What the debugger and the kernel printed, without prompts and places."""
    lines = (line.removeprefix("(Pdb) ") for line in capsys.readouterr().out.splitlines())
    return [line for line in lines if line and not line.startswith(("> ", "-> "))]


def test_one_thread_stops_and_shows_plain_numbers_and_arrays(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Thread 3 of block 1 is number 35; threads 0 to 34 have run before it, one after the other."""
    script(
        monkeypatch, "p x", "p i + 1, t.threadIdx, blockIdx.x", "n", "n", "p y", "p a[34:37].tolist()", "p i == 35", "c"
    )

    assert run(doubles, 40, interpret=True, only_thread=3, only_block=1) == DOUBLED

    assert answers(capsys) == ["70.0", "(36, (3, 0, 0), 1)", "71.0", "[69.0, 71.0, 36.0]", "True"]


def test_places_are_those_of_the_kernels_file(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    script(monkeypatch, "n", "c")
    run(doubles, 40, interpret=True, only_thread=(3,), only_block=(1, 0, 0))
    out = capsys.readouterr().out
    first = doubles.function.__code__.co_firstlineno
    assert f"test_kernel_debugging.py({first + 6})" in out
    assert "-> y = x + 1" in out
    assert f"test_kernel_debugging.py({first + 7})" in out
    assert "-> a[i] = y" in out


def test_every_thread_stops_where_none_is_picked(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    script(monkeypatch, *(40 * ["p i", "c"]))
    assert run(doubles, 40, interpret=True) == DOUBLED
    assert answers(capsys) == [str(k) for k in range(40)]


@gs.kernel
def neighbours(t: Any, a: Any) -> Any:
    i = t.linear
    line = t.shared("line", 40, np.float32)
    pair = [0.0, 1.0]
    line[i] = a[i]
    breakpoint()
    yield t.syncthreads()
    pair[0] = line[(i + 1) % 40]
    a[i] = pair[0]


def test_the_debugger_steps_over_a_barrier(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Before it thread 2 has written three elements, behind it all threads have written theirs."""
    script(monkeypatch, "p line[:3].tolist()", "n", "n", "p line[38:].tolist(), pair", "line[0] = 1", "c")
    result = run(neighbours, grid=1, block=40, interpret=True, only_thread=2)
    assert result == [*range(1, 40), 0]
    assert answers(capsys)[:2] == ["[0.0, 1.0, 2.0]", "([38.0, 39.0], [3.0, 1.0])"]


@cuda.jit
def in_numbas_style(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    mine = cuda.local.array(2, np.int32)
    mine[0] = 7 * i
    mine[1] = 1
    row = a[1]
    breakpoint()
    out[i] = row[i] + mine[0]


def test_kernels_in_numbas_style(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    script(monkeypatch, "p i, mine.tolist(), row.tolist(), threadIdx, blockDim.x", "p out[:3].tolist()", "c")
    dev = cuda.select("tiny")
    a, out = cuda.to_device(np.arange(8.0).reshape(2, 4)), cuda.to_device(np.zeros(4))
    dev.launch(in_numbas_style, 1, 4, a, out, interpret=True, only_thread=2)
    assert out.copy_to_host().tolist() == [4.0, 12.0, 20.0, 28.0]
    assert answers(capsys) == ["(2, [14, 1], [4.0, 5.0, 6.0, 7.0], (2, 0, 0), 4)", "[4.0, 12.0, 0.0]"]


def test_a_debugger_that_the_user_has_chosen_is_called_in_the_kernels_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[FrameType] = []

    def hook() -> None:
        frame = sys._getframe(1)
        stopped.append(frame)

    monkeypatch.setattr(sys, "breakpointhook", hook)
    assert run(doubles, 40, interpret=True, only_thread=1) == DOUBLED
    assert [frame.f_code.co_name for frame in stopped] == 2 * ["__doubles"]  # one in each block


def test_who_quits_the_debugger_ends_the_launch_and_can_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, "q")
    dev = gs.Device("tiny")
    a = dev.to_device(np.arange(40, dtype=np.float32))
    with pytest.raises(bdb.BdbQuit):
        dev.launch(doubles, 2, 32, a, 40, interpret=True)
    dev.memset(a, 0)
    assert dev.to_host(a).tolist() == 40 * [0.0]


def test_a_breakpoint_makes_a_kernel_run_thread_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    with pytest.warns(gs.InterpretedWarning, match=r"because of breakpoint\(\) in line \d+ of test_kernel_debugging"):
        assert run(doubles, 40) == DOUBLED
    with pytest.raises(gs.KernelError, match=r"'doubles' cannot be vectorized: breakpoint\(\)"):
        run(doubles, 40, vectorize=True)


# print --------------------------------------------------------------------------------------------------------------


@gs.kernel
def tells(t: Any, a: Any) -> None:
    i = t.linear
    if i % 2 == 1:
        print("thread", i, a[i], sep=":")
    print(i, (i, 0.5), end=";")
    a[i] = i + 1


def test_print_of_many_threads_at_once_goes_by_statements(capsys: Captured) -> None:
    assert run(tells, grid=1, block=4)[:4] == [1, 2, 3, 4]
    assert capsys.readouterr().out == "thread:1:1.0\nthread:3:3.0\n0 (0, 0.5);1 (1, 0.5);2 (2, 0.5);3 (3, 0.5);"


def test_print_thread_by_thread_goes_by_threads(capsys: Captured) -> None:
    assert run(tells, grid=1, block=4, interpret=True)[:4] == [1, 2, 3, 4]
    out = capsys.readouterr().out
    assert out == "0 (0, 0.5);thread:1:1.0\n1 (1, 0.5);2 (2, 0.5);thread:3:3.0\n3 (3, 0.5);"


def test_only_one_thread_prints_and_all_run(capsys: Captured) -> None:
    assert run(tells, grid=2, block=4, interpret=True, only_thread=3, only_block=1)[:4] == [1, 2, 3, 4]
    assert capsys.readouterr().out == "thread:3:4.0\n3 (3, 0.5);"  # block 0 has stored a 4 before


@gs.kernel
def formats(t: Any, a: Any, width: Any) -> None:
    half = f"{a[t.linear] / 2!r:>{width}}"
    print(f"{t.linear:03d} {a[t.linear]:.2f}", half, f"{(t.linear, 1)} {width} {{}}")


@pytest.mark.parametrize("vectorize", [True, False])
def test_formatted_texts(capsys: Captured, vectorize: bool) -> None:
    run(formats, 5, grid=1, block=2, vectorize=vectorize)
    assert capsys.readouterr().out == "000 0.00   0.0 (0, 1) 5 {}\n001 1.00   0.5 (1, 1) 5 {}\n"


@gs.kernel
def prints_and_waits(t: Any, a: Any) -> None:
    print("before", t.linear)
    while a.atomic_cas(0, 0, 1) != 0:
        pass
    a[1] += 1
    a.atomic_exch(0, 0)


def test_what_threads_printed_that_have_to_run_again_is_printed_once(capsys: Captured) -> None:
    with pytest.warns(gs.InterpretedWarning, match="a loop that waits for other threads"):
        assert run(prints_and_waits, grid=1, block=3)[1] == 4
    assert capsys.readouterr().out == "before 0\nbefore 1\nbefore 2\n"


@gs.kernel
def prints_and_fails(t: Any, a: Any) -> None:
    print("index", t.linear + 39)
    a[t.linear + 39] = 0


@pytest.mark.parametrize("vectorize", [True, False])
def test_what_was_printed_before_an_error_is_heard(capsys: Captured, vectorize: bool) -> None:
    with pytest.raises(gs.BoundsError, match="index 40 is outside 0…39"):
        run(prints_and_fails, grid=1, block=2, vectorize=vectorize)
    assert capsys.readouterr().out == "index 39\nindex 40\n"


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interpret": 1}, r"interpret = 1: give True or False"),
        ({"interpret": True, "vectorize": True}, r"interpret = True and vectorize = True: one asks for"),
        ({"only_thread": 3}, r"only_thread and only_block pick .*: give interpret=True as well"),
        ({"only_block": 0}, r"give interpret=True as well"),
        ({"interpret": True, "only_thread": 32}, r"only_thread = 32 is not in the block \(32, 1, 1\): .* 0 to 31"),
        ({"interpret": True, "only_thread": -1}, r"only_thread = -1 is not in the block"),
        ({"interpret": True, "only_thread": (0, 1)}, r"only_thread = \(0, 1\) is not in the block"),
        ({"interpret": True, "only_block": (2, 0, 0)}, r"only_block = \(2, 0, 0\) is not in the grid \(2, 1, 1\)"),
        ({"interpret": True, "only_thread": 1.5}, r"only_thread = 1.5: give its linear number, or a tuple"),
        ({"interpret": True, "only_thread": True}, r"only_thread = True: give its linear number"),
        ({"interpret": True, "only_thread": (1, 2, 3, 4)}, r"only_thread = \(1, 2, 3, 4\): give its linear number"),
        ({"interpret": True, "only_thread": ()}, r"only_thread = \(\): give its linear number"),
    ],
)
def test_what_cannot_be_watched_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.LaunchError, match=message):
        run(tells, **options)


@gs.block_kernel
def in_block_style(blk: Any, a: Any) -> None:
    blk.store(a, blk.tx, 1.0)


def test_block_style_has_no_single_threads() -> None:
    with pytest.raises(gs.LaunchError, match="interpret = True for block kernel 'in_block_style': it runs all threads"):
        run(in_block_style, interpret=True)
