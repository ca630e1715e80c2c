"""A helper of a kernel in a file of its own."""

from __future__ import annotations

from typing import Any


def cube(x: Any) -> Any:
    return x * x * x
