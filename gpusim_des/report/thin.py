"""Fewer bars than a run has: neighbours that no screen could show apart are drawn as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpusim_des.report.rows import Row, Span

MOST_SPANS = 100_000
"""Bars of a report: about 3 MB."""

MOST_ROWS = 2_000
"""Rows of a report; each then has 50 bars at least."""


def thinned(rows: Sequence[Row], most_spans: int, most_rows: int) -> tuple[list[tuple[Row, list[Span]]], list[str]]:
    """Return the rows with their bars, at most `most_spans` together, and sentences that say what was left out.

    Rows with few bars keep all of them; rows with many share what is left equally, see `merged`.
    """
    # Warps go first: a run's outline needs all of its SMs.
    order = sorted(range(len(rows)), key=lambda number: (rows[number].level == "warp", number))
    kept = [rows[number] for number in sorted(order[:most_rows])]
    share = _share([row.count for row in kept], most_spans)
    found = [(row, list(row.spans() if row.count <= share else merged(row, share))) for row in kept]
    notices = []
    total = sum(row.count for row in kept)
    if total > sum(len(spans) for _, spans in found):
        notices.append(
            f"{total:,} bars are too many for a page: in rows with more than {share:,}, neighbours are drawn as one. "
            'Save a trace (sim.save_trace) for all of them, or simulate with detail="sm" or watch= for fewer.'
        )
    if len(kept) < len(rows):
        lost = rows[order[most_rows]]
        notices.append(
            f"{len(rows) - len(kept):,} of {len(rows):,} rows are left out, the first is {lost.name} of {lost.group}. "
            "Choose the SMs whose warps are recorded with watch=, or save a trace (sim.save_trace)."
        )
    return found, notices


def _share(counts: Sequence[int], most: int) -> int:
    """Return the largest number to which all `counts` can be cut so that their sum is at most `most`.

    >>> _share([1, 10, 10], 11), _share([1, 2], 11)
    (5, 11)
    """
    left = most
    for number, count in enumerate(sorted(counts)):
        share = left // (len(counts) - number)
        if count > share:
            return share
        left -= count
    return most


def merged(row: Row, most: int) -> Iterator[Span]:
    """Yield at most `most` bars: neighbours are joined until they are as long as a share of the row's time.

    A bar that is long enough by itself stays as it is. A joined bar has name and style of what takes most of its time.

    Examples
    --------
    >>> from gpusim_des.views.palette import Style
    >>> spans = [Span(t, t + 1, Style("#000000"), "ab"[t % 3 == 0]) for t in range(8)] + [Span(8, 16, Style(""), "c")]
    >>> row = Row("", "", "warp", 9, 0, 16, lambda: iter(spans))
    >>> [(span.start, span.end, span.name, span.detail) for span in merged(row, 5)]
    [(0, 8, 'a', '8 bars drawn as one, most of their time is this'), (8, 16, 'c', '')]
    """
    # Of the bars that end a group early each is followed by one that is long: at most two for each `shortest`.
    shortest = max(1, -(-2 * (row.end - row.start) // max(1, most - 1)))
    group: list[Span] = []
    for span in row.spans():
        if span.end - span.start >= shortest:
            yield from _joined(group)
            group = []
            yield span
            continue
        group.append(span)
        if span.end - group[0].start >= shortest:
            yield from _joined(group)
            group = []
    yield from _joined(group)


def _joined(group: Sequence[Span]) -> Iterator[Span]:
    if len(group) < 2:
        yield from group
        return
    times: dict[str, int] = defaultdict(int)
    for span in group:
        times[span.name] += span.end - span.start
    most = max(times, key=lambda name: times[name])
    first = next(span for span in group if span.name == most)
    owner = first.owner if first.owner == group[0].owner == group[-1].owner else ""
    detail = f"{len(group):,} bars drawn as one, most of their time is this"
    yield Span(group[0].start, group[-1].end, first.style, most, owner, detail)
