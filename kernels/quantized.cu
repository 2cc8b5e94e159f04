// Kernels of networks whose tensors have numbers of 8 bits, on tensor cores from sm_80 on. All else of a network is in network.cu.

#include "pool.h"
#include "quantized_sums.h"

// A convolution with this tile of pixels and outputs, warps, and slabs under way. `INT8` and `FP8` in operators/tiles/tile.rs say the same.
#define CONV(name, ...) CONV_KERNEL(name, convolve_alone, __VA_ARGS__)
#define CONV_OF(format, Number, Terms, bm, bn, ...)                                                         \
    CONV(quantized_f16_##format##_##bm##x##bn, Quantized<Number, Warps<F16, bm, bn, __VA_ARGS__>>)          \
    CONV(quantized_##format##_##format##_##bm##x##bn, Quantized<Number, Warps<Terms, bm, bn, __VA_ARGS__>>) \
    CONV(quantized_##format##_f16_##bm##x##bn, Quantized<Half, Warps<Terms, bm, bn, __VA_ARGS__>>)
#define CONV_INT8(bm, bn, ...) CONV_OF(int8, Int8, Int8Terms, bm, bn, __VA_ARGS__)
#define CONV_FP8(bm, bn, ...) CONV_OF(fp8, Fp8, Fp8Terms, bm, bn, __VA_ARGS__)

#if REEF_ASYNC
CONV_INT8(32, 32, 1, 1, 4, 4)
CONV_INT8(64, 32, 2, 1, 4, 4)
CONV_INT8(64, 64, 2, 2, 2, 3)
CONV_FP8(32, 32, 1, 1, 4, 4)
CONV_FP8(64, 64, 2, 2, 2, 3)
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
