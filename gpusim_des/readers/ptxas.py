"""Reads what ``nvcc -Xptxas -v`` (or ``ptxas -v``, ``--resource-usage``) says about each kernel."""

from __future__ import annotations

import re

from gpusim_des.errors import ReadError
from gpusim_des.readers.kernel_resources import KernelResources

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for '(?P<architecture>[^']+)'")
_PROPERTIES = re.compile(r"Function properties for '?(?P<name>[^\s']+)")
_STACK = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill")
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_BARRIERS = re.compile(r"(?:used|,) ?(?P<barriers>\d+) (?:barriers|bar\b)")
# Tools before CUDA 5 wrote the parameters apart, "44+16 bytes smem": both lie in shared memory there.
_SHARED = re.compile(r"(?P<bytes>\d+)(?:\+(?P<parameters>\d+))? bytes smem")


def read_ptxas(text: str) -> list[KernelResources]:
    """Kernels of a ptxas log, in its order, once for each architecture.

    Other lines of a build's output may stand between, and device functions are passed over.

    Raises
    ------
    ReadError
        If there is no kernel in `text`, or if the log ends before it says what one uses.

    Examples
    --------
    >>> log = '''
    ... ptxas info    : Compiling entry function 'saxpy' for 'sm_80'
    ... ptxas info    : Function properties for saxpy
    ...     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
    ... ptxas info    : Used 12 registers, used 1 barriers, 4096 bytes smem, 380 bytes cmem[0]
    ... '''
    >>> [(k.name, k.registers, k.shared_bytes, k.barriers, k.architecture) for k in read_ptxas(log)]
    [('saxpy', 12, 4096, 1, 'sm_80')]
    """
    kernels: list[KernelResources] = []
    entry: re.Match[str] | None = None
    function, stack, spilled = "", 0, 0
    for line in text.splitlines():
        if found := _ENTRY.search(line):
            if entry is not None:
                raise _unfinished(entry)
            entry, function, stack, spilled = found, found["name"], 0, 0
        elif found := _PROPERTIES.search(line):
            function = found["name"]
        elif entry is not None and function == entry["name"] and (found := _STACK.search(line)):
            stack, spilled = int(found["stack"]), int(found["stores"]) + int(found["loads"])
        elif entry is not None and (found := _USED.search(line)):
            shared, barriers = _SHARED.search(line), _BARRIERS.search(line)
            kernels.append(
                KernelResources(
                    name=entry["name"],
                    registers=int(found["registers"]),
                    shared_bytes=int(shared["bytes"]) + int(shared["parameters"] or 0) if shared else 0,
                    architecture=entry["architecture"],
                    barriers=int(barriers["barriers"]) if barriers else None,
                    stack_bytes=stack,
                    spill_bytes=spilled,
                )
            )
            entry = None
    if entry is not None:
        raise _unfinished(entry)
    if not kernels:
        raise ReadError(
            "a ptxas log without kernels: there is no line \"Compiling entry function '…' for 'sm_…'\"; compile with "
            "nvcc -Xptxas -v and keep what it writes to standard error"
        )
    return kernels


def _unfinished(entry: re.Match[str]) -> ReadError:
    return ReadError(
        f"the ptxas log does not say what {entry['name']!r} uses for {entry['architecture']}: there is no line "
        '"Used … registers" after "Compiling entry function"; is it cut off, or from several compilers at once?'
    )
