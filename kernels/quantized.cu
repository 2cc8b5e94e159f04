// Kernels of networks whose tensors have numbers of 8 bits, on tensor cores from sm_80 on. All else of a network is in network.cu.

#include "pool.h"
#include "quantized_sums.h"

// A convolution with this tile of pixels and outputs, warps, and slabs under way. `QUANTIZED` in operators/tiles/tile.rs says the same.
#define CONV(name, ...)                                                             \
    typedef __VA_ARGS__ name##_tile;                                                \
    extern "C" __global__ void __launch_bounds__(name##_tile::THREADS,              \
                                                 name##_tile::BLOCKS)               \
        name(reef::Guard guard, Conv conv) {                                        \
        REEF_EACH(turns, guard) convolve<name##_tile>(turns, conv);                 \
    }
#define CONV_QUANTIZED(bm, bn, ...)                                                           \
    CONV(quantized_f16_int8_##bm##x##bn, QuantizedWarps<Int8, F16, bm, bn, __VA_ARGS__>)      \
    CONV(quantized_int8_int8_##bm##x##bn, QuantizedWarps<Int8, Int8Terms, bm, bn, __VA_ARGS__>) \
    CONV(quantized_int8_f16_##bm##x##bn, QuantizedWarps<Half, Int8Terms, bm, bn, __VA_ARGS__>)  \
    CONV(quantized_f16_fp8_##bm##x##bn, QuantizedWarps<Fp8, F16, bm, bn, __VA_ARGS__>)        \
    CONV(quantized_fp8_fp8_##bm##x##bn, QuantizedWarps<Fp8, Fp8Terms, bm, bn, __VA_ARGS__>)   \
    CONV(quantized_fp8_f16_##bm##x##bn, QuantizedWarps<Half, Fp8Terms, bm, bn, __VA_ARGS__>)

#if REEF_ASYNC
CONV_QUANTIZED(32, 32, 1, 1, 4, 4)
CONV_QUANTIZED(64, 32, 2, 1, 4, 4)
CONV_QUANTIZED(64, 64, 2, 2, 2, 3)
#endif

// Pools keep numbers and their scale.
#define POOL(name, Number, Lanes)                                    \
    extern "C" __global__ void name(reef::Guard guard, Pool pool) {  \
        REEF_EACH(turns, guard) pool_windows<Number, Lanes>(turns, pool); \
    }
POOL(pool_any_int8, Int8, One)
POOL(pool_fours_int8, Int8, Four)
POOL(pool_any_fp8, Fp8, One)
POOL(pool_fours_fp8, Fp8, Four)
