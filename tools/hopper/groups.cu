// Tiles of products on warpgroups as kernels/products_by_groups.h has them, more than ship: study.cu times them all (run.sh).

#include "products_by_groups.h"

#define TILE(turned, bm, bn, depth, spare)                                                                                    \
    typedef ProductGroups<F16, bm, bn, depth, spare, turned> tile_##turned##_##bm##x##bn##_##depth##_##spare;                    \
    extern "C" __global__ void __launch_bounds__(tile_##turned##_##bm##x##bn##_##depth##_##spare::THREADS)                     \
        product_##turned##_##bm##x##bn##_##depth##_##spare(reef::Guard guard, tensor::Product product) {                       \
        reef::Turns turns(guard);                                                                                              \
        multiply_one_by_groups<tile_##turned##_##bm##x##bn##_##depth##_##spare>(turns, product);                               \
    }
#include "groups.h"
