"""Both engines play the same programs and must come to the same timeline, to the last integer (E2).

``python -m tests.equality --programs 10000 --seed 1`` plays many, as many kernels alone as whole host programs, and
prints the smallest program that it finds on which the engines differ. ``--only kernels`` and ``--only hosts`` play one
kind; ``--coverage`` plays nothing twice but counts how often every rule of the contract occurs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Literal, get_args

from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import SimpyEngine
from tests.random_host_programs import any_host_programs
from tests.random_programs import Dice, any_programs
from tests.shrink import AnyCase, smallest

Kind = Literal["both", "kernels", "hosts"]


def cases(begin: int, count: int, kind: Kind = "both") -> Iterator[AnyCase]:
    """Draw cases: kernels alone, or host programs, or as many of the one as of the other."""
    for number in range(count):
        dice = Dice(f"{begin} {number}")
        hosts = number % 2 == 1 if kind == "both" else kind == "hosts"
        yield any_host_programs(dice) if hosts else any_programs(dice)


def differences(case: AnyCase, detail: Detail = "sm") -> list[str]:
    """Everything in which the engines differ on some programs, in words."""
    readable, fast = case.play(SimpyEngine, detail), case.play(CompiledEngine, detail)
    if readable == fast:
        return []
    if isinstance(readable, str) or isinstance(fast, str):
        return [f"simpy: {readable}", f"compiled: {fast}"]
    found = []
    for one, other in zip(readable.kernels, fast.kernels, strict=False):
        found += [
            f"{one.name}.{name}: {value!r} in simpy, {getattr(other, name)!r} in compiled"
            for name, value in vars(one).items()
            if value != getattr(other, name)
        ]
    for name, value in vars(readable).items():
        compared = getattr(fast, name)
        if name != "kernels" and value != compared:
            pairs = zip(value, compared, strict=False) if isinstance(value, tuple) else [(value, compared)]
            first = next(((a, b) for a, b in pairs if a != b), "their number")
            found.append(f"{name} differ, first: {first}")
    return found or ["the number of kernels differs"]


def report(case: AnyCase, detail: Detail = "sm") -> str:
    """Say in what the engines differ on the smallest case like this one, and how to make it again."""
    small = smallest(case, lambda case: bool(differences(case, detail)))
    return "\n".join([*differences(small, detail), str(small)])


def print_coverage(begin: int, count: int, kind: Kind) -> None:
    """Print in how many cases every rule occurs, the rarest first."""
    from tests.rule_coverage import rules_of, table  # noqa: PLC0415 - it knows the cases of this file

    counts: Counter[str] = Counter()
    for case in cases(begin, count, kind):
        counts.update(rules_of(case))
    print(*table(counts, count), sep="\n")


def main() -> int:
    """Play many programs; returns 1 if the engines differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--detail", choices=get_args(Detail), default="sm")
    parser.add_argument("--only", choices=["kernels", "hosts"], default="both")
    parser.add_argument("--coverage", action="store_true")
    asked = parser.parse_args()
    if asked.coverage:
        print_coverage(asked.seed, asked.programs, asked.only)
        return 0
    began = time.perf_counter()
    for number, case in enumerate(cases(asked.seed, asked.programs, asked.only)):
        if differences(case, asked.detail):
            print(f"the engines differ on program {number} of seed {asked.seed}; the smallest like it that was found:")
            print(report(case, asked.detail))
            return 1
    print(f"{asked.programs:,} programs, equal in everything ({time.perf_counter() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
