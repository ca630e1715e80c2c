"""What tells two configurations apart: a hash of everything that a result depends on.

The kernel's source with the helpers and constants that it uses, the sizes, the arguments down to their bytes, every
number of the GPU model, and the simulator itself: its version and its own source, so that no result outlives the rules
that made it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpusim_des.device import ASSUMED_REGISTERS
from gpusim_des.errors import SimError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.gpu import GPU
from gpusim_des.sweeps.argument import ArraySpec, plain_numbers, plain_spec, spec_of
from gpusim_des.sweeps.configuration import Configuration, Size, chip_of, shape_of
from gpusim_des.sweeps.content import array_parts, content
from gpusim_des.version import VERSION


def digest(*parts: str | bytes) -> str:
    """Short hash of several parts; their borders count.

    >>> digest("ab", "c") == digest("a", "bc")
    False
    """
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()[:32]


@cache
def simulator_digest() -> str:
    """Hash of the version and of all source files of the package."""
    package = Path(__file__).resolve().parent.parent
    files = sorted(package.rglob("*.py"))
    return digest(VERSION, *(data for f in files for data in (f.relative_to(package).as_posix(), f.read_bytes())))


def _written(size: Size) -> str:
    """A size that is none, in one way: a number is one in x."""
    if isinstance(size, str):
        return size
    parts = size if isinstance(size, tuple) else (size,)
    return repr([*map(int, parts), *(1 for _ in range(3 - len(parts)))])


_GIVEN = (bool, int, float, complex, np.ndarray, np.generic)
"""Types of defaults of a kernel's arguments that a sweep could give as well: it is the same then."""


class Fingerprints:
    """Keys of the configurations of one kernel; what many of them share is hashed once.

    Raises
    ------
    SweepError
        For a kernel that uses an object by name of which nothing tells whether it is the same next time.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> from gpusim_des.gpu import load_gpu
    >>> @gs.block_kernel
    ... def nothing(blk, n):
    ...     pass
    >>> keys = Fingerprints(nothing)
    >>> tiny = load_gpu("tiny")
    >>> a, b, c = (Configuration(tiny, grid, 32, {"n": n}) for grid, n in ((8, 8), ("n", 8), ("n", 9)))
    >>> keys.key(a) == keys.key(b), keys.key(a) == keys.key(c)
    (True, False)
    """

    def __init__(self, kernel: KernelFunction) -> None:
        self._kernel = kernel
        self._kernel_digest = content(kernel.name, kernel)
        given = kernel.parameters[len(kernel.parameters) - len(kernel.function.__defaults__ or ()) :]
        defaults = zip(given, kernel.function.__defaults__ or (), strict=True)
        self._defaults = {name: value for name, value in defaults if isinstance(value, _GIVEN)}
        self._gpus: dict[tuple[Any, ...], tuple[GPU, str]] = {}
        self._works: dict[tuple[Any, ...], tuple[Configuration, str]] = {}
        self._specs: dict[tuple[Any, ...], str] = {}
        self._values: dict[int, tuple[Any, str]] = {}

    def key(self, c: Configuration) -> str:
        """Key of a configuration."""
        registers = ASSUMED_REGISTERS if c.registers is None else c.registers
        more = [registers, c.shared, c.caches, c.engine, c.sample]
        return digest(simulator_digest(), self._kernel_digest, self._chip(c), self._work(c), json.dumps(more))

    def _work(self, c: Configuration) -> str:
        """Sizes and arguments; many configurations of a sweep have the very same objects."""
        written = id(c.grid), id(c.block), *c.args, *map(id, c.args.values())
        if written in self._works:
            return self._works[written][1]
        try:
            grid, block = shape_of(self._kernel, c)
            sizes: list[Any] = [[*grid], [*block]]
        except SimError:  # its error is its result, and depends on what was written
            sizes = [_written(c.grid), _written(c.block)]
        try:
            numbers = plain_numbers(c.args)
        except SimError:  # as above
            numbers = {}
        args = {**self._defaults, **c.args}
        values = [[name, self._value(name, args[name], numbers)] for name in sorted(args)]
        self._works[written] = c, json.dumps([sizes, values])  # held, so that the ids stay theirs
        return self._works[written][1]

    def _chip(self, c: Configuration) -> str:
        written = id(c.gpu), c.sms, c.policy, *c.parameters.items()
        if written not in self._gpus:
            try:
                changes, gpu = "", chip_of(c)
            except SimError:  # as above
                changes, gpu = repr((c.gpu.name, *written[1:])), c.gpu
            # Its name is that of its file, and nothing comes of it.
            numbers = {f.name: repr(getattr(gpu, f.name)) for f in dataclasses.fields(gpu) if f.compare}
            del numbers["name"]
            # The GPU is held, so that the id stays its own.
            self._gpus[written] = c.gpu, digest(changes, json.dumps(numbers, sort_keys=True))
        return self._gpus[written][1]

    def _value(self, name: str, value: Any, numbers: dict[str, Any]) -> str:
        """What an argument is, however it was written."""
        if isinstance(value, ArraySpec):
            asked = name, value, *numbers.items()
            if asked not in self._specs:
                try:
                    self._specs[asked] = repr(plain_spec(name, value, numbers))
                except SimError:  # as above
                    self._specs[asked] = repr(value)
            return self._specs[asked]
        value = numbers.get(name, value)
        if isinstance(value, np.ndarray):
            if id(value) not in self._values:
                spec = spec_of(value)
                said = digest(*array_parts(value)) if spec is None else repr(spec)
                self._values[id(value)] = value, said
            return self._values[id(value)][1]
        return f"{type(value).__name__} {value!r}"
