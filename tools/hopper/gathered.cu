// Bodies of kernels/ with `wgmma` in the place of `mma.sync`: slabs come as they do there, by asynchronous copies of all threads,
// and blocks look at the guard where they do there. Compiled with slabs of 128 bytes, which is how `wgmma` takes swizzled lines
// (run.sh).

#include "conv.h"
#include "product.h"

namespace hopper {
struct F16 {};
struct Tf32 {};
template <class Math, int COLUMNS> struct Multiply;
#include "wgmma_made.h"

template <class M, class E, int X, int Y, int DEPTH> struct Tile {
    typedef E Element;
    static constexpr int PIXELS = X, OUTPUTS = Y, ROWS = X, COLUMNS = Y, SHARES = 1, THREADS = X * 2, STAGES = DEPTH;
    static constexpr int BLOCKS = 1, AHEAD = DEPTH - 2;
    static constexpr u32 SLABS_A_LOOK = 64;
    static constexpr u32 LINE = Y + 8, STAGE = (X + Y) * SLAB;
    typedef SharedPlace Place;
    __device__ static Place place(char *memory) { return shared_place(memory); }

    __device__ Tile() {
        for (float &sum : sums) sum = 0;
    }

    __device__ void add(SharedPlace stage) {
        const u64 lines = (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
        const u64 x = lines | (stage + threadIdx.x / 128 * 64 * SLAB) >> 4 & 0x3fff, y = lines | (stage + X * SLAB) >> 4 & 0x3fff;
        for (float &sum : sums) asm volatile("" : "+f"(sum)::"memory");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (u32 step = 0; step < 4; step++) Multiply<M, Y>::go(sums, x + 2 * step, y + 2 * step);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    template <int GROUPS> __device__ void wait() {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
        for (float &sum : sums) asm volatile("" : "+f"(sum)::"memory");
    }

    __device__ void store(float *plane) const {
        const u32 lane = threadIdx.x % 32;
        plane += (threadIdx.x / 32 * 16 + lane / 4) * LINE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < Y / 8; j++) {
            *(float2 *)(plane + 8 * j) = make_float2(sums[4 * j], sums[4 * j + 1]);
            *(float2 *)(plane + 8 * LINE + 8 * j) = make_float2(sums[4 * j + 2], sums[4 * j + 3]);
        }
    }

    // All slabs: `bring(stage)` starts the copies of the next. `false`: the block was stopped, and has no copies under way. Blocks
    // that are short look before the first slab alone.
    template <bool LONG, class Bring> __device__ bool sum(reef::Block &block, SharedPlace slabs, u32 count, Bring bring) {
        u32 reading = 0, writing = AHEAD;
        come();
        if (block.evicted()) {
            wait_copies<0>();
            return false;
        }
        for (u32 n = 0;;) {
            add(slabs + reading * STAGE);
            if (n + AHEAD < count) bring(slabs + writing * STAGE);
            end_copies();
            wait<1>();
            if (++n == count) break;
            reading = reading == DEPTH - 1 ? 0 : reading + 1;
            writing = writing == DEPTH - 1 ? 0 : writing + 1;
            const u32 round = n % SLABS_A_LOOK;
            if (LONG && round == SLABS_A_LOOK - 1) block.look();
            if (LONG && round == 0) block.post();
            come();
            if (LONG && round == 0 && block.stop()) {
                wait_copies<0>();
                wait<0>();
                return false;
            }
        }
        wait<0>();
        return true;
    }

    // Waits for the next slab, which tensor cores read by a way of their own.
    __device__ static void come() {
        wait_copies<AHEAD - 1>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
    }

    float sums[Y / 2];
};

template <class T> __device__ __forceinline__ void convolve(reef::Turns &turns, const Conv &conv) {
    extern __shared__ __align__(1024) char memory[];
    reef::Block block(turns, reef::AHEAD);
    u32 rest = conv.by_output_tiles(block.index);
    u32 first_output = (block.index - rest * conv.output_tiles) * T::OUTPUTS;
    u32 split = conv.by_pixel_tiles(rest);
    u32 first_pixel = (rest - split * conv.pixel_tiles) * T::PIXELS;
    u32 tile = block.index - split * conv.output_tiles * conv.pixel_tiles;
    u32 begin = split * conv.slabs / conv.splits, end = (split + 1) * conv.slabs / conv.splits;
    const SharedPlace slabs = T::place(memory);
    Gather<T> gather(conv, first_pixel, first_output, begin);
    for (u32 stage = 0; stage < T::AHEAD; stage++)
        if (begin + stage < end) gather.next_weights(slabs + stage * T::STAGE);
    Finish<T> finish(conv, first_pixel, first_output);
    block.follow();
    for (u32 stage = 0; stage < T::AHEAD; stage++) {
        if (begin + stage < end) gather.next_pixels(slabs + stage * T::STAGE);
        if (stage == 0) block.fetch();
        end_copies();
    }
    T sums;
    if (!sums.template sum<false>(block, slabs, end - begin, [&](SharedPlace stage) { gather.next(stage); })) return;
    __syncthreads();
    sums.store((float *)memory);
    __syncthreads();
    finish.take((const float *)memory);
    if (conv.splits > 1) {
        finish.write_partial(split);
        if (!comes_last(conv.arrivals + tile, conv.splits)) return;
        finish.read_partials();
    }
    finish.write();
}

template <class T> __device__ __forceinline__ void multiply(reef::Turns &turns, const tensor::Product &product) {
    reef::Block block(turns, reef::AHEAD);
    extern __shared__ __align__(1024) char memory[];
    typedef tensor::WholeFeed<true, T::ROWS, T::THREADS, false, true> Rows;
    typedef tensor::WholeFeed<true, T::COLUMNS, T::THREADS, false, true> Columns;
    const u32 index = block.index, column_tile = index % product.across, rest = index / product.across;
    const u32 row_tile = rest % product.down, split = rest / product.down, tile = row_tile * product.across + column_tile;
    const u32 begin = split * product.slabs / product.splits, end = (split + 1) * product.slabs / product.splits;
    const u32 first_row = row_tile * T::ROWS, first_column = column_tile * T::COLUMNS;
    Rows rows(product, product.sides[0], 0, first_row, product.rows, begin);
    Columns columns(product, product.sides[1], 0, first_column, product.columns, begin);
    const SharedPlace slabs = T::place(memory);
    for (u32 stage = 0; stage < T::AHEAD; stage++)
        if (begin + stage < end) columns.next(slabs + stage * T::STAGE + T::ROWS * SLAB);
    reef::wait_for_previous();
    for (u32 stage = 0; stage < T::AHEAD; stage++) {
        if (begin + stage < end) rows.next(slabs + stage * T::STAGE);
        if (stage == 0) block.fetch();
        end_copies();
    }
    tensor::ProductEnd<T> ending(product, 0, first_row, first_column);
    ending.bring_bias();
    T sums;
    const bool whole = sums.template sum<true>(block, slabs, end - begin, [&](SharedPlace stage) {
        rows.next(stage);
        columns.next(stage + T::ROWS * SLAB);
    });
    if (!whole) return;
    reef::let_next_start();
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
} // namespace hopper

#define KERNEL(what, kind, Params, body, m, n, depth)                                                                       \
    extern "C" __global__ void __launch_bounds__(2 * m) what##_##kind##_##m##x##n##_##depth(reef::Guard guard, Params params) { \
        reef::Turns turns(guard);                                                                                           \
        hopper::body<kind##_##m##x##n##_##depth>(turns, params);                                                            \
    }
#define KERNELS(kind, Math, Element, m, n, depth)                              \
    typedef hopper::Tile<hopper::Math, Element, m, n, depth> kind##_##m##x##n##_##depth; \
    KERNEL(conv, kind, Conv, convolve, m, n, depth)                            \
    KERNEL(product, kind, tensor::Product, multiply, m, n, depth)
#define BOTH(m, n, depth)                 \
    KERNELS(f16, F16, Half, m, n, depth)  \
    KERNELS(tf32, Tf32, float, m, n, depth)

BOTH(64, 64, 6)
BOTH(64, 64, 12)
BOTH(128, 64, 4)
BOTH(128, 64, 8)
BOTH(64, 128, 8)
BOTH(128, 128, 3)
BOTH(128, 128, 6)
BOTH(64, 32, 8)
BOTH(64, 128, 4)
