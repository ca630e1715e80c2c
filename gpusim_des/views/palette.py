"""Colours of warp states and kernels, safe for colour-blind readers and for black-and-white print.

Hues follow Okabe and Ito ("Color Universal Design", 2008). States of one family share a hue, and the rarer one of the
family is lighter and hatched, so that no two states depend on hue alone. ``selected``, the only state in which a warp
makes progress, is the only dark one.
"""

from __future__ import annotations

from typing import NamedTuple

from gpusim_des.timeline import WarpState


class Style(NamedTuple):
    """How an area is filled."""

    color: str
    """Face colour as ``#rrggbb``."""
    hatch: str = ""
    """Matplotlib hatch, empty for a plain area."""


STATE_STYLES: dict[WarpState, Style] = {
    WarpState.SELECTED: Style("#0a2540"),
    WarpState.BARRIER: Style("#cc6fb0"),
    WarpState.MEMBAR: Style("#e9c1e0", "xxx"),
    WarpState.DRAIN: Style("#f0e442"),
    WarpState.BRANCH_RESOLVING: Style("#f8f3b0", "---"),
    WarpState.LONG_SCOREBOARD: Style("#d55e00"),
    WarpState.SHORT_SCOREBOARD: Style("#1a72c0"),
    WarpState.WAIT: Style("#1fb383"),
    WarpState.LG_THROTTLE: Style("#fdb57a", "///"),
    WarpState.MIO_THROTTLE: Style("#a9d3f2", "\\\\\\"),
    WarpState.MATH_PIPE_THROTTLE: Style("#b5ecd6", "+++"),
    WarpState.NOT_SELECTED: Style("#c6c6c6"),
    WarpState.NO_INSTRUCTION: Style("#eeeeee", "..."),
}
"""Fill of every state. Memory waits are orange, shared memory blue, arithmetic green, synchronisation purple."""

OPERATION_STYLES: dict[str, Style] = {
    "h2d": Style("#0072b2"),
    "kernel": Style("#e69f00"),
    "d2h": Style("#009e73"),
    "d2d": Style("#cc79a7"),
    "memset": Style("#cc79a7", "xx"),
}
"""Fill of every kind of operation in a stream."""

HOST_STYLES: dict[str, Style] = {
    "calls": Style("#4d4d4d"),
    "waits": Style("#ffffff", "\\\\\\\\"),
}
"""Fill of the host's time: in a call or at work of its own, and blocked."""

HATCH_COLOR = "#777777"
"""Colour of hatches: visible on every light face colour."""

KERNEL_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of kernels in the order of their launch; they repeat after six."""


def kernel_color(kernel: int, wave: int = 0) -> str:
    """Colour of kernel number `kernel`; odd waves (counted from 0) are lighter, so that neighbours differ.

    Examples
    --------
    >>> kernel_color(0), kernel_color(6), kernel_color(0, wave=1)
    ('#0072b2', '#0072b2', '#8fc1dd')
    """
    color = KERNEL_COLORS[kernel % len(KERNEL_COLORS)]
    return lighter(color, 0.56) if wave % 2 else color


def lighter(color: str, share: float) -> str:
    """Mix `color` (``#rrggbb``) with a `share` of white.

    Examples
    --------
    >>> lighter("#000000", 1.0), lighter("#204060", 0.0)
    ('#ffffff', '#204060')
    """
    return "#" + "".join(f"{round(c + (255 - c) * share):02x}" for c in _rgb(color))


def text_color(background: str) -> str:
    """Black or white, whichever reads better on `background` (``#rrggbb``).

    Examples
    --------
    >>> text_color("#0a2540"), text_color("#f0e442")
    ('#ffffff', '#000000')
    """
    red, green, blue = _rgb(background)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 125 else "#ffffff"


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
