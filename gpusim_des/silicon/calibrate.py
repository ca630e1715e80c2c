"""Turns measurements of a GPU into the parameters of a model, each from the measurement that shows it alone.

What a microbenchmark shows directly is taken as it is: clocks, latencies, rates. Where it shows a sum, such as the time
of an empty kernel and the gap before it, the base model simulates the same sum, and the parameter is moved by the
difference. Nothing is fitted to the time of a whole kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpusim_des.errors import ReadError
from gpusim_des.gpu import GPU
from gpusim_des.gpu.schema import ALL_KEYS
from gpusim_des.silicon.kit import Measured
from gpusim_des.silicon.launches import us_of_empty_kernels, us_of_empty_nodes
from gpusim_des.silicon.streams import seconds_of_a_reading_block

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True)
class Taken:
    """One parameter that a measurement decided."""

    label: str
    """The key in the model's file, such as ``memory.l2_latency``."""
    value: str | int
    """As the file writes it."""
    source: str
    """Which measurement, and what it was."""


def calibrate(measured: Measured, base: GPU) -> list[Taken]:
    """Return the parameters that a report of the kit decides; all others stay as they are in the base.

    Parameters
    ----------
    measured
        What the kit found.
    base
        The model of the nearest GPU, of the same compute capability.

    Raises
    ------
    ReadError
        If the compute capabilities differ: most of what they stand for is not measured.
    """
    (device,) = measured.rows("device_properties")
    if device["compute_capability"] != base.compute_capability:
        raise ReadError(
            f"{measured.name}: measured on compute capability {device['compute_capability']} ({device['name']}), "
            f"{base.name} is {base.compute_capability}: take a base with the same, see gpusim-des gpus"
        )
    taken = [*_latencies(measured, base), *_bandwidths(measured, base)]
    for step in (_device, _clock, _pipes, _host_link, _dispatch):
        taken += step(measured)
    # The last steps simulate, on a GPU that has everything that came before.
    taken += _blocks(measured, with_parameters(base, taken))
    taken += _launches(measured, with_parameters(base, taken))
    order = {key.label: number for number, key in enumerate(ALL_KEYS)}
    return sorted(taken, key=lambda entry: order[entry.label])


def with_parameters(base: GPU, taken: Sequence[Taken]) -> GPU:
    """Return the GPU with the measured parameters in place of its own.

    Raises
    ------
    ModelError
        If they contradict each other.
    """
    fields = {key.label: key.field for key in ALL_KEYS}
    return base.replace(**{fields[entry.label]: entry.value for entry in taken})


def _cycles(value: float) -> str:
    return f"{round(value)} cycles"


def _ns(seconds: float) -> str:
    return f"{seconds * 1e9:.4g} ns"


def _device(measured: Measured) -> Iterator[Taken]:
    (device,) = measured.rows("device_properties")
    for label, column in (("sms", "sms"), ("copies.copy_engines", "copy_engines")):
        yield Taken(label, int(device[column]), f"device_properties: {column}")
    for label, column in (("memory.l2_size", "l2_bytes"), ("memory.memory_size", "memory_bytes")):
        yield Taken(label, f"{int(device[column])} B", f"device_properties: {column}")
    clock, bits = device.get("memory_clock_khz"), device.get("memory_bus_bits")
    if clock and bits:
        rate = int(clock) * 1000 * 2 * int(bits) // 8
        yield Taken(
            "memory.dram_bandwidth", f"{rate} B/s", f"device_properties: {clock} kHz, twice, on a bus of {bits} bits"
        )


def _clock(measured: Measured) -> Iterator[Taken]:
    ghz = measured.value("sm_clock", "ghz", load="all SMs, FP32")
    if ghz is not None:
        yield Taken("sm_clock", f"{round(ghz * 1000)} MHz", f"sm_clock: {ghz:.4g} GHz with all FP32 lanes busy")


def _latencies(measured: Measured, base: GPU) -> Iterator[Taken]:
    (device,) = measured.rows("device_properties")
    l2 = int(device["l2_bytes"])
    near = l2 // base.l2_partitions

    def chase(load: str, least: float, most: float) -> float | None:
        """Median of the cycles of a chase through footprints between two sizes."""
        rows = measured.rows("memory_latency", space="global", load=load)
        part = [row for row in rows if least <= row["footprint_bytes"] <= most]
        return Measured(measured.name, {"part": part}).value("part", "cycles") if part else None

    shared = measured.value("memory_latency", "cycles", space="shared", lanes=1)
    found = {
        "memory.shared_latency": (shared, "shared memory, one lane"),
        "memory.l1_latency": (chase("ca", 4 * KIB, 64 * KIB), "4 to 64 KiB through the L1"),
        "memory.l2_latency": (chase("cg", 64 * KIB, 0.6 * near), "past the L1, up to 0.6 of the near L2"),
        "memory.dram_latency": (chase("cg", 2.5 * l2, 10 * l2), "past the L1, 2.5 to 10 times the L2"),
    }
    if base.l2_partitions > 1:
        far = chase("cg", 0.6 * l2, 0.9 * l2)
        found["memory.l2_far_latency"] = (far, "past the L1, 0.6 to 0.9 of the L2")
    for label, (cycles, what) in found.items():
        if cycles is not None:
            yield Taken(label, _cycles(cycles), f"memory_latency: {cycles:.4g} cycles, {what}")
    if base.l2_partitions == 1 and found["memory.l2_latency"][0] is not None:
        yield Taken("memory.l2_far_latency", _cycles(found["memory.l2_latency"][0]), "one partition: without meaning")


