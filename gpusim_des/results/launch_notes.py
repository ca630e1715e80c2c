"""What a result says of its launches beside times and counters: the text of their kernels, and the advice on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpusim_des.advice import Advice
from gpusim_des.errors import ReadError
from gpusim_des.functional.source_text import SourceSpan, Texts
from gpusim_des.results.plain import from_plain, to_plain


@dataclass(frozen=True)
class LaunchNotes:
    """What `Simulation.source` and `Simulation.advice` need where the launches themselves are gone.

    Examples
    --------
    >>> notes = LaunchNotes((SourceSpan("k.py", 1, 2), None), {"k.py": {1: "def k(t):", 2: "    pass"}})
    >>> notes_from_plain(notes_to_plain(notes), 2, "notes") == notes
    True
    >>> notes_from_plain(notes_to_plain(notes), 1, "notes")
    Traceback (most recent call last):
        ...
    gpusim_des.errors.ReadError: notes.spans has 2 entries: must have 1, one for each launch that counted
    """

    spans: tuple[SourceSpan | None, ...] = ()
    """Where the kernel of each launch stands; ``None`` where that is not known."""
    texts: Texts = field(default_factory=dict)
    """Lines of the kernels, and of what they called."""
    advice: tuple[Advice, ...] = ()
    """On the whole program, worst first."""


def notes_to_plain(notes: LaunchNotes) -> dict[str, Any]:
    """Write notes as a dictionary that JSON can hold."""
    plain: dict[str, Any] = to_plain(notes, LaunchNotes)
    return plain


def notes_from_plain(data: object, launches: int, where: str) -> LaunchNotes:
    """Read notes on so many launches back; raises `ReadError`."""
    notes: LaunchNotes = from_plain(data, LaunchNotes, where)
    if len(notes.spans) != launches:
        raise ReadError(
            f"{where}.spans has {len(notes.spans)} entries: must have {launches}, one for each launch that counted"
        )
    return notes
