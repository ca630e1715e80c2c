"""What is wrong with a kernel or a program, how much time it costs, and what to do about it."""

from gpusim_des.advice.advice import Advice, worst_first
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.advice.launch import launch_advice
from gpusim_des.advice.program import program_advice

__all__ = ["Advice", "KernelFacts", "launch_advice", "program_advice", "worst_first"]
