// What HIP's headers give, as far as our sources use it, so that clang compiles them for AMD's GPUs
// with nothing of ROCm installed. hiprtc and hipcc have the real ones; then this file is not read.

#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
// The second number counts waves of a SIMD here, which is never more than the blocks of a unit.
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))

namespace reef_amd {

struct Place {
    unsigned x, y, z;
};

__device__ inline Place thread() {
    return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
            __builtin_amdgcn_workitem_id_z()};
}

__device__ inline Place block() {
    return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
            __builtin_amdgcn_workgroup_id_z()};
}

__device__ inline Place block_size() {
    return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
            __builtin_amdgcn_workgroup_size_z()};
}

// The packet that starts a kernel has the grid in threads; ours are whole blocks.
__device__ inline Place grid_size() {
    return {__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
            __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
            __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z()};
}

} // namespace reef_amd

#define threadIdx (reef_amd::thread())
#define blockIdx (reef_amd::block())
#define blockDim (reef_amd::block_size())
#define gridDim (reef_amd::grid_size())

__device__ inline void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ inline void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

__device__ inline unsigned atomicAdd(unsigned *to, unsigned value) {
    return __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Of a word in shared memory.
__device__ inline unsigned atomicMax(unsigned *to, unsigned value) {
    return __hip_atomic_fetch_max(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

// Of words in shared memory.
__device__ inline unsigned atomicOr(unsigned *to, unsigned bits) {
    return __hip_atomic_fetch_or(to, bits, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}
__device__ inline unsigned atomicAnd(unsigned *to, unsigned bits) {
    return __hip_atomic_fetch_and(to, bits, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

__device__ inline int __ffs(unsigned bits) { return __builtin_ffs((int)bits); }

// A product that is rounded before it is added to anything.
__device__ inline float __fmul_rn(float a, float b) {
#pragma clang fp contract(off)
    return a * b;
}

template <class T> __device__ inline T min(T a, T b) { return b < a ? b : a; }
template <class T> __device__ inline T max(T a, T b) { return a < b ? b : a; }
__device__ inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
__device__ inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
__device__ inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__device__ inline double floor(double a) { return __builtin_floor(a); }
__device__ inline double ceil(double a) { return __builtin_ceil(a); }
__device__ inline double trunc(double a) { return __builtin_trunc(a); }
__device__ inline double rint(double a) { return __builtin_rint(a); }
__device__ inline double sqrt(double a) { return __builtin_sqrt(a); }
__device__ inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) ushort4 {
    unsigned short x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

__device__ inline float2 make_float2(float x, float y) { return {x, y}; }
__device__ inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
__device__ inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
__device__ inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z,
                                       unsigned short w) {
    return {x, y, z, w};
}
