"""Kernel names made readable: mangled ones taken apart, long ones without template arguments and parameters."""

from __future__ import annotations

import re

_LENGTH = re.compile(r"\d+")
_OPERATOR = re.compile(r"operator\s*(\(\)|<<|>>|[^\w\s(]+)")
_LITERAL = re.compile(r"L[a-z]n?\d+E")
_SUBSTITUTION = re.compile(r"S[0-9A-Z]*_|S[tabsiod]")
_OPEN = {"<": ">", "(": ")", "{": "}", "[": "]"}


def short_name(name: str) -> str:
    """Name of a kernel without return type, parameters and template arguments.

    Names of the Itanium ABI, which nvcc and clang use, are read as far as the name itself goes; a name that is
    understood by none of these rules is returned as it is.

    Examples
    --------
    >>> short_name("_ZN4demo6detail4axpyEfPKfPfi"), short_name("_Z5tiledIfLi32EEvPKT_PS0_i"), short_name("spills")
    ('demo::detail::axpy', 'tiled<…>', 'spills')
    >>> short_name("void at::native::(anonymous namespace)::gather<float, 4>(at::Tensor<long>, int)")
    'at::native::(anonymous namespace)::gather<…>'
    """
    if name.startswith(("_Z", "__Z")):
        return _demangled(name[name.index("Z") + 1 :]) or name
    return _without_arguments(name) if set(name) & set("<( ") else name


def _demangled(rest: str) -> str:
    """Read one <name>: a source name, or N … E with several, each with template arguments or without."""
    parts: list[str] = []
    nested = rest.startswith("N")
    rest = rest[1:].lstrip("rVK") if nested else rest.removeprefix("L")
    while rest:
        if rest[0] == "L" and rest[1:2].isdigit():  # of internal linkage
            rest = rest[1:]
        if length := _LENGTH.match(rest):
            end = length.end() + int(length[0])
            word = rest[length.end() : end]
            parts.append("(anonymous namespace)" if word.startswith("_GLOBAL__N_") else word)
            rest = rest[end:]
        elif rest.startswith("St"):
            parts.append("std")
            rest = rest[2:]
        elif rest[0] == "I" and parts:
            parts[-1] += "<…>"
            if not nested:
                break
            after = _after_template(rest)
            if after is None:
                break
            rest = after
        else:
            break
        if not nested and not rest.startswith("I") and parts[-1] != "std":
            break
    return "::".join(parts)


def _after_template(rest: str) -> str | None:
    """Return what follows the arguments I … E; ``None`` where they are beyond a simple reading."""
    depth, at = 0, 0
    while at < len(rest):
        letter = rest[at]
        if length := _LENGTH.match(rest, at):
            at = length.end() + int(length[0])
            continue
        if letter == "L" and (literal := _LITERAL.match(rest, at)):
            at = literal.end()
            continue
        if letter == "S" and (substitution := _SUBSTITUTION.match(rest, at)):
            at = substitution.end()
            continue
        if letter in "LXT":  # other literals, expressions, parameters of an outer template
            return None
        depth += (letter in "INFJ") - (letter == "E")
        at += 1
        if depth == 0:
            return rest[at:]
    return None


def _without_arguments(name: str) -> str:
    kept: list[str] = []
    at = 0
    text = name.removeprefix("void ")
    while at < len(text):
        letter = text[at]
        if text.startswith("(anonymous namespace)", at):
            kept.append("(anonymous namespace)")
            at += len("(anonymous namespace)")
        elif text.startswith("operator", at) and (
            call := re.compile(r"operator\s*(\(\)|<<|>>|[^\w\s(]+)").match(text, at)
        ):
            kept.append(call[0])
            at = call.end()
        elif letter == "(":
            closing = _closing(text, at)
            if not text.startswith("::", closing):
                break
            at = closing  # parameters of an enclosing function
        elif letter == "<":
            kept.append("<…>")
            at = _closing(text, at)
        elif letter == "{":
            closing = _closing(text, at)
            kept.append("{…}")
            at = closing
        else:
            kept.append(letter)
            at += 1
    return "".join(kept).strip() or name


def _closing(text: str, at: int) -> int:
    """Return the index after the bracket that closes the one at `at`; the end of the text if none does."""
    depth = 0
    for index in range(at, len(text)):
        if text[index] in _OPEN:
            depth += 1
        elif text[index] in _OPEN.values() and text[index - 1 : index + 1] != "->":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)
