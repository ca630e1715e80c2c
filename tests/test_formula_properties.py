"""What must be true of formulas whatever the numbers: limits, inverses, order; and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des import analytic
from gpusim_des.functional.coalescing import sectors, wavefronts

FRACTIONS = st.floats(0, 1)
PROCESSORS = st.integers(1, 10**6)
TIMES = st.integers(0, 50)


@given(FRACTIONS, PROCESSORS)
def test_amdahl_is_below_gustafson_and_both_within_their_limits(serial: float, n: int) -> None:
    fixed, scaled = analytic.amdahl(serial, n), analytic.gustafson(serial, n)
    assert 1 - 1e-12 <= fixed <= scaled * (1 + 1e-12)
    assert scaled <= n * (1 + 1e-12)
    if serial:
        assert fixed <= 1 / serial * (1 + 1e-12)


@given(st.floats(0.001, 1), st.integers(2, 10**4))
def test_gustafson_is_amdahl_with_the_fraction_of_the_large_problem(serial: float, n: int) -> None:
    """The serial share of the time on one processor is s / (s + n (1 - s))."""
    of_one = serial / (serial + n * (1 - serial))
    assert analytic.amdahl(of_one, n) == pytest.approx(analytic.gustafson(serial, n))


@given(FRACTIONS, st.lists(st.integers(2, 1000), min_size=1, max_size=6))
def test_fitted_fractions_are_those_that_made_the_speed_ups(serial: float, n: list[int]) -> None:
    speedups = analytic.amdahl(serial, n)
    assert analytic.karp_flatt(speedups, n) == pytest.approx([serial] * len(n), abs=1e-9)
    assert analytic.fit_serial_fraction([1, *n], [1.0, *speedups]) == pytest.approx(serial, abs=1e-9)


@given(st.lists(st.tuples(st.integers(2, 64), st.floats(0.5, 100)), min_size=1, max_size=5))
def test_the_fit_is_the_least_of_squares(measured: list[tuple[int, float]]) -> None:
    numbers, speedups = (np.array(side, dtype=float) for side in zip(*measured, strict=True))
    fitted = analytic.fit_serial_fraction(numbers, speedups)

    def squares(serial: float) -> float:
        return float(np.sum((1 / speedups - serial - (1 - serial) / numbers) ** 2))

    assert squares(fitted) <= min(squares(fitted + step) for step in (-1e-3, 1e-3))


@given(st.floats(0.1, 1000), st.sampled_from(gs.list_gpus()), st.sampled_from(["shared", "L1", "L2", "DRAM"]))
def test_a_roofline_is_the_lower_of_two_roofs_that_meet_at_the_ridge(intensity: float, gpu: str, memory: str) -> None:
    chart = analytic.roofs(gpu)
    for pipe, peak in chart.compute.items():
        ridge = chart.ridge(pipe, memory)
        assert chart.attainable(intensity, pipe, memory) == min(peak, intensity * chart.memory[memory])
        assert chart.attainable(ridge, pipe, memory) == pytest.approx(peak)
        assert (chart.attainable(intensity, pipe, memory) < peak * (1 - 1e-9)) == (intensity < ridge * (1 - 1e-9))


def test_peaks_of_an_h100() -> None:
    """NVIDIA's data sheet: 66.9 and 33.5 TFLOP/s at 1.98 GHz; 989.4 on tensor cores, at 1.83."""
    chart = analytic.roofs("h100-sxm")
    assert chart.compute["fp32"] / 1e12 == pytest.approx(66.9, rel=1e-3)
    assert chart.compute["fp64"] / 1e12 == pytest.approx(33.5, rel=2e-3)
    tensor = analytic.roofs(gs.load_gpu("h100-sxm").replace(sm_clock="1830 MHz")).compute["tensor fp16"]
    assert tensor / 1e12 == pytest.approx(989.4, rel=1e-3)


@given(st.floats(1e-3, 1e15), st.floats(1e-9, 1))
def test_littles_law_has_an_inverse(per_second: float, latency_s: float) -> None:
    assert analytic.littles_law(per_second, latency_s) / latency_s == pytest.approx(per_second)


@given(st.sampled_from(gs.list_gpus()), st.integers(1, 8), st.sampled_from(["fp32", "int", "fp64", "sfu"]))
def test_warps_needed_for_arithmetic_are_the_least(gpu: str, ilp: int, op: str) -> None:
    model = gs.load_gpu(gpu)
    needed = analytic.arithmetic_warps_needed(model, ilp, op)
    full = analytic.arithmetic_throughput(model, 10_000, 1, op)
    assert analytic.arithmetic_throughput(model, needed, ilp, op) == pytest.approx(full)
    step = 1 if model.pipe(op).shared_by_sm else model.sub_partitions
    if needed > step:
        assert analytic.arithmetic_throughput(model, needed - step, ilp, op) < full


