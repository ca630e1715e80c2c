"""Where races are looked for, and what is said of them: counts, limits, warnings, all mistakes of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional.reports import MOST_REPORTS
from tests.test_races import found, launched, reverse, rotate

# Where it is looked for, and what is said -----------------------------------------------------------------------------


def test_off_looks_for_none() -> None:
    assert found(launched(reverse, 3, 64, False, races="off")) == []


def test_a_wrong_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="races = 'all': possible are 'shared', 'global', 'off'"):
        launched(reverse, 3, 64, False, races="all")


def test_a_launch_warns_of_its_worst_race() -> None:
    with pytest.warns(gs.RaceWarning, match=r"kernel 'rotate': race on shared array tile.*\n.*\n.*\nand 1 more in"):
        launch = launched(rotate, 1, 64, False)
    text = str(launch)
    assert text.startswith("race on shared array tile[")
    assert "\nkernel 'rotate', grid (1, 1, 1), block (64, 1, 1)\n" in text
    assert text.splitlines()[-2].split() == ["races", "64"]


@gs.block_kernel
def at_many_places(blk: Any, a: Any, c: Any, functions: Any) -> None:
    s = blk.shared(64, np.int32, "s")
    for store in functions:
        store(blk, s)


def test_reports_have_a_limit_and_counts_have_none() -> None:
    """250 places write to elements that other threads wrote in the place before: 64 races at all but the first."""
    where = "(blk.tid, 63 - blk.tid)"
    launch = launched(at_many_places, 1, 64, many_places(250, f"blk.sstore(s, {where}[{{k}} % 2], blk.tid)"))
    assert len(launch.races) == MOST_REPORTS
    assert launch.counters.races == 249 * 64
    assert launch.unreported == {"races": 149 * 64}
    assert f"\nand {149 * 64:,} more races at places that are too many to report\n" in str(launch)


@gs.block_kernel
def reads_only(blk: Any, a: Any, c: Any, functions: Any) -> None:
    s = blk.shared(130, np.int32, "s")
    for load in functions:
        load(blk, s)


def test_what_has_no_report_is_counted() -> None:
    """64 threads read at 130 places what nobody wrote: 30 times 64 reads are at places of which none is kept."""
    more = r"and 99 more in launch\.mistakes\nand 1,920 more unwritten reads at places that are too many to report$"
    with pytest.warns(gs.UnwrittenReadWarning, match=more):
        launch = launched(reads_only, 1, 64, many_places(130, "blk.sload(s, {k})"))
    assert launch.unreported == {"unwritten_reads": 1920}
    assert sum(read.count for read in launch.unwritten_reads) == 6400
    few = launched(reads_only, 1, 64, many_places(100, "blk.sload(s, {k})"))
    assert (few.unreported, len(few.mistakes)) == ({}, 100)


def test_harmless_races_that_have_no_report_are_in_the_counters_only() -> None:
    launch = launched(at_many_places, 1, 64, many_places(120, "blk.sstore(s, 0, 7)"))
    assert (launch.unreported, launch.mistakes, launch.counters.races) == ({}, (), 0)
    assert launch.counters.equal_value_races > sum(race.count for race in launch.races)


def many_places(lines: int, statement: str) -> Functions:
    """So many functions with a statement each."""
    source = "\n".join(f"def f{k}(blk, s): {statement.format(k=k)}" for k in range(lines))
    names: dict[str, Any] = {}
    exec(compile(source, "many_places.py", "exec"), names)
    return Functions([names[f"f{k}"] for k in range(lines)])


@pytest.mark.parametrize(
    ("mild", "kept"),
    [
        ("blk.sstore(s, 0, 7)", ("write-write", "block", True)),
        ("blk.sstore(s, blk.tid // 2, blk.tid)", ("write-write", "warp", False)),
    ],
    ids=["equal values", "within warps"],
)
def test_what_is_harmless_leaves_room_for_what_is_not(mild: str, kept: tuple[str, str, bool]) -> None:
    """105 places race in a milder way, more than are kept; then 64 threads write their numbers to one element."""

    @gs.block_kernel
    def kernel(blk: Any, a: Any, c: Any, functions: Any) -> None:
        s = blk.shared(64, np.int32, "s")
        for store in functions:
            store(blk, s)
            blk.sync()
        blk.sstore(s, 50, blk.tid)

    with pytest.warns(gs.RaceWarning, match=r"race on shared array s\[50\] .* \(32 times\)"):
        launch = launched(kernel, 1, 64, many_places(105, mild))
    assert len(launch.races) == MOST_REPORTS
    shown = [(race.kind, race.scope, race.equal_values) for race in launch.races]
    assert shown[0] == ("write-write", "block", False)
    assert shown[1] == ("write-write", "warp", False)
    assert set(shown[2:]) == {kept}
    assert (launch.races[0].element, launch.races[0].count) == ((50,), 32)


class Functions:
    """Functions as a kernel's argument."""

    def __init__(self, functions: list[Any]) -> None:
        self._functions = functions

    def __iter__(self) -> Any:
        return iter(self._functions)


def test_blocks_that_run_again_are_counted_once() -> None:
    """Blocks disagree on Python control flow, so that they run again in groups."""

    @gs.block_kernel
    def kernel(blk: Any, a: Any, c: Any) -> None:
        s = blk.shared(64, np.int32, "s")
        blk.sstore(s, blk.tid, 1)
        blk.sload(s, 63 - blk.tid)
        if blk.bx % 2 == 0:
            blk.sync()

    assert found(launched(kernel, 4, 64, races="global")) == [("write-read", "block", False, 256)]


def test_what_only_some_blocks_do() -> None:
    """One shadow stands for all blocks until one of them differs."""

    @gs.block_kernel
    def kernel(blk: Any, a: Any, c: Any) -> None:
        s = blk.shared(64, np.int32, "s")
        blk.sstore(s, blk.tid, 1)
        blk.sync(mask=(blk.bx != 1) & (blk.tid >= 0))
        blk.sload(s, 63 - blk.tid)
        blk.sync()
        blk.sload(s, 62 - blk.tid, mask=blk.tid < 63)

    assert found(launched(kernel, 3, 64)) == [("write-read", "block", False, 64)]


@pytest.mark.filterwarnings("ignore::gpusim_des.StreamRaceWarning")
def test_a_device_knows_all_mistakes() -> None:
    """Those of its kernels and those between its streams, in one list."""
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.zeros(64, np.int32), name) for name in "ac")
    assert dev.mistakes() == ()
    racy = dev.launch(reverse, 1, 64, a, c, False)
    dev.launch(reverse, 1, 64, a, c, True)
    for name in ("left", "right"):
        dev.memset_async(a, 0, dev.stream(name=name))
    found_ones = dev.mistakes()
    assert found_ones == (*racy.mistakes, *dev.stream_races())
    assert [type(mistake) for mistake in found_ones] == [gs.Race, gs.StreamRace]
