// Tiles of products on warpgroups as kernels/products_by_groups.h has them, more than ship: study.cu times them all (run.sh).

#ifndef TILE
#include "products_by_groups.h"

#define TILE(turned, bm, bn, depth, spare)                                                                                    \
    typedef ProductGroups<F16, bm, bn, depth, spare, turned> tile_##turned##_##bm##x##bn##_##depth##_##spare;                    \
    extern "C" __global__ void __launch_bounds__(tile_##turned##_##bm##x##bn##_##depth##_##spare::THREADS)                     \
        product_##turned##_##bm##x##bn##_##depth##_##spare(reef::Guard guard, tensor::Product product) {                       \
        reef::Turns turns(guard);                                                                                              \
        multiply_one_by_groups<tile_##turned##_##bm##x##bn##_##depth##_##spare>(turns, product);                               \
    }
#endif

// Whether columns are the side of 64 lines, rows, columns, slabs, and those not under way. today.cu has a TILE of its own.
TILE(1, 32, 64, 9, 1)
TILE(1, 32, 64, 13, 1)
TILE(1, 32, 64, 8, 2)
TILE(1, 40, 64, 8, 1)
TILE(1, 40, 64, 8, 2)
TILE(1, 40, 64, 13, 1)
TILE(1, 56, 64, 7, 1)
TILE(1, 56, 64, 13, 1)
TILE(1, 72, 64, 6, 1)
TILE(1, 72, 64, 13, 1)
TILE(1, 104, 64, 5, 1)
TILE(1, 104, 64, 10, 1)
TILE(1, 32, 128, 5, 1)
TILE(1, 32, 128, 11, 1)
TILE(1, 40, 128, 5, 1)
TILE(1, 40, 128, 10, 1)
TILE(1, 56, 128, 9, 1)
TILE(1, 72, 128, 8, 1)
TILE(1, 104, 128, 7, 1)
TILE(0, 64, 32, 8, 2)
TILE(0, 64, 32, 9, 1)
TILE(0, 64, 32, 13, 1)
TILE(0, 64, 64, 6, 2)
TILE(0, 64, 64, 7, 1)
TILE(0, 64, 64, 13, 1)
TILE(0, 128, 64, 8, 2)
TILE(0, 128, 64, 9, 1)
