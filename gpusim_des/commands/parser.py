"""The parser of the command line: argparse's, which also says what a word may have been meant to be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

LARGEST = 2**63 - 1
"""Of a whole number; no option counts beyond."""


class Parser(argparse.ArgumentParser):
    """Tells of a command or an option that is not there which one it resembles."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Remember the words, for `error`."""
        self._words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End with the usage, the mistake, and a guess."""
        super().error(message + self._guess())

    def _guess(self) -> str:
        """Return what the first word that nobody knows may have meant, or nothing."""
        from gpusim_des.gpu.schema import suggest  # noqa: PLC0415 - `gpusim-des --help` need not load it

        commands = next((a.choices for a in self._actions if isinstance(a, argparse._SubParsersAction)), {})
        known = list(self._option_string_actions)
        for word in getattr(self, "_words", []):
            name = word.partition("=")[0]
            if word in commands:
                known = list(commands[word]._option_string_actions)
                commands = {}
                continue
            options = known if name.startswith("--") else list(commands)
            if any(option.startswith(name) for option in options):
                continue
            guess = suggest(name, options) if options else ""
            if guess.startswith("did you mean"):
                return f"; {name}: {guess}"
        return ""


def whole_number(text: str) -> int:
    """Type of an option; raises `argparse.ArgumentTypeError`.

    >>> whole_number("32")
    32
    >>> whole_number("1e3")
    Traceback (most recent call last):
        ...
    argparse.ArgumentTypeError: '1e3' is no whole number: write its digits alone, for example 1000
    """
    try:
        number = int(text)
    except ValueError:
        if text.strip(" +-").replace("_", "").isdecimal():  # Python's own limit
            raise argparse.ArgumentTypeError(f"a whole number of {len(text):,} digits: at most {LARGEST:,}") from None
        example = "32"
        with suppress(ValueError, OverflowError):
            example = str(round(float(text))) if abs(float(text)) < LARGEST else example
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is no whole number: write its digits alone, for example {example}"
        ) from None
    if abs(number) > LARGEST:
        raise argparse.ArgumentTypeError(f"a whole number of {len(text)} digits: at most {LARGEST:,}")
    return number