@given(st.floats(0, 0.99), st.floats(0, 0.99), st.floats(1e-9, 1e3))
def test_waits_grow_with_utilisation(one: float, other: float, service: float) -> None:
    low, high = sorted((one, other))
    assert analytic.md1_wait(low, service) <= analytic.md1_wait(high, service)
    assert analytic.md1_queue_length(high) == pytest.approx(high / service * analytic.md1_wait(high, service))
    assert analytic.md1_wait(0, service) == 0


@given(st.integers(1, 100), st.sampled_from([1, 2, 4, 8, 16]), st.integers(0, 100))
def test_strides_cost_what_the_executor_counts(stride: int, width: int, first: int) -> None:
    addresses = (first + stride * np.arange(32, dtype=np.int64)[None, :]) * width
    counted = sectors(addresses, width, None).counts[0]
    assert analytic.strided_sectors(stride, width, first=first) == counted
    if width >= 4:
        assert analytic.strided_passes(stride, width) == wavefronts(addresses, width, None)[0]


def test_accesses_of_no_warp_are_refused() -> None:
    with pytest.raises(ValueError, match="stride = 0: must be a whole number, at least 1"):
        analytic.strided_sectors(0)
    with pytest.raises(ValueError, match="first = -1: must be a whole number, at least 0"):
        analytic.strided_sectors(1, first=-1)
    with pytest.raises(ValueError, match="sector_bytes = 32: must be a multiple of width_bytes = 12"):
        analytic.strided_sectors(1, 12)
    with pytest.raises(ValueError, match=r"stride = 1\.5: must be a whole number, at least 0"):
        analytic.strided_passes(1.5)
    with pytest.raises(ValueError, match="width_bytes = 2: must be 4, 8 or 16"):
        analytic.strided_passes(1, 2)


@given(st.floats(0.1, 1e3), st.integers(1, 64), st.floats(1e-3, 1e3), st.floats(1, 1e4))
def test_throughput_with_queues_solves_its_equation(
    customers: float, servers: int, service: float, services: float
) -> None:
    """The closed form against the formula of the queue: under way are those in the latency, and those that wait."""
    latency = services * service
    per_second = analytic.md1_throughput(customers, servers, service, latency)
    assert per_second <= min(servers / service, customers / latency) * (1 + 1e-9)
    utilisation = per_second * service / servers
    if utilisation < 0.999:  # close to 1 the wait has no digits left
        assert per_second * (latency + analytic.md1_wait(utilisation, service)) == pytest.approx(customers)


def test_a_latency_has_the_service_in_it() -> None:
    with pytest.raises(ValueError, match=r"latency_s = 1\.0: must be at least service_s = 2\.0, which is a part of it"):
        analytic.md1_throughput(1, 1, 2.0, 1.0)
    with pytest.raises(ValueError, match="customers = 0: must be a positive, finite number"):
        analytic.md1_throughput(0, 1, 2.0, 2.0)


@given(st.integers(1, 300), st.integers(1, 8), st.floats(1e-3, 1e3), st.floats(0, 1e5))
def test_a_closed_queue_is_within_its_bounds(customers: int, servers: int, service: float, elsewhere: float) -> None:
    """Nobody is faster than alone, nor all of them than the servers; and nobody waits for more than all others."""
    round_s = analytic.closed_queue_seconds(customers, servers, service, elsewhere)
    assert round_s >= max(elsewhere + service, customers * service / servers) * (1 - 1e-9)
    assert round_s <= elsewhere + customers * service * (1 + 1e-9)
    assert round_s <= analytic.closed_queue_seconds(customers + 1, servers, service, elsewhere)


@given(st.integers(1, 59), st.integers(1, 9), st.integers(0, 59))
@example(3, 1, 2)  # mean value analysis would say 3.42
def test_requests_of_a_single_server_keep_in_step(customers: int, service: int, elsewhere: int) -> None:
    """Against their history: all come at once, and each comes back `elsewhere` after its service."""
    free, coming = 0, [0] * customers
    for _ in range(4):  # rounds; the last one is steady
        rounds = []
        for number, arrival in enumerate(coming):
            free = max(free, arrival) + service
            rounds.append(free + elsewhere - arrival)
            coming[number] = free + elsewhere
    assert set(rounds) == {analytic.closed_queue_seconds(customers, 1, service, elsewhere)}


def test_many_requests_that_are_elsewhere_arrive_at_random() -> None:
    """Two servers, half busy, M/D/1: 20,000 requests come back after about 20,000 services."""
    wait = analytic.closed_queue_seconds(20_000, 2, 1.0, 20_000) - 20_001
    assert wait == pytest.approx(analytic.md1_wait(0.5, 1.0), rel=1e-3)


