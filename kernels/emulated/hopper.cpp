// What warpgroups.h computes, as conv.cpp does it with conv.h: products are read from swizzled lines, at once or late.
//
//     kernels/emulated/run.sh

#define REEF_SLAB 128
#include "convolutions.h"

template <class Tile> static u32 check_tile(const char *name) {
    return check_by<Tile>([](reef::Turns &turns, const Conv &c) { convolve_by_groups<Tile>(turns, c); }, name);
}

template <class Math, int BM, int BN, int DEPTH> static u32 check(const char *name) {
    return check_tile<Groups<Math, BM, BN, DEPTH>>(name);
}

int main(int, char **arguments) {
    u32 failed = 0, cases = arguments[1] ? atoi(arguments[1]) : 10;
    for (u32 n = 0; n < cases; n++) {
        failed += check<RoundedTf32, 64, 64, 6>("rounded 64x64") + check<F16, 64, 64, 6>("f16 64x64");
        failed += check<RoundedTf32, 128, 64, 4>("rounded 128x64") + check<F16, 128, 64, 4>("f16 128x64");
        failed += check<RoundedTf32, 128, 128, 6>("rounded 128x128") + check<F16, 128, 128, 6>("f16 128x128");
        failed += check_tile<Quantized<Int8, Groups<Int8Terms, 64, 64, 6>>>("int8 64x64");
        failed += check_tile<Quantized<Half, Groups<Int8Terms, 128, 128, 6>>>("int8 to f16 128x128");
        failed += check_tile<Quantized<Fp8, Groups<Fp8Products, 128, 128, 6>>>("fp8 128x128");
        failed += check_tile<Quantized<Half, Groups<Fp8Products, 64, 64, 6>>>("fp8 to f16 64x64");
    }
    printf("warpgroups: %u of %u failed\n", failed, 10 * cases);
    return failed > 0;
}
