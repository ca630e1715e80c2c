"""Programs at the edges and traces with wrong arrays, in a process of their own: no crash, no hang, no wrong answer.

``python -m tests.fuzz --programs 5000 --seed 1`` plays extreme programs and invalid traces on both engines. Each must
end in equality, or in the same clean error of both. The compiled engine's arrays lie between guards that nobody may
change. ``--checked`` runs the compiled engine's functions as Python and looks at every single access.
"""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from gpusim_des.errors import SimError
from gpusim_des.timeline import Timeline
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import SimpyEngine
from tests.extreme_programs import changed_trace, extreme_case
from tests.random_programs import Dice, any_programs
from tests.sanitizer import JIT_IS_OFF, checked, guarded

LONGEST_S = 300
"""A program that takes longer hangs."""

Result = tuple[str, Any]


def result_of(play: Callable[[], Timeline | str]) -> Result:
    """Timeline, or the error that an engine refused to go on with."""
    try:
        return "played", play()
    except SimError as error:
        return "refused", (type(error).__name__, str(error))


def fuzz_one(begin: int, number: int) -> str:
    """Play one program on both engines; returns how it ended, or raises `AssertionError`."""
    dice = Dice(f"fuzz {begin} {number}")
    detail: Detail = dice.one(["kernel", "sm", "sm", "warp"])
    watch = [0] if detail == "warp" and dice.once_in(2) else None
    sanitized = partial(checked if JIT_IS_OFF else guarded, dice.one([0.0, 0.01, 0.1, 0.3]))
    kind = "invalid" if dice.once_in(3) else "extreme"
    engines = [partial(engine, watch=watch) for engine in (SimpyEngine, CompiledEngine)]
    if kind == "extreme":
        case = extreme_case(dice)
        shown: Any = case
        with sanitized():
            one, other = (result_of(partial(case.play, engine, detail)) for engine in engines)
    else:
        valid = any_programs(dice)
        traces = [kernel.trace() for kernel in valid.kernels]
        changed = dice.randrange(len(traces))
        traces[changed] = changed_trace(dice, traces[changed])
        shown = f"kernel {changed} changed of {valid}"
        with sanitized():
            one, other = (
                result_of(partial(engine(valid.gpu, detail, caches=valid.caches).run, traces, valid.streams))
                for engine in engines
            )
    assert one == other, f"simpy: {one}\ncompiled: {other}\n{shown}"
    return f"{kind}, {one[0]}"


def work(begin: int, first: int, last: int) -> int:
    """Play some programs, and say so before each of them; the end of a worker's process."""
    for number in range(first, last):
        print(f"begin {number}", flush=True)
        print(f"end {fuzz_one(begin, number)}", flush=True)
    return 0


def watch_worker(command: list[str], environment: dict[str, str], heard: Callable[[str], None]) -> str:
    """Run a worker to its end; returns what went wrong, if anything did."""
    now, rest = "before the first program", b""
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=complaints) as process,
    ):
        assert process.stdout is not None
        # Read past Python's buffers, in which a line may lie that is not announced any more.
        pipe = process.stdout.fileno()
        while True:
            # Second by second, so that a machine that sleeps meanwhile is no program that hangs.
            if not any(select.select([pipe], [], [], 1)[0] for _ in range(LONGEST_S)):
                process.kill()
                return f"{now}: no answer for {LONGEST_S} s"
            told = os.read(pipe, 1 << 16)
            if not told:
                break
            *lines, rest = (rest + told).split(b"\n")
            for line in map(bytes.decode, lines):
                if line.startswith("begin "):
                    now = f"program {line.split()[1]}"
                else:
                    heard(line.removeprefix("end "))
        process.wait()
        complaints.seek(0)
        return f"{now}: exit {process.returncode}\n{complaints.read().decode()}" if process.returncode else ""


def fuzz(begin: int, count: int, *, first: int = 0, check: bool = False) -> tuple[Counter[str], str]:
    """Play programs in another process; returns how they ended, and what went wrong."""
    ends: Counter[str] = Counter()
    command = [sys.executable, "-m", "tests.fuzz", "--worker", "--seed", str(begin)]
    command += ["--first", str(first), "--programs", str(count)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"} if check else dict(os.environ)
    wrong = watch_worker(command, environment, lambda end: ends.update([end]))
    return ends, wrong


def main() -> int:
    """Play programs; returns 1 if one crashed, hung or came to two results."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program, to play one again")
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        return work(asked.seed, asked.first, asked.first + asked.programs)
    began = time.perf_counter()
    ends, wrong = fuzz(asked.seed, asked.programs, first=asked.first, check=asked.checked)
    for end, count in sorted(ends.items()):
        print(f"{count:7,} {end}")
    print(wrong or f"{sum(ends.values()):,} programs, none of which went wrong ({time.perf_counter() - began:.0f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
