// Products of matrices as in product.h, whose sums are made by warpgroups (wgmma.h): sides, ends and parts are the same. Both sides lie
// along, columns were packed, and neither is rounded here. Blocks look at the guard once: a host gives them no long sums.

#pragma once

#include "product.h"
#include "warpgroups.h"

// A block's tile of sums. `TURNED`: a warpgroup has 64 columns instead of 64 rows, so that few rows fill a tile.
template <class Math, int BM, int BN, int DEPTH, int SPARE, bool TURNED>
class ProductGroups : public Groups<Math, TURNED ? BN : BM, TURNED ? BM : BN, DEPTH, SPARE> {
  public:
    static constexpr int ROWS = BM, COLUMNS = BN, SHARES = 1, THREADS = 2 * (TURNED ? BN : BM);
    static constexpr u32 LINE = BN + (TURNED ? 4 : 8);                                // floats of a row; no two of a warp's stores in one bank
    static constexpr u32 ROWS_AT = TURNED ? BN * SLAB : 0, COLUMNS_AT = TURNED ? 0 : BM * SLAB; // in a slab
    static constexpr int BLOCKS = DEPTH * (BM + BN) * SLAB <= 112 << 10 ? 2 : 1;      // of a unit, as shared memory allows

    // Writes the sums, `LINE` floats a row.
    __device__ void store(float *to) const {
        const u32 lane = threadIdx.x % 32, line = threadIdx.x / 32 * 16 + lane / 4, other = lane % 4 * 2;
        const float *from = this->sums;
#pragma unroll
        for (int j = 0; j < (TURNED ? BM : BN) / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++, from += 2) {
                if (TURNED) {
                    float *corner = to + (other + 8 * j) * LINE + line + 8 * half;
                    corner[0] = from[0], corner[LINE] = from[1];
                } else {
                    *(float2 *)(to + (line + 8 * half) * LINE + other + 8 * j) = make_float2(from[0], from[1]);
                }
            }
    }
};

// As `tensor::multiply`.
template <class Tile>
__device__ __forceinline__ void multiply_by_groups(reef::Block &block, const tensor::Product &product, u32 index) {
    extern __shared__ __align__(1024) char memory[];
    typedef tensor::WholeFeed<true, Tile::ROWS, Tile::THREADS, false, true> Rows;
    typedef tensor::WholeFeed<true, Tile::COLUMNS, Tile::THREADS, false, true> Columns;
    constexpr u32 STAGE_BYTES = Tile::STAGE_BYTES;
    const u32 column_tile = index % product.across, rest = index / product.across;
    const u32 row_tile = rest % product.down, split = rest / product.down % product.splits;
    const u32 batch = rest / product.down / product.splits;
    const u32 tile = (batch * product.down + row_tile) * product.across + column_tile;
    const u32 begin = split * product.slabs / product.splits, end = (split + 1) * product.slabs / product.splits;
    const u32 first_row = row_tile * Tile::ROWS, first_column = column_tile * Tile::COLUMNS;
    Rows rows(product, product.sides[0], batch, first_row, product.rows, begin);
    Columns columns(product, product.sides[1], batch, first_column, product.columns, begin);
    const typename Tile::Place slabs = Tile::place(memory);
    // Columns are constant: they come while the launch before runs.
    for (u32 stage = 0; stage < Tile::AHEAD; stage++)
        if (begin + stage < end) columns.next(slabs + stage * STAGE_BYTES + Tile::COLUMNS_AT);
    reef::wait_for_previous();
    for (u32 stage = 0; stage < Tile::AHEAD; stage++) {
        if (begin + stage < end) rows.next(slabs + stage * STAGE_BYTES + Tile::ROWS_AT);
        if (stage == 0) block.fetch();
        end_copies();
    }
    tensor::ProductEnd<Tile> ending(product, batch, first_row, first_column);
    ending.bring_bias();
    Tile sums;
    Tile::come();
    if (block.evicted()) {
        wait_copies<0>();
        return;
    }
    sums.sum(slabs, end - begin, [&](typename Tile::Place stage) {
        rows.next(stage + Tile::ROWS_AT);
        columns.next(stage + Tile::COLUMNS_AT);
    });
    reef::let_next_start(); // not before, as in `tensor::multiply`
    __syncthreads();
    sums.store((float *)memory);
    __syncthreads();
    ending.take((const float *)memory);
    if (product.splits > 1) {
        ending.write_partial(tile, split);
        if (!comes_last(product.arrivals + tile, product.splits)) return;
        ending.read_partials(tile);
    }
    ending.write();
}

template <class Tile> __device__ __forceinline__ void multiply_one_by_groups(reef::Turns &turns, const tensor::Product &product) {
    reef::Block block(turns, reef::AHEAD);
    multiply_by_groups<Tile>(block, product, block.index);
}

template <class Tile> __device__ __forceinline__ void multiply_group_by_groups(reef::Turns &turns, const tensor::ProductGroup &group) {
    reef::Block block(turns, reef::AHEAD);
    u32 which = 0;
#pragma unroll
    for (u32 n = 1; n < tensor::PRODUCTS; n++) which += block.index >= group.begins[n];
    multiply_by_groups<Tile>(block, group.of[which], block.index - group.begins[which]);
}
