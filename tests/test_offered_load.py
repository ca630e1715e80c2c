"""Rule M6: what a channel counts as its load, and how long reads wait for batches because of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.timing.hbm import Channel
from gpusim_des.timing.offered_load import PARTS, WINDOW_BITS, OfferedLoad, mean_wait_fs
from tests.programs import TINY, fp32, issues, load, run_cached, store

ONE_LINE = TINY.replace(l2_size="512 B")
"""One line in each of the four slices. Lines 0 and 1, and 8 and 9, share slice 0."""

WINDOW_FS = 1 << WINDOW_BITS


def test_a_read_waits_for_batches_of_writes() -> None:
    """M6: 41 lines of its channel, 8 ns each, leave before the read: 328 ns, 78 parts of 1024 in 4295 ns.

    A batch takes 4096 ns, so the mean wait is 78/1024 × 4096 / 2 / (1 - 3/4 × 78/1024) = 165.45 ns. 400
    instructions after the stores, the line that the read drives out itself, 8 ns, is all that is before it otherwise.
    """
    batches = ONE_LINE.replace(dram_write_batch="64 KiB")
    lines = [8 * (n // 2) + n % 2 for n in range(41)]
    program = [*(store([4 * line + k for k in range(4)]) for line in lines), *[fp32()] * 400, load([1])]
    last = [issues(run_cached(gpu, [program]))[-1][-1] for gpu in (batches, ONE_LINE)]
    assert last[0] - last[1] in (157, 158)


def test_a_channel_counts_what_arrived_lately() -> None:
    """M6: writes of 536 ns are 127 parts of a window of 4295 ns; a batch of 4 KiB takes 256 ns, one of 1 KiB 64 ns.

    The first read waits 127/1024 × 256 / 2 / (1 - 3/4 × 127/1024) = 17.503095 ns. When half of the next window is over,
    half of them counts, 63 parts, and nothing of the read of 2 ns: 8.255950 ns.
    """
    channel = Channel(TINY.replace(dram_read_batch="1 KiB", dram_write_batch="4 KiB"))
    channel.write(0, 268)
    assert channel.fetch(600_000_000, 1) == 602_000_000 + 17_503_095
    half_later = 3 << WINDOW_BITS - 1
    assert channel.fetch(half_later, 1) == half_later + 2_000_000 + 8_255_950


def test_a_read_waits_in_the_queue_or_for_a_batch() -> None:
    """M6: the longer of the two: 536 ns of writes are before it, more than the mean wait of 17.5 ns for batches."""
    channel = Channel(TINY.replace(dram_write_batch="4 KiB"))
    channel.write(0, 268)
    assert channel.fetch(0, 1) == 538_000_000


def test_a_lone_read_waits_for_nobody() -> None:
    """M6: with batches as without, also if many have read long before."""
    channel = Channel(TINY.replace(dram_read_batch="1 MiB", dram_write_batch="1 MiB"))
    assert channel.fetch(0, 1) == 2_000_000
    channel.fetch(0, 10_000)
    later = 10 << WINDOW_BITS
    assert channel.fetch(later, 1) == later + 2_000_000


steps = st.tuples(st.integers(0, 2 * WINDOW_FS), st.integers(0, WINDOW_FS), st.booleans())
"""Femtoseconds after the one before, service, and whether it is a read."""


@given(st.lists(steps, max_size=12))
def test_shares_are_those_of_all_that_ever_arrived(arrivals: list[tuple[int, int, bool]]) -> None:
    """From the list of all arrivals, window by window, to the part of 1024 that whole parts leave open."""
    load_of_channel, seen, now = OfferedLoad(), [], 0
    for after, service, is_read in arrivals:
        now += after
        load_of_channel.add(now, reads=service * is_read, writes=service * (not is_read))
        seen.append((now // WINDOW_FS, service, is_read))
    window = now // WINDOW_FS
    left = 1 - (now % WINDOW_FS * PARTS // WINDOW_FS) / PARTS  # whole parts of the window are gone
    weights = {window: 1.0, window - 1: left}
    reads, writes = (
        sum(service * weights.get(when, 0) for when, service, was_read in seen if was_read == kind) / WINDOW_FS * PARTS
        for kind in (True, False)
    )
    found = load_of_channel.shares(now)
    assert found[0] == pytest.approx(min(PARTS - min(PARTS, writes), reads), abs=2)
    assert found[1] == pytest.approx(min(PARTS, writes), abs=2)


@given(st.integers(0, PARTS), st.integers(0, PARTS), st.integers(0, 10**9), st.integers(0, 10**9))
def test_waits_are_by_pollaczek_and_khinchine(reads: int, writes: int, of_reads: int, of_writes: int) -> None:
    """In floating point; with one kind of a small load, half of its batch for its share of the time."""
    writes = min(writes, PARTS - reads)
    r, w = reads / PARTS, writes / PARTS
    expected = (r * of_reads + w * of_writes) / 2 / (1 - 0.75 * (r + w))
    assert abs(mean_wait_fs((reads, writes), of_reads, of_writes) - expected) <= 1 + 1e-9 * expected
