"""`Device.simulate` plays what the device was asked for, call by call."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import HostProgram


@gs.block_kernel
def increment(blk: gs.Block, a: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(a, i, blk.load(a, i) + np.float32(1))


def test_streams_copies_and_events_get_their_times() -> None:
    """On ``tiny`` a call takes 1 µs, the way to the device 2 µs, a copy 10 µs and 1 ns for each byte."""
    dev = gs.Device("tiny")
    stream, before, after = dev.stream(name="work"), dev.event(), dev.event()
    host, a = dev.pinned(250), dev.malloc(250, np.float32, "a")
    before.record(stream)
    dev.memcpy_async(a, host, stream)
    dev.launch(increment, 1, 250, a, stream=stream)
    dev.memcpy_async(host, a, stream)
    after.record(stream)
    dev.synchronize()
    assert host.tolist() == [1.0] * 250

    sim = dev.simulate()
    copy_in, kernel, copy_out = sim.timeline.operations
    assert [(o.kind, o.name) for o in (copy_in, kernel, copy_out)] == [
        ("h2d", "h2d a"),
        ("kernel", "increment"),
        ("d2h", "d2h a"),
    ]
    assert (copy_in.start_fs, copy_in.end_fs) == (4 * 10**9, 15 * 10**9)  # two calls and the way
    assert kernel.start_fs == copy_in.end_fs + 500_000_000
    assert copy_out.start_fs == kernel.end_fs
    assert copy_out.end_fs == copy_out.start_fs + 11 * 10**9
    assert sim.timeline.stream_name(stream.number) == "work"
    assert sim.seconds == pytest.approx(copy_out.end_s + 1e-6)  # the host hears of the end
    assert before.elapsed(after) == pytest.approx(copy_out.end_s - 1e-6)
    assert sim.overlap().notes == (
        "all 3 operations are in stream 'work', which runs them one after another: use several streams",
    )


def test_a_program_brings_its_kernels_with_it() -> None:
    dev = gs.Device("tiny")
    dev.launch(increment, 1, 32, dev.malloc(32))
    timeline = simulate(dev.gpu, program=dev.program)
    assert [k.name for k in timeline.kernels] == ["increment"]
    with pytest.raises(ValueError, match="leave traces and streams out"):
        simulate(dev.gpu, [dev.launches[0].trace], program=HostProgram())


def test_kernels_of_graphs_are_checked_for_what_the_gpu_lacks() -> None:
    @gs.block_kernel
    def copies(blk: gs.Block, a: gs.DeviceArray) -> None:
        tile = blk.shared((32,), np.float32, "tile")
        blk.pipeline_memcpy_async(tile, blk.tx, a, blk.tx)
        blk.pipeline_commit()
        blk.pipeline_wait_prior(0)

    dev = gs.Device("v100-sxm2")
    stream, a = dev.stream(), dev.to_device(np.zeros(32, np.float32))
    with dev.capture(stream) as graph:
        dev.launch(copies, 1, 32, a, stream=stream)
    graph.launch(stream)
    with pytest.raises(gs.TraceError, match="'copies' uses async_copy instructions"):
        dev.simulate()
