"""The parser of the command line: argparse's, which also says what a word may have been meant to be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


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
    """
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None
