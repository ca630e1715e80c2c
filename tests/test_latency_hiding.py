"""What the demo says about its numbers is true of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusim_des.gpu import load_gpu
from gpusim_des.textbook import latency_hiding
from gpusim_des.textbook.latency_hiding import OccupancyPoint, dispatch_limit_gbs, dram_limit_gbs, explanation

H100 = load_gpu("h100-sxm")
LIMIT = dram_limit_gbs(H100)
"""2900 GB/s; blocks of 128 threads and 12 × 2 bytes per thread every 0.6 ns move 5120."""

POINT = OccupancyPoint(
    label="100%",
    blocks_per_sm=16,
    warps_per_sm=64,
    occupancy=1.0,
    achieved_occupancy=0.9,
    microseconds=100.0,
    gbs=LIMIT,
    littles_law_gbs=LIMIT,
    with_block_cost_gbs=LIMIT,
    slot_cycles=1980.0,
    with_measured_time_gbs=LIMIT,
    with_ends_gbs=LIMIT,
    while_busy_gbs=LIMIT,
    main_stall="long_scoreboard",
)


@pytest.mark.parametrize(("share", "said"), [(0.96, "96%"), (0.99, "99%"), (0.997, "all"), (1.0, "all"), (1.02, "all")])
def test_a_reached_limit_is_never_more_than_all(share: float, said: str) -> None:
    text = explanation(H100, [POINT, replace(POINT, gbs=share * LIMIT)])
    assert f"reaches {said} of the 2900 GB/s that the DRAM gives to mixed reads and writes:\nmore warps would" in text


def test_a_slow_block_scheduler_is_named() -> None:
    slow = H100.replace(dispatch_interval="2 ns")
    assert dispatch_limit_gbs(slow) == 1536.0
    text = explanation(slow, [POINT, replace(POINT, gbs=1500.0)])
    assert "reaches 52% of the 2900 GB/s" in text
    assert (
        "the block scheduler is the limit: one block per 2 ns gives at most 1536 GB/s;\n"
        "more elements per thread or larger blocks would help." in text
    )
    assert "only wait longer" not in text


def test_too_little_in_flight_is_named() -> None:
    text = explanation(H100, [POINT, replace(POINT, gbs=1400.0, with_block_cost_gbs=1500.0)])
    assert "64 warps per SM keep too little in flight, at most 1500 GB/s with the block cost;\nmore elements" in text


def test_of_two_limits_the_lower_one_is_named() -> None:
    slow = H100.replace(dispatch_interval="2 ns")
    text = explanation(slow, [POINT, replace(POINT, gbs=900.0, with_block_cost_gbs=1000.0)])
    assert "too little in flight" in text
    assert "block scheduler" not in text


def test_a_short_run_is_named_only_if_its_ends_explain_the_rest() -> None:
    # A slot of 1980 cycles is a microsecond.
    text = explanation(H100, [POINT, replace(POINT, gbs=0.9 * LIMIT, microseconds=10.0)])
    assert "the run is short. A block takes 1.00 of its 10.00 µs" in text
    text = explanation(H100, [POINT, replace(POINT, gbs=0.9 * LIMIT, microseconds=100.0)])
    assert "no single limit explains it; warps wait most for long_scoreboard." in text


def test_a_law_that_holds_is_not_called_missed() -> None:
    least = replace(POINT, label="6.25%", gbs=0.98 * LIMIT)
    assert "within 5% of the law" in explanation(H100, [least, POINT])
    assert "stays 44% below the law" in explanation(H100, [replace(least, gbs=0.56 * LIMIT), POINT])


@pytest.mark.parametrize("fraction", [1 / 16, 1 / 8, 3 / 16, 1 / 2])
def test_labels_are_not_rounded(fraction: float) -> None:
    gpu = H100.slice(sms=1)
    (blocks,) = latency_hiding.occupancies(gpu, [fraction])
    point, _ = latency_hiding.measure(gpu, blocks, count="declared")
    assert point.label == f"{100 * fraction:g}%"
    assert point.label in latency_hiding.table([point])


@pytest.mark.slow
def test_the_b200s_block_scheduler_is_the_limit() -> None:
    gpu = load_gpu("b200").slice(sms=8)
    points = [latency_hiding.measure(gpu, blocks)[0] for blocks in latency_hiding.occupancies(gpu, (1 / 16, 1))]
    assert points[1].gbs < dispatch_limit_gbs(gpu) < dram_limit_gbs(gpu)
    assert "the block scheduler is the limit" in explanation(gpu, points)
