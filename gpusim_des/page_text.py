"""Texts as a page shows them: escaped, and each part where it was written, whatever names are in it.

Browsers show words of right-to-left scripts from right to left, and take figures and marks beside them along: the time
that follows a Hebrew name would stand before it. Here such words are isolated [1]_, so that the sentence around them
stays as it is. Characters that only turn text around, such as U+202E, are shown by their number: in a line of source
they could make it look like another one.

References
----------
.. [1] Unicode Standard Annex 9, "Unicode Bidirectional Algorithm", https://www.unicode.org/reports/tr9/
"""

from __future__ import annotations

import re
import unicodedata
from html import escape

ISOLATE, END = "\u2068", "\u2069"
"""First strong isolate, and pop directional isolate: around words that run from right to left."""

TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that turn all that follows around."""

_RIGHT_TO_LEFT = ("R", "AL", "AN")
"""Directions of letters, of Arabic ones, and of their figures."""

_WORDS = re.compile("(?<!w)w*r[rw]*(?:s+w*r[rw]*)*")
"""Neighbouring words with right-to-left characters, in the letters of `_kind`."""


def isolated(text: str) -> str:
    r"""Return a text in which words that run from right to left move nothing else; it is not escaped.

    Examples
    --------
    >>> isolated("add, 12 ns"), isolated("a\u202eb")
    ('add, 12 ns', 'a[U+202E]b')
    >>> isolated("k_\u05d0\u05d1 \u05d2, 12 ns") == "\u2068k_\u05d0\u05d1 \u05d2\u2069, 12 ns"
    True
    """
    if text.isascii():
        return text
    text = TURNING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)
    parts = []
    done = 0
    for found in _WORDS.finditer("".join(map(_kind, text))):
        start, end = found.span()
        parts += [text[done:start], ISOLATE, text[start:end], END]
        done = end
    return "".join([*parts, text[done:]])


def page_text(text: str) -> str:
    r"""Return a text as HTML: escaped, with elements ``bdi`` around words that run from right to left.

    Examples
    --------
    >>> page_text("a < b"), page_text("\u05d0 < 3") == "<bdi>\u05d0</bdi> &lt; 3"
    ('a &lt; b', True)
    """
    return escape(isolated(text)).replace(ISOLATE, "<bdi>").replace(END, "</bdi>")


def _kind(character: str) -> str:
    """``r`` for a character of right-to-left scripts, ``w`` for another one of words, ``s`` for space, or ``x``."""
    if unicodedata.bidirectional(character) in _RIGHT_TO_LEFT:
        return "r"
    if character.isalnum() or character == "_" or unicodedata.category(character).startswith("M"):
        return "w"
    return "s" if character.isspace() else "x"
