"""The file of a trace: whole or not there, compressed if its name says so."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpusim_des.whole_file import whole_file

COMPRESSION = 6
"""zlib's level."""


@contextmanager
def trace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to; it gets its name when all is written.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist, and the other errors of `whole_file`.
    """
    with whole_file(path) as draft, draft.open("xb") as raw:
        if Path(path).suffix == ".gz":
            # Without a name and a time, the same run makes the same bytes.
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=COMPRESSION, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield raw
