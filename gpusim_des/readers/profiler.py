"""Reads kernels out of a trace that the profiler of PyTorch exported (``export_chrome_trace``)."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim_des.errors import ReadError


@dataclass(frozen=True)
class ProfiledDevice:
    """A GPU as the trace describes it."""

    name: str
    compute_capability: str
    sms: int


@dataclass(frozen=True)
class ProfiledKernel:
    """One launch shape of a kernel in a trace."""

    name: str
    device: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    """Per thread; 0 where the trace does not say."""
    shared_bytes: int
    """Static and dynamic, per block."""
    profiler_percent: float | None
    """What the trace calls ``est. achieved occupancy %``."""
    launches: int = 1
    total_us: float = 0.0
    """Duration of all launches together, µs."""

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)


@dataclass(frozen=True)
class ProfilerTrace:
    """Kernels of a trace, by the time they took, and the GPUs that it names."""

    kernels: tuple[ProfiledKernel, ...]
    devices: dict[int, ProfiledDevice]


def read_profiler(path: str | Path) -> ProfilerTrace:
    """Read the kernels of a trace file, ``.json`` or ``.json.gz``; launches of one kernel and shape are one entry.

    Raises
    ------
    ReadError
        If the file is cut off or no JSON, has no kernels, or a kernel lacks its grid or block.
    """
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise ReadError(f"{path}: a broken gzip file ({error}); is it cut off? Export the trace again") from None
    document = _parse(data.decode("utf-8", errors="replace"), path)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise ReadError(f"{path}: no list of traceEvents: this is not a trace of the profiler")
    found = [e for e in events if isinstance(e, dict) and str(e.get("cat", "")).lower() == "kernel"]
    if not found:
        raise ReadError(
            f"{path}: a trace without kernels: none of its {len(events)} events has the category kernel; profile with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        )
    merged: dict[tuple[Any, ...], ProfiledKernel] = {}
    for event in found:
        kernel = _kernel(event, path)
        key = (kernel.name, kernel.device, kernel.grid, kernel.block, kernel.registers, kernel.shared_bytes)
        before = merged.get(key)
        if before is not None:
            kernel = ProfiledKernel(
                *key, before.profiler_percent, before.launches + 1, before.total_us + kernel.total_us
            )
        merged[key] = kernel
    devices = document.get("deviceProperties") if isinstance(document, dict) else None
    return ProfilerTrace(
        tuple(sorted(merged.values(), key=lambda k: -k.total_us)),  # equal ones stay in the order of the trace
        dict(_device(d) for d in devices or () if isinstance(d, dict) and {"computeMajor", "numSms"} <= set(d)),
    )


_TOKEN = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<comma>,(?=\s*[\]}]))|(?P<nan>-?\b(?:nan|inf)\b)', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)


def _parse(text: str, path: str | Path) -> Any:
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError:
        pass
    # What some writers leave behind: a comma at the end of a list, nan, and backslashes of Windows paths.
    try:
        return json.loads(_TOKEN.sub(_mended, text), strict=False)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg
        problem = "the JSON is cut off" if at_end else "not JSON"
        raise ReadError(
            f"{path}: {problem}: {error.msg} in line {error.lineno}, column {error.colno}; export the trace again"
        ) from None


def _mended(token: re.Match[str]) -> str:
    if token["text"]:
        return _ESCAPE.sub(lambda e: e[0] if e[1] else "\\\\" + e[2], token["text"])
    return "" if token["comma"] else "NaN"


def _kernel(event: dict[str, Any], path: str | Path) -> ProfiledKernel:
    name = str(event.get("name", ""))
    arguments = event.get("args")
    arguments = arguments if isinstance(arguments, dict) else {}
    percent = arguments.get("est. achieved occupancy %")
    duration = event.get("dur", 0)
    return ProfiledKernel(
        name=name,
        device=_count(arguments.get("device", 0), "device", name, path),
        grid=_dimensions(arguments.get("grid"), "grid", name, path),
        block=_dimensions(arguments.get("block"), "block", name, path),
        registers=_count(arguments.get("registers per thread", 0), "registers per thread", name, path),
        shared_bytes=_count(arguments.get("shared memory", 0), "shared memory", name, path),
        profiler_percent=float(percent) if isinstance(percent, (int, float)) else None,
        total_us=float(duration) if isinstance(duration, (int, float)) else 0.0,
    )


def _dimensions(value: object, what: str, name: str, path: str | Path) -> tuple[int, int, int]:
    parts = json.loads(value) if isinstance(value, str) and re.fullmatch(r"\[[\d, ]+\]", value) else value
    if not isinstance(parts, list) or len(parts) != 3 or not all(isinstance(p, int) and p > 0 for p in parts):
        raise ReadError(f"{path}: kernel {name!r}: {what} = {value!r}: must be three whole numbers, at least 1")
    return (parts[0], parts[1], parts[2])


def _count(value: object, what: str, name: str, path: str | Path) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or value < 0:
        raise ReadError(f"{path}: kernel {name!r}: {what} = {value!r}: must be a whole number, at least 0")
    return value


def _device(properties: dict[str, Any]) -> tuple[int, ProfiledDevice]:
    capability = f"{properties['computeMajor']}.{properties.get('computeMinor', 0)}"
    return int(properties.get("id", 0)), ProfiledDevice(
        str(properties.get("name", "GPU")), capability, int(properties["numSms"])
    )
