// Pooling. Pixels with all their channels lie side by side, so threads go along the channels.

#pragma once

#include "lanes.h"

// Threads of a block of `pool_picture`, as in operators/pool.rs.
const u32 POOL_THREADS = 256;

// `PoolParams` in operators/params.rs.
struct Pool {
    View input, output;
    u64 count; // outputs in all, counted in fours by the kernels that take four at a time
    u32 blocks;
    u32 channels; // counted likewise
    u32 window_height, window_width;
    u32 stride_down, stride_right, pad_up, pad_left;
    u32 average;
    float scale; // of an average: 1 / (rows * columns)
};

// A window of SIZE x SIZE, or of any size if that is 0. Loads outside go to the nearest pixel and
// are not counted, so that all of a known size are under way at once.
template <class Element, class Lanes, int SIZE>
__device__ inline Lanes pool_window(const Pool &pool, u32 n, u32 row, u32 column, u32 c) {
    const float NONE = pool.average ? 0 : -__int_as_float(0x7f800000);
    const int rows = SIZE ? SIZE : pool.window_height, columns = SIZE ? SIZE : pool.window_width;
    const int top = (int)(row * pool.stride_down) - (int)pool.pad_up;
    const int left = (int)(column * pool.stride_right) - (int)pool.pad_left;
    const int height = pool.input.height, width = pool.input.width;
    Lanes result(NONE);
    Parts<Lanes, SIZE == 0> parts;
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < columns; j++) {
            int y = min(max(top + i, 0), height - 1), x = min(max(left + j, 0), width - 1);
            Lanes value = Lanes::template load<Element>(pool.input, pool.input.at(n, y, x, c));
            if (y != top + i || x != left + j) value = Lanes(NONE);
            pool.average ? result.add(value) : result.raise(value);
            if (pool.average) parts.added(result);
        }
    if (!pool.average) return result;
    result = parts.total(result);
    result.times(pool.scale);
    return result;
}

template <class Element, class Lanes, int SIZE>
__device__ inline void pool_all(reef::Turns &turns, const Pool &pool) {
    reef::Block block(turns, reef::LINE);
    block.fetch();
    bool claimed = false;
    for (u64 i = (u64)block.index * blockDim.x + threadIdx.x;; i += (u64)pool.blocks * blockDim.x) {
        Lanes result(0.0f);
        u64 at = 0;
        if (i < pool.count) {
            u32 pixel = i / pool.channels,
                c = (u32)(i - (u64)pixel * pool.channels) * Lanes::CHANNELS;
            u32 line = pixel / pool.output.width, column = pixel - line * pool.output.width;
            u32 n = line / pool.output.height, row = line - n * pool.output.height;
            result = pool_window<Element, Lanes, SIZE>(pool, n, row, column, c);
            at = pool.output.at(n, row, column, c);
        }
        if (!claimed && !block.arrive()) return;
        claimed = true;
        if (i >= pool.count) return;
        result.template store<Element>(pool.output, at);
    }
}

// Any window.
template <class Element, class Lanes>
__device__ __forceinline__ void pool_windows(reef::Turns &turns, const Pool &pool) {
    if (Lanes::CHANNELS == 4 && pool.window_height == 3 && pool.window_width == 3)
        pool_all<Element, Lanes, 3>(turns, pool);
    else
        pool_all<Element, Lanes, 0>(turns, pool);
}

// The mean of whole pictures: QUADS x 4 channels of one picture a block, its pixels over all threads of each. Loads of 8
// pixels are under way at once; those behind the last one are not counted.
template <class Element, u32 QUADS>
__device__ __forceinline__ void pool_picture(reef::Turns &turns, const Pool &pool) {
    constexpr u32 THREADS = POOL_THREADS, SHARE = THREADS / QUADS, AT_ONCE = 8;
    __shared__ float4 sums[THREADS];
    reef::Block block(turns, reef::LINE);
    block.fetch();
    u32 groups = (pool.channels + QUADS - 1) / QUADS, n = block.index / groups;
    u32 c = (block.index - n * groups) * QUADS + threadIdx.x % QUADS;
    u32 pixels = pool.input.height * pool.input.width;
    Four sum(0.0f);
    Parts<Four, true> parts;
    for (u32 first = threadIdx.x / QUADS; c < pool.channels && first < pixels; first += AT_ONCE * SHARE) {
        Four some[AT_ONCE] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++)
            some[k] = Four::load<Element>(pool.input, pool.input.at(n, 0, min(first + k * SHARE, pixels - 1), c * 4));
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            if (first + k * SHARE < pixels) sum.add(some[k]);
            parts.added(sum);
        }
    }
    sums[threadIdx.x] = parts.total(sum).value;
    bool stays = block.arrive();
    for (u32 half = THREADS / 2; half >= QUADS; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
    }
    if (!stays || threadIdx.x >= QUADS || c >= pool.channels) return;
    Four total(sums[threadIdx.x]);
    total.times(pool.scale);
    total.store<Element>(pool.output, pool.output.at(n, 0, 0, c * 4));
}
