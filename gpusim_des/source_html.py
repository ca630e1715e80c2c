"""A table of source lines, for pages and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpusim_des.page_text import isolated, page_text

_STYLE = """
.gpusim-source { border-collapse: collapse; font-family: ui-monospace, monospace; font-size: 13px; }
.gpusim-source th { text-align: right; border-bottom: 1px solid #888; }
.gpusim-source th, .gpusim-source td { padding: 1px 8px; white-space: pre; }
.gpusim-source td { text-align: right; font-variant-numeric: tabular-nums; }
.gpusim-source td.text { text-align: left; border-left: 1px solid #8888; }
"""


def html_lines(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    texts: Sequence[str],
    weights: Sequence[float],
    bars: Sequence[str] = (),
) -> str:
    """Return a table that can stand on any page, light or dark: number and text of each line, then its figures.

    Parameters
    ----------
    heads, rows
        Names of the columns, and the figures of every line; the first column stands before the text.
    texts
        Text of every line.
    weights
        How much each line costs, in any unit: the more, the darker its text's background.
    bars
        HTML of another column behind the text, one for each line; empty: none.

    Examples
    --------
    >>> table = html_lines(["line"], [["1"]], ["if a < b:"], [3])
    >>> "rgba(214, 69, 65, 0.50)" in table, "if a &lt; b:" in table, "<body" in table
    (True, True, False)
    """
    most = max(weights, default=0) or 1
    lines = [
        f'<style>{_STYLE}</style><table class="gpusim-source"><thead><tr>',
        f"<th>{page_text(heads[0])}</th><th></th>" + "<th></th>" * bool(bars),
        *(f"<th>{page_text(head)}</th>" for head in heads[1:]),
        "</tr></thead><tbody>",
    ]
    extra = [f"<td>{bar}</td>" for bar in bars] or [""] * len(texts)
    for cells, text, weight, bar in zip(rows, texts, weights, extra, strict=True):
        number, *figures = (f"<td>{page_text(cell)}</td>" for cell in cells)
        shade = f' style="background: rgba(214, 69, 65, {0.5 * weight / most:.2f})"' if weight else ""
        lines.append(f'<tr>{number}<td class="text"{shade}>{page_text(text)}</td>{bar}{"".join(figures)}</tr>')
    lines.append("</tbody></table>")
    return "\n".join(lines)


def html_page(title: str, body: str) -> str:
    """Return a page of its own with a heading; it follows the reader's choice of light or dark.

    Examples
    --------
    >>> page = html_page("<k>", "<p>text</p>")
    >>> page[:15], "<h1>&lt;k&gt;</h1>" in page
    ('<!doctype html>', True)
    """
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(isolated(title))}</title>',
            "<style>:root { color-scheme: light dark; } body { font-family: system-ui, sans-serif; margin: 1em; }",
            f"</style></head><body><h1>{page_text(title)}</h1>",
            body,
            "</body></html>",
        ]
    )
