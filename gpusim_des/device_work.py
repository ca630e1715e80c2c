"""What a device can be asked to do in a stream, bound to its arguments: it runs now, or whenever its graph runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional import left_out, pinned
from gpusim_des.functional.allocator import DeviceMemory
from gpusim_des.functional.array_use import ArrayUse, UseKind
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.source import Site
from gpusim_des.functional.transfers import Array, CopyKind, Direction, byte_count, bytes_of, direction_of, whole
from gpusim_des.launched import Launch
from gpusim_des.trace import CopyMemory, LaunchKernel, SetMemory


class Done(NamedTuple):
    """What one run of a `Work` did."""

    command: LaunchKernel | CopyMemory | SetMemory
    uses: Iterable[ArrayUse]
    launch: Launch | None = None
    """Of a kernel."""
    copied: tuple[Direction, int] | None = None
    """Of a copy."""
    notes: tuple[str, ...] = ()
    """What is to be said of poison that it read (`SampledResultWarning`)."""


@dataclass(frozen=True, eq=False)
class Work:
    """A kernel, copy or memset that was checked and can run."""

    name: str
    """``kernel 'scale'``, ``copy h2d 'a'``, ``copy d2d 'a' to 'b'``, ``memset 'a'``."""
    site: Site
    """The call that asked for it."""
    arrays: tuple[DeviceArray, ...]
    run: Callable[[int], Done]
    """Computes the results; gets the number of the stream."""
    blocking: bool = False
    """The call returns when it is done."""
    pageable: bool = False
    """It copies pageable host memory, and the host waits for it in any case (H2)."""
    pinned_source: NDArray[np.uint8] | None = None
    pinned_target: NDArray[np.uint8] | None = None

    @property
    def host_waits(self) -> bool:
        """The host goes on when it is done."""
        return self.blocking or self.pageable


def copy_work(
    memory: DeviceMemory,
    dst: Array,
    src: Array,
    nbytes: SupportsIndex | None,
    kind: CopyKind | None,
    *,
    site: Site,
    blocking: bool,
) -> Work:
    """Copy by the device with this `memory`; raises `DeviceMemoryError` if it is not to be.

    A copy within device memory, or between two devices, never makes the host wait.
    """
    direction = direction_of(dst, src, kind, memory)
    count = byte_count(dst, src, nbytes)
    to, origin = bytes_of(dst, "dst")[:count], bytes_of(src, "src")[:count]
    devices = [array for array in (dst, src) if isinstance(array, DeviceArray)]
    ours = next(array for array in devices if memory.owns(array))
    host = next((array for array in (dst, src) if isinstance(array, np.ndarray)), None)
    locked = host is not None and pinned.is_pinned(host)
    blocks = blocking and host is not None

    def run(stream: int) -> Done:
        bytes_of(dst, "dst")[:count] = bytes_of(src, "src")[:count]
        elements = count // dst.dtype.itemsize
        notes: tuple[str, ...] = ()
        if isinstance(dst, DeviceArray):
            left_out.copied(dst, src if isinstance(src, DeviceArray) else None, elements)
        elif isinstance(src, DeviceArray) and left_out.is_missing(src, elements):
            note = (
                f"the copy of array {src.name!r} holds poison: a sampled launch left out a part of what it would have "
                "written there; launch without sample= for whole results"
            )
            notes = (note,)
        command = CopyMemory(
            stream,
            direction="d2d" if direction == "p2p" else direction,
            nbytes=count,
            name=ours.name,
            pinned=locked,
            blocking=blocks,
            address=ours.address,
            line=site.line,
        )
        uses = _uses(memory, count, read=src, write=dst)
        return Done(command, uses, copied=(direction, count), notes=notes)

    named = repr(ours.name) if host is not None else f"{devices[1].name!r} to {devices[0].name!r}"
    return Work(
        f"copy {direction} {named}",
        site,
        tuple(devices),
        run,
        blocking=blocks,
        pageable=host is not None and not locked,
        pinned_source=origin if locked and not blocks and src is host else None,
        pinned_target=to if locked and dst is host else None,
    )


def _uses(memory: DeviceMemory, count: int, *, read: object = None, write: object = None) -> list[ArrayUse]:
    """Uses of the first `count` bytes of arrays that are this device's."""
    sides: tuple[tuple[UseKind, object], ...] = (("read", read), ("write", write))
    return [
        ArrayUse(array.owner, kind, array.address, array.address + count)
        for kind, array in sides
        if count and isinstance(array, DeviceArray) and memory.owns(array)
    ]


def uploaded(memory: DeviceMemory, array: DeviceArray, host: NDArray[Any], *, site: Site) -> Work:
    """Return the blocking copy that an array was made with: it has run already, only what it did is to be recorded."""
    command = CopyMemory(
        direction="h2d",
        nbytes=array.nbytes,
        name=array.name,
        pinned=pinned.is_pinned(host),
        blocking=True,
        address=array.address,
        line=site.line,
    )
    done = Done(command, _uses(memory, array.nbytes, write=array), copied=("h2d", array.nbytes))
    return Work(f"copy h2d {array.name!r}", site, (array,), lambda _: done, blocking=True)


def memset_work(
    memory: DeviceMemory, array: DeviceArray, value: SupportsIndex, nbytes: SupportsIndex | None, *, site: Site
) -> Work:
    """Set bytes of an array of this device; raises `DeviceMemoryError` if it is not to be."""
    byte = whole("memset value", value)
    if not -128 <= byte <= 255:
        raise DeviceMemoryError(
            f"memset value = {byte:,}: it sets bytes, from -128 to 255; for elements of other values copy them, "
            "dev.memcpy(array, np.full(shape, value, dtype))"
        )
    count = array.nbytes if nbytes is None else whole("memset nbytes", nbytes)
    if not 0 <= count <= array.nbytes:
        raise DeviceMemoryError(
            f"memset nbytes = {count:,}: must lie between 0 and the {array.nbytes:,} bytes of array "
            f"{array.name!r}; leave it out to set all of them"
        )
    if array.dtype.kind == "b" and byte not in {0, 1}:
        raise DeviceMemoryError(f"memset value = {byte} on truth values: their bytes are 0 or 1; use one of them")

    def run(stream: int) -> Done:
        array.flat.view(np.uint8)[:count] = byte & 0xFF
        left_out.copied(array, None, count // array.dtype.itemsize)
        command = SetMemory(stream, nbytes=count, name=array.name, address=array.address, line=site.line)
        return Done(command, _uses(memory, count, write=array))

    return Work(f"memset {array.name!r}", site, (array,), run)
