"""``print`` in masked execution: what every active thread prints, in the order of the threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpusim_des.functional.formatted import Text
from gpusim_des.functional.tracked import Value

if TYPE_CHECKING:
    from gpusim_des.functional.masked_runtime import MaskedRuntime


class Printed(NamedTuple):
    """One call of ``print`` by one thread."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def write(self) -> None:
        """Print it."""
        print(*self.arguments, **self.keywords)


def print_all(runtime: MaskedRuntime, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Take note of what the active threads print that the user wants to hear."""
    if runtime.learning:
        return
    machine, watched = runtime.machine, runtime.context.watched
    for row, column in np.argwhere(machine.everyone(runtime.mask)).tolist():
        if watched.includes(int(machine.blocks[row]), column):
            shown = tuple(_of_thread(x, machine.shape, row, column) for x in arguments)
            runtime.printed.append(Printed(shown, keywords))


def _of_thread(x: Any, shape: tuple[int, int], row: int, column: int) -> Any:
    if isinstance(x, Text):
        return x.of(lambda part: _of_thread(part, shape, row, column))
    if isinstance(x, tuple):
        return tuple(_of_thread(part, shape, row, column) for part in x)
    return np.broadcast_to(x.value, shape)[row, column].item() if isinstance(x, Value) else x
