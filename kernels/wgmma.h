// What warpgroups do by sm_90a's own instructions, in PTX: four warps multiply at once what lies in shared memory.
//
// Lines have 128 bytes, of which sixteen-byte chunk `c` of line `r` is at chunk `c ^ (r & 7)`, as mma.h has it with slabs of that size.
// Eight lines start at whole 1024 bytes. A product is under way until it is waited for: its sums and both sides are left alone.

#pragma once

#include "quantized_sums.h"

// Where 64 lines, or as many as there are columns, begin: the instruction's word for it.
typedef u64 Lines;
__device__ inline Lines lines_at(SharedPlace place) {
    const u64 swizzled_by_128 = (u64)1 << 62, eight_lines = (u64)64 << 32, unused = (u64)1 << 16;
    return swizzled_by_128 | eight_lines | unused | (place >> 4 & 0x3fff);
}
// The same lines from some bytes behind their beginnings.
__device__ inline Lines behind(Lines lines, u32 bytes) { return lines + bytes / 16; }

// Everything that copies have brought is seen by products from here on. Each thread, before the barrier.
__device__ inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Keeps the compiler from moving a sum over what is under way.
__device__ inline void stays(float &sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ inline void stays(int &sum) { asm volatile("" : "+r"(sum)::"memory"); }

// In front of products of these sums.
template <class Sum, int N> __device__ inline void begin_products(Sum (&sums)[N]) {
#pragma unroll
    for (int n = 0; n < N; n++) stays(sums[n]);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Ends a group of products.
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all groups but the last `groups`.
template <int groups, class Sum, int N> __device__ inline void wait_products(Sum (&sums)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
#pragma unroll
    for (int n = 0; n < N; n++) stays(sums[n]);
}

// sums += rows . columns, over 32 bytes of terms of 64 rows. A thread has of its warp's sixteen rows the `lane / 4`th and the eighth
// from there, of each eight columns two: the first of the first row, of the second row, and so on.
template <class Math, int COLUMNS> struct Product;

#define REEF_FOUR(c, n) "+" c(sums[n]), "+" c(sums[n + 1]), "+" c(sums[n + 2]), "+" c(sums[n + 3])
#define REEF_EIGHT(c, n) REEF_FOUR(c, n), REEF_FOUR(c, n + 4)
#define REEF_16(c) REEF_EIGHT(c, 0), REEF_EIGHT(c, 8)
#define REEF_20(c) REEF_16(c), REEF_FOUR(c, 16)
#define REEF_28(c) REEF_16(c), REEF_EIGHT(c, 16), REEF_FOUR(c, 24)
#define REEF_32(c) REEF_16(c), REEF_EIGHT(c, 16), REEF_EIGHT(c, 24)
#define REEF_36(c) REEF_32(c), REEF_FOUR(c, 32)
#define REEF_52(c) REEF_32(c), REEF_EIGHT(c, 32), REEF_EIGHT(c, 40), REEF_FOUR(c, 48)
#define REEF_64(c) REEF_32(c), REEF_EIGHT(c, 32), REEF_EIGHT(c, 40), REEF_EIGHT(c, 48), REEF_EIGHT(c, 56)
#define REEF_PLACES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define REEF_PLACES_20 REEF_PLACES_16 ", %16, %17, %18, %19"
#define REEF_PLACES_28 REEF_PLACES_20 ", %20, %21, %22, %23, %24, %25, %26, %27"
#define REEF_PLACES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REEF_PLACES_36 REEF_PLACES_32 ", %32, %33, %34, %35"
#define REEF_PLACES_52 \
    REEF_PLACES_36 ", %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51"
#define REEF_PLACES_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define REEF_PRODUCT_OF(Math, columns, shape, types, last, constraint, count, x, y)                       \
    template <> struct Product<Math, columns> {                                                         \
        __device__ static void add(typename Math::Sum (&sums)[count], Lines rows, Lines lines) {        \
            asm volatile("wgmma.mma_async.sync.aligned." shape "." types " {" REEF_PLACES_##count "}, " x \
                         ", " y ", 1" last ";"                                                          \
                         : REEF_##count(constraint)                                                     \
                         : "l"(rows), "l"(lines));                                                      \
        }                                                                                               \
    };
#define REEF_PRODUCT(Math, columns, shape, types, turned, count, x, y) \
    REEF_PRODUCT_OF(Math, columns, shape, "f32." types, ", 1, 1" turned, "f", count, x, y)
REEF_PRODUCT(F16, 32, "m64n32k16", "f16.f16", ", 0, 0", 16, "%16", "%17")
REEF_PRODUCT(F16, 40, "m64n40k16", "f16.f16", ", 0, 0", 20, "%20", "%21")
REEF_PRODUCT(F16, 56, "m64n56k16", "f16.f16", ", 0, 0", 28, "%28", "%29")
REEF_PRODUCT(F16, 72, "m64n72k16", "f16.f16", ", 0, 0", 36, "%36", "%37")
REEF_PRODUCT(F16, 104, "m64n104k16", "f16.f16", ", 0, 0", 52, "%52", "%53")
REEF_PRODUCT(F16, 64, "m64n64k16", "f16.f16", ", 0, 0", 32, "%32", "%33")
REEF_PRODUCT(F16, 128, "m64n128k16", "f16.f16", ", 0, 0", 64, "%64", "%65")
REEF_PRODUCT(RoundedTf32, 64, "m64n64k8", "tf32.tf32", "", 32, "%32", "%33")
REEF_PRODUCT(RoundedTf32, 128, "m64n128k8", "tf32.tf32", "", 64, "%64", "%65")
REEF_PRODUCT(Fp8Products, 64, "m64n64k32", "e4m3.e4m3", "", 32, "%32", "%33")
REEF_PRODUCT(Fp8Products, 128, "m64n128k32", "e4m3.e4m3", "", 64, "%64", "%65")
REEF_PRODUCT_OF(Int8Terms, 64, "m64n64k32", "s32.s8.s8", "", "r", 32, "%32", "%33")
REEF_PRODUCT_OF(Int8Terms, 128, "m64n128k32", "s32.s8.s8", "", "r", 64, "%64", "%65")
