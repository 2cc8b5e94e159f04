// How tensor cores multiply numbers of 8 bits, and tiles of convolutions that read or write some.

#pragma once

#include "conv.h"
#include "quantized.h"

#if REEF_ASYNC

// Integers: 32 bits hold sums of 133,144 terms, and `operators/convolution/quantized.rs` has no longer ones. They become floats in the end.
struct Int8Terms {
    typedef Int8 Element;
    typedef int Sum;

    __device__ static void round(u32 (&)[4]) {}
    __device__ static float whole(int sum) { return sum; }

    __device__ static void multiply(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        multiply_integers(c, a, b0, b1);
    }
};

// Floats, as halves, which all tensor cores have: products are exact, sums 32-bit floats.
struct Fp8Terms {
    typedef Fp8 Element;
    typedef float Sum;

    __device__ static void round(u32 (&)[4]) {}
    __device__ static float whole(float sum) { return sum * OF_HALVES; }

    __device__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            u32 halves[4];
#pragma unroll
            for (int n = 0; n < 4; n++) halves[n] = halves_of(a[n], odd);
            F16::multiply(c, halves, halves_of(b0, odd), halves_of(b1, odd));
        }
    }
};

// Floats as warpgroups multiply them (wgmma.h), which take them as they are. Their sums are said to have some 14 bits (DeepSeek-V3 Technical
// Report, 2024, 3.5.2), so there are none of more than 4608 terms.
struct Fp8Products {
    typedef Fp8 Element;
    typedef float Sum;
    __device__ static float whole(float sum) { return sum; }
};

// A tile whose outputs are of another kind than its inputs, or of 8 bits.
template <class To, class Tile> class Quantized : public Tile {
  public:
    typedef To Output;
    typedef OutputFactors Factors;
};

#endif
