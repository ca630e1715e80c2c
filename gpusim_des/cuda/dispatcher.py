"""``@cuda.jit``: a function becomes a kernel, ``kernel[blocks, threads](...)`` runs it on the device in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from gpusim_des.cuda.current import device
from gpusim_des.cuda.passing import PassedArguments
from gpusim_des.cuda.signatures import Signature, is_signature, matching, signatures
from gpusim_des.cuda.streams import inner_of
from gpusim_des.device import ASSUMED_REGISTERS
from gpusim_des.errors import LaunchError
from gpusim_des.functional.cuda_kernel import CudaKernel
from gpusim_des.gpu import occupancy
from gpusim_des.grid import WARP_SIZE, DimLike, cdiv
from gpusim_des.launched import Launch

_WITHOUT_EFFECT = frozenset(
    {"debug", "opt", "lineinfo", "cache", "inline", "forceinline", "fastmath", "boundscheck", "lto", "abi", "nopython"}
)
"""Options about how Numba compiles: nothing is compiled here, and bounds are always checked."""

_REFUSED = {
    "link": "code in CUDA C or PTX cannot run here: write it as a function with @cuda.jit(device=True)",
    "extensions": "convert the arguments before the launch",
    "argtypes": "give the signature first, @cuda.jit('void(float32[:])')",
    "restype": "give the signature first, @cuda.jit('void(float32[:])')",
    "bind": "leave it out",
}


class Kernel(CudaKernel):
    """A function marked with `jit`.

    Attributes
    ----------
    device
        Whether it is a device function, which only kernels can call.
    max_registers
        Registers per thread of its launches; where it is ``None``, 32 are assumed.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        device_function: bool = False,
        max_registers: int | None = None,
        declared: list[Signature] | None = None,
    ) -> None:
        super().__init__(function)
        self.device = device_function
        self.max_registers = max_registers
        self.declared = declared

    @property
    def launches(self) -> list[Launch]:
        """What its launches on the device in use left behind, oldest first: counters and traces (`gpusim_des.Launch`).

        ``cuda.device().forget_launches()`` forgets them, and frees their memory.
        """
        return [launch for launch in device().launches if launch.kernel is self]

    def __getitem__(self, configuration: Any) -> Configured:
        """Return the kernel with blocks, threads, and perhaps a stream and bytes of dynamic shared memory."""
        if self.device:
            raise TypeError(f"{self.name} is a device function: kernels call it, and it cannot be launched")
        given = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(given) <= 4:
            raise LaunchError(
                f"{self.name}[{', '.join(map(repr, given))}]: give 2 to 4 values, "
                f"{self.name}[blocks, threads, stream, bytes of dynamic shared memory]"
            )
        return Configured(self, *given)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Configured:
        """Return the kernel with at least `ntasks` threads, in blocks of `tpb`, or of what fills the GPU best."""
        if isinstance(ntasks, bool) or not isinstance(ntasks, int | np.integer) or ntasks < 1:
            raise LaunchError(f"{self.name}.forall({ntasks!r}): give the number of threads, at least 1")
        threads = tpb or self._best_block(sharedmem)
        return Configured(self, cdiv(int(ntasks), threads), threads, stream, sharedmem)

    def _best_block(self, sharedmem: int) -> int:
        """Largest block of those with the most resident warps, as ``cuOccupancyMaxPotentialBlockSize`` finds."""
        gpu, registers = device().gpu, self.max_registers or ASSUMED_REGISTERS

        def resident(threads: int) -> int:
            return occupancy(gpu, threads, registers, sharedmem).active_warps

        return max(range(WARP_SIZE, gpu.max_threads_per_block + 1, WARP_SIZE), key=lambda n: (resident(n), n))

    def __call__(self, *_: Any) -> Any:
        """Refuse: where it runs is missing."""
        if self.device:
            raise TypeError(f"{self.name} is a device function: only kernels can call it")
        shown = ", ".join(self.parameters)
        raise TypeError(f"{self.name} is a kernel: launch it with {self.name}[blocks, threads]({shown})")

    def __repr__(self) -> str:
        kind = "device function" if self.device else "cuda kernel"
        return f"<{kind} {self.name}({', '.join(self.parameters)})>"


