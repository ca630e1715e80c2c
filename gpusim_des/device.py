"""The device: memory, launches that compute right results, and the simulation of everything it was asked to do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np

from gpusim_des.device_streams import StreamFace
from gpusim_des.device_work import Done, Work
from gpusim_des.errors import CycleLimitError, DeviceMemoryError, LaunchError, SimulationInterrupted, StreamError
from gpusim_des.functional.array_view import ArrayView, base_of, simplest
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.executor import Sampling, execute
from gpusim_des.functional.machine import Counting
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.sampling import SampleSize, checked
from gpusim_des.functional.shared_memory import SharedLimits
from gpusim_des.functional.source import caller
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.functional.watch import RaceCheck
from gpusim_des.functional.watched import Watched, Which, watched
from gpusim_des.gpu import GPU, load_gpu, misfit, occupancy
from gpusim_des.grid import DimLike, LaunchConfig
from gpusim_des.launched import Launch
from gpusim_des.simulation import Simulation
from gpusim_des.streams import Stream
from gpusim_des.timeline import Timeline
from gpusim_des.timing.choice import Engine, Played, choose_engine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import Progress
from gpusim_des.timing.simulate import Caches, simulate
from gpusim_des.trace import KernelTrace, LaunchKernel
from gpusim_des.units import FS_PER_S

DefaultStream = Literal["legacy", "per-thread"]

ASSUMED_REGISTERS = 32
"""Registers per thread where a launch does not say (W5)."""


def assumed_at_launch(registers: int | None) -> tuple[str, ...]:
    """What a launch assumes because it was not told, in words.

    >>> assumed_at_launch(None), assumed_at_launch(32)
    (('32 registers per thread (not given at launch)',), ())
    """
    return () if registers is not None else (f"{ASSUMED_REGISTERS} registers per thread (not given at launch)",)


class Device(StreamFace):
    """A GPU to run kernels on.

    Parameters
    ----------
    gpu
        Name of a model (``"h100-sxm"``), path of a TOML file, or a `GPU`.
    default_stream
        ``"legacy"``: the default stream waits for all blocking streams, and they wait for it. ``"per-thread"``: it is
        a stream like the others.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def double(blk, a, n):
    ...     i = blk.bx * blk.bdx + blk.tx
    ...     m = i < n
    ...     blk.store(a, i, 2 * blk.load(a, i, mask=m), mask=m)
    >>> dev = gs.Device("tiny")
    >>> a = dev.to_device(np.arange(100, dtype=np.float32))
    >>> launch = dev.launch(double, gs.cdiv(100, 64), 64, a, 100)
    >>> dev.to_host(a)[-2:].tolist(), launch.counters.global_load_sectors
    ([196.0, 198.0], 13)
    >>> dev.simulate().kernels[0].name
    'double'
    """

    def __init__(self, gpu: str | PathLike[str] | GPU, *, default_stream: DefaultStream = "legacy") -> None:
        if default_stream not in get_args(DefaultStream):
            raise StreamError(f"default_stream = {default_stream!r}: possible are 'legacy' and 'per-thread'")
        self.gpu = load_gpu(gpu)
        super().__init__(self.gpu.memory_bytes, per_thread=default_stream == "per-thread")

    @property
    def launches(self) -> list[Launch]:
        """Kernels that have run since the device was made, or since `forget_launches`."""
        return self._host.launches

    # Launch ---------------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: KernelFunction,
        grid: DimLike,
        block: DimLike,
        *args: Any,
        registers: int | None = None,
        dynamic_shared: int = 0,
        stream: Stream | None = None,
        count: Counting = "auto",
        vectorize: bool | None = None,
        interpret: bool = False,
        only_thread: Which = None,
        only_block: Which = None,
        sample: SampleSize | None = None,
        races: RaceCheck = "shared",
        progress: Callable[[int, int], None] | None = None,
    ) -> Launch:
        """Run a kernel now: results in device memory, counters and trace in the `Launch` that comes back.

        Parameters
        ----------
        kernel
            A function marked with `kernel` (thread style), `block_kernel` (block style) or `cuda.jit` (Numba's style).
        grid, block
            Blocks in the grid and threads in a block: a number or a tuple (x, y, z).
        args
            The kernel's arguments: device arrays of this device, and numbers.
        registers
            Registers per thread; 32 where not given, which the report calls an assumption.
        dynamic_shared
            Dynamic shared memory per block in bytes, for arrays that the kernel declares with ``dynamic=True``; used
            or not, it limits how many blocks fit on an SM. Asking for more than 48 KiB is the opt-in.
        stream
            The stream to launch into; the default stream where not given. In a stream that is being captured the
            kernel does not run now, and the `Launch` is empty.
        count
            ``"auto"`` counts every operator by the instruction table, ``"declared"`` only memory operations, barriers,
            branches, exchanges between lanes and `compute`, ``"lines"`` every source line that a warp of a thread-style
            kernel executes.
        vectorize
            For thread style: ``None`` runs many threads at once where the kernel allows it, ``False`` one after the
            other (the reference, a thousand times slower), ``True`` refuses a kernel that cannot be vectorized.
        interpret
            Run thread by thread, as ``vectorize=False``, so that ``breakpoint()`` in the kernel stops in Python's
            debugger, where the thread's variables are plain numbers and arrays.
        only_thread, only_block
            With `interpret`: the thread of each block, and the block, whose ``print`` and ``breakpoint()`` take effect,
            as a linear number or a tuple (x, y, z). All threads run, so the results are right.
        sample
            ``None`` executes all blocks. A number of waves (as many blocks as the GPU holds at a time), at least 6, or
            ``"auto"`` executes a part of them and estimates the rest, with bounds of the errors: counters here, times
            in `simulate`. Arrays that the kernel writes are poison where blocks were left out, and copies of them warn.
            A grid that is not larger than the sample is executed whole; the launch's ``notice`` says so.
        races
            ``"shared"`` looks for races in shared memory, ``"global"`` in global memory as well, between blocks too,
            which takes longer; ``"off"`` looks for none. ``launch.races`` holds what was found.
        progress
            Called with the blocks done and the blocks in all; a sample ends before all are done.

        Warns
        -----
        RaceWarning, BarrierWarning, IndexOverflowWarning, UnwrittenReadWarning
            For what a GPU would not tell; the launch's ``mistakes`` are all of it.

        Raises
        ------
        LaunchError
            For a launch that the GPU would refuse, also because not one of its blocks fits on an SM; for a watched
            thread that it does not have. For a sample of a
            kernel that uses results of atomic operations, by which blocks depend on each other.
        KernelError
            For a wrong kernel; `BoundsError`, `MaskError` and `DeadlockError` are its kinds.
        DeviceMemoryError
            For an array that was freed or lives on another device, or a host array, list or tuple among the arguments.
        StreamError
            For a stream that was destroyed or is another device's.
        """
        if not isinstance(kernel, KernelFunction):
            raise TypeError(f"{kernel!r} is no kernel: mark the function with @gs.kernel or @gs.block_kernel")
        if count not in get_args(Counting):
            raise ValueError(f"count = {count!r}: possible are {', '.join(map(repr, get_args(Counting)))}")
        if races not in get_args(RaceCheck):
            raise ValueError(f"races = {races!r}: possible are {', '.join(map(repr, get_args(RaceCheck)))}")
        config = LaunchConfig.of(grid, block, self.gpu.max_threads_per_block)
        watching = watched(config, only_block, only_thread)
        self._check_interpret(kernel, interpret, vectorize, watching)
        if not isinstance(dynamic_shared, int | np.integer) or dynamic_shared < 0:
            raise LaunchError(f"dynamic_shared = {dynamic_shared!r}: a whole number of bytes, at least 0")
        used = ASSUMED_REGISTERS if registers is None else registers
        most = self.gpu.max_registers_per_thread
        if not isinstance(used, int | np.integer) or not 1 <= used <= most:
            raise LaunchError(f"registers = {used!r}: whole registers per thread, 1 to {most}; the rest goes to memory")
        shape = config.threads_per_block, int(used), int(dynamic_shared)
        if occupancy(self.gpu, *shape).blocks_per_sm == 0:  # and refuses what is beyond a limit of its own
            raise LaunchError(f"too many resources requested for launch of {kernel.name!r}: {misfit(self.gpu, *shape)}")
        arguments = {name: _simplest(value) for name, value in kernel.bind(args).items()}
        for name, value in arguments.items():
            self._check_argument(kernel, name, value)
        self._refuse_launch_from_kernel(kernel)

        assumed = assumed_at_launch(registers)
        where = self._host.stream_of(stream)
        limits = SharedLimits(
            self.gpu.shared_bytes_per_block, self.gpu.shared_bytes_per_block_optin, int(dynamic_shared)
        )
        sampling = self._sampling(sample, shape)
        bases = map(base_of, arguments.values())
        arrays = tuple(array for array in bases if isinstance(array, DeviceArray))
        types = frozenset(array.dtype.name for array in arrays)
        site = caller()

        def run(number: int) -> Done:
            self._running = kernel.name
            try:
                did = execute(
                    kernel,
                    config,
                    arguments,
                    counting=count,
                    registers=int(used),
                    shared_limits=limits,
                    l1_bytes_per_cycle=self.gpu.l1_bytes_per_cycle,
                    assumptions=assumed,
                    progress=progress,
                    vectorize=False if interpret else vectorize,
                    watched=watching,
                    sampling=sampling,
                    watch_writes=any(array.missing is not None for array in self._memory.live),
                    races=races,
                )
            finally:
                self._running = None
            done = Launch(
                kernel.name,
                config,
                did.counters,
                did.trace,
                did.vectorized,
                incomplete=did.incomplete,
                unsampled=did.unsampled,
                races=did.races,
                unwritten_reads=did.unwritten_reads,
                left_before_barriers=did.left_before_barriers,
                index_overflows=did.index_overflows,
                unreported=did.unreported,
                gpu=self.gpu,
                kernel=kernel,
                array_types=types,
            )
            return Done(LaunchKernel(number, trace=did.trace, line=site.line), did.uses, done, notes=did.notes)

        done = self._host.issue(where, Work(f"kernel {kernel.name!r}", site, arrays, run))
        if done is not None and done.launch is not None:
            return done.launch
        empty = KernelTrace(kernel.name, config, registers=int(used), assumptions=assumed)
        return Launch(kernel.name, config, Counters(), empty, captured=True, gpu=self.gpu, kernel=kernel)

    @staticmethod
    def _check_interpret(kernel: KernelFunction, interpret: bool, vectorize: bool | None, watching: Watched) -> None:
        if not isinstance(interpret, bool):
            raise LaunchError(f"interpret = {interpret!r}: give True or False")
        if interpret and vectorize:
            raise LaunchError("interpret = True and vectorize = True: one asks for thread by thread, the other for not")
        if watching != Watched() and not interpret:
            raise LaunchError(
                "only_thread and only_block pick whose print and breakpoint() take effect where threads run one by "
                "one: give interpret=True as well"
            )
        if interpret and not isinstance(kernel, ThreadKernel):
            raise LaunchError(
                f"interpret = True for block kernel {kernel.name!r}: it runs all threads of a block at once, and has "
                "no single ones; print and breakpoint() in it see arrays with one entry per thread"
            )

    def _sampling(self, sample: SampleSize | None, shape: tuple[int, int, int]) -> Sampling | None:
        """What the choice of a sample depends on; `shape`: threads, registers per thread, dynamic shared memory."""
        if sample is None:
            return None
        threads, registers, dynamic = shape

        def wave_of(static_bytes: int) -> int:
            return occupancy(self.gpu, threads, registers, dynamic + static_bytes).blocks_per_sm * self.gpu.sms

        slots = self.gpu.sms * self.gpu.sub_partitions
        moved = self.gpu.dram_bandwidth_bytes_per_s * self.gpu.sm_period_fs / (slots * FS_PER_S)
        return Sampling(checked(sample), wave_of, self.gpu.l2_bytes, moved)

    def _refuse_launch_from_kernel(self, kernel: KernelFunction) -> None:
        if self._running is not None:
            raise LaunchError(
                f"kernel {self._running!r} launches {kernel.name!r}: a kernel cannot launch another one here; "
                "launch both from the host, one after the other"
            )

    def _check_argument(self, kernel: KernelFunction, name: str, value: object) -> None:
        if isinstance(value, DeviceArray | ArrayView):
            self._check(base_of(value))
        elif isinstance(value, np.ndarray) and value.ndim:
            raise DeviceMemoryError(
                f"argument {name!r} of kernel {kernel.name!r} is a host array: "
                f"copy it first, {name} = dev.to_device({name})"
            )
        elif isinstance(value, list) or (isinstance(value, tuple) and kernel.takes_thread):
            raise DeviceMemoryError(
                f"argument {name!r} of kernel {kernel.name!r} is a {type(value).__name__} on the host: copy it "
                f"first, {name} = dev.to_device({name}), or pass its numbers one by one"
            )

    def forget_launches(self) -> None:
        """Leave the launches and the host program so far out of later simulations.

        Device memory and its contents, streams and events stay; everything so far counts as done. Use it after kernels
        that only prepare data, or between two measurements on one device.
        """
        self._host_only("forget_launches")
        self._host.forget()

    # Time -----------------------------------------------------------------------------------------------------------

    def simulate(
        self,
        *,
        engine: Engine = "auto",
        caches: Caches = "on",
        detail: Detail = "sm",
        watch: Collection[int] | None = None,
        max_cycles: int | None = None,
        progress: Progress | None = None,
    ) -> Simulation:
        """Find the time of everything asked for so far: kernels, copies, and the host's calls, each in its stream.

        "So far" begins anew with `forget_launches`. A simulation begins with cold caches; copies to the device fill the
        L2 (M11), so that kernels behind them find what fits there.

        ``detail`` is ``"kernel"`` (totals), ``"sm"`` (spans of blocks as well) or ``"warp"`` (states and instructions
        of every warp as well, on the SMs that ``watch`` lists, or on all). ``caches="off"`` sends every sector to HBM:
        the idealisation in which the textbook's formulas are exact.

        Two engines come to the same timeline: ``engine="simpy"``, the readable one, and ``"compiled"``, which is many
        times as fast and compiles itself at its first use, about half a minute; it keeps the result on disk. ``"auto"``
        takes the compiled one for large work; ``engine`` of the result tells which it was.

        Raises
        ------
        LaunchError
            If nothing was asked for, or the shared memory that a kernel allocated itself leaves no block room on an SM.
        TraceError
            If a kernel uses instructions that the GPU does not have: asynchronous copies, tensor cores of a type.
        DeadlockError
            If warps wait for each other forever.
        CycleLimitError, SimulationInterrupted
            After ``max_cycles`` clock cycles of the SMs, and when the user interrupts. The exception's ``partial`` is
            the `Simulation` of what was simulated until then.
        """
        if not self.program.commands:
            raise LaunchError(
                "nothing to simulate: launch a kernel or copy something first, dev.launch(kernel, grid, block, ...); "
                "what was asked for before dev.forget_launches() is left out"
            )
        self._host.check_sources()
        used = choose_engine(engine, self.program.traces())
        try:
            timeline = simulate(
                self.gpu,
                program=self.program,
                engine=used,
                caches=caches,
                detail=detail,
                watch=watch,
                max_cycles=max_cycles,
                progress=progress,
            )
        except (CycleLimitError, SimulationInterrupted) as stop:
            if isinstance(stop.partial, Timeline):
                stop.partial = self._simulation(stop.partial, used)
            raise
        self._event_times_fs = dict(timeline.event_times)
        return self._simulation(timeline, used)

    def _simulation(self, timeline: Timeline, engine: Played) -> Simulation:
        launches = tuple(self.launches)
        return Simulation(timeline, engine, launches, tuple(launch.counters for launch in launches))


def _simplest(value: object) -> object:
    return simplest(value) if isinstance(value, ArrayView) else value
