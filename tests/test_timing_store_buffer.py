"""Rule M8: what waits for the store buffer is looked at when there is room, not over and over."""

from __future__ import annotations

import pytest

from gpusim_des.timing.memory_unit import MemoryUnit
from gpusim_des.trace import OpClass
from tests.programs import TINY
from tests.published import Chain, play


def test_each_acknowledgement_wakes_the_waiting_stores_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen warps with 16 stores of four sectors each, and room for two: not more looks than acknowledgements."""
    looks = []
    look = MemoryUnit._go_on

    def counted(unit: MemoryUnit, event: object) -> None:
        looks.append(event)
        look(unit, event)

    monkeypatch.setattr(MemoryUnit, "_go_on", counted)
    chain = Chain()
    for k in range(16):
        chain.access(OpClass.GLOBAL_STORE, range(4 * k, 4 * k + 4))
    play(TINY.replace(store_buffer="256 B"), [[chain.warp()] * 16], engine="simpy")
    assert 0 < len(looks) <= 16 * 16
