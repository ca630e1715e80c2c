"""What the colours of the page's timeline mean: those that are in it, as in the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpusim_des.report.rows import Row, Span
from gpusim_des.report.stall_bars import swatch
from gpusim_des.views.palette import HOST_STYLES, OPERATION_STYLES, STATE_STYLES, Style
from gpusim_des.views.streams import KIND_NAMES

_HOST = {HOST_STYLES["calls"]: "call or work", HOST_STYLES["waits"]: "blocked"}
_OPERATIONS = {style: KIND_NAMES[kind] for kind, style in OPERATION_STYLES.items()}
_STATES = {style: state.suffix for state, style in STATE_STYLES.items()}

_MEANINGS: Sequence[tuple[str, str, Mapping[Style, str]]] = (
    ("host", "Host", _HOST),
    ("streams, copy engines", "Streams", _OPERATIONS),
    ("warps", "", _STATES),
)
"""What is coloured, the group of its rows (of warps the level tells), and what each style means."""


def color_legend(shown: Sequence[tuple[Row, Sequence[Span]]]) -> str:
    """Return the names and colours of what the bars of the timeline show; empty if it shows no colours by meaning.

    Kernels and blocks have a colour for each launch, which tells nothing else.

    Examples
    --------
    >>> row = Row("Host", "host thread", "host", 1, 0, 9, lambda: iter(()))
    >>> color_legend([(row, [Span(0, 9, HOST_STYLES["calls"], "launch")])])
    '<div class="legend" id="colors"><b>host</b><span><i style="background:#4d4d4d"></i>call or work</span></div>'
    """
    parts = []
    for what, group, meanings in _MEANINGS:
        used = {
            span.style
            for row, spans in shown
            if (row.group == group if group else row.level == "warp")
            for span in spans
        }
        entries = "".join(swatch(style, name) for style, name in meanings.items() if style in used)
        parts.append(f"<b>{what}</b>{entries}" if entries else "")
    return f'<div class="legend" id="colors">{"".join(parts)}</div>' if any(parts) else ""
