// Convolution in any layout, with groups: one thread for each output. Slow and simple; for what the
// tiles of conv.h don't fit.

#pragma once

#include "activation.h"

// `ConvAnyParams` in operators/params.rs.
struct ConvAny {
    View input, output, residual; // no residual: null data
    const float *weights;         // [outputs][channels / groups][rows][columns]
    const float *bias;
    u64 count; // outputs in all
    u32 blocks;
    u32 outputs, channels; // channels and outputs of one group
    u32 groups;
    u32 window_height, window_width;
    u32 stride_down, stride_right, pad_up, pad_left;
    Activation activation;
    u32 unused;
};

template <class Element>
__device__ inline float convolve_one(const ConvAny &conv, u32 n, u32 row, u32 column, u32 k) {
    u32 first = k / conv.outputs * conv.channels;
    const float *weight =
        conv.weights + (u64)k * conv.channels * conv.window_height * conv.window_width;
    float sum = 0;
    for (u32 c = 0; c < conv.channels; c++)
        for (u32 i = 0; i < conv.window_height; i++)
            for (u32 j = 0; j < conv.window_width; j++, weight++) {
                u32 y = row * conv.stride_down + i - conv.pad_up;
                u32 x = column * conv.stride_right + j - conv.pad_left;
                if (y < conv.input.height && x < conv.input.width)
                    sum += *weight * conv.input.load<Element>(conv.input.at(n, y, x, first + c));
            }
    return sum + conv.bias[k];
}

template <class Element>
__device__ __forceinline__ void convolve_any(reef::Turns &turns, const ConvAny &conv) {
    REEF_CLAIM_TURN(block, turns);
    u32 channels = conv.outputs * conv.groups;
    for (u64 i = (u64)block.index * blockDim.x + threadIdx.x; i < conv.count;
         i += (u64)conv.blocks * blockDim.x) {
        u32 k = i % channels;
        u64 pixel = i / channels;
        u32 column = pixel % conv.output.width,
            row = pixel / conv.output.width % conv.output.height;
        u32 n = pixel / conv.output.width / conv.output.height;
        u64 at = conv.output.at(n, row, column, k);
        float sum = convolve_one<Element>(conv, n, row, column, k);
        if (conv.residual.data) sum += conv.residual.load<Element>(at);
        conv.output.store<Element>(at, conv.activation(sum));
    }
}
