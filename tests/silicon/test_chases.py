"""Pointer chases cost what their hops consist of, and are as long as measured wherever the measured curve is flat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.gpu import load_gpu
from gpusim_des.silicon import Point, Target, list_targets, load_target
from gpusim_des.silicon.chases import chase, cycles_per_hop, plateaus, ring_of

CHASES = [target for target in list_targets() if target.reproduction == "cycles_per_hop"]

PLATEAUS = {
    # L1, L2, DRAM; the two halves of an L2 are told apart only where each is flat.
    "pchase_v100": [28, 212, 434],
    "pchase_a100_80": [33, 206, 412, 552],
    "pchase_md_h100": [40, 291, 695],
    "pchase_md_v100": [36, 221, 460],
    "pchase_h100_pcie": [34, 265, 650],
    "pchase_a100_40": [36, 213, 574],
    "pchase_l40": [36, 276, 631],
}
"""Cycles of the plateaus of every chase, read off the published curves by eye."""


# A hop --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "latency"), [(8, 30), (100, 30), (704, 100)])
def test_an_index_takes_two_integer_instructions_to_become_an_address(lines: int, latency: int) -> None:
    """4 cycles each on the tiny GPU; its L1 holds 256 lines, and its L2 1024 for an SM."""
    gpu = load_gpu("tiny")
    assert gpu.pipe("int").latency_cycles == 4
    assert cycles_per_hop(gpu, {"kib": lines / 8}) == latency
    assert cycles_per_hop(gpu, {"kib": lines / 8, "ring": "indices"}) == latency + 2 * 4


@pytest.mark.parametrize("unroll", [1, 8, 32])
@pytest.mark.parametrize(("lines", "latency"), [(32, 30), (704, 100)])
def test_a_turn_ends_with_four_integer_instructions_and_a_branch(lines: int, latency: int, unroll: int) -> None:
    """4 · 4 cycles and a branch of 10, once in so many hops."""
    gpu = load_gpu("tiny")
    assert gpu.branch_latency_cycles == 10
    assert cycles_per_hop(gpu, {"kib": lines / 8, "unroll": unroll}) == latency + (4 * 4 + 10) / unroll


def test_a_round_has_whole_turns() -> None:
    """5 lines are walked as 8, and a ring that fits in no cache in 1504 hops, so that no half turn is measured."""
    gpu = load_gpu("tiny")
    for kib, latency in ((5 / 8, 30), (4096, 200)):
        assert gpu.dram_latency_cycles == 200
        assert cycles_per_hop(gpu, {"kib": kib, "unroll": 8}) == latency + 26 / 8


def test_a_chase_is_the_instructions_that_it_says() -> None:
    """16 hops and the first load; two integer instructions a hop; four, and a branch, for each of two turns."""
    dev = gs.Device("tiny")
    words, order = ring_of(8)
    ends = dev.to_device(order[:1].copy())
    counters = dev.launch(chase, 1, 1, dev.to_device(words), ends, 16, 1, 2, 8, registers=32, count="declared").counters
    mix = {name: number for name, number in counters.instruction_mix.items() if number}
    assert mix == {"global_load": 1 + 16, "int": 16 * 2 + 2 * 4, "branch": 2, "global_store": 1}
    assert dev.to_host(ends).tolist() == [order[0]]  # twice around a ring of eight


# Plateaus -----------------------------------------------------------------------------------------------------------


def test_a_plateau_is_two_neighbours_within_two_percent() -> None:
    """102 is 2 % more than 100, 104.1 is more than 2 % above 102; a lone point is none."""
    assert plateaus([100, 102, 104.1]) == [range(2)]
    assert plateaus([104.1, 102, 100]) == [range(1, 3)]
    assert plateaus([100, 102.1, 100]) == []
    assert plateaus([100]) == plateaus([]) == []
    assert plateaus([30, 30, 30, 70, 200, 201]) == [range(3), range(4, 6)]


@given(st.lists(st.sampled_from([30, 30.3, 31, 200, 203, 204, 210, 600]), max_size=20))
def test_points_of_a_plateau_are_those_with_a_like_neighbour(cycles: list[float]) -> None:
    alike = [max(a, b) <= 1.02 * min(a, b) for a, b in pairwise(cycles)]
    found = plateaus(cycles)
    inside = {n for n in range(len(cycles)) if any(alike[max(0, n - 1) : n + 1])}
    assert [n for plateau in found for n in plateau] == sorted(inside)
    assert all(alike[n - 1] for plateau in found for n in plateau[1:])
    assert not any(alike[a.stop - 1] for a, b in pairwise(found) if a.stop == b.start)


@pytest.mark.parametrize("target", CHASES, ids=lambda t: t.name)
def test_published_curves_have_the_plateaus_that_one_sees(target: Target) -> None:
    middles = [flat[len(flat) // 2].measured for flat in flats(target)]
    assert middles == [pytest.approx(cycles, rel=0.02) for cycles in PLATEAUS[target.name]]


def flats(target: Target) -> list[Sequence[Point]]:
    """Points of the target's plateaus; its points are in order of the footprint."""
    assert list(target.points) == sorted(target.points, key=lambda point: float(point.inputs["kib"]))
    return [
        target.points[plateau.start : plateau.stop] for plateau in plateaus([point.measured for point in target.points])
    ]


def check(target: Target, points: Sequence[Point]) -> None:
    gpu = load_gpu(target.gpu)
    found = {point.label: cycles_per_hop(gpu, point.inputs) for point in points}
    assert found == {point.label: pytest.approx(point.measured, rel=0.05) for point in points}


@pytest.mark.parametrize("name", ["pchase_md_h100", "pchase_a100_40"])
def test_a_point_of_each_plateau_is_within_five_percent(name: str) -> None:
    """A ring of indices, and a loop with many turns; the slow test has all chases."""
    target = load_target(name)
    points = [point for flat in flats(target) for point in flat if point.quick]
    assert len(points) == len(flats(target)) == 3
    check(target, points)


@pytest.mark.slow
@pytest.mark.parametrize("target", CHASES, ids=lambda t: t.name)
def test_the_end_of_every_plateau_is_within_five_percent(target: Target) -> None:
    """`gpusim-des validate` simulates all points, and the README's table has the worst of them."""
    check(target, [flat[-1] for flat in flats(target)])
