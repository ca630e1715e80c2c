"""What other tools wrote about kernels: ptxas, cuobjdump, the profiler of PyTorch."""

from gpusim_des.readers.cuobjdump import read_cuobjdump
from gpusim_des.readers.kernel_resources import KernelResources
from gpusim_des.readers.names import short_name
from gpusim_des.readers.profiler import ProfiledDevice, ProfiledKernel, ProfilerTrace, read_profiler
from gpusim_des.readers.ptxas import read_ptxas

__all__ = [
    "KernelResources",
    "ProfiledDevice",
    "ProfiledKernel",
    "ProfilerTrace",
    "read_cuobjdump",
    "read_profiler",
    "read_ptxas",
    "short_name",
]
