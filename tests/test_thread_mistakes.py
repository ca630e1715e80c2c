"""Thread style: what must not pass silently, the same in both ways of running a kernel."""

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional.kernel_source import NotVectorizable, parse

HOST = np.zeros(4, np.float32)
TABLE = [0.0]


def run(kernel: gs.ThreadKernel, vectorize: bool | None, threads: int = 8) -> list[float]:
    dev = gs.Device("tiny")
    a = dev.to_device(np.zeros(threads, np.float32))
    dev.launch(kernel, 1, threads, a, vectorize=vectorize)
    return [float(x) for x in dev.to_host(a)]


BOTH = pytest.mark.parametrize("vectorize", [True, False])


@gs.kernel
def members(t: Any, a: Any) -> None:
    i = t.threadIdx.x
    a[i] = 1 if i in (1, 3) else 2 if i not in (0, 5) and i in range(2, 7) else 0


@BOTH
def test_membership_compares_numbers(vectorize: bool) -> None:
    assert run(members, vectorize) == [0, 1, 2, 1, 2, 0, 2, 0]


@gs.kernel
def by_identity(t: Any, a: Any) -> None:
    a[0] = 1 if t.threadIdx.x is t.lane else 0


@gs.kernel
def by_tuples(t: Any, a: Any) -> None:
    a[0] = 1 if (t.threadIdx.x, 1) == (3, 1) else 0


@gs.kernel
def in_a_set(t: Any, a: Any) -> None:
    a[0] = 1 if t.threadIdx.x in frozenset((1, 2)) else 0


def only_sometimes(x: Any) -> Any:  # noqa: RET503 - the mistake that is tested
    if x > 2:
        return x * 10


@gs.kernel
def calls_it(t: Any, a: Any) -> None:
    a[t.threadIdx.x] = only_sometimes(t.threadIdx.x)


@gs.kernel
def assigns_in_some_threads(t: Any, a: Any) -> None:
    if t.threadIdx.x % 2 == 0:
        x = 1.0
    a[t.threadIdx.x] = x


@gs.kernel
def writes_a_host_array(t: Any, a: Any) -> None:
    HOST[0] += 1
    a[t.threadIdx.x] = HOST[0]


@gs.kernel
def writes_a_host_list(t: Any, a: Any) -> None:
    if t.threadIdx.x > 100:
        TABLE[0] = 55.0


@BOTH
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (by_identity, "with `is`: numbers are compared with =="),
        (by_tuples, "compared or looked up outside of the kernel's own expressions"),
        (in_a_set, "looks for a per-thread value in a frozenset: possible are tuples, lists and ranges"),
        (calls_it, "only_sometimes returns a value in line .*, but not on every path"),
        (assigns_in_some_threads, "a variable is used in line .*(by 4 threads that did not assign it|before it was)"),
        (writes_a_host_array, "writes to a ndarray of the host: kernels write to device arrays"),
        (writes_a_host_list, "writes to a list of the host"),
    ],
)
def test_refused(kernel: gs.ThreadKernel, message: str, vectorize: bool) -> None:
    with pytest.raises(gs.KernelError, match=message):
        run(kernel, vectorize)
    assert not HOST.any()
    assert TABLE == [0.0]


@gs.kernel
def assigns_where_it_reads(t: Any, a: Any) -> None:
    if t.threadIdx.x >= 6:
        return
    if t.threadIdx.x % 2 == 0:
        x = 1.0
    if t.threadIdx.x % 4 == 0:
        a[t.threadIdx.x] = x


@BOTH
def test_a_variable_may_be_read_where_it_was_assigned(vectorize: bool) -> None:
    assert run(assigns_where_it_reads, vectorize) == [1, 0, 0, 0, 1, 0, 0, 0]


@gs.kernel
def prints(t: Any, a: Any) -> None:
    if t.threadIdx.x == 1:
        sys.stdout.write("thread 1")