@given(st.integers(1, 10**9), st.floats(0, 1e-3), st.floats(1e6, 1e12))
def test_copies_reach_half_of_the_bandwidth_at_n_half(nbytes: int, latency_s: float, rate: float) -> None:
    half = analytic.half_bandwidth_bytes(latency_s, rate)
    assert analytic.copy_bandwidth(nbytes, latency_s, rate) <= rate * (1 + 1e-9)
    assert (analytic.copy_bandwidth(nbytes, latency_s, rate) >= rate / 2 * (1 - 1e-9)) == (nbytes >= half * (1 - 1e-9))
    if half:
        assert analytic.copy_bandwidth(half, latency_s, rate) == pytest.approx(rate / 2)


def test_a_published_link() -> None:
    """V100 on PCIe (te42kyfo/gpu-benches, cuda-memcpy): 0.03 ms + bytes / 12.35 GB/s; half of that near 370 kB."""
    assert analytic.copy_seconds([0, 12_350_000], 30e-6, 12.35e9).tolist() == pytest.approx([30e-6, 1.03e-3])
    assert analytic.half_bandwidth_bytes(30e-6, 12.35e9) == pytest.approx(370_500)


@given(st.integers(1, 6), TIMES, TIMES, TIMES, st.sampled_from([1, 2]))
def test_pipelines_take_as_long_as_their_schedule(
    chunks: int, in_s: int, compute_s: int, out_s: int, engines: int
) -> None:
    """Copies in go first; every resource takes the chunks in order."""
    engine_free, back_free, compute_free = 0, 0, 0
    arrived = []
    for _ in range(chunks):
        engine_free += in_s
        arrived.append(engine_free)
    if engines == 1:
        back_free = engine_free
    for ready in arrived:
        compute_free = max(compute_free, ready) + compute_s
        back_free = max(back_free, compute_free) + out_s
    assert analytic.pipeline_seconds(chunks, in_s, compute_s, out_s, engines=engines) == back_free


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 256))
def test_tiles_cover_a_product(m: int, n: int, k: int, tile: int) -> None:
    efficiency = analytic.tile_efficiency(m, n, k, tile)
    assert 0 < efficiency <= 1
    assert (efficiency == 1) == (m % tile == n % tile == k % tile == 0)
    found = analytic.matmul_quantization(m, n, tile_m=tile, tile_n=tile, sms=108)
    assert found.utilisation <= min(found.tile_utilisation, found.wave_utilisation) * (1 + 1e-12)
    assert efficiency == pytest.approx(found.tile_utilisation * analytic.tile_efficiency(tile, tile, k, tile))


@given(st.integers(1, 10**7), st.sampled_from([1, 2, 4, 8]), st.integers(1, 4))
def test_the_largest_tile_is_the_largest(shared_bytes: int, element_bytes: int, buffers: int) -> None:
    side = analytic.largest_square_tile(shared_bytes, element_bytes, buffers)
    needed = [2 * buffers * element_bytes * s**2 for s in (side, side + 1)]
    assert needed[0] <= shared_bytes < needed[1]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 12))
def test_a_list_schedule_is_within_grahams_bounds(durations: list[int], slots: int) -> None:
    """No slot idles while blocks wait; each begins when one is free, and what is handed out late ends no earlier."""
    ends = analytic.list_schedule(durations, slots)
    longest, mean = max(durations), sum(durations) / slots
    assert max(longest, mean) <= max(ends) <= mean + longest
    assert all(end >= duration for end, duration in zip(ends, durations, strict=True))
    late = analytic.list_schedule(durations, slots, interval=3)
    assert all(a >= b for a, b in zip(late, ends, strict=True))
    assert all(end - duration >= 3 * k for k, (end, duration) in enumerate(zip(late, durations, strict=True)))


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 100))
def test_a_list_schedule_of_equal_blocks_is_waves(blocks: int, slots: int, duration: int) -> None:
    ends = analytic.list_schedule([duration] * blocks, slots)
    assert max(ends) == duration * analytic.wave_count(blocks, 1, slots)
    assert ends == sorted(ends)


def test_curves_are_the_numbers_one_by_one() -> None:
    fractions, numbers = np.array([[0.1], [0.5]]), np.array([1, 2, 4])
    found = analytic.amdahl(fractions, numbers)
    assert found.shape == (2, 3)
    assert found[1, 2] == analytic.amdahl(0.5, 4)
    assert analytic.warps_needed("tiny", [32, 128], 200e-9).tolist() == [200, 50]
    assert isinstance(analytic.amdahl(0.5, np.float64(4)), float)


