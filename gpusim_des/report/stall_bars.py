"""What warps did, as bars of colours in HTML: one for a kernel, small ones for source lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpusim_des.timeline import WarpState
from gpusim_des.views.palette import HATCH_COLOR, STATE_STYLES, Style, text_color

_ANGLES = {"/": (135,), "\\": (45,), "-": (0,), "+": (0, 90), "x": (45, 135), ".": (45,)}
"""Directions in degrees of a hatch's lines, as CSS counts them."""


def fill(style: Style) -> str:
    """Return the CSS of an area of this style.

    >>> fill(Style("#0a2540"))
    'background:#0a2540'
    """
    if not style.hatch:
        return f"background:{style.color}"
    line = f"transparent 0 4px,{HATCH_COLOR}88 4px 5px"
    drawn = [f"repeating-linear-gradient({angle}deg,{line})" for angle in _ANGLES[style.hatch[0]]]
    return f"background:{','.join(drawn)},{style.color}"


def stack(stalls: Mapping[str, int], whole: int, *, small: bool = False) -> str:
    """Return a bar whose parts are as long as the warp-cycles of the states, of `whole` for the full length.

    Examples
    --------
    >>> text = stack({"selected": 1, "wait": 2, "barrier": 0}, 4)
    >>> text.count("<span"), 'title="wait: 2 warp-cycles, 50.0 %"' in text
    (2, True)
    """
    parts = []
    for state in WarpState:
        cycles = stalls.get(state.suffix, 0)
        if not cycles:
            continue
        share = cycles / whole
        label = f"{share:.0%}" if share >= 0.04 and not small else ""
        said = f"{state.suffix}: {cycles:,} warp-cycles, {100 * share:.1f} %"
        style = STATE_STYLES[state]
        parts.append(
            f'<span style="flex:0 0 {100 * share:.3f}%;color:{text_color(style.color)};{fill(style)}" '
            f'title="{said}">{label}</span>'
        )
    return f'<div class="stack{" small" if small else ""}">{"".join(parts)}</div>'


def legend(stalls: Iterable[Mapping[str, int]]) -> str:
    """Return the names and colours of the states that occur in any of them."""
    found = {state for each in stalls for state, cycles in each.items() if cycles}
    entries = [swatch(STATE_STYLES[state], state.suffix) for state in WarpState if state.suffix in found]
    return f'<div class="legend">{"".join(entries)}</div>'


def swatch(style: Style, name: str) -> str:
    """Return an entry of a legend: a small area of this style, and what it means.

    >>> swatch(Style("#0a2540"), "selected")
    '<span><i style="background:#0a2540"></i>selected</span>'
    """
    return f'<span><i style="{fill(style)}"></i>{name}</span>'
