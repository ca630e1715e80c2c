"""One figure for several drawings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def side_by_side(widths: Sequence[float], *, height: float = 4.8, title: str = "") -> list[Axes]:
    """Return Axes beside each other in a new figure, to be passed to drawing functions as their ``ax``.

    Parameters
    ----------
    widths
        Of each Axes with its labels, in inches.
    height
        In inches.
    title
        Of the whole figure.

    Returns
    -------
    list of Axes
        From the left; ``views.save`` of any of them saves the whole figure.

    Raises
    ------
    ValueError
        If a width or the height is not positive, or there is none.

    Examples
    --------
    >>> left, right = side_by_side([4.0, 3.0])
    >>> left.figure.get_size_inches().tolist()
    [7.0, 4.8]
    """
    if not widths or min(widths) <= 0 or height <= 0:
        raise ValueError(f"widths = {widths!r}, height = {height}: pass at least one width, and positive ones")
    from matplotlib.figure import Figure  # noqa: PLC0415 - Matplotlib is imported with the first figure

    whole = Figure(figsize=(sum(widths), height), layout="constrained", dpi=150)
    if title:
        whole.suptitle(title)
    return list(whole.subplots(1, len(widths), squeeze=False, width_ratios=list(widths))[0])
