"""Messages of Protocol Buffers as bytes [1]_: a field is its number and kind, then its value.

References
----------
.. [1] "Encoding", https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Kinds of values on the wire."""


def varint(value: int) -> bytes:
    """Return a whole number in groups of seven bits, the lowest first; negative ones as 64 bits in two's complement.

    >>> varint(1).hex(), varint(150).hex(), varint(-2).hex()
    ('01', '9601', 'feffffffffffffffff01')
    """
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def tag(field: int, kind: int = _BYTES) -> bytes:
    """Return what stands before a value; the kind of texts and messages if no other is given."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """Return a field with a whole number.

    >>> number(1, 150).hex()
    '089601'
    """
    return tag(field, _VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """Return a field with a whole number in eight bytes."""
    return tag(field, _FIXED64) + struct.pack("<Q", value)


def double(field: int, value: float) -> bytes:
    """Return a field with a number of double precision."""
    return tag(field, _FIXED64) + struct.pack("<d", value)


def message(field: int, content: bytes) -> bytes:
    """Return a field with a message inside.

    >>> message(3, number(1, 150)).hex()
    '1a03089601'
    """
    return tag(field) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """Return a field with a text; half a surrogate pair, which UTF-8 cannot write, becomes a question mark.

    >>> text(2, "testing").hex()
    '120774657374696e67'
    """
    return message(field, value.encode("utf-8", "replace"))
