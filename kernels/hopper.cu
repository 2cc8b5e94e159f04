// Convolutions by instructions of sm_90a alone: devices of capability 9.0 have them, and no others, older or newer. It is a source of
// its own because another compiler assembles it (kernels/build) and because devices whose driver refuses it do without: each
// convolution has tiles in network.cu as well.

#define REEF_SLAB 128
#include "warpgroups.h"

// A convolution with this tile of pixels and outputs, and slabs under way. `GROUPS` in operators/tiles/tile.rs says the same.
#define CONV(name, ...)                                                              \
    typedef __VA_ARGS__ name##_tile;                                                 \
    extern "C" __global__ void __launch_bounds__(name##_tile::THREADS,               \
                                                 name##_tile::BLOCKS)                \
        name(reef::Guard guard, Conv conv) {                                         \
        REEF_EACH(turns, guard) convolve_by_groups<name##_tile>(turns, conv);        \
    }
#define CONV_GROUPS(bm, bn, stages)                                                  \
    CONV(groups_rounded_##bm##x##bn, Groups<RoundedTf32, bm, bn, stages>)            \
    CONV(groups_f16_##bm##x##bn, Groups<F16, bm, bn, stages>)

CONV_GROUPS(64, 64, 6)
CONV_GROUPS(128, 64, 4)
CONV_GROUPS(128, 128, 6)
