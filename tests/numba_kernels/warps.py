"""Lanes of a warp that exchange values; Numba's own simulator has no such operations."""

import numpy as np
from numba import cuda

ALL = 0xFFFFFFFF


@cuda.jit
def sum_with_shuffles(a, out):
    i = cuda.grid(1)
    value = a[i] if i < a.size else 0
    step = cuda.warpsize // 2
    while step > 0:
        value += cuda.shfl_down_sync(ALL, value, step)
        step //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


@cuda.jit
def running_maximum(a, out):
    i = cuda.grid(1)
    value = a[i]
    distance = 1
    while distance < 32:
        other = cuda.shfl_up_sync(ALL, value, distance)
        if cuda.laneid >= distance:
            value = max(value, other)
        distance *= 2
    out[i] = value


@cuda.jit
def keep_positive(a, kept, count):
    i = cuda.grid(1)
    lane = cuda.laneid
    is_kept = i < a.size and a[i] > 0
    votes = cuda.ballot_sync(ALL, is_kept)
    start = 0
    if lane == 0:
        start = cuda.atomic.add(count, 0, cuda.popc(votes))
    start = cuda.shfl_sync(ALL, start, 0)
    if is_kept:
        kept[start + cuda.popc(votes & cuda.lanemask_lt())] = a[i]


@cuda.jit
def butterfly(a, out):
    value = a[cuda.threadIdx.x]
    for k in range(5):
        value += cuda.shfl_xor_sync(ALL, value, 1 << k)
    out[cuda.threadIdx.x] = value


@cuda.jit
def groups_of_keys(keys, masks, agree, half):
    t = cuda.threadIdx.x
    masks[t] = cuda.match_any_sync(ALL, keys[t])
    common, same = cuda.match_all_sync(ALL, keys[t])
    agree[t] = 2 * same + (common != 0)
    mine = 0xFFFF if t < 16 else 0xFFFF0000
    half[t, 0] = cuda.any_sync(mine, keys[t] == 3)
    half[t, 1] = cuda.all_sync(mine, keys[t] < 3)
    half[t, 2] = cuda.eq_sync(mine, keys[t] < 100)
    half[t, 3] = cuda.shfl_sync(mine, keys[t], 20)
    half[t, 4] = cuda.ballot_sync(mine, keys[t] > 0)
    cuda.syncwarp(mine)
    half[t, 5] = cuda.activemask()


@cuda.jit
def bits(words, out):
    i = cuda.grid(1)
    x = words[i]
    out[i, 0] = cuda.popc(x)
    out[i, 1] = cuda.clz(x)
    out[i, 2] = cuda.ffs(x)
    out[i, 3] = cuda.brev(x)
    out[i, 4] = cuda.selp(x > 10, 1, 2)


def run():
    a = np.arange(100)
    total = np.zeros(1, np.int64)
    sum_with_shuffles[4, 32](a, total)
    values = np.random.default_rng(8).normal(size=64)
    highest = np.zeros(64)
    running_maximum[2, 32](values, highest)
    kept, count = np.zeros(64), np.zeros(1, np.int32)
    keep_positive[2, 32](values, kept, count)
    sums = np.zeros(32, np.int64)
    butterfly[1, 32](a, sums)
    keys = np.arange(32) % 4
    masks, agree, half = np.zeros(32, np.uint32), np.zeros(32, np.int32), np.zeros((32, 6), np.int64)
    groups_of_keys[1, 32](keys, masks, agree, half)
    words = np.array([0, 1, 12, 0x80000000, 0xFFFFFFFF, 1 << 20], np.uint32)
    counted = np.zeros((6, 5), np.int64)
    bits[1, 6](words, counted)
    return {
        "sum_with_shuffles": total,
        "running_maximum": highest,
        "kept": kept[: count[0]],
        "butterfly": sums,
        "masks": masks,
        "agree": agree,
        "half": half,
        "bits": counted,
    }
