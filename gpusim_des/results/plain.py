"""Records as plain data that JSON can hold, and back: what a type says is how it is written.

A record (dataclass) is an object of its fields. Many records of one type are an object of columns, which is smaller and
faster than a list of objects. A field that is missing takes its default, so that files outlive new fields; a field that
nobody knows is refused, because a newer version wrote it.
"""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from gpusim_des.errors import ReadError

LARGEST = 2**63 - 1
"""Largest whole number that is read: what 64 bits count, as everywhere in a simulation."""


class Form(NamedTuple):
    """How values of a type are written and read; `read` takes the data and where in the file it stands."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


def to_plain(value: object, kind: Any) -> Any:
    """Write a value of type `kind` as plain data.

    Raises
    ------
    ReadError
        For a number that JSON does not have, or that 64 bits do not hold.
    TypeError
        For a type that has no plain form.

    Examples
    --------
    >>> from gpusim_des.timeline import BlockSpan
    >>> to_plain((BlockSpan(0, 0, 1, 0, 5, 9), BlockSpan(0, 1, 0, 0, 6, 8)), tuple[BlockSpan, ...])["sm"]
    [1, 0]
    """
    return form(kind).write(value)


def from_plain(data: object, kind: Any, where: str) -> Any:
    """Read a value of type `kind` back; `where` names it in messages.

    Raises
    ------
    ReadError
        If the data are of another kind; the message says where, what was found and what was expected.

    Examples
    --------
    >>> from_plain({"what": "exit", "warp": 3}, __import__("gpusim_des.timeline").timeline.Cause, "cause")
    Cause(what='exit', warp=3, instruction=None)
    """
    return form(kind).read(data, where)


@cache
def form(kind: Any) -> Form:
    """Form of a type."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    return _container(kind) if get_origin(kind) is not None else _class(kind)


