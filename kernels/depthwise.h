// Convolution of each channel by itself. Pixels with all their channels lie side by side, so a warp has 32 channels of
// a strip of adjoining outputs of one row: what several windows see is loaded once, and weights of all 32 channels
// are in shared memory.

#pragma once

#include "activation.h"

// Threads of a block, adjoining outputs of a thread, and channels that are taken together, as in
// operators/depthwise.rs.
const u32 DEPTHWISE_THREADS = 128, DEPTHWISE_STRIP = 4, DEPTHWISE_LANES = 32;

// `DepthwiseParams` there.
struct Depthwise {
    View input, output;
    const float *weights; // [channels][rows][columns]
    const float *bias;    // null: none
    Divisor by_groups, by_strips, by_rows;
    u32 channels, groups; // groups of DEPTHWISE_LANES, the last of which may be smaller
    u32 strips, count;    // strips of a row, and in all
    u32 pad_up, pad_left;
    Activation activation;
    u32 late; // whether a launch before this one may have written the weights
};

// Windows of SIZE x SIZE.
template <class Element, int SIZE, int STRIDE>
__device__ __forceinline__ void convolve_channels(reef::Turns &turns, const Depthwise &conv) {
    constexpr int TAPS = SIZE * SIZE, STRIP = DEPTHWISE_STRIP, LANES = DEPTHWISE_LANES;
    constexpr int SEEN = (STRIP - 1) * STRIDE + SIZE; // columns that the windows of a strip see
    static_assert(TAPS % 2 == 1, "channels' weights are in different banks");
    __shared__ float weights[LANES * TAPS];
    reef::Block block(turns, reef::AHEAD);
    const u32 place = conv.by_groups(block.index), first = (block.index - place * conv.groups) * LANES;
    if (conv.late) block.follow();
    const u32 given = min((u32)LANES, conv.channels - first) * TAPS;
    for (u32 i = threadIdx.x; i < given; i += DEPTHWISE_THREADS) weights[i] = conv.weights[(u64)first * TAPS + i];
    block.follow();
    block.fetch();

    const u32 lane = threadIdx.x % LANES, c = first + lane;
    const u32 strip = place * (DEPTHWISE_THREADS / LANES) + threadIdx.x / LANES;
    const u32 line = conv.by_strips(strip), column = (strip - line * conv.strips) * STRIP;
    const u32 n = conv.by_rows(line), row = line - n * conv.output.height;
    const bool exists = strip < conv.count && c < conv.channels;
    const int top = (int)(row * STRIDE) - (int)conv.pad_up, left = (int)(column * STRIDE) - (int)conv.pad_left;
    const u64 begin = exists ? n * conv.input.image + (u64)c * conv.input.channel : 0;
    const Element *from = (const Element *)conv.input.data + begin;
    // What is outside is loaded from the first row or column and not taken, so that nothing branches around loads.
    u32 columns[SEEN];
    bool inside[SEEN];
#pragma unroll
    for (int j = 0; j < SEEN; j++) {
        inside[j] = (u32)(left + j) < conv.input.width;
        columns[j] = (inside[j] ? left + j : 0) * conv.input.pixel;
    }
    float sums[STRIP] = {};
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SIZE; i++) {
        const bool within = (u32)(top + i) < conv.input.height;
        const Element *row_from = from + (within ? top + i : 0) * conv.input.width * conv.input.pixel;
        float seen[SEEN];
#pragma unroll
        for (int j = 0; j < SEEN; j++) seen[j] = to_float(row_from[columns[j]]);
#pragma unroll
        for (int j = 0; j < SEEN; j++) seen[j] = within && inside[j] ? seen[j] : 0.0f;
#pragma unroll
        for (int j = 0; j < SIZE; j++) {
            const float weight = weights[lane * TAPS + i * SIZE + j];
#pragma unroll
            for (int k = 0; k < STRIP; k++) sums[k] += weight * seen[k * STRIDE + j];
        }
    }
    const float bias = conv.bias && exists ? conv.bias[c] : 0.0f;
    if (!block.arrive() || !exists) return;
    Element *to = (Element *)conv.output.data + conv.output.at(n, row, column, c);
#pragma unroll
    for (int k = 0; k < STRIP; k++)
        if (column + k < conv.output.width) set(to[(u64)k * conv.output.pixel], conv.activation(sums[k] + bias));
}
