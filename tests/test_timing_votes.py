"""Operation classes that came with the executor's warp intrinsics: votes are played, atomics and fences refused."""

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.gpu import load_gpu
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace


def test_a_vote_takes_the_integer_pipe_and_its_latency() -> None:
    """W2: two dependent votes and an integer instruction on ``tiny``, 4 cycles each."""
    chain = [
        Instruction(OpClass.VOTE),
        Instruction(OpClass.VOTE, deps=(0,)),
        Instruction(OpClass.INT, deps=(1,)),
    ]
    trace = KernelTrace.of_blocks("votes", [[WarpTrace.of(chain)]])
    assert simulate(load_gpu("tiny"), [trace]).kernels[0].cycles == 12


@gs.block_kernel
def histogram(blk: gs.Block, bins: gs.DeviceArray) -> None:
    blk.atomic_add(bins, blk.tid % 4, 1)


def test_atomics_are_counted_but_not_timed_yet() -> None:
    dev = gs.Device("tiny")
    bins = dev.to_device(np.zeros(4, np.int32))
    dev.launch(histogram, 1, 32, bins)
    assert dev.to_host(bins).tolist() == [8, 8, 8, 8]
    with pytest.raises(gs.TraceError, match=r"'histogram' uses global_atomic instructions, .* cannot play yet"):
        dev.simulate()
