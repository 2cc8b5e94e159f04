// A block's tile of sums, on tensor cores and without. Both sides of a product lie in shared memory as rows of a slab (mma.h).

#pragma once

#include "mma.h"

// Sums that are what they are.
struct NoFactors {
    __device__ void bring(const float *) {}
    __device__ float4 times(float4 sums) const { return sums; }
};

#if REEF_ASYNC

// A block's tile of sums on tensor cores. Its warps stand WM x WN over the tile; WK of them share
// each place and split every slab between them.
template <class Math, int BM, int BN, int WM, int WN, int WK, int DEPTH> class Warps {
  public:
    typedef typename Math::Element Element, Output;
    typedef NoFactors Factors;
    static constexpr int PIXELS = BM, OUTPUTS = BN, SHARES = WK, THREADS = 32 * WM * WN * WK;
    static constexpr int STAGES = DEPTH, BLOCKS = 2; // of a unit, at least
    static constexpr u32 LINE = BN + 8; // floats of a row of sums in shared memory; no two of a warp's stores in one bank

    typedef SharedPlace Place;
    __device__ static Place place(char *memory) { return shared_place(memory); }

    __device__ Warps() {
        const u32 lane = threadIdx.x % 32;
        for (u32 k = 0; k < BASES; k++) {
            const u32 chunk = 2 * (k * WK + share());
            pixels[k] = swizzled(first_pixel() + lane % 16, chunk + lane / 16);
            outputs[k] = swizzled(first_output() + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2);
            as_it_is(pixels[k]), as_it_is(outputs[k]);
        }
        for (auto &line : sums)
            for (auto &tile : line)
                for (auto &sum : tile) sum = 0;
    }

    // Adds the products of one slab.
    __device__ void add(Place pixel_slab, Place output_slab) {
#pragma unroll
        for (u32 k = 0; k < STEPS / WK; k++) {
            const u32 behind = k / BASES * 8 * CHUNK;
            const Place a_from = pixel_slab + pixels[k % BASES] + behind;
            const Place b_from = output_slab + outputs[k % BASES] + behind;
            u32 a[MT][4], b[NT / 2][4];
            for (int i = 0; i < MT; i++) {
                load_matrices(a[i], a_from + 16 * i * SLAB);
                Math::round(a[i]);
            }
            for (int j = 0; j < NT / 2; j++) load_matrices(b[j], b_from + 16 * j * SLAB);
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < NT; j++)
                    Math::multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    // Writes the sums, one plane of `LINE * BM` floats for each share.
    __device__ void store(float *to) const {
        const u32 lane = threadIdx.x % 32;
        to += (share() * BM + first_pixel() + lane / 4) * LINE + first_output() + lane % 4 * 2;
        for (int i = 0; i < MT; i++)
            for (int j = 0; j < NT; j++) {
                float *corner = to + 16 * i * LINE + 8 * j;
                const auto &c = sums[i][j];
                *(float2 *)corner = make_float2(Math::whole(c[0]), Math::whole(c[1]));
                *(float2 *)(corner + 8 * LINE) = make_float2(Math::whole(c[2]), Math::whole(c[3]));
            }
    }

  private:
    static constexpr int STEPS = SLAB / 32; // each 32 bytes of a row
    static constexpr int MT = BM / WM / 16, NT = BN / WN / 8;
    static_assert(NT % 2 == 0 && STEPS % WK == 0, "halves of matrices");
    // A swizzle is the same 8 chunks further, so places of later steps are those of the first four chunks' steps and so many bytes
    // behind; and it is the same of every eighth row, so one place serves all of a warp's matrices.
    static constexpr u32 BASES = 4 / WK;
    static_assert(BASES > 0 && BM / WM % 16 == 0 && BN / WN % 16 == 0, "swizzles that are alike");

    // The warp's part of the tile and of each slab.
    __device__ static u32 first_pixel() { return threadIdx.x / 32 % WM * (BM / WM); }
    __device__ static u32 first_output() { return threadIdx.x / 32 / WM % WN * (BN / WN); }
    __device__ static u32 share() { return threadIdx.x / 32 / (WM * WN); }

    u32 pixels[BASES], outputs[BASES]; // where the thread's rows of matrices begin in a slab
    typename Math::Sum sums[MT][NT][4];
};

#endif

// A block's tile of sums without tensor cores: 16 x 16 threads, each for every 16th row and column.
template <class E, int BM, int BN, int DEPTH> class Threads {
  public:
    typedef E Element, Output;
    typedef NoFactors Factors;
    static constexpr int PIXELS = BM, OUTPUTS = BN, SHARES = 1, THREADS = 256, STAGES = DEPTH;
    static constexpr int BLOCKS = 1;
    static constexpr u32 LINE = BN + 8;

    typedef char *Place;
    __device__ static Place place(char *memory) { return memory; }

    __device__ Threads() : pixel(threadIdx.x / 16), output(threadIdx.x % 16) {
        for (auto &line : sums)
            for (float &sum : line) sum = 0;
    }

    __device__ void add(const char *pixels, const char *outputs) {
#pragma unroll
        for (u32 k = 0; k < SLAB / EACH; k++) {
            float4 a[MT], b[NT];
            for (int i = 0; i < MT; i++) a[i] = part(pixels, pixel + 16 * i, k);
            for (int j = 0; j < NT; j++) b[j] = part(outputs, output + 16 * j, k);
            for (int i = 0; i < MT; i++)
                for (int j = 0; j < NT; j++)
                    sums[i][j] +=
                        a[i].x * b[j].x + a[i].y * b[j].y + a[i].z * b[j].z + a[i].w * b[j].w;
        }
    }

    __device__ void store(float *to) const {
        for (int i = 0; i < MT; i++)
            for (int j = 0; j < NT; j++) to[(pixel + 16 * i) * LINE + output + 16 * j] = sums[i][j];
    }

  private:
    static constexpr int MT = BM / 16, NT = BN / 16;
    static constexpr int EACH = 4 * sizeof(E); // bytes taken at a time

    __device__ static float4 part(const char *tile, u32 row, u32 k) {
        u32 byte = k * EACH;
        return load4((const E *)(tile + swizzled(row, byte / CHUNK) + byte % CHUNK));
    }

    u32 pixel, output;
    float sums[MT][NT];
};
