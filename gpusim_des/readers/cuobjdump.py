"""Reads what ``cuobjdump --dump-resource-usage`` (``-res-usage``) says about each kernel."""

from __future__ import annotations

import re

from gpusim_des.errors import ReadError
from gpusim_des.readers.kernel_resources import KernelResources

_ARCHITECTURE = re.compile(r"^\s*arch\s*=\s*(?P<architecture>sm_\w+)")
_FUNCTION = re.compile(r"^\s*Function\s+(?P<name>.+?):?\s*$")
_NUMBERS = re.compile(r"\b(?P<what>REG|STACK|SHARED):(?P<number>\d+)")

HOPPER = 90
"""Since this architecture the compiler lays the system's reserve out itself, at the start of shared memory."""

RESERVE_BYTES = 1024
"""What SHARED contains of it; ``ptxas -v`` leaves it out."""


def read_cuobjdump(text: str, architecture: str | None = None) -> list[KernelResources]:
    """Kernels of a dump, in its order, once for each architecture.

    From ``sm_90`` on SHARED contains the 1 KiB that the system reserves in every block. It is subtracted, because the
    allocation rules add it, and `KernelResources.shared_bytes` is without it everywhere.

    Parameters
    ----------
    text
        The dump. That of a cubin does not name the architecture, that of an executable or a fatbin does.
    architecture
        Architecture of kernels for which the dump names none, for example ``sm_90``.

    Raises
    ------
    ReadError
        If there is no kernel in `text`, or one without its numbers.

    Examples
    --------
    >>> dump = '''
    ... Resource usage:
    ...  Common:
    ...   GLOBAL:0
    ...  Function saxpy:
    ...   REG:12 STACK:0 SHARED:5120 LOCAL:0 CONSTANT[0]:556 TEXTURE:0 SURFACE:0 SAMPLER:0
    ... '''
    >>> [(k.registers, k.shared_bytes) for k in read_cuobjdump(dump, "sm_80") + read_cuobjdump(dump, "sm_90")]
    [(12, 5120), (12, 4096)]
    """
    kernels: list[KernelResources] = []
    name, compiled_for = "", architecture
    for line in text.splitlines():
        if found := _ARCHITECTURE.search(line):
            compiled_for = found["architecture"]
        elif found := _FUNCTION.search(line):
            if name:
                raise _unfinished(name)
            name = found["name"]
        elif name and (numbers := {m["what"]: int(m["number"]) for m in _NUMBERS.finditer(line)}):
            if not {"REG", "SHARED"} <= set(numbers):
                raise _unfinished(name)
            kernels.append(
                KernelResources(
                    name=name,
                    registers=numbers["REG"],
                    shared_bytes=max(0, numbers["SHARED"] - _reserve(compiled_for)),
                    architecture=compiled_for,
                    stack_bytes=numbers.get("STACK", 0),
                )
            )
            name = ""
    if name:
        raise _unfinished(name)
    if not kernels:
        raise ReadError(
            'a dump without kernels: there is no line "Function …:" with "REG:… SHARED:…" below; write one with '
            "cuobjdump --dump-resource-usage of an executable, a library or a cubin"
        )
    return kernels


def _reserve(architecture: str | None) -> int:
    digits = re.search(r"\d+", architecture or "")
    return RESERVE_BYTES if digits and int(digits[0]) >= HOPPER else 0


def _unfinished(name: str) -> ReadError:
    return ReadError(f'the dump does not say what {name!r} uses: there is no "REG:… SHARED:…" below its name; cut off?')
