"""Numbers of the fields of Perfetto's messages that traces use, by the messages' own names [1]_.

References
----------
.. [1] Perfetto, ``protos/perfetto/trace``, https://github.com/google/perfetto/tree/main/protos/perfetto/trace
"""

from __future__ import annotations

from enum import IntEnum


class Trace(IntEnum):
    """A file: packets behind each other."""

    PACKET = 1


class TracePacket(IntEnum):
    """An entry of the file."""

    TIMESTAMP = 8
    TRUSTED_PACKET_SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60


class SequenceFlags(IntEnum):
    """What a packet needs of those before it."""

    SEQ_INCREMENTAL_STATE_CLEARED = 1
    SEQ_NEEDS_INCREMENTAL_STATE = 2


class TrackEvent(IntEnum):
    """A beginning or an end of a slice, an instant or a counter's value."""

    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    NAME = 23
    DOUBLE_COUNTER_VALUE = 44
    FLOW_IDS = 47
    TERMINATING_FLOW_IDS = 48


class Type(IntEnum):
    """Kinds of track events."""

    TYPE_SLICE_BEGIN = 1
    TYPE_SLICE_END = 2
    TYPE_INSTANT = 3
    TYPE_COUNTER = 4


class DebugAnnotation(IntEnum):
    """A name with a value, which a click shows."""

    NAME_IID = 1
    INT_VALUE = 4
    DOUBLE_VALUE = 5
    STRING_VALUE_IID = 17


class InternedData(IntEnum):
    """Texts that later packets name by numbers."""

    EVENT_CATEGORIES = 1
    EVENT_NAMES = 2
    DEBUG_ANNOTATION_NAMES = 3
    DEBUG_ANNOTATION_STRING_VALUES = 29


class EventName(IntEnum):
    """A text and its number; the other messages of interned data have the same fields."""

    IID = 1
    NAME = 2


class TrackDescriptor(IntEnum):
    """A row."""

    UUID = 1
    NAME = 2
    PARENT_UUID = 5
    COUNTER = 8
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12


class ChildTracksOrdering(IntEnum):
    """Order of the rows below a row."""

    EXPLICIT = 3


class CounterDescriptor(IntEnum):
    """What a row of a counter counts."""

    UNIT_NAME = 6
