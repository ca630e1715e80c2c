"""Results as data: plain dictionaries, versioned JSON files, rows for tables.

`Simulation.save` and `load_result` are the doors; what is here turns records into data and back, and refuses files that
are cut off, hostile or contradict themselves.
"""

from gpusim_des.results.check import check_timeline
from gpusim_des.results.counted import counters_from_plain, counters_to_plain
from gpusim_des.results.document import FORMAT, LARGEST_FILE, VERSION, check_document, load_document, save_document
from gpusim_des.results.launch_notes import LaunchNotes, notes_from_plain, notes_to_plain
from gpusim_des.results.plain import from_plain, to_plain
from gpusim_des.results.rows import Row, RowKind, counter_row, even, kernel_row, rows_of

__all__ = [
    "FORMAT",
    "LARGEST_FILE",
    "VERSION",
    "LaunchNotes",
    "Row",
    "RowKind",
    "check_document",
    "check_timeline",
    "counter_row",
    "counters_from_plain",
    "counters_to_plain",
    "even",
    "from_plain",
    "kernel_row",
    "load_document",
    "notes_from_plain",
    "notes_to_plain",
    "rows_of",
    "save_document",
    "to_plain",
]