def _container(kind: Any) -> Form:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (other,) = [k for k in inner if k is not type(None)]
        return _optional(form(other))
    if origin is tuple and len(inner) == 2 and inner[1] is ...:
        return _table(inner[0]) if dataclasses.is_dataclass(inner[0]) else _sequence(form(inner[0]))
    if origin is tuple:
        return _fixed([form(each) for each in inner])
    if origin is np.ndarray:
        return _array(np.dtype(get_args(inner[1])[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = inner if len(inner) == 2 else (inner[0], int)
        make = Counter if origin is Counter else dict
        return _pairs(form(key), form(value), make) if key not in (str, int) else _object(key, form(value), make)
    raise _unknown(kind)


def _class(kind: Any) -> Form:
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return _enum(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        fields = dataclasses.fields(kind)
        required = {f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING}
        return _record(kind, {f.name: hints[f.name] for f in fields}, required)
    if hasattr(kind, "_fields"):  # a NamedTuple
        hints = get_type_hints(kind)
        return _record(kind, {name: hints[name] for name in kind._fields}, {*kind._fields} - {*kind._field_defaults})
    raise _unknown(kind)


def _unknown(kind: Any) -> TypeError:
    return TypeError(f"{kind!r} has no plain form: teach gpusim_des.results.plain how to write it")


# Numbers and texts ---------------------------------------------------------------------------------------------------


def _shown(data: object) -> str:
    text = ascii(data)
    return f"{text[:40]}… ({type(data).__name__})" if len(text) > 40 else text


def _wrong(where: str, data: object, expected: str) -> ReadError:
    return ReadError(f"{where} = {_shown(data)}: must be {expected}; write the file again with save()")


def _whole(data: object, where: str) -> int:
    if type(data) is not int or abs(data) > LARGEST:
        raise _wrong(where, data, "a whole number of at most 64 bits")
    return data


def _number(data: object, where: str) -> float:
    if type(data) not in (int, float) or not isfinite(data):  # type: ignore[arg-type]
        raise _wrong(where, data, "a finite number")
    return float(data)  # type: ignore[arg-type]


def _text(data: object, where: str) -> str:
    if type(data) is not str or not _is_unicode(data):
        raise _wrong(where, data, "a text")
    return data


def _is_unicode(text: str) -> bool:
    """Half a surrogate pair is no character: nothing could print it."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _truth(data: object, where: str) -> bool:
    if type(data) is not bool:
        raise _wrong(where, data, "true or false")
    return data


def _written_whole(value: Any) -> int:
    return _whole(int(value), "a number of the result")


def _written_number(value: Any) -> float:
    return _number(float(value), "a number of the result")


def _written_text(value: Any) -> str:
    return _text(str(value), "a text of the result")


_SIMPLE: dict[Any, Form] = {
    int: Form(_written_whole, _whole),
    float: Form(_written_number, _number),
    str: Form(_written_text, _text),
    bool: Form(bool, _truth),
}


def _enum(kind: type[IntEnum]) -> Form:
    names = {member.name.lower(): member for member in kind}

    def read(data: object, where: str) -> Any:
        if not isinstance(data, str) or data not in names:
            raise _wrong(where, data, f"one of {', '.join(names)}")
        return names[data]

    return Form(lambda value: value.name.lower(), read)


def _optional(inner: Form) -> Form:
    return Form(
        lambda value: None if value is None else inner.write(value),
        lambda data, where: None if data is None else inner.read(data, where),
    )


# Containers ----------------------------------------------------------------------------------------------------------


def _list(data: object, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise _wrong(where, data, "a list")
    return data


def _dict(data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(where, data, "an object")
    return data


def _sequence(inner: Form) -> Form:
    return Form(
        lambda value: [inner.write(v) for v in value],
        lambda data, where: tuple(inner.read(v, f"{where}[{n}]") for n, v in enumerate(_list(data, where))),
    )


def _object(key: type, inner: Form, make: Callable[[dict[Any, Any]], Any]) -> Form:
    """Mapping with keys that are texts or numbers; JSON has texts only."""

    def key_of(text: str, where: str) -> Any:
        if key is str:
            return _text(text, where)
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 20:
            raise _wrong(where, text, "a whole number as a key")
        return _whole(int(text), where)

    def read(data: object, where: str) -> Any:
        return make({key_of(k, where): inner.read(v, f"{where}.{_shown(k)}") for k, v in _dict(data, where).items()})

    return Form(lambda value: {str(k): inner.write(v) for k, v in value.items()}, read)


def _fixed(parts: Sequence[Form]) -> Form:
    """Tuple of a fixed length."""

    def read(data: object, where: str) -> tuple[Any, ...]:
        values = _list(data, where)
        if len(values) != len(parts):
            raise _wrong(where, data, f"a list of {len(parts)}")
        return tuple(part.read(v, f"{where}[{n}]") for n, (part, v) in enumerate(zip(parts, values, strict=True)))

    return Form(lambda value: [part.write(v) for part, v in zip(parts, value, strict=True)], read)


def _array(dtype: np.dtype[Any]) -> Form:
    """Array of one dimension with whole numbers."""
    return Form(lambda value: value.tolist(), lambda data, where: np.array(_read_ints(data, where), dtype))


def _pairs(key: Form, inner: Form, make: Callable[[dict[Any, Any]], Any]) -> Form:
    """Mapping with keys that are records: a list of pairs."""

    def read(data: object, where: str) -> Any:
        found = {}
        for n, pair in enumerate(_list(data, where)):
            place = f"{where}[{n}]"
            if not isinstance(pair, list) or len(pair) != 2:
                raise _wrong(place, pair, "a pair of key and value")
            found[key.read(pair[0], place)] = inner.read(pair[1], place)
        return make(found)

    return Form(lambda value: [[key.write(k), inner.write(v)] for k, v in value.items()], read)


def _check_names(data: Mapping[str, Any], known: Mapping[str, Any], required: set[str], where: str) -> None:
    unknown = next((name for name in data if name not in known), None)
    if unknown is not None:
        raise ReadError(
            f"{where} has the unknown entry {_shown(unknown)}: a newer gpusim_des wrote it, or it was edited by hand; "
            "install the newer one"
        )
    missing = next((name for name in known if name in required and name not in data), None)
    if missing is not None:
        raise ReadError(f"{where} has no entry {missing!r}: the file was cut or edited; write it again with save()")


def _record(kind: Any, hints: Mapping[str, Any], required: set[str]) -> Form:
    forms = {name: form(hint) for name, hint in hints.items()}

    def write(value: Any) -> dict[str, Any]:
        return {name: f.write(getattr(value, name)) for name, f in forms.items()}

    def read(data: object, where: str) -> Any:
        found = _dict(data, where)
        _check_names(found, forms, required, where)
        return kind(**{name: forms[name].read(v, f"{where}.{name}") for name, v in found.items()})

    return Form(write, read)


# Tables of records ---------------------------------------------------------------------------------------------------


def _table(kind: Any) -> Form:
    """Many records of one type: an object of columns."""
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    columns = {f.name: _column(hints[f.name]) for f in fields}
    required = {f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING}

    def write(value: Sequence[Any]) -> dict[str, Any]:
        return {name: c.write([getattr(v, name) for v in value]) for name, c in columns.items()}

    def read(data: object, where: str) -> tuple[Any, ...]:
        found = _dict(data, where)
        if not found:
            return ()
        _check_names(found, columns, required, where)
        read_columns = {name: columns[name].read(v, f"{where}.{name}") for name, v in found.items()}
        lengths = {name: len(column) for name, column in read_columns.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ReadError(f"{where} has columns of different lengths ({shown}): the file was cut or edited")
        names = tuple(read_columns)
        return tuple(kind(**dict(zip(names, row, strict=True))) for row in zip(*read_columns.values(), strict=True))

    return Form(write, read)


def _column(kind: Any) -> Form:
    """Values of one field of many records. Records in a field are a table of their own, which says whose they are."""
    inner = get_args(kind)
    if get_origin(kind) is tuple and dataclasses.is_dataclass(inner[0]):
        return _joined(form(kind))
    if get_origin(kind) in (Union, types.UnionType):
        (other,) = [k for k in inner if k is not type(None)]
        if dataclasses.is_dataclass(other):
            return _sparse(_table(other))
    if kind is int:
        return Form(_write_ints, _read_ints)
    return _sequence(form(kind))


def _write_ints(values: Sequence[Any]) -> list[int]:
    return [_written_whole(v) for v in values]


def _read_ints(data: object, where: str) -> Sequence[int]:
    """A column of whole numbers, checked at once: most of a long timeline is that."""
    values = _list(data, where)
    if not all(type(v) is int for v in values) or (values and not -LARGEST <= min(values) <= max(values) <= LARGEST):
        for n, value in enumerate(values):
            _whole(value, f"{where}[{n}]")
    return values


def _joined(table: Form) -> Form:
    """Several records for each one: all behind one another, and how many belong to each."""

    def write(values: Sequence[Sequence[Any]]) -> dict[str, Any]:
        return {"lengths": [len(v) for v in values], "rows": table.write([row for v in values for row in v])}

    def read(data: object, where: str) -> list[Any]:
        found = _dict(data, where)
        _check_names(found, {"lengths": 0, "rows": 0}, {"lengths", "rows"}, where)
        rows = table.read(found["rows"], f"{where}.rows")
        lengths = _read_ints(found["lengths"], f"{where}.lengths")
        if any(n < 0 for n in lengths) or sum(lengths) != len(rows):
            raise ReadError(f"{where}: lengths add up to {sum(lengths)}, but there are {len(rows)} rows: cut or edited")
        following = iter(rows)
        return [tuple(islice(following, n)) for n in lengths]

    return Form(write, read)


def _sparse(table: Form) -> Form:
    """A record or none for each one: those that are there, and where."""

    def write(values: Sequence[Any]) -> dict[str, Any]:
        return {"present": [v is not None for v in values], "rows": table.write([v for v in values if v is not None])}

    def read(data: object, where: str) -> list[Any]:
        found = _dict(data, where)
        _check_names(found, {"present": 0, "rows": 0}, {"present", "rows"}, where)
        rows = table.read(found["rows"], f"{where}.rows")
        present = [_truth(v, f"{where}.present") for v in _list(found["present"], f"{where}.present")]
        if sum(present) != len(rows):
            raise ReadError(f"{where}: {sum(present)} are there, but there are {len(rows)} rows: cut or edited")
        following = iter(rows)
        return [next(following) if there else None for there in present]

    return Form(write, read)
