// Normalisation of rows: what `RowMap` in reef_op::tensor has most often, as a kernel of its own. It is a few hundred
// instructions, which stay in the cache of instructions; the interpreter of row_map.h is 8,000, and waits for them.
//
//   output = (x - mean) / root of (variance + epsilon) * gain + shift, or x / root of (mean square + epsilon) * gain + shift
//
// A row has 32, 64, 128 or 256 threads, each of which has every `lanes`th chunk of four elements. Sums are doubles.

#pragma once

#include "element.h"

namespace tensor {

// Threads of a block and chunks of a thread at most, as in operators/tensor/normal.rs.
const u32 NORMAL_THREADS = 256, NORMAL_CHUNKS = 2;

// `NormalParams` there. Rows lie one behind the other.
struct Normal {
    const float *input, *added; // `added`, if there is one, is added to the input first
    const float *gain, *shift;  // of the elements of a row, or null
    void *output;
    double share;               // of an element in the mean of its row
    u32 rows, width;            // elements of a row, a multiple of four
    u32 lanes;                  // threads of a row, as a power of two
    u32 centred;                // whether the mean is taken off
    float epsilon;
    u32 halves;                 // whether outputs are halves
};

// What all threads of a row have, in each of them with the same bits, as each two add the same two numbers. `parts` is of
// this sum alone.
__device__ inline double sum_of_row(double part, u32 threads, double *parts) {
#pragma unroll
    for (u32 half = 16; half > 0; half /= 2) part += __shfl_xor_sync(~0u, part, half);
    if (threads == 32) return part;
    const u32 warp = threadIdx.x / 32, warps = threads / 32;
    if (threadIdx.x % 32 == 0) parts[warp] = part;
    __syncthreads();
    parts += warp / warps * warps;
    part = parts[0];
    for (u32 n = 1; n < warps; n++) part += parts[n];
    return part;
}

__device__ inline double sum_of(float4 x) { return ((double)x.x + x.y) + ((double)x.z + x.w); }

__device__ inline double sum_of_squares(float4 x) {
    return ((double)x.x * x.x + (double)x.y * x.y) + ((double)x.z * x.z + (double)x.w * x.w);
}

__device__ __forceinline__ void normalise(reef::Turns &turns, const Normal &op) {
    __shared__ double parts[2][NORMAL_THREADS / 32];
    reef::Block block(turns, reef::LINE);
    const u32 threads = 1u << op.lanes, chunks = op.width / 4;
    const u32 row = block.index * (blockDim.x >> op.lanes) + (threadIdx.x >> op.lanes);
    const u32 lane = row < op.rows ? threadIdx.x & (threads - 1) : chunks; // behind the last row: no chunk
    const u64 first = (u64)min(row, op.rows - 1) * op.width;
    const float4 none = make_float4(0, 0, 0, 0);
    float4 x[NORMAL_CHUNKS], gain[NORMAL_CHUNKS], shift[NORMAL_CHUNKS];
    // All that comes from memory is asked for at once.
#pragma unroll
    for (u32 n = 0; n < NORMAL_CHUNKS; n++) {
        const u32 chunk = lane + (n << op.lanes);
        x[n] = gain[n] = shift[n] = none;
        if (chunk >= chunks) continue;
        x[n] = load4(op.input + first + 4 * chunk);
        if (op.added) x[n] = x[n] + load4(op.added + first + 4 * chunk);
        gain[n] = op.gain ? load4(op.gain + 4 * chunk) : make_float4(1, 1, 1, 1);
        if (op.shift) shift[n] = load4(op.shift + 4 * chunk);
    }
    block.fetch();
    if (op.centred) {
        double sum = 0;
#pragma unroll
        for (u32 n = 0; n < NORMAL_CHUNKS; n++) sum += sum_of(x[n]);
        const float mean = (float)(sum_of_row(sum, threads, parts[0]) * op.share);
#pragma unroll
        for (u32 n = 0; n < NORMAL_CHUNKS; n++)
            if (lane + (n << op.lanes) < chunks)
                x[n] = make_float4(x[n].x - mean, x[n].y - mean, x[n].z - mean, x[n].w - mean);
    }
    double squares = 0;
#pragma unroll
    for (u32 n = 0; n < NORMAL_CHUNKS; n++) squares += sum_of_squares(x[n]);
    const float by = 1.0f / sqrtf((float)(sum_of_row(squares, threads, parts[1]) * op.share) + op.epsilon);
    if (!block.arrive()) return;
#pragma unroll
    for (u32 n = 0; n < NORMAL_CHUNKS; n++) {
        const u32 chunk = lane + (n << op.lanes);
        if (chunk >= chunks) return;
        const float4 y = x[n], g = gain[n], s = shift[n];
        const float4 made = make_float4(y.x * by * g.x + s.x, y.y * by * g.y + s.y, y.z * by * g.z + s.z, y.w * by * g.w + s.w);
        if (op.halves)
            store4((Half *)op.output + first + 4 * chunk, made);
        else
            store4((float *)op.output + first + 4 * chunk, made);
    }
}

} // namespace tensor
