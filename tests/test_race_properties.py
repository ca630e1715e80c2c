"""Races against their definition, on random programs; no report on programs without races, whatever they do."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import executor, shared_races, thread_order
from tests.race_reference import Access, Event, Meet, harm, racing_accesses
from tests.random_kernels import random_kernel
from tests.test_thread_equality import run
from tests.thread_modules import module_of

SETTINGS = settings(deadline=None, derandomize=True, max_examples=60)
QUICK = settings(SETTINGS, database=None, phases=[Phase.explicit, Phase.generate], max_examples=8)
ELEMENTS = 4
MEMORIES = st.sampled_from(["shared", "global"])

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
def obey(blk: Any, program: Any, threads: Any, cells: Any = None) -> None:
    """Do what a program says, one step after the other, in shared memory or in an array of the device."""
    tile = blk.shared(ELEMENTS, np.int32) if cells is None else cells
    load, store = (blk.sload, blk.sstore) if cells is None else (blk.load, blk.store)
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
            load(tile, where, mask=on)
        elif event.kind == "write":
            store(tile, where, blk.tid if event.value is None else event.value, mask=on)
        else:
            blk.atomic_add(tile, where, 1, mask=on)


class Program:
    """Steps as a kernel's argument."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps


def obeyed(program: list[Step], threads: int, blocks: int, memory: Any) -> gs.Launch:
    dev = gs.Device("tiny")
    cells = [dev.malloc(ELEMENTS, np.int32)] if memory == "global" else []
    return dev.launch(obey, blocks, threads, Program(program), threads, *cells, races=memory)


def counted(program: list[Step], threads: int, blocks: int, memory: str = "shared") -> int:
    launch = obeyed(program, threads, blocks, memory)
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


def of_the_grid(program: list[Step], threads: int, blocks: range) -> list[Event]:
    """The steps of some blocks, which run at once, with threads numbered through all blocks."""
    events: list[Event] = []
    for event, only in program:
        doing = [block for block in blocks if only in {None, block}]
        if isinstance(event, Meet):
            events += [event._replace(block=block) for block in doing]
        else:
            elements = {block * threads + t: where for block in doing for t, where in event.elements.items()}
            events.append(event._replace(elements=elements))
    return events


@settings(SETTINGS, max_examples=40)
@given(seed=st.integers(0, 10**9), threads=st.sampled_from([1, 4, 33]), blocks=st.integers(1, 3), apart=st.booleans())
def test_races_of_a_grid_are_those_of_the_definition(seed: int, threads: int, blocks: int, apart: bool) -> None:
    """Global memory, in blocks that run at once, or one after the other (`apart`): counts are of this order."""
    program = random_program(seed, threads, blocks, partial=False)
    parts = [range(b, b + 1) for b in range(blocks)] if apart else [range(blocks)]
    events = [event for part in parts for event in of_the_grid(program, threads, part)]
    with pytest.MonkeyPatch.context() as patch:
        if apart:
            patch.setattr(executor, "CHUNK_THREADS", 1)
        assert counted(program, threads, blocks, "global") == racing_accesses(events, threads, blocks)


@settings(SETTINGS, max_examples=60)
@given(seed=st.integers(0, 10**9), threads=st.sampled_from([2, 33]), blocks=st.integers(1, 2), memory=MEMORIES)
def test_writes_of_one_value_are_a_weaker_kind(seed: int, threads: int, blocks: int, memory: str) -> None:
    """Programs that mostly write 0 or 1: what is told as worse is worse, and what must be told is."""
    rng = Random(seed)
    program: list[Step] = []
    for event, only in random_program(seed, threads, blocks, partial=False):
        if isinstance(event, Meet):
            program.append((event, only))
            continue
        few = dict(sorted(rng.sample(sorted(event.elements.items()), min(2, len(event.elements)))))
        program.append((Access(event.kind if rng.random() < 0.2 else "write", few, rng.choice([0, 1, 1, 1])), only))
    if memory == "global":
        answers = [harm(of_the_grid(program, threads, range(blocks)), threads, blocks)]
    else:
        answers = [harm([e for e, only in program if only in {None, b}], threads) for b in range(blocks)]
    told = obeyed(program, threads, blocks, memory).counters.races > 0
    assert told <= any(some for some, _ in answers)
    assert told >= any(certain for _, certain in answers)


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


