// What treats each value by itself: activations, and products of two tensors.

#pragma once

#include "lanes.h"

// What becomes of a value. `Work` in operators/pointwise.rs says the same.
enum Work : u32 { CLAMP, HARD_SIGMOID, HARD_SWISH, PRODUCT };

// `PointwiseParams` in operators/params.rs.
struct Pointwise {
    View input, factor, output; // the steps of a factor with one value for all pixels are 0
    u64 count;                  // of outputs, in fours where they are taken four at a time
    u32 blocks;
    u32 channels; // counted likewise
    u32 pixels;   // of one image
    u32 work;
    float low, high; // of CLAMP
    Divisor by_channels, by_pixels;
};

__device__ inline float clamp(float x, float low, float high) {
    return at_most(at_least(x, low), high);
}

struct Activation {
    u32 work;
    float low, high;

    __device__ float operator()(float x) const {
        if (work == CLAMP) return clamp(x, low, high);
        float gate = clamp(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
        return work == HARD_SWISH ? x * gate : gate;
    }
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
            if (map.work == PRODUCT)
                value.times(
                    Lanes::template load<Element>(map.factor, map.factor.at(n, 0, within, c)));
            else
                value.become(Activation{map.work, map.low, map.high});
            at = map.output.at(n, 0, within, c);
        }
        if (!claimed && !block.arrive()) return;
        claimed = true;
        if (i >= map.count) return;
        value.template store<Element>(map.output, at);
    }
}
