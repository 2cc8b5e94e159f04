// What products_by_groups.h computes, as products.h tries it: products are read from swizzled lines, at once or late.
//
//     kernels/emulated/run.sh

#define REEF_SLAB 128
#include "products.h"

template <class Math, int BM, int BN, int DEPTH, int SPARE, bool TURNED> static u32 check(const char *name) {
    typedef ProductGroups<Math, BM, BN, DEPTH, SPARE, TURNED> Tile;
    auto body = [](reef::Turns &turns, const tensor::ProductGroup &group, u32 count) {
        count == 1 ? multiply_one_by_groups<Tile>(turns, group.of[0]) : multiply_group_by_groups<Tile>(turns, group);
    };
    return check_by<Tile, sizeof(typename Math::Element) == 2 ? PAIRS : ROUNDED>(body, name, true);
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) {
        failed += check<F16, 32, 64, 8, 2, true>("f16 32x64") + check<F16, 32, 128, 5, 1, true>("f16 32x128");
        failed += check<F16, 40, 128, 5, 1, true>("f16 40x128") + check<F16, 40, 64, 8, 2, true>("f16 40x64");
        failed += check<F16, 128, 64, 8, 2, false>("f16 128x64") + check<RoundedTf32, 64, 32, 8, 2, false>("rounded 64x32");
    }
    printf("products by warpgroups: %u of %u failed\n", failed, 6 * cases);
    return failed > 0;
}
