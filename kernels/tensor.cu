// Kernels of operations on ordinary tensors (reef_op::tensor): one for each kind, and for each of the numbers that
// it computes with. Parameters are the guard and one struct. Whatever is long looks at the flag between its terms and
// writes at its end; `operators/tensor` in reef-gpu says what their plans hold.

#include "attention.h"
#include "contract.h"
#include "fold.h"
#include "formula.h"
#include "indexed.h"
#include "movement.h"
#include "product.h"
#if !REEF_AMD
#include "few.h"
#include "normal.h"
#include "row_map.h"
#endif
#include "rows.h"
#include "suppress.h"

#define TENSOR(name, ...)                                                                                     \
    extern "C" __global__ void __launch_bounds__(tensor::THREADS) name(reef::Guard guard, tensor::Job job) { \
        REEF_CLAIM(block, guard);                                                                             \
        tensor::__VA_ARGS__(block, job);                                                                      \
    }

// One for each of the numbers. Unsigned integers are signed ones where they are only added and multiplied.
#define SIGNED(name)                     \
    TENSOR(name##_f64, name<double>) \
    TENSOR(name##_i64, name<i64>)
#define NUMBERS(name)               \
    TENSOR(name##_f32, name<float>) \
    TENSOR(name##_u64, name<u64>)   \
    SIGNED(name)

NUMBERS(map)
NUMBERS(fold)
NUMBERS(scatter)
SIGNED(contract)
TENSOR(contract_f32, contract<float>)
TENSOR(contract_32x32, contract_tile<2>)
TENSOR(contract_64x64, contract_tile<4>)

// Products with so many rows or columns, or fewer: `ROWS` in operators/tensor/products/few.rs says the same. On gfx906
// `contract_f32` makes them.
#define FEW(rows)                                                                    \
    extern "C" __global__ void __launch_bounds__(tensor::THREADS)                    \
        contract_few_##rows(reef::Guard guard, tensor::Few few) {                    \
        reef::Turns turns(guard);                                                    \
        tensor::contract_few<rows>(turns, few);                                      \
    }

#if !REEF_AMD
FEW(1)
FEW(2)
FEW(4)
FEW(7)
#endif

// Products of matrices on tensor cores: rows and columns of a tile, warps, and slabs under way. `TILES` in
// operators/tensor/products/tiled.rs says the same, and which of the three a product has.
#define PRODUCT(name, Params, multiply, Tile, Sides)                          \
    extern "C" __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) \
        name(reef::Guard guard, tensor::Params params) {                      \
        reef::Turns turns(guard);                                             \
        tensor::multiply<Tile, tensor::Sides<Tile>>(turns, params);           \
    }
#define PRODUCTS_OF(tile, ...)                                                              \
    typedef tensor::ProductTile<__VA_ARGS__> tile##_tile;                                   \
    PRODUCT(product_any_##tile, Product, multiply_one, tile##_tile, AnySides)               \
    PRODUCT(product_along_##tile, Product, multiply_one, tile##_tile, AlongSides)           \
    PRODUCT(product_across_##tile, Product, multiply_one, tile##_tile, AcrossSides)         \
    PRODUCT(products_along_##tile, ProductGroup, multiply_group, tile##_tile, AlongSides)   \
    PRODUCT(products_across_##tile, ProductGroup, multiply_group, tile##_tile, AcrossSides)
#define PRODUCTS_BY_MATRICES(kind, tile, ...)                                               \
    typedef tensor::MatrixTile<__VA_ARGS__> kind##_##tile##_tile;                           \
    PRODUCT(product_##kind##_##tile, Product, multiply_one, kind##_##tile##_tile, MatrixSides) \
    PRODUCT(products_##kind##_##tile, ProductGroup, multiply_group, kind##_##tile##_tile, MatrixSides)
#define PRODUCTS_NARROW(tile)                                                               \
    PRODUCT(product_narrow_##tile, Product, multiply_one, tile##_tile, NarrowSides)         \
    PRODUCT(products_narrow_##tile, ProductGroup, multiply_group, tile##_tile, NarrowSides)
#define PRODUCTS(bm, bn, wm, wn, wk, stages)                                         \
    PRODUCTS_OF(tf32_##bm##x##bn, tensor::Tf32Terms, bm, bn, wm, wn, wk, stages)       \
    PRODUCTS_BY_MATRICES(rounded_tf32, bm##x##bn, Tf32, bm, bn, wm, wn, wk, stages)    \
    PRODUCTS_OF(f16_##bm##x##bn, tensor::F16Terms, bm, bn, wm, wn, wk, stages)         \
    PRODUCTS_NARROW(f16_##bm##x##bn)                                                   \
    PRODUCTS_BY_MATRICES(along_pairs, bm##x##bn, F16, bm, bn, wm, wn, wk, stages)

#if REEF_ASYNC
PRODUCTS(32, 32, 1, 1, 4, 4)
PRODUCTS(64, 64, 2, 2, 2, 3)
#endif

// Attention on tensor cores: warps of rows and of keys. `ROWS` in operators/tensor/attention/mod.rs says the same.
#define ATTENTION(name, ...)                                                                 \
    extern "C" __global__ void __launch_bounds__(tensor::ATTENTION_THREADS, 2)               \
        name(reef::Guard guard, tensor::Attention attention) {                               \
        reef::Turns turns(guard);                                                            \
        tensor::attend<__VA_ARGS__>(turns, attention);                                       \
    }

#if REEF_ASYNC
ATTENTION(attention_tf32_16, tensor::Tf32Terms, 1, 4)
ATTENTION(attention_f16_16, tensor::F16Terms, 1, 4)
ATTENTION(attention_pairs_16, tensor::PairTerms, 1, 4)
ATTENTION(attention_tf32_64, tensor::Tf32Terms, 4, 1)
ATTENTION(attention_f16_64, tensor::F16Terms, 4, 1)
ATTENTION(attention_pairs_64, tensor::PairTerms, 4, 1)
#endif

#if !REEF_AMD
extern "C" __global__ void __launch_bounds__(tensor::NORMAL_THREADS) normalise_f32(reef::Guard guard, tensor::Normal normal) {
    reef::Turns turns(guard);
    tensor::normalise(turns, normal);
}
#endif

SIGNED(scan)
TENSOR(scan_f32, scan<float>)
SIGNED(top)
TENSOR(top_f32, top<float>)
TENSOR(top_u64, top<u64>)
TENSOR(suppress, suppress)
#if !REEF_AMD
TENSOR(row_map_f32, row_map) // a second interpreter: next to it map_f32 has private memory on gfx906
#endif
TENSOR(move, move)
TENSOR(concat, concat)
TENSOR(gather, gather)
