"""A crash inside compiled code is impossible on input that was let through (E2): extreme and invalid programs.

They are played in another process, so that a crash is a failed test. `python -m tests.fuzz` plays many more.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gpusim_des.timing import compiled_layout as at
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.compiled_words import GpuWords
from gpusim_des.timing.simpy_engine import SimpyEngine
from tests.fuzz import fuzz, watch_worker
from tests.programs import TINY, load, store
from tests.random_programs import Kernel, Programs
from tests.sanitizer import GuardError, guarded


def test_some_programs_at_the_edges() -> None:
    ends, wrong = fuzz(0, 25)
    assert not wrong
    assert sum(ends.values()) == 25
    assert set(ends) >= {"extreme, played", "invalid, refused"}


@pytest.mark.slow
def test_many_programs_at_the_edges() -> None:
    ends, wrong = fuzz(1, 120)
    assert not wrong
    assert ends["extreme, played"] > 40
    assert ends["invalid, refused"] > 20
    assert ends["invalid, played"] > 1  # what was changed was legal as well


@pytest.mark.slow
def test_every_access_of_some_programs_is_legal() -> None:
    """Numba is switched off, and every word that is read or written is looked at."""
    ends, wrong = fuzz(2, 12, check=True)
    assert not wrong
    assert ends["extreme, played"] > 3


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import os; print('begin 7', flush=True); os.kill(os.getpid(), 11)",
            "program 7: exit -11",
        ),
        ("print('begin 8', flush=True); raise AssertionError('they differ')", "AssertionError: they differ"),
    ],
)
def test_a_crash_is_noticed(code: str, said: str) -> None:
    assert said in watch_worker([sys.executable, "-c", code], {}, lambda _: None)


def test_a_hang_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.LONGEST_S", 1)
    code = "import time; print('begin 9', flush=True); time.sleep(60)"
    assert watch_worker([sys.executable, "-c", code], {}, lambda _: None) == "program 9: no answer for 1 s"


def test_a_word_behind_an_array_is_noticed() -> None:
    with guarded() as arrays:
        gpu = GpuWords(TINY, caches=True, watched=set())
        gpu.make_room()
        behind = np.lib.stride_tricks.as_strided(gpu.words, (len(gpu.words) + 1,))
        before, behind[-1] = int(behind[-1]), 5
        with pytest.raises(GuardError, match="compiled code wrote behind an array of"):
            arrays.check()
        behind[-1] = before


def test_acknowledgements_that_fill_a_heap_have_room() -> None:
    """M8: 9,600 packets on their way to one SM; their heap grew by more words than were free."""
    stores = [store([8 * 4096 * n + 8 * channel for channel in range(64)]) for n in range(150)]
    channels = {"dram_channels": 64, "l2_bandwidth": "4 TB/s", "dram_bandwidth": "4 TB/s", "dram_latency": 1 << 20}
    gpu = TINY.replace(sms=1, sub_partitions=1, load_store_queue_depth=1, store_buffer="16384 KiB", **channels)
    case = Programs(gpu, caches=False, kernels=[Kernel([stores], [[(0, 0)]])], streams=[0])
    with guarded():
        one, other = (case.play(engine) for engine in (SimpyEngine, CompiledEngine))
    assert one == other


def test_arrays_are_as_short_as_they_may_be() -> None:
    """Between guards an array has room for what one event may need, and no more."""
    case = Programs(TINY, caches=True, kernels=[Kernel([[load([0])]], [[(0, 0)]])], streams=[0])
    with guarded():
        engine = CompiledEngine(TINY, caches=True)
        engine.run([case.kernels[0].trace()])
    words = engine._gpu_words.words
    assert len(words) <= words[at.NEXT_WORD] + 2 * words[at.MARGIN]