PLANTS = {
    "write-read": "{Z}[{i}] = {i}\n    b = b + {Z}[({i} + {far}) % {n}]",
    "read-write": "{Z}[{i}] = 1\n    yield t.syncthreads()\n    b = b + {Z}[({i} + {far}) % {n}]\n    {Z}[{i}] = 2",
    "write-write": "{Z}[{i}] = {i}\n    {Z}[({i} + {far}) % {n}] = {i}",
    "atomic-write": "{Z}.atomic_add({i}, 1)\n    {Z}[({i} + {far}) % {n}] = {i}",
}
"""Two accesses by which every thread races with the one that is so far away."""


def planted(source: str, rng: Random, plant: str) -> str:
    """Put statements between two others of a kernel that all threads reach.

    Where threads may leave, in kernels without barriers, that is the first one.
    """
    lines = source.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("    loc = ["))
    own = [k for k, line in enumerate(lines) if line[:4].isspace() and not line[4].isspace() and k > first]
    places = [k for k in own if not lines[k].lstrip().startswith(("else", "elif"))]
    if "        C[z] = 0" in lines:
        start = lines.index("        C[z] = 0") + 1
        places = [k for k in places if k >= start]
    at = rng.choice(places) if "yield t.syncthreads()" in source else places[0]
    return "\n".join([*lines[:at], "    " + plant, *lines[at:], ""])


@pytest.mark.parametrize("kind", PLANTS)
@settings(QUICK, max_examples=2)
@given(seed=st.integers(0, 10**9), threads=st.sampled_from([33, 64, 96]), distance=st.integers(1, 32))
def test_a_planted_race_is_found_both_ways(
    seed: int, threads: int, distance: int, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Somewhere in a random kernel every thread races with one of its block."""
    source, _, _ = random_kernel(seed)
    plant = '{Z} = t.shared("{Z}", 128, np.int32)\n    ' + PLANTS[kind]
    source = planted(source, Random(seed), plant.format(Z="Z", i="t.linear", far=distance, n="nt"))
    kernel = module_of(source, tmp_path_factory.mktemp("planted")).kern
    launches = [run(kernel, 2, threads, vectorize=way, count="auto")[1] for way in (True, False)]
    crossing = sum((t + distance) % threads // 32 != t // 32 for t in range(threads))
    expected = {(kind, "block"): 2 * crossing, (kind, "warp"): 2 * (threads - crossing)}
    for launch in launches:
        found = {(race.kind, race.scope): race.count for race in launch.races if race.array == "Z"}
        assert found == {key: count for key, count in expected.items() if count}
    assert launches[0].races == launches[1].races


@pytest.mark.parametrize("kind", sorted(PLANTS.keys() - {"read-write"}))
@settings(QUICK, max_examples=2)
@given(seed=st.integers(0, 10**9), threads=st.sampled_from([33, 64]), distance=st.integers(1, 32))
def test_a_planted_race_in_global_memory_is_found(
    seed: int, threads: int, distance: int, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same for the threads of three blocks; thread by thread the two accesses of different blocks change places."""
    source, _, _ = random_kernel(seed)
    plant = PLANTS[kind].format(Z="Z", i="me", far=distance, n=f"{3 * threads}")
    source = planted(source.replace("H, M, n):", "H, M, n, Z):", 1), Random(seed), plant)
    kernel = module_of(source, tmp_path_factory.mktemp("planted")).kern
    more = np.zeros(3 * threads, np.int32)
    near = {
        scope: 3 * sum(t + distance < threads and ((t + distance) // 32 == t // 32) == same for t in range(threads))
        for scope, same in (("warp", True), ("block", False))
    }
    for way in (True, False):
        _, launch = run(kernel, 3, threads, vectorize=way, count="auto", races="global", more=more)
        found = [(race.kind, race.scope, race.count) for race in launch.races if race.array == "Z"]
        inside = {scope: count for name, scope, count in found if scope != "grid" and name == kind}
        assert inside == {scope: count for scope, count in near.items() if count}
        between = [(name, count) for name, scope, count in found if scope == "grid"]
        assert sum(count for _, count in between) == 3 * distance
        assert not way or {name for name, _ in between} == {kind}
