// What tensor cores do, in PTX, and asynchronous copies, which happen at once before sm_80 and on AMD.
//
// Tiles lie in shared memory as rows of SLAB bytes. Sixteen-byte chunk `c` of row `r` is at chunk
// `c ^ (r & 7)`, so that eight rows' chunks of one column are in different banks.

#pragma once

#include "element.h"

#define REEF_ASYNC (__CUDA_ARCH__ >= 800)

const u32 SLAB = 256; // bytes of a row: one step of the loop over what is summed
const u32 CHUNK = 16;
const u32 CHUNKS = SLAB / CHUNK;

__device__ inline u32 swizzled(u32 row, u32 chunk) {
    return row * SLAB + (chunk ^ (row & 7)) * CHUNK;
}

// Copies a chunk into shared memory, or zeros if it is outside.
__device__ inline void copy_chunk(char *to, const char *from, bool inside) {
#if REEF_ASYNC
    u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
#else
    *(uint4 *)to = inside ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
#endif
}

// The same of four bytes.
__device__ inline void copy_word(char *to, const char *from, bool inside) {
#if REEF_ASYNC
    u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(inside ? 4 : 0)
                 : "memory");
#else
    *(u32 *)to = inside ? *(const u32 *)from : 0;
#endif
}

// Ends a group of copies.
__device__ inline void end_copies() {
#if REEF_ASYNC
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all groups but the last `groups`.
template <int groups> __device__ inline void wait_copies() {
#if REEF_ASYNC
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

#if REEF_ASYNC

// Four 8 x 16 byte matrices, whose rows are given by eight lanes each.
__device__ inline void load_matrices(u32 (&to)[4], const char *row) {
    u32 address = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

// The same of 8 x 8 halves each, turned: a lane has two adjoining rows of one column.
__device__ inline void load_turned(u32 (&to)[4], const char *row) {
    u32 address = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

// The nearest number with 10 bits of mantissa.
__device__ inline u32 as_tf32(float value) {
    u32 word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
    return word;
}

// 2 to the power of a number, with 22 bits; 0 where that is below what floats hold in full.
__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Two numbers as halves, the first in the lower one.
__device__ inline u32 as_halves(float low, float high) {
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// 32-bit floats, multiplied with 11 bits of precision. Weights are rounded when they are packed.
struct Tf32 {
    typedef float Element;

    __device__ static void round(u32 (&a)[4]) {
        for (u32 &word : a) word = as_tf32(__uint_as_float(word));
    }

    __device__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// 16-bit floats.
struct F16 {
    typedef Half Element;

    __device__ static void round(u32 (&)[4]) {}

    __device__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// A block's tile of sums on tensor cores. Its warps stand WM x WN over the tile; WK of them share
// each place and split every slab between them.
template <class Math, int BM, int BN, int WM, int WN, int WK, int DEPTH> class Warps {
  public:
    typedef typename Math::Element Element;
    static constexpr int PIXELS = BM, OUTPUTS = BN, SHARES = WK, THREADS = 32 * WM * WN * WK;
    static constexpr int STAGES = DEPTH, BLOCKS = 2; // of a unit, at least

    __device__ Warps() : lane(threadIdx.x % 32) {
        u32 warp = threadIdx.x / 32;
        share = warp / (WM * WN);
        pixel = warp % WM * (BM / WM);
        output = warp / WM % WN * (BN / WN);
        for (auto &line : sums)
            for (auto &tile : line)
                for (float &sum : tile) sum = 0;
    }

    // Adds the products of one slab.
    __device__ void add(const char *pixels, const char *outputs) {
#pragma unroll
        for (u32 k = 0; k < STEPS / WK; k++) {
            const u32 chunk = 2 * (k % BASES * WK + share), behind = k / BASES * 8 * CHUNK;
            u32 a[MT][4], b[NT / 2][4];
            for (int i = 0; i < MT; i++) {
                u32 row = pixel + 16 * i + lane % 16;
                load_matrices(a[i], pixels + swizzled(row, chunk + lane / 16) + behind);
                Math::round(a[i]);
            }
            for (int j = 0; j < NT / 2; j++) {
                u32 row = output + 16 * j + lane / 16 * 8 + lane % 8;
                load_matrices(b[j], outputs + swizzled(row, chunk + lane / 8 % 2) + behind);
            }
            for (int i = 0; i < MT; i++)
                for (int j = 0; j < NT; j++)
                    Math::multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    // Writes the sums, one plane of `line * BM` floats for each share.
    __device__ void store(float *to, u32 line) const {
        to += share * line * BM + (pixel + lane / 4) * line + output + lane % 4 * 2;
        for (int i = 0; i < MT; i++)
            for (int j = 0; j < NT; j++) {
                float *corner = to + 16 * i * line + 8 * j;
                const float (&c)[4] = sums[i][j];
                *(float2 *)corner = make_float2(c[0], c[1]);
                *(float2 *)(corner + 8 * line) = make_float2(c[2], c[3]);
            }
    }

  private:
    static constexpr int STEPS = SLAB / 32; // each 32 bytes of a row
    static constexpr int MT = BM / WM / 16, NT = BN / WN / 8;
    static_assert(NT % 2 == 0 && STEPS % WK == 0, "halves of matrices");
    // A swizzle is the same 8 chunks further, so with four shares a row's places are those of its first step, and so many bytes
    // behind. Of fewer the compiler makes more of each step's own.
    static constexpr int BASES = WK == 4 ? 1 : STEPS / WK;

    u32 lane, share, pixel, output;
    float sums[MT][NT][4];
};

#endif

// A block's tile of sums without tensor cores: 16 x 16 threads, each for every 16th row and column.
template <class E, int BM, int BN, int DEPTH> class Threads {
  public:
    typedef E Element;
    static constexpr int PIXELS = BM, OUTPUTS = BN, SHARES = 1, THREADS = 256, STAGES = DEPTH;
    static constexpr int BLOCKS = 1;

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

    __device__ void store(float *to, u32 line) const {
        for (int i = 0; i < MT; i++)
            for (int j = 0; j < NT; j++) to[(pixel + 16 * i) * line + output + 16 * j] = sums[i][j];
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