class Configured:
    """A kernel with its grid, block, stream and dynamic shared memory: call it with the arguments."""

    def __init__(
        self, kernel: Kernel, griddim: DimLike, blockdim: DimLike, stream: Any = 0, sharedmem: int | None = 0
    ) -> None:
        self.kernel = kernel
        self.griddim, self.blockdim = _sizes(griddim), _sizes(blockdim)
        self.stream = inner_of(stream)
        self.sharedmem = sharedmem or 0

    def __repr__(self) -> str:
        return f"<{self.kernel!r}[{self.griddim}, {self.blockdim}]>"

    def __call__(self, *args: Any) -> None:
        """Run the kernel; NumPy arrays among the arguments are copied to the device and back.

        Raises
        ------
        LaunchError
            For a launch that the GPU would refuse, and arguments that the signature does not take.
        KernelError
            For a wrong kernel.
        """
        kernel, dev = self.kernel, device()
        values = args if kernel.declared is None else matching(kernel.name, kernel.declared, args)
        names = kernel.parameters
        with PassedArguments(dev, names, values, self.stream) as passed:
            dev.launch(
                kernel,
                self.griddim,
                self.blockdim,
                *passed,
                stream=self.stream,
                dynamic_shared=self.sharedmem,
                registers=kernel.max_registers,
            )


def _sizes(given: Any) -> Any:
    """Return a size as a launch takes it: Numba takes lists, too."""
    return tuple(given) if isinstance(given, list) else given


Marker = Callable[[Callable[..., Any]], Kernel]


@overload
def jit(func_or_sig: Callable[..., Any], device: bool = ..., **options: Any) -> Kernel: ...


@overload
def jit(func_or_sig: Any = ..., device: bool = ..., **options: Any) -> Marker: ...


def jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Kernel | Marker:
    """Mark a function as a kernel, or with ``device=True`` as a function that kernels call.

    Parameters
    ----------
    func_or_sig
        The function, or a signature, or a list of signatures: ``"void(float32[:], int32)"``, or types of Numba. With a
        signature numbers are converted to its types, and arrays must be of them.
    device
        Whether it is a device function.
    options
        ``max_registers`` is the number of registers per thread of the launches. ``debug``, ``opt``, ``fastmath``,
        ``lineinfo``, ``cache``, ``inline`` and ``boundscheck`` are accepted and change nothing.

    Raises
    ------
    TypeError
        For an option that there is not or that cannot work here, and a signature that cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusim_des import cuda
    >>> _ = cuda.select("tiny")
    >>> @cuda.jit(device=True)
    ... def square(x):
    ...     return x * x
    >>> @cuda.jit
    ... def squares(a, out):
    ...     i = cuda.grid(1)
    ...     if i < out.size:
    ...         out[i] = square(a[i])
    >>> x = np.arange(5.0)
    >>> y = np.zeros_like(x)
    >>> squares[1, 32](x, y)
    >>> y.tolist(), squares.launches[-1].counters.instruction_mix["fp64"]
    ([0.0, 1.0, 4.0, 9.0, 16.0], 1)
    """
    max_registers = options.pop("max_registers", None)
    for name, value in options.items():
        if name in _REFUSED and value:
            raise TypeError(f"cuda.jit({name}={value!r}): not possible here; {_REFUSED[name]}")
        if name not in _WITHOUT_EFFECT and name not in _REFUSED:
            raise TypeError(
                f"cuda.jit has no option {name!r}; it knows {', '.join(sorted(_WITHOUT_EFFECT))}, max_registers"
            )
    declared = signatures(func_or_sig) if is_signature(func_or_sig) else None

    def mark(function: Callable[..., Any]) -> Kernel:
        if not callable(function):
            raise TypeError(f"cuda.jit of {function!r}: give a function, or a signature and then the function")
        # Device functions are called with whatever types a kernel has: their signatures only say so.
        wanted = None if device else declared
        return Kernel(function, device_function=bool(device), max_registers=max_registers, declared=wanted)

    return mark if func_or_sig is None or declared is not None else mark(func_or_sig)
