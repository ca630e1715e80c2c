"""The time of sampled kernels: how it is extrapolated (S2), that both engines agree, what a host program sees of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.errors import CycleLimitError, LaunchError
from gpusim_des.timing import simulate as timing
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.extrapolation import Extrapolation, Played
from gpusim_des.timing.shares import shares
from gpusim_des.trace import MEASURES, Run, Sample
from tests.sampled_kernels import chains, fp32_chains, histogram, listed, vector_add, work_list

WAVE = 16
"""Blocks of 64 threads that ``tiny`` holds at a time."""


def tiny_chains(sample: Any, waves: float = 40.5, length: int = 12) -> tuple[gs.Device, gs.Launch]:
    dev = gs.Device("tiny")
    return dev, fp32_chains(int(waves * WAVE), length, 64)(dev, sample)


# Extrapolating --------------------------------------------------------------------------------------------------------


@given(
    spans=st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 300)), min_size=1, max_size=30),
    more=st.integers(1, 5),
)
def test_shares_add_up_to_the_time_in_which_a_block_was_resident(spans: list[tuple[int, int]], more: int) -> None:
    """Blocks that stay to the last placement and end with it: nothing is left of the correction for the end."""
    starts = np.array([start for start, _ in spans] + [2000 - k for k in range(more)])
    ends = np.array([start + length for start, length in spans] + [2000 + more] * more)
    resident = np.zeros(2000 + more, bool)
    for start, end in zip(starts, ends, strict=True):
        resident[start:end] = True
    assert shares(starts, ends).sum() == pytest.approx(resident.sum())


def lockstep(heavy_from: int, wave: int = 4, waves: int = 20) -> tuple[Played, int]:
    """Play a sample of blocks in step, 100 long, or 300 from a block on; returns the time of the whole, too."""
    runs = (Run(0, 4, 12, 12), Run(32, 36, 44, 44), Run(68, 72, 76, 80))
    numbers = np.concatenate([np.arange(run.first, run.end) for run in runs])
    others = np.array([b for b in range(12, 68) if b % 3 == 0 and not 32 <= b < 44])
    length = np.where(np.arange(wave * waves) < heavy_from, 100, 300)
    begins = np.concatenate([[0], np.cumsum([length[k] for k in numbers[::wave]])])
    starts = np.repeat(begins[:-1], wave)
    sample = Sample(wave * waves, wave, runs, others[:4], others)
    work, elsewhere = (np.tile(length[some, None] * 1.0, len(MEASURES)) for some in (numbers, others))
    played = Played(sample, starts, starts + length[numbers], work, elsewhere)
    return played, int(length[::wave].sum())


def test_blocks_in_step_are_extrapolated_exactly() -> None:
    played, whole = lockstep(80)
    estimate = Extrapolation(played)
    assert int(played.ends.max()) + estimate.added_fs == whole == 2000
    assert [(part.gap, part.cost - part.played) for part in estimate.missing] == [((12, 32), 500.0), ((44, 68), 600.0)]


def test_work_that_changes_in_a_gap_is_found_by_the_scouts() -> None:
    """The step lies between two scouts, three blocks apart."""
    played, whole = lockstep(52)
    estimate = Extrapolation(played)
    assert estimate.line.measure == 0
    found = int(played.ends.max()) + estimate.added_fs
    assert abs(found - whole) <= 3 * (300 - 100) / 4
    assert sum(part.variance for part in estimate.missing) ** 0.5 >= abs(found - whole) / 2


# Engines --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caches", ["on", "off"])
@pytest.mark.parametrize("kernel", ["vector add", "histogram", "uneven"])
def test_engines_agree_on_samples(kernel: str, caches: Any) -> None:
    """Every figure, bound and span, to the last digit."""
    steps = np.random.default_rng(5).integers(1, 20, 40 * WAVE)
    launch = {
        "vector add": vector_add(40 * WAVE + 3, 64),
        "histogram": histogram(170, 16),
        "uneven": listed(work_list, steps, 64),
    }[kernel]
    dev = gs.Device("tiny")
    assert launch(dev, 9).sample is not None
    one, other = (
        dev.simulate(engine=engine, caches=caches, detail="warp", watch=[0]) for engine in ("simpy", "compiled")
    )
    assert one.timeline == other.timeline
    assert one.kernels[0].sampled is not None
    assert one.kernels[0].sampled.bound_fs > 0


def test_spans_have_the_numbers_of_the_grid() -> None:
    dev, launch = tiny_chains(9)
    assert launch.sample is not None
    for detail in ("sm", "warp"):
        timeline = dev.simulate(detail=detail, engine="compiled").timeline
        assert sorted(span.block for span in timeline.blocks) == launch.sample.played.tolist()
    assert {history.block for history in timeline.warps} == set(launch.sample.played.tolist())


# Figures --------------------------------------------------------------------------------------------------------------


def test_figures_of_an_even_kernel() -> None:
    dev, launch = tiny_chains(9)
    whole_dev, _ = tiny_chains(None)
    kernel, whole = (d.simulate(engine="compiled").kernels[0] for d in (dev, whole_dev))
    assert kernel.seconds == pytest.approx(whole.seconds, rel=kernel.relative_error)
    assert kernel.relative_error < 0.05
    assert whole.relative_error == 0
    assert kernel.instructions == whole.instructions
    assert kernel.thread_instructions == whole.thread_instructions
    assert kernel.warp_instructions == launch.counters.warp_instructions
    assert (kernel.blocks, kernel.waves) == (whole.blocks, whole.waves)
    for name in ("resident_warp_cycles", "sm_active_cycles", "dram_bytes", "stored_sectors", "cycles"):
        assert getattr(kernel, name) == pytest.approx(getattr(whole, name), rel=0.05), name
    for name in ("achieved_occupancy", "dispatch_utilization", "load_store_utilization", "active_share"):
        assert getattr(kernel, name) == pytest.approx(getattr(whole, name), rel=0.05), name


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sample=st.integers(6, 15), caches=st.sampled_from(["on", "off"]))
def test_figures_of_samples_keep_the_identities(seed: int, sample: int, caches: Any) -> None:
    draw = np.random.default_rng(seed)
    steps = draw.integers(1, draw.integers(2, 12), int(draw.integers(20 * WAVE, 30 * WAVE)))
    dev = gs.Device("tiny")
    launch = listed(work_list, steps, 64)(dev, sample)
    kernel = dev.simulate(engine="compiled", caches=caches).kernels[0]
    assert sum(kernel.stalls.values()) == kernel.resident_warp_cycles
    assert kernel.stalls["selected"] == kernel.warp_instructions == sum(kernel.instructions.values())
    for state, cycles in kernel.stalls.items():
        assert sum(states.get(state, 0) for states in kernel.line_stalls.values()) == cycles
    assert kernel.warp_instructions == launch.counters.warp_instructions
    assert kernel.thread_instructions == launch.counters.active_lanes
    assert kernel.dram_bytes == kernel.dram_read_bytes + kernel.dram_write_bytes
    assert (kernel.l1_hit_sectors or 0) <= (kernel.l1_sectors or 0)
    assert (kernel.l2_hit_sectors or 0) <= (kernel.l2_sectors or 0)
    assert kernel.sm_active_cycles <= kernel.sms * kernel.cycles
    for name in ("achieved_occupancy", "dram_utilization", "busiest_channel", "dispatch_utilization", "active_share"):
        assert 0 <= getattr(kernel, name) <= 1, name
    assert all(0 <= share <= 1 for share in kernel.pipe_utilization.values())
    if kernel.sampled is not None:
        assert kernel.start_fs < kernel.sampled.simulated_end_fs <= kernel.end_fs
        assert all(bound >= 0 for bound in kernel.sampled.bounds_fs.values())


def test_what_is_estimated_is_said() -> None:
    dev, launch = tiny_chains(9)
    sim = dev.simulate(engine="compiled")
    kernel = sim.kernels[0]
    assert launch.sample is not None
    assert kernel.sampled is not None
    assert kernel.sampled.blocks_executed == launch.sample.executed
    assert kernel.sampled.blocks_simulated == len(launch.sample.played)
    share = 100 * kernel.relative_error
    said = f"Estimated from {launch.sample.executed:,} of 648 blocks: the time is good to ±{share:.2g} %"
    assert said in kernel.explain()
    assert said in sim.explain()
    assert "sampled=SampledTime(blocks_simulated=" in repr(kernel)


# Host programs --------------------------------------------------------------------------------------------------------


def test_the_host_sees_the_extrapolated_end() -> None:
    """The kernel behind it, the copy and the event wait for it; L2 contents aside, all is as after the whole kernel."""
    ends = []
    for sample in (9, None):
        dev = gs.Device("tiny")
        c = dev.malloc(40 * WAVE * 64)
        stream, event, host = dev.stream(), dev.event(), dev.pinned(64)
        dev.launch(chains, 40 * WAVE, 64, c, 12, registers=32, stream=stream, sample=sample)
        event.record(stream)
        dev.launch(chains, 4, 64, c, 3, registers=32, stream=stream)
        dev.memcpy_async(host, c.part(0, 64), stream) if sample is None else dev.memset_async(c, 0, stream)
        stream.synchronize()
        sim = dev.simulate(engine="compiled")
        first, second = sim.kernels
        assert second.start_fs >= first.end_fs
        operations = sim.timeline.operations
        assert operations[0].end_fs == first.end_fs
        assert sim.timeline.event_times[0] >= first.end_fs
        assert operations[-1].start_fs >= second.end_fs
        assert sim.timeline.end_fs >= operations[-1].end_fs
        ends.append((first, second))
    (sampled, behind), (whole, behind_whole) = ends
    assert sampled.seconds == pytest.approx(whole.seconds, rel=sampled.relative_error)
    assert behind.cycles == behind_whole.cycles


@pytest.mark.parametrize("other", ["kernel", "memset", "copy"])
@pytest.mark.parametrize("first", [True, False])
def test_nothing_runs_beside_a_sampled_kernel(other: str, first: bool) -> None:
    dev = gs.Device("tiny")
    a, b, c = (dev.malloc(40 * WAVE * 64, name=name) for name in "abc")
    one, two = dev.stream(), dev.stream()

    def beside() -> None:
        if other == "kernel":
            dev.launch(chains, 400, 64, a, 50, registers=32, stream=two)
        elif other == "memset":
            dev.memset_async(a, 0, two)
        else:
            dev.memcpy_async(a, b, two)

    if not first:
        beside()
    dev.launch(chains, 40 * WAVE, 64, c, 50, registers=32, stream=one, sample=9)
    if first:
        beside()
    with pytest.raises(
        LaunchError, match=r"kernel 'chains' of stream 1 is sampled, and .* of stream 2 would run at the"
    ):
        dev.simulate(engine="compiled")


def test_kernels_in_order_may_be_sampled_each() -> None:
    dev = gs.Device("tiny")
    c = dev.malloc(40 * WAVE * 64)
    one, two, event = dev.stream(), dev.stream(), dev.event()
    dev.launch(chains, 40 * WAVE, 64, c, 12, registers=32, stream=one, sample=9)
    event.record(one)
    two.wait_event(event)
    dev.launch(chains, 40 * WAVE, 64, c, 12, registers=32, stream=two, sample=12)
    first, second = dev.simulate(engine="compiled").kernels
    assert second.start_fs >= first.end_fs
    assert first.seconds == pytest.approx(second.seconds, rel=first.relative_error + second.relative_error)


def test_copies_over_the_link_may_run_beside_it_and_widen_the_bound() -> None:
    dev = gs.Device("tiny")
    c, d = dev.malloc(40 * WAVE * 64), dev.malloc(1 << 16)
    one, two, host = dev.stream(), dev.stream(), dev.pinned(1 << 16)
    dev.launch(chains, 40 * WAVE, 64, c, 12, registers=32, stream=one, sample=9)
    dev.memcpy_async(d, host, two)
    sampled = dev.simulate(engine="compiled").kernels[0].sampled
    assert sampled is not None
    assert sampled.bounds_fs["copies"] > 0


def test_graphs_hold_sampled_kernels() -> None:
    dev = gs.Device("tiny")
    c, stream = dev.malloc(40 * WAVE * 64), dev.stream()
    with dev.capture(stream) as graph:
        empty = dev.launch(chains, 40 * WAVE, 64, c, 12, registers=32, stream=stream, sample=9)
    assert empty.captured
    assert empty.notice == ""
    launches = [launch for _ in range(2) for launch in graph.launch(stream)]
    assert all(launch.sample is not None for launch in launches)
    first, second = dev.simulate(engine="compiled").kernels
    assert first.sampled is not None
    assert second.start_fs >= first.end_fs


def test_a_sample_belongs_to_its_gpu() -> None:
    _, launch = tiny_chains(9)
    with pytest.raises(
        LaunchError, match=r"kernel 'chains' was sampled in waves of 16 blocks, but .* holds 8 at a time"
    ):
        timing.simulate(gs.load_gpu("tiny").slice(sms=1), [launch.trace])


# Stops ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_limit_in_the_simulated_part(engine: Engine) -> None:
    dev, _ = tiny_chains(9)
    with pytest.raises(CycleLimitError, match=r"chains \d+ of \d+ blocks") as caught:
        dev.simulate(engine=engine, max_cycles=6000)
    partial: Any = caught.value.partial
    kernel = partial.kernels[0]
    assert not kernel.complete
    assert kernel.sampled.bounds_fs == {}
    assert "were to be simulated" in kernel.explain()
    assert sum(kernel.stalls.values()) == kernel.resident_warp_cycles


def test_a_limit_in_the_extrapolated_part() -> None:
    dev, _ = tiny_chains(9)
    whole = dev.simulate(engine="compiled").kernels[0]
    assert whole.sampled is not None
    period = dev.gpu.sm_period_fs
    middle = (whole.sampled.simulated_end_fs + whole.end_fs) // 2 // period
    partials = []
    for engine in ("simpy", "compiled"):
        with pytest.raises(CycleLimitError) as caught:
            dev.simulate(engine=engine, max_cycles=middle)
        partials.append(caught.value.partial)
    one, other = (partial.timeline for partial in partials)  # type: ignore[attr-defined]
    assert one == other
    kernel = one.kernels[0]
    assert not kernel.complete
    assert kernel.end_fs == middle * period
    assert kernel.warp_instructions < whole.warp_instructions
    assert sum(kernel.stalls.values()) == kernel.resident_warp_cycles


# Views ----------------------------------------------------------------------------------------------------------------


def test_views_show_what_was_simulated_and_mark_the_rest() -> None:
    dev, _ = tiny_chains(9)
    sim = dev.simulate(engine="compiled", detail="warp")
    kernel = sim.kernels[0]
    assert kernel.sampled is not None
    ax = gs.views.timeline(sim)
    assert "extrapolated" in [text.get_text() for text in ax.texts]
    assert ax.get_xlim()[1] >= kernel.end_fs / 1e9
    gs.views.warp_timeline(sim, sm=0, warps=8)
    gs.views.stalls(sim)
    gs.views.stream_timeline(sim)
    trace = gs.views.chrome_trace(sim)
    slices = [event for event in trace["traceEvents"] if event.get("name") == "extrapolated"]
    assert [(event["ts"], event["ts"] + event["dur"]) for event in slices] == [
        tuple(pytest.approx(fs // 10**6 / 1000) for fs in (kernel.sampled.simulated_end_fs, kernel.end_fs))
    ]
    assert "Estimated from" in slices[0]["args"]["note"]


def test_why_knows_the_blocks_that_were_simulated() -> None:
    dev, launch = tiny_chains(9)
    assert launch.sample is not None
    sim = dev.simulate(detail="warp")
    block = int(launch.sample.played[-1])
    history = next(h for h in sim.timeline.warps if h.block == block and h.warp == 0)
    assert sim.why(0, history.start_cycle + 20, block=block)
    with pytest.raises(ValueError, match="was not recorded"):
        sim.why(0, 10, block=launch.sample.runs[0].end + 1)


def test_a_kernel_without_samples_is_as_it_was() -> None:
    """A sample as large as the grid leaves the timeline alone."""
    dev, launch = tiny_chains(12, waves=12)
    whole, _ = tiny_chains(None, waves=12)
    assert launch.unsampled
    assert dev.simulate().timeline == whole.simulate().timeline
    assert replace(dev.simulate().kernels[0]).sampled is None
