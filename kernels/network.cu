// Kernels of neural networks. A native tensor lies pixel after pixel with all its channels (NHWC),
// of 32-bit or 16-bit floats; each kernel exists for both. Parameters are the guard and one struct.
//
// Blocks last some microseconds, so they look at the flag only when they start: the answer is
// awaited together with the first data.

#include "conv.h"
#include "conv_any.h"
#include "depthwise.h"
#include "pointwise.h"
#include "pool.h"

// A convolution with this tile of pixels and outputs, warps, and slabs under way.
// The lists in operators/tiles/tile.rs say the same.
#define CONV(name, ...) CONV_KERNEL(name, convolve_alone, __VA_ARGS__)
#define CONV_WARPS(bm, bn, wm, wn, wk, stages)                           \
    CONV(conv_tf32_##bm##x##bn, Warps<Tf32, bm, bn, wm, wn, wk, stages>) \
    CONV(conv_rounded_##bm##x##bn, Warps<RoundedTf32, bm, bn, wm, wn, wk, stages>) \
    CONV(conv_f16_##bm##x##bn, Warps<F16, bm, bn, wm, wn, wk, stages>)
// Up to `CONVS` convolutions by the tile of one of these.
#define CONV_GROUP(family, bm, bn)                                                                \
    extern "C" __global__ void __launch_bounds__(conv_##family##_##bm##x##bn##_tile::THREADS,      \
                                                 conv_##family##_##bm##x##bn##_tile::BLOCKS)       \
        convs_##family##_##bm##x##bn(reef::Guard guard, ConvGroup group) {                        \
        REEF_EACH(turns, guard) convolve_group<conv_##family##_##bm##x##bn##_tile>(turns, group); \
    }
#define CONV_GROUPS(bm, bn) CONV_GROUP(tf32, bm, bn) CONV_GROUP(rounded, bm, bn) CONV_GROUP(f16, bm, bn)
#define CONV_THREADS(bm, bn)                               \
    CONV(conv_fp32_##bm##x##bn, Threads<float, bm, bn, 2>) \
    CONV(conv_fp16_##bm##x##bn, Threads<Half, bm, bn, 2>)

#if REEF_ASYNC
CONV_WARPS(32, 32, 1, 1, 4, 4)
CONV_WARPS(64, 32, 2, 1, 4, 4)
CONV_WARPS(64, 64, 2, 2, 2, 3)
CONV_GROUPS(32, 32)
CONV_GROUPS(64, 32)
CONV_GROUP(f16, 64, 64) // of singles it would spill
#endif
CONV_THREADS(32, 32)
#if REEF_AMD
CONV_THREADS(64, 32) // 64 x 64 would take all 64 KiB of a unit, and some words more
#else
CONV_THREADS(64, 64)
#endif

// Each kernel below for both kinds of elements.
#define BOTH(name, Params, ...)                                               \
    extern "C" __global__ void name##_f32(reef::Guard guard, Params params) { \
        typedef float Element;                                                \
        REEF_EACH(turns, guard) __VA_ARGS__(turns, params);                   \
    }                                                                         \
    extern "C" __global__ void name##_f16(reef::Guard guard, Params params) { \
        typedef Half Element;                                                 \
        REEF_EACH(turns, guard) __VA_ARGS__(turns, params);                   \
    }

BOTH(conv_any, ConvAny, convolve_any<Element>)

// The same with so many threads of a block.
#define BOTH_OF(threads, name, Params, ...)                        \
    extern "C" __global__ void __launch_bounds__(threads)          \
        name##_f32(reef::Guard guard, Params params) {             \
        typedef float Element;                                     \
        REEF_EACH(turns, guard) __VA_ARGS__(turns, params);        \
    }                                                              \
    extern "C" __global__ void __launch_bounds__(threads)          \
        name##_f16(reef::Guard guard, Params params) {             \
        typedef Half Element;                                      \
        REEF_EACH(turns, guard) __VA_ARGS__(turns, params);        \
    }
#define DEPTHWISE(name, ...) BOTH_OF(DEPTHWISE_THREADS, name, Depthwise, convolve_channels<Element, __VA_ARGS__>)

// Windows and strides of `WINDOWS` in operators/depthwise.rs.
DEPTHWISE(depthwise_3x3, 3, 1)
DEPTHWISE(depthwise_3x3_by_2, 3, 2)
DEPTHWISE(depthwise_5x5, 5, 1)
DEPTHWISE(depthwise_5x5_by_2, 5, 2)
DEPTHWISE(depthwise_7x7, 7, 1)

BOTH(pool_any, Pool, pool_windows<Element, One>)
BOTH(pool_fours, Pool, pool_windows<Element, Four>)
BOTH_OF(POOL_THREADS, pool_picture, Pool, pool_picture<Element, 8>)
BOTH_OF(POOL_THREADS, pool_large_picture, Pool, pool_picture<Element, 1>)
BOTH(pointwise_any, Pointwise, pointwise_all<Element, One>)
BOTH(pointwise_fours, Pointwise, pointwise_all<Element, Four>)

// `MapParams` in operators/params.rs.
struct Map {
    View input, output;
    const float *weights; // null: copies
    const float *bias;
    u64 count; // of outputs, in fours where they are taken four at a time
    u32 blocks;
    u32 channels, given; // channels written; those of the input, beyond which there are zeros
    u32 relu;
    Divisor by_channels;
    u32 rounds; // whether outputs are rounded as products take them
    u32 unused;
};

// output[c] = relu?(input[c] * weights[c] + bias[c]), in any layout.
template <class Element>
__device__ __forceinline__ void map_any(reef::Turns &turns, const Map &map) {
    REEF_CLAIM_TURN(block, turns);
    for (u64 i = (u64)block.index * blockDim.x + threadIdx.x; i < map.count;
         i += (u64)map.blocks * blockDim.x) {
        u32 pixel = i / map.channels, c = i - (u64)pixel * map.channels;
        u32 line = pixel / map.output.width, column = pixel - line * map.output.width;
        u32 n = line / map.output.height, row = line - n * map.output.height;
        float value = 0;
        if (c < map.given) value = map.input.load<Element>(map.input.at(n, row, column, c));
        if (map.weights) value = value * map.weights[c] + map.bias[c];
        if (map.relu) value = relu(value);
        if (map.rounds) value = as_multiplied<Element>(make_float4(value, 0, 0, 0)).x;
        map.output.store<Element>(map.output.at(n, row, column, c), value);
    }
}

// The same, four channels at a time, both tensors native.
template <class Element>
__device__ __forceinline__ void map_fours(reef::Turns &turns, const Map &map) {
    reef::Block block(turns, reef::LINE);
    block.fetch();
    bool claimed = false;
    for (u32 i = block.index * blockDim.x + threadIdx.x;; i += map.blocks * blockDim.x) {
        float4 value = make_float4(0, 0, 0, 0);
        u32 pixel = map.by_channels(i), c = (i - pixel * map.channels) * 4;
        if (i < map.count) {
            value = load4((const Element *)map.input.data + ((u64)pixel * map.input.pixel + c));
            float4 weight = load4(map.weights + c), bias = load4(map.bias + c);
            value = make_float4(value.x * weight.x + bias.x, value.y * weight.y + bias.y,
                                value.z * weight.z + bias.z, value.w * weight.w + bias.w);
            if (map.relu) value = relu(value);
            if (map.rounds) value = as_multiplied<Element>(value);
        }
        if (!claimed && !block.arrive()) return;
        claimed = true;
        if (i >= map.count) return;
        store4((Element *)map.output.data + ((u64)pixel * map.output.pixel + c), value);
    }
}

BOTH(map_any, Map, map_any<Element>)
BOTH(map_fours, Map, map_fours<Element>)

// `LinearParams` in operators/params.rs.
struct Linear {
    View input, output;
    const char *weights; // [outputs][inputs rounded up to 4], of the device's elements
    const float *bias;
    u32 images, inputs, outputs;
    Activation activation;
    u32 fours; // whether inputs can be read four at a time
    u32 unused;
};

// The sum of what 32 adjoining threads have, to each of them.
__device__ inline float sum_of_warp(float sum) {
#if REEF_AMD
    // Lanes of a wave of 64, whose halves don't meet: its lanes 32 and up are other threads' warp.
    int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
    for (int offset = 16; offset > 0; offset /= 2) {
        int other = __builtin_amdgcn_ds_bpermute((lane ^ offset) * 4, __builtin_bit_cast(int, sum));
        sum += __builtin_bit_cast(float, other);
    }
#else
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
#endif
    return sum;
}

template <class Element>
__device__ inline float dot(const Linear &linear, const Element *weight, u32 n) {
    const u32 lane = threadIdx.x % 32;
    float sum = 0;
    if (linear.fours) {
        const Element *input = (const Element *)linear.input.data + n * linear.input.image;
#pragma unroll 8
        for (u32 i = lane * 4; i < linear.inputs; i += 128) {
            float4 a = load4(weight + i), b = load4(input + i);
            sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
        }
    } else {
        for (u32 i = lane; i < linear.inputs; i += 32)
            sum += to_float(weight[i]) * linear.input.load<Element>(linear.input.at(n, 0, 0, i));
    }
    return sum_of_warp(sum);
}

// Has a line of weights brought nearer, in the time in which a launch that started early waits.
__device__ inline void ask_for(const char *line, u32 bytes) {
#if !REEF_GUARDED && __CUDA_ARCH__ >= 900
    for (u32 at = threadIdx.x % 32 * 128; at < bytes; at += 32 * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(line + at));
#endif
}

// output = input . weights + bias: a warp for each output.
template <class Element>
__device__ __forceinline__ void multiply(reef::Turns &turns, const Linear &linear) {
    reef::Block block(turns, reef::AHEAD);
    u32 k = (block.index * blockDim.x + threadIdx.x) / 32;
    const u32 pitch = (linear.inputs + 3) & ~3u;
    const Element *weight = (const Element *)linear.weights + (u64)min(k, linear.outputs - 1) * pitch;
    ask_for((const char *)weight, pitch * sizeof(Element));
    block.follow();
    block.fetch();
    float sum = dot(linear, weight, 0);
    if (!block.arrive() || k >= linear.outputs) return;
    float bias = linear.bias[k];
    for (u32 n = 0;;) {
        float value = linear.activation(sum + bias);
        if (threadIdx.x % 32 == 0)
            linear.output.store<Element>(linear.output.at(n, 0, 0, k), value);
        if (++n == linear.images) return;
        sum = dot(linear, weight, n);
    }
}

BOTH(linear, Linear, multiply<Element>)
