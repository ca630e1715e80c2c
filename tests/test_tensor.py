"""Tensor cores in block style: results against NumPy, traces and counters worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional.fragment_access import Spread, pieces
from gpusim_des.functional.mma_rules import tf32
from gpusim_des.trace import Mma, WarpTrace
from gpusim_des.trace import OpClass as Op
from tests.kernels import run_block as run

Array = np.ndarray[Any, Any]
F16, F32, F64, I8, I32 = np.float16, np.float32, np.float64, np.int8, np.int32


def matrix(rows: int, columns: int, dtype: Any, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-128, 128, (rows, columns)).astype(dtype)
    return (rng.random((rows, columns)) - 0.5).astype(dtype)


def ops(warp: WarpTrace) -> list[Op]:
    return [Op(k) for k in warp.stream.ops]


def depends(warp: WarpTrace) -> list[tuple[int, ...]]:
    return [warp.stream.depends_on(k) for k in range(len(warp.stream))]


# Results --------------------------------------------------------------------------------------------------------------


@gs.block_kernel
def tiled(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    """Blocks of 2 × 2 warps; each warp computes 16 × 16 elements, each block 32 × 32."""
    left = blk.shared((32, 16 + 8), F16, name="left")
    right = blk.shared((16, 32 + 8), F16, name="right")
    row, col = blk.warp // 2 * 16, blk.warp % 2 * 16
    total = blk.fill_fragment((16, 16), 0.0, F32)
    for k in range(0, n, 16):
        for part in range(4):
            i = blk.tid + 128 * part
            blk.sstore(left, (i // 16, i % 16), blk.load(a, (blk.by * 32 + i // 16, k + i % 16)))
            blk.sstore(right, (i // 32, i % 32), blk.load(b, (k + i // 32, blk.bx * 32 + i % 32)))
        blk.sync()
        x = blk.load_fragment(left, row, 0, shape=(16, 16))
        y = blk.load_fragment(right, 0, col, shape=(16, 16))
        total = blk.mma(x, y, total)
        blk.sync()
    blk.store_fragment(c, blk.by * 32 + row, blk.bx * 32 + col, total)


def test_tiled_matmul_in_half_precision() -> None:
    n = 64
    dev = gs.Device("h100-sxm")
    x, y = matrix(n, n, F16), matrix(n, n, F16, seed=2)
    a, b, c = dev.to_device(x), dev.to_device(y), dev.malloc((n, n), F32)
    launch = dev.launch(tiled, (2, 2), 128, a, b, c, n)
    np.testing.assert_allclose(dev.to_host(c), x.astype(F32) @ y.astype(F32), rtol=1e-5, atol=1e-6)
    # 4 blocks × 4 warps × 4 steps along k × 2 instructions of 16 × 8 × 16
    assert launch.counters.instruction_mix["tensor"] == 4 * 4 * 4 * 2
    assert 128 * Mma(16, 8, 16, "fp16").multiply_adds == n**3


def product(a_type: Any, c_type: Any, m: int, n: int, k: int) -> Any:
    def body(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
        x = blk.load_fragment(a, 0, 0, (m, k))
        y = blk.load_fragment(b, 0, 0, (k, n))
        blk.store_fragment(c, 0, 0, blk.mma(x, y, blk.load_fragment(c, 0, 0, (m, n))))

    x, y, z = matrix(m, k, a_type), matrix(k, n, a_type, seed=2), matrix(m, n, c_type, seed=3)
    (_, _, got), launch = run(body, x, y, z)
    return x, y, z, got, launch


@pytest.mark.parametrize(
    ("a_type", "c_type", "shape", "instructions", "tolerance"),
    [
        (F16, F32, (16, 16, 16), 2, 1e-6),
        (F16, F16, (32, 8, 16), 2, 2e-3),
        (F16, F32, (16, 24, 24), 9, 1e-6),  # k = 24 is no multiple of 16: 3 × 3 of 16 × 8 × 8
        (F64, F64, (8, 8, 4), 1, 1e-15),
        (F64, F64, (16, 16, 8), 8, 1e-15),
        (I8, I32, (16, 16, 32), 2, 0),
        (I8, I32, (8, 16, 32), 4, 0),
        (I8, I32, (16, 24, 16), 3, 0),
    ],
)
def test_a_product_equals_numpy(a_type: Any, c_type: Any, shape: Any, instructions: int, tolerance: float) -> None:
    x, y, z, got, launch = product(a_type, c_type, *shape)
    wide = np.int64 if a_type is I8 else F64
    expected = x.astype(wide) @ y.astype(wide) + z
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    assert got.dtype == c_type
    assert launch.counters.instruction_mix["tensor"] == instructions


def test_floats_are_multiplied_as_tf32() -> None:
    x, y, z, got, launch = product(F32, F32, 16, 16, 8)
    rounded = tf32(x).astype(F64) @ tf32(y).astype(F64) + z
    exact = x.astype(F64) @ y.astype(F64) + z
    np.testing.assert_allclose(got, rounded, rtol=1e-6, atol=1e-6)
    assert 1e-5 < np.abs(got - exact).max() < 1e-2, "10 bits of mantissa are not 23"
    assert Mma.decode(int(launch.trace.block(0)[0].stream.operands.max())) == Mma(16, 8, 8, "tf32")


def test_rounding_to_tf32() -> None:
    """The last bit that stays is 2⁻¹⁰; halves go away from zero; a carry raises the exponent."""
    ulp, most = 2.0**-10, float(np.finfo(F32).max)
    values = [1 + ulp / 2, -1 - ulp / 2, 1 + 0.49 * ulp, 2 - ulp / 2, most, np.inf, -np.inf, 0.0, -0.0]
    expected = [1 + ulp, -1 - ulp, 1, 2, np.inf, np.inf, -np.inf, 0.0, -0.0]
    rounded = tf32(np.array(values, F32))
    assert rounded.tolist() == expected
    assert np.signbit(rounded).tolist() == np.signbit(expected).tolist()
    assert np.isnan(tf32(np.array([np.nan, -np.nan], F32))).all()
    assert np.isnan(tf32(np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(F32))).all()


def test_every_instruction_rounds_to_a_half_accumulator() -> None:
    """Halves near 2048 lie 2 apart: an instruction adds 16 times 1/16, and 1 is lost every time (ties to even)."""

    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        a = blk.fill_fragment((16, 64), 0.25, F16)
        b = blk.fill_fragment((64, 8), 0.25, F16)
        c = blk.fill_fragment((16, 8), 2048.0, F16)
        blk.store_fragment(out, 0, 0, blk.mma(a, b, c))

    (got,), _ = run(body, np.zeros((16, 8), F16))
    assert (got == 2048).all()


def test_integers_wrap_and_floats_overflow_in_silence() -> None:
    def body(blk: gs.Block, whole: gs.DeviceArray, half: gs.DeviceArray) -> None:
        a, b = blk.fill_fragment((8, 16), -128, I8), blk.fill_fragment((16, 8), -128, I8)
        blk.store_fragment(whole, 0, 0, blk.mma(a, b, blk.fill_fragment((8, 8), 2**31 - 1, I32)))
        x = blk.fill_fragment((16, 8), 60000.0, F16)
        y = blk.fill_fragment((8, 8), 2.0, F16)
        blk.store_fragment(half, 0, 0, blk.mma(x, y, blk.fill_fragment((16, 8), 0.0, F16)))

    (whole, half), _ = run(body, np.zeros((8, 8), I32), np.zeros((16, 8), F16))
    assert (whole == -(2**31) + 16 * 128 * 128 - 1).all()
    assert np.isinf(half).all()


def test_alpha_ab_plus_beta_c() -> None:
    def body(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
        ab = blk.mma(
            blk.load_fragment(a, 0, 0, (16, 16)), blk.load_fragment(b, 0, 0, (16, 16)), blk.fill_fragment((16, 16), 0.0)
        )
        blk.store_fragment(c, 0, 0, np.float32(2.0) * ab + blk.load_fragment(c, 0, 0, (16, 16)) * 0.5 - 1)

    x, y, z = matrix(16, 16, F16), matrix(16, 16, F16, seed=2), matrix(16, 16, F32, seed=3)
    (_, _, got), launch = run(body, x, y, z)
    np.testing.assert_allclose(got, 2 * (x.astype(F32) @ y.astype(F32)) + z / 2 - 1, rtol=1e-5, atol=1e-6)
    # Two products, a sum and a difference, of 256 / 32 instructions each.
    assert launch.counters.instruction_mix["fp32"] == 4 * 8


def test_a_fragment_is_converted_before_it_is_stored() -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        c = blk.fill_fragment((16, 8), 1.0, F32)
        assert c.astype(F32) is c
        assert (c.shape, c.dtype, repr(c)) == ((16, 8), np.dtype(F32), "<Fragment 16 × 8 float32>")
        blk.store_fragment(out, 0, 0, c.astype(F16))

    (got,), launch = run(body, np.zeros((16, 8), F16))
    assert (got == 1).all()
    assert launch.counters.instruction_mix["conversion"] == 4


@pytest.mark.parametrize("shared", [False, True])
def test_a_transposed_load_reads_the_swapped_region(shared: bool) -> None:
    def body(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
        source: Any = a
        if shared:
            source = blk.shared((24, 32), F16)
            for line in range(24):
                blk.sstore(source, (line, blk.tid), blk.load(a, (line, blk.tid)))
        blk.store_fragment(out, 0, 0, blk.load_fragment(source, 8, 16, (8, 16), transposed=True))

    x = matrix(24, 32, F16)
    (_, got), _ = run(body, x, np.zeros((8, 16), F16))
    assert np.array_equal(got, x[8:24, 16:24].T)


def test_every_warp_and_block_has_its_own_fragment() -> None:
    def body(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
        tile = blk.shared((16, 16), F32)
        blk.store_fragment(tile, blk.warp * 8, 0, blk.load_fragment(a, blk.bx * 16 + blk.warp * 8, 0, (8, 16)))
        blk.sync()
        blk.store_fragment(out, blk.bx * 16 + blk.warp * 8, 0, blk.load_fragment(tile, 8 - blk.warp * 8, 0, (8, 16)))

    x = matrix(48, 16, F32)
    (_, got), _ = run(body, x, np.zeros_like(x), grid=3, block=64)
    assert np.array_equal(got, x.reshape(3, 2, 8, 16)[:, ::-1].reshape(48, 16))


def test_blocks_that_disagree_run_again_from_the_old_values() -> None:
    def body(blk: gs.Block, c: gs.DeviceArray) -> None:
        blk.store_fragment(c, blk.bx * 16, 0, blk.load_fragment(c, blk.bx * 16, 0, (16, 8)) + 1)
        if blk.bx == 1:
            blk.store_fragment(c, 16, 0, blk.fill_fragment((16, 8), 7.0))

    (got,), _ = run(body, np.zeros((48, 8), F32), grid=3)
    assert got[:, 0].tolist() == [1] * 16 + [7] * 16 + [1] * 16


# Traces ---------------------------------------------------------------------------------------------------------------


def test_trace_of_one_product() -> None:
    """k = 32: two instructions along k for each of the two halves of C."""

    def body(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
        x = blk.load_fragment(a, 0, 0, (16, 32))  # 16 rows of 64 bytes: 64 pieces of 16 bytes, two loads
        y = blk.load_fragment(b, 0, 0, (32, 16))
        z = blk.fill_fragment((16, 16), 0.0)
        z = blk.mma(x, y, z)
        blk.store_fragment(c, 0, 0, z)  # 16 rows of 64 bytes: 128 pieces of 8 bytes, four stores

    _, launch = run(body, matrix(16, 32, F16), matrix(32, 16, F16), np.zeros((16, 16), F32))
    (warp,) = launch.trace.block(0)
    assert ops(warp) == [*[Op.GLOBAL_LOAD] * 4, *[Op.TENSOR] * 4, *[Op.GLOBAL_STORE] * 4, Op.EXIT]
    factors = (0, 1, 2, 3)
    assert depends(warp) == [
        *[()] * 4,
        *(factors, factors),  # first half of k, both halves of C
        *((*factors, 4), (*factors, 5)),  # second half of k
        *[(6, 7)] * 4,
        (),
    ]
    operand = Mma(16, 8, 16, "fp16").encode()
    assert warp.stream.operands.tolist() == [16] * 4 + [operand] * 4 + [8] * 4 + [0]  # accesses: bytes of a lane
    assert warp.stream.lanes.tolist() == [32] * 13


def test_a_chain_of_products_goes_on_tile_by_tile() -> None:
    def body(blk: gs.Block, a: gs.DeviceArray, c: gs.DeviceArray) -> None:
        x, y = blk.load_fragment(a, 0, 0, (16, 16)), blk.fill_fragment((16, 24), 1.0, F16)
        z = blk.mma(x, y, blk.fill_fragment((16, 24), 0.0))
        z = blk.mma(x, y, z)
        blk.store_fragment(c, 0, 0, blk.mma(x, y, z * 2.0))

    _, launch = run(body, matrix(16, 16, F16), np.zeros((16, 24), F32))
    (warp,) = launch.trace.block(0)
    assert ops(warp)[:22] == [Op.GLOBAL_LOAD, *[Op.TENSOR] * 6, *[Op.FP32] * 12, *[Op.TENSOR] * 3]
    assert depends(warp)[1:7] == [(0,), (0,), (0,), (0, 1), (0, 2), (0, 3)]
    assert depends(warp)[7:19] == [(4, 5, 6)] * 12, "element by element every tile is needed"
    assert depends(warp)[19:22] == [(0, *range(7, 19))] * 3


def test_addresses_cost_what_those_of_other_accesses_cost() -> None:
    def body(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray) -> None:
        tile = blk.shared((16, 16), F16)
        r = blk.warp * 16
        x = blk.load_fragment(a, r, 0, (16, 16))
        blk.store_fragment(tile, r, 0, x)
        blk.store_fragment(b, 0, 0, x)

    _, launch = run(body, np.zeros((16, 16), F16), np.zeros((16, 16), F16))
    (warp,) = launch.trace.block(0)
    assert ops(warp) == [
        Op.INT,  # 0: r
        *(Op.INT, Op.INT, Op.GLOBAL_LOAD),  # 1: row and column, 2: address
        *(Op.INT, Op.SHARED_STORE, Op.SHARED_STORE),  # 4: row and column; 32 bytes in a row are 4 pieces, 64 in all
        *(Op.GLOBAL_STORE, Op.GLOBAL_STORE, Op.EXIT),
    ]
    assert depends(warp) == [(), (0,), (1,), (2,), (0,), (3, 4), (3, 4), (3,), (3,), ()]


def test_declared_counting_leaves_out_arithmetic() -> None:
    def body(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray) -> None:
        x = blk.load_fragment(a, blk.warp * 16, 0, (16, 16))
        z = blk.mma(x, x, blk.fill_fragment((16, 16), 0.0)) * 2.0
        blk.store_fragment(b, 0, 0, z)

    _, launch = run(body, np.zeros((16, 16), F16), np.zeros((16, 16), F32), count="declared")
    (warp,) = launch.trace.block(0)
    assert ops(warp) == [Op.GLOBAL_LOAD, Op.TENSOR, Op.TENSOR, *[Op.GLOBAL_STORE] * 4]
    assert depends(warp)[3:] == [(1, 2)] * 4


def test_a_branch_may_keep_whole_warps() -> None:
    """Warp 1 multiplies, the others leave no trace; the row of warp 2 would lie outside of the array."""

    def body(blk: gs.Block, a: gs.DeviceArray, c: gs.DeviceArray) -> None:
        with blk.branch(blk.warp == 1):
            x = blk.load_fragment(a, blk.warp * 16, 0, (16, 16))
            z = blk.mma(x, x, blk.fill_fragment((16, 16), 0.0)) * 2.0
            blk.store_fragment(c, 0, 0, z)

    x = matrix(32, 16, F16)
    (_, got), launch = run(body, x, np.zeros((16, 16), F32), block=96)
    np.testing.assert_allclose(got, 2 * (x[16:].astype(F32) @ x[16:].astype(F32)), rtol=1e-5, atol=1e-6)
    assert [Op.TENSOR in ops(warp) for warp in launch.trace.block(0)] == [False, True, False]
    assert [len(warp.bases) for warp in launch.trace.block(0)] == [0, 5, 0]
    assert launch.counters.instruction_mix["tensor"] == 2


# Counters -------------------------------------------------------------------------------------------------------------


def load_from_tile(width: int, *, transposed: bool = False) -> Any:
    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        tile = blk.shared((16, width), F16, name="tile")
        blk.load_fragment(tile, 0, 16, (16, 16), transposed=transposed)

    return run(body, np.zeros(1))[1].counters


@pytest.mark.parametrize("transposed", [False, True])
def test_bank_conflicts_of_a_fragment_in_a_shared_tile(transposed: bool) -> None:
    """16 rows of 32 bytes are 32 pieces of 16 bytes: one load, which goes through the banks eight lanes at a time.

    Eight lanes read one piece of eight rows, 4 banks each, 4 × 8 = 32 banks at best: four passes in all.
    64 halves are 128 bytes, all 32 banks: the eight pieces lie in the same 4 banks and need eight passes, 32 in all.
    72 halves are 36 words: each row begins 4 banks further, eight pieces cover all banks: four passes.
    """
    plain, padded = load_from_tile(64, transposed=transposed), load_from_tile(72, transposed=transposed)
    assert (plain.shared_requests, plain.shared_wavefronts, plain.shared_ideal_wavefronts) == (1, 32, 4)
    assert (padded.shared_requests, padded.shared_wavefronts, padded.bank_conflicts) == (1, 4, 0)
    assert plain.by_array()["tile"].nbytes == 16 * 16 * 2


@pytest.mark.parametrize(("width", "wavefronts"), [(64, 32), (72, 8)])
def test_bank_conflicts_of_a_stored_accumulator(width: int, wavefronts: int) -> None:
    """16 × 16 floats are 128 pieces of 8 bytes: four stores of 8 rows × 32 bytes, in two halves of 4 rows × 8 banks.

    64 floats are twice all banks: 4 rows in the same 8 banks are four passes, 4 × 2 × 4 in all. 72 floats shift each
    row by 8 banks: one pass for each half.
    """

    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        blk.store_fragment(blk.shared((16, width), F32), 0, 0, blk.fill_fragment((16, 16), 0.0))

    counters = run(body, np.zeros(1))[1].counters
    assert (counters.shared_requests, counters.shared_wavefronts) == (4, wavefronts)
    assert counters.shared_ideal_wavefronts == 8


@pytest.mark.parametrize(
    ("col", "transposed", "requests", "sectors"),
    [
        (0, False, 1, 16),  # 16 rows of 32 bytes, each a sector
        (8, False, 1, 32),  # each row begins in the middle of a sector and ends in the middle of the next
        (0, True, 8, 32),  # 256 elements, 32 at a time: 4 rows × 8 neighbours, 4 sectors
    ],
)
def test_sectors_of_a_fragment_in_global_memory(col: int, transposed: bool, requests: int, sectors: int) -> None:
    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        blk.load_fragment(a, 0, col, (16, 16), transposed=transposed)

    counters = run(body, np.zeros((16, 64), F16))[1].counters
    assert (counters.global_load_requests, counters.global_load_sectors) == (requests, sectors)
    assert counters.global_load_bytes_requested == 512
    assert counters.distinct_sectors == (32 if col else 16)


def test_sectors_of_a_stored_accumulator() -> None:
    """128 pieces of 8 bytes; a store covers 8 rows × 32 bytes, a sector each."""

    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        blk.store_fragment(a, 0, 0, blk.fill_fragment((16, 16), 0.0))

    counters = run(body, np.zeros((16, 64), F32))[1].counters
    assert (counters.global_store_requests, counters.global_store_sectors) == (4, 32)


def test_lanes_without_a_piece_take_no_part() -> None:
    """8 × 4 doubles are 16 pieces of 16 bytes: half of the lanes load."""

    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        blk.load_fragment(a, 0, 0, (8, 4))

    _, launch = run(body, np.zeros((8, 4), F64), block=64)
    assert [warp.stream.lanes.tolist() for warp in launch.trace.block(0)] == [[16, 32]] * 2
    assert (launch.counters.global_load_sectors, launch.counters.global_load_bytes_requested) == (2 * 8, 2 * 256)


@given(
    st.integers(1, 9),
    st.integers(1, 24),
    st.integers(0, 5),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 4, 8, 0]),
    st.sampled_from([8, 16]),
)
def test_pieces_cover_every_byte_once(rows: int, columns: int, pad: int, item: int, strip: int, most: int) -> None:
    pitch, piece = columns + pad, int(np.gcd(most, columns * item))
    first = pieces(rows, columns, pitch, item, Spread(piece, strip)) * item
    touched = sorted((first[:, None] + np.arange(piece)).reshape(-1).tolist())
    assert touched == [(r * pitch + c) * item + b for r in range(rows) for c in range(columns) for b in range(item)]
