"""Copies and memsets in the memory of the compiled engine, as in `dma` (H3, M11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gpusim_des.timing import compiled_layout as at
from gpusim_des.timing.cache import SECTORS_PER_LINE, WHOLE_LINE
from gpusim_des.timing.compiled_jit import Words, digest, entrance, start_of
from gpusim_des.timing.compiled_layout import SLICE_WORDS, SLICES, T_CHANNEL, T_LINES, Z_CHANNEL
from gpusim_des.timing.compiled_slice import channel_read, channel_write, slice_read, slice_write
from gpusim_des.timing.compiled_words import GpuWords
from gpusim_des.timing.dma import DmaTraffic

WORDS_PER_LINE = 64
"""Words that a line may take at most: itself and its fills, at home and in a near half."""


class WordsPort:
    """Copies' way into the slices of the compiled engine."""

    def __init__(self, gpu: GpuWords, *, caches: bool) -> None:
        self.caches = caches
        self._gpu = gpu
        self._count = gpu.new_run({})
        self._request = gpu.take(at.REQUEST_WORDS + 2)
        gpu.words[self._request + T_LINES] = self._request + at.REQUEST_WORDS
        gpu.words[self._request + at.T_RUN] = self._count
        gpu.words[self._request + at.T_SECTORS] = SECTORS_PER_LINE
        gpu.words[self._request + at.T_GRANULES] = SECTORS_PER_LINE << at.PASSES_BITS
        gpu.words[self._request + at.T_LINE_COUNT] = 1

    def lines(
        self, now_fs: int, lines: NDArray[np.int64], channels: NDArray[np.int64], count: DmaTraffic, *, writes: bool
    ) -> None:
        """Read or write whole lines in the slices of their channels."""
        gpu = self._gpu
        gpu.make_room(WORDS_PER_LINE * len(lines))
        counted = [self._count + field for field in (at.R_READS, at.R_WRITTEN, at.R_L2, at.R_L2_HITS)]
        gpu.words[counted] = 0
        of_lines, of_channels = cast("Words", lines.astype(np.int64)), cast("Words", channels.astype(np.int64))
        _move_lines(gpu.arrays()[0], of_lines, of_channels, self._request, now_fs, writes)
        reads, written, sectors, hits = gpu.words[counted].tolist()
        count.read_granules += reads
        count.write_granules += written
        count.l2_sectors += sectors
        count.l2_hit_sectors += hits

    def granules(self, now_fs: int, channel: int, granules: int, *, writes: bool) -> int:
        """Read or write granules of a channel; returns when the last one is through, in femtoseconds."""
        return _move_granules(self._gpu.arrays()[0], channel, granules, now_fs, writes)


def _lines(known: int) -> Callable[[Words, Words, Words, int, int, bool], None]:
    def move(words: Words, lines: Words, channels: Words, request: int, now: int, writes: bool) -> None:
        m = start_of(words)
        for k in range(len(lines) if known else 0):
            m[request + T_CHANNEL] = channels[k]
            m[m[request + T_LINES]] = lines[k]
            m[m[request + T_LINES] + 1] = WHOLE_LINE
            if writes:
                slice_write(m, now, request)
            else:
                slice_read(m, now, request)

    return entrance(move)


def _granules(known: int) -> Callable[[Words, int, int, int, bool], int]:
    def move(words: Words, channel: int, granules: int, now: int, writes: bool) -> int:
        m = start_of(words)
        v = m[SLICES] + channel * SLICE_WORDS + Z_CHANNEL if known else 0
        return channel_write(m, v, now, granules) if writes else channel_read(m, v, now, granules)

    return entrance(move)


_move_lines = _lines(digest())
_move_granules = _granules(digest())
