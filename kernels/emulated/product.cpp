// What product.h computes, as products.h tries it.
//
//     kernels/emulated/run.sh

#include "products.h"

template <class Tile, class Sides> static void by(reef::Turns &turns, const tensor::ProductGroup &group, u32 count) {
    count == 1 ? tensor::multiply_one<Tile, Sides>(turns, group.of[0]) : tensor::multiply_group<Tile, Sides>(turns, group);
}

template <class Tile, Stored stored> static void multiply(reef::Turns &turns, const tensor::ProductGroup &group, u32 count) {
    const tensor::Product &product = group.of[0];
    if constexpr (stored == NARROW) return by<Tile, tensor::NarrowSides<Tile>>(turns, group, count);
    if constexpr (stored == ROUNDED || stored == PAIRS) return by<Tile, tensor::MatrixSides<Tile>>(turns, group, count);
    if constexpr (stored == SINGLES) {
        typedef tensor::AlongSides<Tile> Along;
        typedef tensor::AcrossSides<Tile> Across;
        const bool along = product.sides[1].along;
        if (is_any(product))
            tensor::multiply_one<Tile, tensor::AnySides<Tile>>(turns, product);
        else
            along ? by<Tile, Along>(turns, group, count) : by<Tile, Across>(turns, group, count);
    }
}

template <class Tile, Stored stored = SINGLES> static u32 check(const char *name) {
    return check_by<Tile, stored>(multiply<Tile, stored>, name, false);
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) {
        failed += check<tensor::ProductTile<tensor::Tf32Terms, 32, 32, 1, 1, 4, 4>>("tf32 32x32");
        failed += check<tensor::ProductTile<tensor::F16Terms, 32, 32, 1, 1, 4, 4>>("f16 32x32");
        failed += check<tensor::ProductTile<tensor::Tf32Terms, 64, 64, 2, 2, 2, 3>>("tf32 64x64");
        failed += check<tensor::ProductTile<tensor::F16Terms, 64, 64, 2, 2, 2, 3>>("f16 64x64");
        typedef tensor::ProductTile<tensor::F16Terms, 32, 32, 1, 1, 4, 4> Small;
        typedef tensor::ProductTile<tensor::F16Terms, 64, 64, 2, 2, 2, 3> Large;
        failed += check<tensor::MatrixTile<Tf32, 32, 32, 1, 1, 4, 4>, ROUNDED>("rounded 32x32");
        failed += check<tensor::MatrixTile<Tf32, 64, 64, 2, 2, 2, 3>, ROUNDED>("rounded 64x64");
        failed += check<Small, NARROW>("narrow 32x32") + check<Large, NARROW>("narrow 64x64");
        failed += check<tensor::MatrixTile<F16, 32, 32, 1, 1, 4, 4>, PAIRS>("pairs 32x32");
        failed += check<tensor::MatrixTile<F16, 64, 64, 2, 2, 2, 3>, PAIRS>("pairs 64x64");
    }
    printf("%u of %u failed\n", failed, 10 * cases);
    return failed != 0;
}
