"""A table of source lines as a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
body { font-family: system-ui, sans-serif; margin: 1em; }
table { border-collapse: collapse; font-family: ui-monospace, monospace; font-size: 13px; }
th { text-align: right; border-bottom: 1px solid #888; position: sticky; top: 0; background: #fff; }
th, td { padding: 1px 8px; white-space: pre; }
td { text-align: right; font-variant-numeric: tabular-nums; }
td.text { text-align: left; border-left: 1px solid #ccc; }
"""


def html_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    texts: Sequence[str],
    weights: Sequence[float],
) -> str:
    """Return a page with one table: figures on the left, the source text on the right.

    Parameters
    ----------
    title
        Heading.
    heads, rows
        Names of the columns, and the figures of every line.
    texts
        Text of every line.
    weights
        How much each line costs, in any unit: the more, the darker its text's background.

    Examples
    --------
    >>> page = html_table("k", ["line"], [["1"]], ["if a < b:"], [3])
    >>> page[:15], "rgba(214, 69, 65, 0.50)" in page, "if a &lt; b:" in page
    ('<!doctype html>', True, True)
    """
    most = max(weights, default=0) or 1
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>',
        f"<body><h1>{escape(title)}</h1><table><thead><tr>",
        *(f"<th>{escape(head)}</th>" for head in heads),
        "<th></th></tr></thead><tbody>",
    ]
    for cells, text, weight in zip(rows, texts, weights, strict=True):
        figures = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        shade = f' style="background: rgba(214, 69, 65, {0.5 * weight / most:.2f})"' if weight else ""
        lines.append(f'<tr>{figures}<td class="text"{shade}>{escape(text)}</td></tr>')
    lines.append("</tbody></table></body></html>")
    return "\n".join(lines)
