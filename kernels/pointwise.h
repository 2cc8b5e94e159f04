// What treats each value by itself: activations, and products of two tensors.

#pragma once

#include "activation.h"
#include "lanes.h"

// `PointwiseParams` in operators/params.rs.
struct Pointwise {
    View input, factor, output; // the steps of a factor with one value for all pixels are 0
    u64 count;                  // of outputs, in fours where they are taken four at a time
    u32 blocks;
    u32 channels; // counted likewise
    u32 pixels;   // of one image
    Activation activation; // or PRODUCT
    Divisor by_channels, by_pixels;
};

template <class Element, class Lanes>
__device__ __forceinline__ void pointwise_all(reef::Turns &turns, const Pointwise &map) {
    reef::Block block(turns, reef::LINE);
    block.fetch();
    bool claimed = false;
    for (u32 i = block.index * blockDim.x + threadIdx.x;; i += map.blocks * blockDim.x) {
        Lanes value(0.0f);
        u64 at = 0;
        if (i < map.count) {
            u32 pixel = map.by_channels(i), c = (i - pixel * map.channels) * Lanes::CHANNELS;
            u32 n = map.by_pixels(pixel), within = pixel - n * map.pixels;
            value = Lanes::template load<Element>(map.input, map.input.at(n, 0, within, c));
            if (map.activation.work == PRODUCT)
                value.times(
                    Lanes::template load<Element>(map.factor, map.factor.at(n, 0, within, c)));
            else
                value.become(map.activation);
            at = map.output.at(n, 0, within, c);
        }
        if (!claimed && !block.arrive()) return;
        claimed = true;
        if (i >= map.count) return;
        value.template store<Element>(map.output, at);
    }
}
