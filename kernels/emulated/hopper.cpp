// What warpgroups.h computes, as conv.cpp does it with conv.h: products are read from swizzled lines, at once or late.
//
//     kernels/emulated/run.sh

#define REEF_SLAB 128
#include "convolutions.h"

template <class Math, int BM, int BN, int DEPTH> static u32 check(const char *name) {
    typedef Groups<Math, BM, BN, DEPTH> Tile;
    return check_by<Tile>([](reef::Turns &turns, const Conv &c) { convolve_by_groups<Tile>(turns, c); }, name);
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) {
        failed += check<RoundedTf32, 64, 64, 6>("rounded 64x64") + check<F16, 64, 64, 6>("f16 64x64");
        failed += check<RoundedTf32, 128, 64, 4>("rounded 128x64") + check<F16, 128, 64, 4>("f16 128x64");
        failed += check<RoundedTf32, 128, 128, 6>("rounded 128x128") + check<F16, 128, 128, 6>("f16 128x128");
    }
    printf("warpgroups: %u of %u failed\n", failed, 6 * cases);
    return failed > 0;
}
