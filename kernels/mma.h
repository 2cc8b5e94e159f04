// What tensor cores do, in PTX, and asynchronous copies, which happen at once before sm_80 and on AMD.
//
// Tiles lie in shared memory as rows of SLAB bytes. Sixteen-byte chunk `c` of row `r` is at chunk
// `c ^ (r & 7)`, so that eight rows' chunks of one column are in different banks.

#pragma once

#include "element.h"

#define REEF_ASYNC (__CUDA_ARCH__ >= 800)

// Hides from the compiler how a word came about: it is kept in a register, and not made anew wherever it is looked at.
__device__ inline void as_it_is(u32 &word) {
#if !REEF_AMD
    asm volatile("" : "+r"(word));
#endif
}

// Bytes of a row: one step of the loop over what is summed. hopper.cu has its own.
#ifndef REEF_SLAB
#define REEF_SLAB 256
#endif
const u32 SLAB = REEF_SLAB;
const u32 CHUNK = 16;
const u32 CHUNKS = SLAB / CHUNK;

__device__ inline u32 swizzled(u32 row, u32 chunk) {
    return row * SLAB + (chunk ^ (row & 7)) * CHUNK;
}

#if REEF_ASYNC
// A place in shared memory as its own instructions have it. Made once and kept: of a pointer it is made anew wherever it is used.
typedef u32 SharedPlace;
__device__ inline SharedPlace shared_place(char *memory) {
    u32 place = (u32)__cvta_generic_to_shared(memory);
    as_it_is(place);
    return place;
}

// Copies a chunk into shared memory, or zeros if it is outside. What is outside isn't read.
__device__ inline void copy_chunk(SharedPlace to, const char *from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
#endif
__device__ inline void copy_chunk(char *to, const char *from, bool inside) {
#if REEF_ASYNC
    copy_chunk((u32)__cvta_generic_to_shared(to), from, inside);
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

// The nearest number with 10 bits of mantissa.
__device__ inline u32 as_tf32(float value) {
    u32 word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
    return word;
}

// Four 8 x 16 byte matrices, whose rows are given by eight lanes each.
__device__ inline void load_matrices(u32 (&to)[4], SharedPlace row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row));
}

// The same of 8 x 8 halves each, turned: a lane has two adjoining rows of one column.
__device__ inline void load_turned(u32 (&to)[4], const char *row) {
    u32 address = (u32)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

// 2 to the power of a number, with 22 bits; 0 where that is below what floats hold in full.
__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// 1 / x to its last bit but one.
__device__ inline float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two numbers as halves, the first in the lower one.
__device__ inline u32 as_halves(float low, float high) {
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// 32-bit floats, multiplied with 11 bits of precision. Weights are rounded when they are packed. `whole`: what a sum is worth.
struct Tf32 {
    typedef float Element;
    typedef float Sum;

    __device__ static void round(u32 (&a)[4]) {
        for (u32 &word : a) word = as_tf32(__uint_as_float(word));
    }
    __device__ static float whole(float sum) { return sum; }

    __device__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// The same of activations that were rounded where they were written.
struct RoundedTf32 : Tf32 {
    __device__ static void round(u32 (&)[4]) {}
};

// 16-bit floats.
struct F16 {
    typedef Half Element;
    typedef float Sum;

    __device__ static void round(u32 (&)[4]) {}
    __device__ static float whole(float sum) { return sum; }

    __device__ static void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

// Whole numbers of 8 bits, four in a word.
__device__ inline void multiply_integers(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

// Numbers as products take them of which elements are these: singles rounded once where they are written, and not wherever they
// are read. Halves are as they are.
template <class Element> __device__ inline float4 as_multiplied(float4 value) {
#if REEF_ASYNC
    if (sizeof(Element) == sizeof(float)) {
        float *each[4] = {&value.x, &value.y, &value.z, &value.w};
        for (float *x : each) *x = __uint_as_float(as_tf32(*x));
    }
#endif
    return value;
}