def test_estimates_and_intensities_take_the_counters_of_a_launch() -> None:
    @gs.block_kernel
    def scale(blk: gs.Block, a: gs.DeviceArray) -> None:
        i = blk.bx * blk.bdx + blk.tx
        blk.store(a, i, blk.load(a, i) * np.float32(2))

    dev = gs.Device("tiny")
    a = dev.to_device(np.ones(1024, np.float32))
    counters = dev.launch(scale, 4, 256, a).counters
    found = analytic.estimate("tiny", counters, launch_s=0)
    assert found.memory_s == pytest.approx(2 * 4096 / 64e9)
    assert found.issue_s == counters.warp_instructions / 4e9
    assert found.bound == "memory"
    assert analytic.estimate("tiny", counters).launch_s == 3e-6  # a call and the way to the device
    assert analytic.counted_operations(counters) == 2 * 1024
    assert analytic.intensity(counters) == 0.25
    assert analytic.intensity(counters, operations=1024, nbytes=4096) == 0.25


CALLS: list[tuple[Any, tuple[Any, ...], str]] = [
    (analytic.amdahl, (-0.1, 4), r"serial_fraction = -0.1: must be a fraction from 0 to 1"),
    (analytic.amdahl, (0.1, [4, 0.5]), r"processors = 0.5: must be a finite number, at least 1"),
    (analytic.gustafson, (math.nan, 4), r"serial_fraction = nan: must be a fraction"),
    (analytic.karp_flatt, (2, 1), r"processors = 1: must be a finite number above 1"),
    (analytic.karp_flatt, (0, 2), r"speedup = 0: must be a positive"),
    (analytic.fit_serial_fraction, ([1, 1], [1, 1]), r"measured on one processor.*measure with more"),
    (analytic.fit_serial_fraction, ([1, 2], [1]), r"2 numbers of processors and 1 speed-ups"),
    (analytic.copy_seconds, (-1, 1e-6, 1e9), r"nbytes = -1: must be a finite number, at least 0"),
    (analytic.copy_seconds, (1, 1e-6, 0), r"bytes_per_s = 0: must be a positive"),
    (analytic.copy_bandwidth, (0, 0, 1e9), r"nbytes = 0 without latency takes no time"),
    (analytic.link, ("tiny", "d2d"), r"direction = 'd2d': possible are 'h2d' and 'd2h'"),
    (analytic.md1_wait, (1, 1), r"utilisation = 1: must be from 0 to below 1"),
    (analytic.md1_wait, (True, 1), r"utilisation = True"),
    (analytic.closed_queue_seconds, (0, 1, 1, 1), r"customers = 0: must be a whole number, at least 1"),
    (analytic.closed_queue_seconds, (1, 1.5, 1, 1), r"servers = 1.5: must be a whole number"),
    (analytic.closed_queue_seconds, (1, 1, 0, 1), r"service_s = 0: must be a positive"),
    (analytic.closed_queue_seconds, (1, 1, 1, -1), r"elsewhere_s = -1: must be a finite number, at least 0"),
    (analytic.list_schedule, ([1, 2], 0), r"slots = 0: must be a whole number, at least 1"),
    (analytic.list_schedule, ([1, -2], 1), r"duration = -2: must be a finite number, at least 0"),
    (analytic.list_schedule, ([1], 1, math.inf), r"interval = inf: must be a finite number, at least 0"),
    (analytic.littles_law, (1, "2"), r"latency_s = 2: must be a positive"),
    (analytic.matmul_loads, (10, 3), r"tile = 3 does not divide n = 10"),
    (analytic.largest_square_tile, (0,), r"shared_bytes = 0: must be a whole number, at least 1"),
    (analytic.tile_efficiency, (8, 8, 8, 2.5), r"tile_m = 2.5: must be a whole number"),
    (analytic.arithmetic_throughput, ("tiny", 0), r"warps_per_sm = 0: must be a positive"),
    (analytic.arithmetic_warps_needed, ("tiny", 1, "fp31"), r"no arithmetic pipe 'fp31': did you mean 'fp32'\?"),
    (analytic.pipeline_seconds, (0, 1, 1, 1), r"chunks = 0: must be a whole number, at least 1"),
    (analytic.pipeline_seconds, (1, -1, 1, 1), r"in_s = -1: must be a finite number, at least 0"),
    (analytic.roofs("tiny").ridge, ("fp32", "L3"), r"no level of memory 'L3' on this GPU"),
    (analytic.roofs("tiny").attainable, ([1, 0],), r"intensity = 0: must be a positive"),
]


@pytest.mark.parametrize(("call", "arguments", "message"), CALLS)
def test_what_means_nothing_is_refused(call: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(*arguments)
