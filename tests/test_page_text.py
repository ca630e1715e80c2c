"""Texts on pages: escaped, and words that run from right to left move nothing but themselves."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.page_text import END, ISOLATE, TURNING, isolated, page_text

ALEF, BET, BEH, MARK = "\u05d0", "\u05d1", "\u0628", "\u200f"
"""Two Hebrew letters, an Arabic one, and the mark that only says from right to left."""

texts = st.text(
    st.sampled_from([*"ab_ 1,.<&", ALEF, BET, BEH, MARK, "\u0661", "\u05b0", "é", *"\u202e\u202c\u2068\u2069"])
)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("µs é", "µs é"),
        (ALEF, f"({ALEF})"),
        (f"{ALEF}{BET} 12 ns", f"({ALEF}{BET}) 12 ns"),
        (f"12 {BEH}, {BEH} 34", f"12 ({BEH}), ({BEH}) 34"),
        (f"the {ALEF} {BET}  {ALEF}.", f"the ({ALEF} {BET}  {ALEF})."),
        (f"k_{ALEF}2 3", f"(k_{ALEF}2) 3"),
        (f"k{MARK} 3", f"(k{MARK}) 3"),
        ("\u0661\u0662 3", "(\u0661\u0662) 3"),  # Arabic figures
        (f"{ALEF}\u202e 1\u2069", f"({ALEF})[U+202E] 1[U+2069]"),
    ],
)
def test_words_from_right_to_left_are_isolated_with_what_belongs_to_them(written: str, shown: str) -> None:
    assert isolated(written) == shown.replace("(", ISOLATE).replace(")", END)


@given(texts)
def test_nothing_outside_of_an_isolate_runs_from_right_to_left(text: str) -> None:
    shown = isolated(text)
    assert shown.replace(ISOLATE, "").replace(END, "") == TURNING.sub(lambda f: f"[U+{ord(f[0]):04X}]", text)
    inside = False
    for character in shown:
        if character in (ISOLATE, END):
            assert inside == (character == END)
            inside = character == ISOLATE
        else:
            assert inside or unicodedata.bidirectional(character) not in ("R", "AL", "AN")
    assert not inside


@given(texts)
def test_pages_have_elements_where_texts_have_marks(text: str) -> None:
    class Reader(HTMLParser):
        found = ""

        def handle_starttag(self, tag: str, attrs: object) -> None:
            assert tag == "bdi"
            self.found += ISOLATE

        def handle_endtag(self, tag: str) -> None:
            self.found += END

        def handle_data(self, data: str) -> None:
            self.found += data

    reader = Reader()
    reader.feed(page_text(text))
    reader.close()
    assert reader.found == isolated(text)
