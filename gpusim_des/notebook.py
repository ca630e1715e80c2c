"""Small tables for notebooks, in the notebook's own colours."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim_des.page_text import page_text


def facts_table(title: str, facts: Sequence[tuple[str, str]], notes: Sequence[str] = ()) -> str:
    """Return HTML: a title, a line for each name and value, and notes below; all of it is escaped.

    Examples
    --------
    >>> text = facts_table("a < b", [("blocks", "4")], ["note"])
    >>> "<b>a &lt; b</b>" in text, "<th>blocks</th><td>4</td>" in text, "<p>note</p>" in text
    (True, True, True)
    """
    rows = "".join(f"<tr><th>{page_text(name)}</th><td>{page_text(value)}</td></tr>" for name, value in facts)
    return f"<div><b>{page_text(title)}</b><table>{rows}</table>{paragraphs(notes)}</div>"


def paragraphs(notes: Sequence[str]) -> str:
    """Return HTML: a paragraph for each text, escaped.

    >>> paragraphs(["a < b"])
    '<p>a &lt; b</p>'
    """
    return "".join(f"<p>{page_text(note)}</p>" for note in notes)


def rows_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return HTML: a table with a head line; all of it is escaped.

    Examples
    --------
    >>> rows_table(["a"], [["<"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;</td></tr></table>'
    """
    lines = [
        "".join(f"<th>{page_text(head)}</th>" for head in heads),
        *("".join(f"<td>{page_text(cell)}</td>" for cell in row) for row in rows),
    ]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
