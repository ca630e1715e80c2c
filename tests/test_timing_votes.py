"""Votes."""

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