def test_calls_that_do_more_than_compute_run_in_their_thread_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(gs.InterpretedWarning, match="a call of write, which may do more than compute in line"):
        run(prints, None)
    assert capsys.readouterr().out.count("thread") == 1


@gs.kernel
def lock(t: Any, a: Any) -> None:
    while a.atomic_cas(0, 0, 1) != 0:
        pass
    a[1] += 1
    a.atomic_exch(0, 0)


def test_a_spin_lock_ends() -> None:
    with pytest.warns(gs.InterpretedWarning, match="a loop that waits for other threads in line"):
        assert run(lock, None) == [0, 8, 0, 0, 0, 0, 0, 0]


@gs.kernel
def waits_forever(t: Any, a: Any) -> None:
    while a[3] == 0:
        pass


@pytest.mark.filterwarnings("ignore::gpusim_des.InterpretedWarning")
@pytest.mark.parametrize("vectorize", [None, False])
def test_waiting_for_nobody_is_a_deadlock(vectorize: bool | None) -> None:
    with pytest.raises(gs.DeadlockError, match="waits forever in the loop in line"):
        run(waits_forever, vectorize)


@gs.kernel
def counts_long(t: Any, a: Any) -> None:
    k = 0
    while k < 3000:
        k += 1
    a[t.threadIdx.x] = k


@BOTH
def test_a_long_loop_is_no_deadlock(vectorize: bool) -> None:
    assert run(counts_long, vectorize, threads=2) == [3000, 3000]


@gs.kernel
def local_list(t: Any, a: Any) -> None:
    values = [0.0 for _ in range(3)]
    values[1] = t.threadIdx.x
    a[t.threadIdx.x] = values[1] + gs.cdiv(7, 2)


@pytest.mark.filterwarnings("ignore::gpusim_des.InterpretedWarning")
def test_comprehensions_make_local_lists() -> None:
    assert run(local_list, None) == [4 + k for k in range(8)]


def shifted(t: Any, tile: Any, i: Any) -> Any:
    tile[i] = i
    yield t.syncthreads()
    return tile[(i + 1) % 8]


@gs.kernel
def helper_with_a_barrier(t: Any, a: Any) -> Any:
    tile = t.shared("tile", 8, np.int32)
    a[t.threadIdx.x] = yield from shifted(t, tile, t.threadIdx.x)


@BOTH
def test_helpers_may_have_barriers(vectorize: bool) -> None:
    assert run(helper_with_a_barrier, vectorize) == [1, 2, 3, 4, 5, 6, 7, 0]


@gs.kernel
def uses_a_global(t: Any, a: Any) -> None:
    global TABLE  # noqa: PLW0603 - the mistake that is tested
    TABLE = [1.0]


@BOTH
def test_global_statements_are_refused(vectorize: bool) -> None:
    with pytest.raises(gs.KernelError, match=r"uses_a_global: line .* assigns to variables outside of the kernel"):
        run(uses_a_global, vectorize)


def test_the_notice_comes_once_per_kernel() -> None:
    @gs.kernel
    def with_dictionary(t: Any, a: Any) -> None:
        a[t.threadIdx.x] = {0: 1.0}[0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(with_dictionary, None)
        run(with_dictionary, None)
    assert len(caught) == 1
    assert "a dictionary in line" in str(caught[0].message)


def test_the_other_side_of_a_branch_is_not_inside_of_it() -> None:
    @gs.block_kernel
    def kernel(blk: gs.Block) -> None:
        with blk.branch(blk.tx < 5) as taken, taken.orelse:
            blk.syncwarp()

    with pytest.raises(gs.KernelError, match="opens the other side of a branch inside of the branch itself"):
        gs.Device("tiny").launch(kernel, 1, 32)


def test_signals_name_construct_and_line() -> None:
    signal = NotVectorizable("a walrus", parse(only_sometimes_total).site(parse(only_sometimes_total).node))
    assert str(signal).startswith("a walrus in line ")


def only_sometimes_total(x: Any) -> Any:
    return x
