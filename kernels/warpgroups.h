// Convolutions as in conv.h, whose sums are made by warpgroups (wgmma.h): the copies, the ends and the preemption point at the guard are the same.
//
// Both sides are read from shared memory by a way of the tensor cores' own, while copies of later slabs come. A slab that is multiplied
// stays until the products of the one behind it have been asked for, so two of the slabs under way are no copies.

#pragma once

#include "conv.h"
#include "wgmma.h"

// A block's tile of sums: a warpgroup for each 64 pixels. `SPARE`: slabs that aren't under way, one that is multiplied and one that
// may still be read; with one, products are waited for before copies of the slab behind the next ones are asked for.
template <class Math, int BM, int BN, int DEPTH, int SPARE = 2> class Groups {
  public:
    typedef typename Math::Element Element, Output;
    typedef NoFactors Factors;
    static constexpr int PIXELS = BM, OUTPUTS = BN, SHARES = 1, THREADS = 2 * BM, STAGES = DEPTH;
    static constexpr int AHEAD = DEPTH - SPARE; // slabs whose copies are under way
    static constexpr int BLOCKS = STAGES * (BM + BN) * SLAB <= 96 << 10 ? 2 : 1; // of a unit, as shared memory allows
    static constexpr u32 LINE = BN + 8, STAGE_BYTES = (BM + BN) * SLAB;
    // Whether what is added to sums is asked for before them: only the smallest tile has the registers.
    static constexpr bool EARLY = BM == 64;
    static_assert(SLAB == 128 && BM % 64 == 0 && STAGE_BYTES % 1024 == 0 && AHEAD > 0, "lines that are swizzled by 128 bytes");

    typedef SharedPlace Place;
    __device__ static Place place(char *memory) { return shared_place(memory); }

    __device__ Groups() {
        for (auto &sum : sums) sum = 0;
    }

    // Waits for the next slab.
    __device__ static void come() {
        wait_copies<AHEAD - 1>();
        show_to_products();
        __syncthreads();
    }

    // The sums over `count` slabs, of which the first has come; `bring(stage)` starts the copies of one more.
    template <class Bring> __device__ void sum(Place slabs, u32 count, Bring bring) {
        u32 reading = 0, writing = AHEAD;
        for (u32 slab = 0;;) {
            add(slabs + reading * STAGE_BYTES);
            if (slab + AHEAD < count) bring(slabs + writing * STAGE_BYTES);
            end_copies();
            wait_products<SPARE - 1>(sums);
            if (++slab == count) break;
            reading = reading == DEPTH - 1 ? 0 : reading + 1;
            writing = writing == DEPTH - 1 ? 0 : writing + 1;
            come();
        }
        wait_products<0>(sums);
    }

    // Writes the sums, `LINE` floats a row.
    __device__ void store(float *to) const {
        const u32 lane = threadIdx.x % 32;
        to += (threadIdx.x / 32 * 16 + lane / 4) * LINE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < BN / 8; j++) {
            const auto *c = sums + 4 * j;
            *(float2 *)(to + 8 * j) = make_float2(Math::whole(c[0]), Math::whole(c[1]));
            *(float2 *)(to + 8 * LINE + 8 * j) = make_float2(Math::whole(c[2]), Math::whole(c[3]));
        }
    }

  protected:
    // Asks for the products of a slab.
    __device__ void add(Place stage) {
        const Lines rows = lines_at(stage + threadIdx.x / 128 * 64 * SLAB), columns = lines_at(stage + BM * SLAB);
        begin_products(sums);
#pragma unroll
        for (u32 step = 0; step < SLAB / 32; step++)
            Product<Math, BN>::add(sums, behind(rows, 32 * step), behind(columns, 32 * step));
        end_products();
    }

    typename Math::Sum sums[BN / 2];
};

// As `convolve`.
template <class Tile> __device__ __forceinline__ void convolve_by_groups(reef::Turns &turns, const Conv &conv) {
    extern __shared__ __align__(1024) char memory[];
    constexpr u32 STAGE_BYTES = Tile::STAGE_BYTES;
    reef::Block block(turns, reef::AHEAD);
    u32 rest = conv.by_output_tiles(block.index);
    u32 first_output = (block.index - rest * conv.output_tiles) * Tile::OUTPUTS;
    u32 split = conv.by_pixel_tiles(rest);
    u32 first_pixel = (rest - split * conv.pixel_tiles) * Tile::PIXELS;
    u32 tile = block.index - split * conv.output_tiles * conv.pixel_tiles;
    u32 begin = split * conv.slabs / conv.splits, end = (split + 1) * conv.slabs / conv.splits;

    const typename Tile::Place slabs = Tile::place(memory);
    Gather<Tile> gather(conv, first_pixel, first_output, begin);
    for (u32 stage = 0; stage < Tile::AHEAD; stage++)
        if (begin + stage < end) gather.next_weights(slabs + stage * STAGE_BYTES);
    Finish<Tile> finish(conv, first_pixel, first_output);
    block.follow();
    for (u32 stage = 0; stage < Tile::AHEAD; stage++) {
        if (begin + stage < end) gather.next_pixels(slabs + stage * STAGE_BYTES);
        if (stage == 0) block.fetch();
        end_copies();
    }
    if (Tile::EARLY && conv.splits == 1) finish.bring_residual();
    Tile sums;
    Tile::come();
    if (block.evicted()) {
        wait_copies<0>();
        return;
    }
    sums.sum(slabs, end - begin, [&](typename Tile::Place stage) { gather.next(stage); });
    __syncthreads();
    sums.store((float *)memory);
    if (!Tile::EARLY && conv.splits == 1) finish.bring_residual();
    __syncthreads();
    finish.take((const float *)memory);
    if (conv.splits > 1) {
        finish.write_partial(split);
        if (!comes_last(conv.arrivals + tile, conv.splits)) return;
        finish.bring_residual();
        finish.read_partials();
    }
    finish.write();
}
