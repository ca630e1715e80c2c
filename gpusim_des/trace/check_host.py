"""What a host program must be before an engine may play it (H1 to H3)."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

import numpy as np

from gpusim_des.errors import TraceError
from gpusim_des.trace.check import LARGEST
from gpusim_des.trace.host import (
    Command,
    CopyDirection,
    CopyMemory,
    GraphNode,
    HostProgram,
    HostWork,
    LaunchGraph,
    LaunchKernel,
    RecordEvent,
    SetMemory,
    Synchronize,
    WaitEvent,
)
from gpusim_des.trace.kernel import KernelTrace

MOST_BYTES = 1 << 60
"""Bytes of a copy at most, and where the addresses of device memory end."""

LONGEST_FS = 1 << 60
"""Longest work of the host: no simulation is longer (T1)."""

AWAITED = ("stream", "event", "device")
"""What `Synchronize` waits for."""


def check_host(program: HostProgram) -> None:
    """Refuse a host program that no engine may play; what its kernels do is looked at elsewhere.

    Raises
    ------
    TraceError
        Naming the command, the value and the rule.

    Examples
    --------
    >>> check_host(HostProgram([CopyMemory(direction="h2d", nbytes=-4)]))
    Traceback (most recent call last):
        ...
    gpusim_des.errors.TraceError: command 0, CopyMemory: nbytes = -4: must be a whole number from 0 to ...
    """
    numbers = set()
    for stream in program.streams:
        flaw = _number("number", stream.number) or _number("priority", stream.priority, low=-LARGEST)
        if not flaw and stream.number in numbers:
            flaw = f"number = {stream.number}: another stream has it; give each its own"
        if flaw:
            raise TraceError(f"stream {stream.name!r}: {flaw}")
        numbers.add(stream.number)
    recorded: set[int] = set()
    for number, command in enumerate(program.commands):
        flaw = _flaw(command, recorded)
        if flaw:
            raise TraceError(f"command {number}, {type(command).__name__}: {flaw}")


def _number(what: str, value: object, high: int = LARGEST, low: int = 0) -> str:
    """Say what is wrong with a number, if anything is."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and low <= value <= high:
        return ""
    return f"{what} = {value!r}: must be a whole number from {low} to {high}"


def _choice(what: str, value: object, among: Collection[object]) -> str:
    return "" if value in among else f"{what} = {value!r}: must be one of {', '.join(map(str, among))}"


def _flaw(command: Command, recorded: set[int]) -> str:  # noqa: PLR0911 - one line for each command
    """Say what is wrong with a command; `recorded` are the events that commands before it recorded."""
    flaw = _number("stream", getattr(command, "stream", None))
    if flaw:
        return flaw
    match command:
        case LaunchKernel() | CopyMemory() | SetMemory():
            return _operation_flaw(command)
        case RecordEvent():
            recorded.add(command.event)
            return _number("event", command.event)
        case WaitEvent():
            return _unrecorded(command.event, recorded, "a stream waits for")
        case Synchronize():
            awaited = _unrecorded(command.event, recorded, "the host waits for") if command.what == "event" else ""
            return _choice("what", command.what, AWAITED) or awaited
        case HostWork():
            return _number("femtoseconds", command.femtoseconds, LONGEST_FS)
        case LaunchGraph():
            return next(filter(None, (_node_flaw(n, node) for n, node in enumerate(command.nodes))), "")
    return "engines do not know this command; gpusim_des.trace lists those that they know"


def _operation_flaw(command: LaunchKernel | CopyMemory | SetMemory) -> str:
    if isinstance(command, LaunchKernel):
        if isinstance(command.trace, KernelTrace):
            return ""
        return f"trace = {command.trace!r}: must be a KernelTrace, as a launch records it"
    flaw = ""
    if isinstance(command, CopyMemory):
        flaw = _choice("direction", command.direction, get_args(CopyDirection))
    return flaw or _number("nbytes", command.nbytes, MOST_BYTES) or _number("address", command.address, MOST_BYTES)


def _unrecorded(event: int, recorded: set[int], who: str) -> str:
    if event in recorded:
        return ""
    return f"{who} event record {event}, which nothing recorded before: record it first, event.record(stream)"


def _node_flaw(number: int, node: GraphNode) -> str:
    if not isinstance(node.command, LaunchKernel | CopyMemory | SetMemory):
        return f"node {number} is a {type(node.command).__name__}: nodes are kernels, copies and memsets"
    flaw = _operation_flaw(node.command)
    late = next((before for before in node.after if _number("after", before, number - 1)), None)
    if late is not None:
        flaw = f"it waits for node {late!r}: a node waits for nodes before it, 0 to {number - 1}"
    return f"node {number}: {flaw}" if flaw else ""
