"""Published measurements of real GPUs, reproduced: what the simulation is worth.

`list_targets` are the measurements, `run` and `validate` simulate them, `as_text` prints the table.
"""

from gpusim_des.silicon.table import as_records, as_text, block, from_records, put_block, read_block, summary
from gpusim_des.silicon.target import Point, Target, choose, list_targets, load_target
from gpusim_des.silicon.validation import Errors, Outcome, Result, run, validate

__all__ = [
    "Errors",
    "Outcome",
    "Point",
    "Result",
    "Target",
    "as_records",
    "as_text",
    "block",
    "choose",
    "from_records",
    "list_targets",
    "load_target",
    "put_block",
    "read_block",
    "run",
    "summary",
    "validate",
]
