// Convolutions and products by instructions of sm_90a alone: devices of capability 9.0 have them, and no others, older or newer. It is a source of
// its own because another compiler assembles it (kernels/build) and because devices whose driver refuses it do without: each
// convolution has tiles in network.cu as well, and each product in tensor.cu.

#define REEF_SLAB 128
#include "products_by_groups.h"

// A convolution with this tile of pixels and outputs, and slabs under way. `GROUPS` in operators/tiles/tile.rs says the same.
#define CONV(name, ...) CONV_KERNEL(name, convolve_by_groups, __VA_ARGS__)
#define CONV_GROUPS(bm, bn, stages)                                                  \
    CONV(groups_rounded_##bm##x##bn, Groups<RoundedTf32, bm, bn, stages>)            \
    CONV(groups_f16_##bm##x##bn, Groups<F16, bm, bn, stages>)

CONV_GROUPS(64, 64, 6)
CONV_GROUPS(128, 64, 4)
CONV_GROUPS(128, 128, 6)

// The same of numbers of 8 bits, `QUANTIZED_GROUPS` there.
#define CONV_QUANTIZED(bm, bn, stages)                                                         \
    CONV(groups_int8_int8_##bm##x##bn, Quantized<Int8, Groups<Int8Terms, bm, bn, stages>>)     \
    CONV(groups_int8_f16_##bm##x##bn, Quantized<Half, Groups<Int8Terms, bm, bn, stages>>)      \
    CONV(groups_fp8_fp8_##bm##x##bn, Quantized<Fp8, Groups<Fp8Products, bm, bn, stages>>)      \
    CONV(groups_fp8_f16_##bm##x##bn, Quantized<Half, Groups<Fp8Products, bm, bn, stages>>)

CONV_QUANTIZED(64, 64, 6)
CONV_QUANTIZED(128, 128, 6)

// Products of halves with this tile of rows and columns, slabs, and those that aren't under way: one, and several at once.
// `PAIRS_ON_GROUPS` in operators/tensor/products/inputs.rs says the same.
#define PRODUCT(name, Params, multiply, Tile)                                 \
    extern "C" __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) \
        name(reef::Guard guard, tensor::Params params) {                      \
        REEF_EACH(turns, guard) multiply<Tile>(turns, params);                \
    }
#define PRODUCT_GROUPS(bm, bn, stages, spare)                                                                       \
    typedef ProductGroups<F16, bm, bn, stages, spare, true> product_groups_f16_##bm##x##bn##_tile;                    \
    PRODUCT(product_groups_f16_##bm##x##bn, Product, multiply_one_by_groups, product_groups_f16_##bm##x##bn##_tile) \
    PRODUCT(products_groups_f16_##bm##x##bn, ProductGroup, multiply_group_by_groups, product_groups_f16_##bm##x##bn##_tile)

PRODUCT_GROUPS(32, 64, 8, 2)
PRODUCT_GROUPS(32, 128, 5, 1)
PRODUCT_GROUPS(40, 128, 5, 1)
