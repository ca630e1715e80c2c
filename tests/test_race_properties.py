"""Races against their definition, on random programs; no report on programs without races, whatever they do."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import shared_races, thread_order
from tests.race_reference import Access, Event, Meet, racing_accesses
from tests.random_kernels import random_kernel
from tests.test_thread_equality import run
from tests.thread_modules import module_of

SETTINGS = settings(deadline=None, derandomize=True, max_examples=150)
QUICK = settings(SETTINGS, database=None, phases=[Phase.explicit, Phase.generate], max_examples=8)
ELEMENTS = 4

pytestmark = pytest.mark.filterwarnings("ignore::gpusim_des.IndexOverflowWarning")

Step = tuple[Event, int | None]
"""What a block does, and which block does it; ``None``: every one."""


def lanes_of(rng: Random, threads: int) -> list[int]:
    """Some threads: all, one, a warp, or a few."""
    kind = rng.randrange(4)
    if kind == 0:
        return list(range(threads))
    if kind == 1:
        return [rng.randrange(threads)]
    if kind == 2:
        return list(range(min(32, threads)))
    return sorted(rng.sample(range(threads), rng.randint(1, threads)))


def random_program(seed: int, threads: int, blocks: int, *, partial: bool) -> list[Step]:
    rng = Random(seed)
    program: list[Step] = []
    for _ in range(rng.randint(1, 14)):
        block = None if rng.random() < 0.7 else rng.randrange(blocks)
        kind = rng.choice(["read", "write", "write", "atomic", "barrier", "warp"])
        if kind == "barrier":
            program.append((Meet(None), block))
        elif kind == "warp":
            lanes = lanes_of(rng, threads) if partial else list(range(threads))
            program.append((Meet(tuple(lanes)), block))
        else:
            step, first = rng.choice([0, 0, 1, 1]), rng.randrange(ELEMENTS)
            where = {t: (first + step * t) % ELEMENTS for t in lanes_of(rng, threads)}
            program.append((Access(kind, where), block))
    return program


@gs.block_kernel
def obey(blk: Any, program: Any, threads: Any) -> None:
    """Do what a program says, one step after the other."""
    tile = blk.shared(ELEMENTS, np.int32)
    for event, block in program.steps:
        lanes = range(threads) if isinstance(event, Meet) else event.elements
        if isinstance(event, Meet) and event.lanes is not None:
            lanes = event.lanes
        mask = np.isin(np.arange(threads), list(lanes))
        where = np.zeros(threads, np.int32)
        if isinstance(event, Access):
            where[list(event.elements)] = list(event.elements.values())
        on = mask if block is None else (blk.bx == block) & mask
        if isinstance(event, Meet):
            (blk.sync if event.lanes is None else blk.syncwarp)(mask=on)
        elif event.kind == "read":
            blk.sload(tile, where, mask=on)
        elif event.kind == "write":
            blk.sstore(tile, where, blk.tid, mask=on)
        else:
            blk.atomic_add(tile, where, 1, mask=on)


class Program:
    """Steps as a kernel's argument."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps


def counted(program: list[Step], threads: int, blocks: int) -> int:
    dev = gs.Device("tiny")
    launch = dev.launch(obey, blocks, threads, Program(program), threads)
    counters = launch.counters
    assert counters.races + counters.equal_value_races == sum(race.count for race in launch.races)
    return counters.races + counters.equal_value_races


def by_definition(program: list[Step], threads: int, blocks: int) -> int:
    return sum(
        racing_accesses([event for event, only in program if only in {None, block}], threads) for block in range(blocks)
    )


@SETTINGS
@given(seed=st.integers(0, 10**9), threads=st.sampled_from([1, 31, 32, 40, 64]), blocks=st.integers(1, 3))
def test_counts_are_those_of_the_definition(seed: int, threads: int, blocks: int) -> None:
    program = random_program(seed, threads, blocks, partial=False)
    assert counted(program, threads, blocks) == by_definition(program, threads, blocks)


@SETTINGS
@given(seed=st.integers(0, 10**9), threads=st.sampled_from([8, 40]), blocks=st.integers(1, 3))
def test_where_parts_of_warps_meet_no_order_is_overlooked(seed: int, threads: int, blocks: int) -> None:
    """Two accesses per element are remembered: of several lanes in partial order one race may stand for another."""
    program = random_program(seed, threads, blocks, partial=True)
    found, expected = counted(program, threads, blocks), by_definition(program, threads, blocks)
    assert found <= expected
    assert (found > 0) == (expected > 0)


def test_what_is_put_off_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and exchanges are looked at late, at the latest when many wait; here none may wait."""
    monkeypatch.setattr(shared_races, "_MOST_WAITING", 0)
    monkeypatch.setattr(thread_order, "MOST_EXCHANGES", 1)
    for seed in range(60):
        program = random_program(seed, 40, 2, partial=seed % 2 == 1)
        found, expected = counted(program, 40, 2), by_definition(program, 40, 2)
        assert found == expected or (seed % 2 == 1 and 0 < found < expected)


def races_of(launch: gs.Launch) -> list[gs.Race]:
    """All races but those of asynchronous copies, which the random kernels forget to wait for on purpose."""
    return [race for race in launch.races if "copy" not in race.kind]


@QUICK
@given(seed=st.integers(0, 10**9))
def test_kernels_without_races_are_never_reported(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    source, grid, block = random_kernel(seed)
    kernel = module_of(source, tmp_path_factory.mktemp("random")).kern
    for vectorize in (True, False):
        _, launch = run(kernel, grid, block, vectorize=vectorize, count="auto", races="global")
        assert races_of(launch) == []


@QUICK
@given(
    seed=st.integers(0, 10**9),
    threads=st.sampled_from([33, 64, 96]),
    distance=st.integers(1, 32),
)
def test_a_planted_race_is_found_both_ways(
    seed: int, threads: int, distance: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At the end of a random kernel every thread writes its element and reads one of another, without a barrier."""
    source, _, _ = random_kernel(seed)
    planted = '    Z = t.shared("Z", 128, np.int32)\n    Z[t.linear] = 1\n    b = b + Z[(t.linear + {}) % nt]\n'
    head, mark, tail = source.partition("    OI[me] += a + b\n")
    assert mark
    kernel = module_of(head + planted.format(distance) + mark + tail, tmp_path_factory.mktemp("planted")).kern
    launches = [run(kernel, 2, threads, vectorize=way, count="auto")[1] for way in (True, False)]
    crossing = sum((t + distance) % threads // 32 != t // 32 for t in range(threads))
    expected = {("write-read", "block"): 2 * crossing, ("write-read", "warp"): 2 * (threads - crossing)}
    for launch in launches:
        found = {(race.kind, race.scope): race.count for race in launch.races if race.array == "Z"}
        assert found == {key: count for key, count in expected.items() if count}
    assert launches[0].races == launches[1].races