INSTRUCTIONS = {
    "pipes.fp32.latency": "FFMA",
    "pipes.int.latency": "LOP3",
    "pipes.fp64.latency": "DFMA",
    "memory.shuffle_latency": "SHFL.IDX",
}


def _pipes(measured: Measured) -> Iterator[Taken]:
    for label, instruction in INSTRUCTIONS.items():
        cycles = measured.value("instruction_latency", "cycles", instruction=instruction)
        if cycles is not None:
            yield Taken(label, _cycles(cycles), f"instruction_latency: {instruction}, {cycles:.4g} cycles")


def _bandwidths(measured: Measured, base: GPU) -> Iterator[Taken]:
    (device,) = measured.rows("device_properties")
    l2 = measured.best("l2_bandwidth", "gb_per_s")
    if l2 is not None:
        yield Taken("memory.l2_bandwidth", f"{l2:.5g} GB/s", f"l2_bandwidth: at most {l2:.5g} GB/s")
    clock, bits = device.get("memory_clock_khz"), device.get("memory_bus_bits")
    peak = int(clock) * 2e3 * int(bits) / 8e9 if clock and bits else base.dram_bandwidth_bytes_per_s / 1e9
    for traffic, kernels in (("read", ("read",)), ("write", ("write",)), ("mixed", ("copy", "scale"))):
        rates = [measured.best("dram_bandwidth", "gb_per_s", kernel=kernel) for kernel in kernels]
        known = [rate for rate in rates if rate is not None]
        if known:
            best = max(known)
            share = min(Fraction(1), Fraction(round(best * 1000), round(peak * 1000)))
            yield Taken(
                f"memory.dram_efficiency_{traffic}",
                f"{share.numerator}/{share.denominator}",
                f"dram_bandwidth: {', '.join(kernels)}, at most {best:.5g} of {peak:.5g} GB/s",
            )


def _host_link(measured: Measured) -> Iterator[Taken]:
    """Two copies of different sizes: the line through them has the rate and, pinned, the latency."""
    for direction in ("h2d", "d2h"):
        for memory, column in (("pinned", "us"), ("pageable", "host_us")):
            rows = measured.rows("pcie_copy", direction=direction, memory=memory)
            rows = sorted((row for row in rows if row.get(column)), key=lambda row: int(row["bytes"]))
            if len(rows) < 2:
                continue
            before, last = rows[-2], rows[-1]
            rate = (last["bytes"] - before["bytes"]) / (last[column] - before[column]) * 1e6
            what = f"pcie_copy: {memory} {direction}, between {before['bytes'] >> 20} and {last['bytes'] >> 20} MiB"
            yield Taken(f"copies.{direction}_{memory}", f"{rate / 1e9:.5g} GB/s", what)
            if direction == "h2d" and memory == "pinned":
                latency = rows[0][column] - rows[0]["bytes"] / rate * 1e6
                yield Taken("copies.copy_latency", f"{latency:.4g} us", f"pcie_copy: {rows[0]['bytes']} bytes, pinned")


def _dispatch(measured: Measured) -> Iterator[Taken]:
    few, many = 4096, 8192
    times = [measured.value("block_dispatch", "us", threads=32, blocks=blocks) for blocks in (few, many)]
    if times[0] is not None and times[1] is not None and times[1] > times[0]:
        interval = (times[1] - times[0]) * 1e-6 / (many - few)
        what = f"block_dispatch: {few} and {many} blocks of 32 threads, {_ns(interval)} for each more"
        yield Taken("front_end.dispatch_interval", _ns(interval), what)


def _blocks(measured: Measured, known: GPU) -> Iterator[Taken]:
    """A lone block of a warp on each SM that loads a float and ends: what it takes beyond the simulated time."""
    where = {"style": "one element per thread", "kernel": "read", "warps_per_sm": 1, "forced_by": "shared"}
    rate = measured.value("dram_bandwidth", "gb_per_s", **where)
    if rate is None:
        return
    measured_s = known.sms * 32 * 4 / (rate * 1e9)
    simulated_s = seconds_of_a_reading_block(known)
    lacking = (measured_s - simulated_s) * known.sm_clock_hz
    both = max(0, round(known.block_start_cycles + known.block_end_cycles + lacking))
    what = f"dram_bandwidth: one warp per SM, {measured_s * 1e9:.4g} ns per block; the split is an assumption"
    yield Taken("front_end.block_start", _cycles(both - both // 2), what)
    yield Taken("front_end.block_end", _cycles(both // 2), what)


def _launches(measured: Measured, known: GPU) -> Iterator[Taken]:
    simulate: dict[str, tuple[str, Callable[[GPU, dict[str, Any]], float], int]] = {
        "host.kernel_gap": ("stream, queued ahead", us_of_empty_kernels, known.kernel_gap_fs),
        "host.graph_gap": ("graph, queued ahead", us_of_empty_nodes, known.graph_gap_fs),
    }
    for label, (how, simulated_us, gap_fs) in simulate.items():
        us = measured.value("launch_cost", "us", how=how)
        if us is not None:
            # The host must not be what is waited for: it was not in the measurement.
            ahead = known.replace(launch_call_fs=0)
            gap = max(0.0, gap_fs / 1e9 + us - simulated_us(ahead, {"blocks": 1}))
            yield Taken(label, f"{gap:.4g} us", f"launch_cost: {how}, {us:.4g} us, less the empty kernel itself")
    call = measured.value("launch_cost", "host_us", how="stream, queued ahead")
    if call is not None:
        yield Taken("host.launch_call", f"{call:.4g} us", f"launch_cost: host's time of a launch, {call:.4g} us")
