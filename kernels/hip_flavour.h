// What kernels of networks that bring their own source find: the functions that ROCm's device library has, under
// its names, on NVIDIA's GPUs too. Sources are HIP C++ as code generators write it, without `hip/hip_runtime.h`.
//
// Lanes. Such sources exchange values across a wave of 64 lanes by `__hip_ds_bpermute(4 * lane, value)`, in blocks of
// one wave. On NVIDIA a block of 64 threads is two warps, so values go through shared memory and need barriers,
// but not every exchange can have one: a lane that asks for its own value does so in branches that others don't take.
// What a source asks for shows in the type of the index, which is a number on AMD:
//
//     lane = __mbcnt_hi(-1, __mbcnt_lo(-1, 0))
//     (in = lane & 63) + 32 >= 64 ? lane : lane + 32     Lane, Masked    another lane: by barriers
//     lane & ~63                                         Masked          the first one: by barriers
//     threadIdx.x + (lane & ~63)                         OwnLane         this one: no barrier; another one traps
//
// Any other index doesn't compile. Exchanges by barriers must not stand in branches.
//
// Published sources pass floats to the exchange of integers, which AMD's own header cuts to their whole part. Here
// floats stay what they are. REEF_WHOLE_LANES=1 is as published; REEF_EXCHANGE_BY_BARRIERS=1 has AMD's GPUs exchange as
// NVIDIA's do, for tests.

#pragma once

#include "reef.h"

#ifndef REEF_WHOLE_LANES
#define REEF_WHOLE_LANES 0
#endif

#if !REEF_AMD

__device__ inline float __ocml_fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline float __ocml_exp_f32(float x) { return expf(x); }
__device__ inline float __ocml_log_f32(float x) { return logf(x); }
__device__ inline float __ocml_sqrt_f32(float x) { return sqrtf(x); }
__device__ inline float __ocml_erf_f32(float x) { return erff(x); }
__device__ inline float __ocml_tanh_f32(float x) { return tanhf(x); }
__device__ inline float __ocml_pow_f32(float x, float y) { return powf(x, y); }

#endif

#ifndef REEF_EXCHANGE_BY_BARRIERS
#define REEF_EXCHANGE_BY_BARRIERS !REEF_AMD
#endif

#if !REEF_EXCHANGE_BY_BARRIERS

#if !REEF_WHOLE_LANES
__device__ inline float __hip_ds_bpermute(int index, float value) {
    return __int_as_float(__builtin_amdgcn_ds_bpermute(index, __float_as_int(value)));
}
#endif

#else

namespace reef_hip {

const int WAVE = 64;

struct LowHalf {};
struct Lane {
    int number;
};
struct Masked {
    int number;
};
struct OwnLane {
    int number;
};

// Four times the number of a lane, as the instruction takes it.
struct Exchanged {
    int from;
};
struct Own {
    int from;
};

__device__ inline void trap() {
#if REEF_AMD
    __builtin_trap();
#else
    __trap();
#endif
}

__device__ inline int this_lane() { return (int)(reef::linear_thread() % WAVE); }

__device__ inline Lane operator+(Lane lane, int by) { return {lane.number + by}; }
__device__ inline Masked operator&(Lane lane, int mask) { return {lane.number & mask}; }
__device__ inline int operator+(Masked lane, int by) { return lane.number + by; }
__device__ inline OwnLane operator+(int by, Masked wave) { return {by + wave.number}; }

__device__ inline Exchanged operator<<(Lane lane, int) { return {lane.number}; }
__device__ inline Exchanged operator<<(Masked lane, int) { return {lane.number}; }
__device__ inline Own operator<<(OwnLane lane, int) { return {lane.number}; }

// As published sources have it, floats lose what is behind the point.
__device__ inline float sent(float value) { return REEF_WHOLE_LANES ? (float)(unsigned)value : value; }

// Every thread of the block comes here. The second barrier lets the next exchange write.
__device__ inline unsigned exchange(int from, unsigned value) {
    __shared__ unsigned lanes[WAVE];
    lanes[this_lane()] = value;
    __syncthreads();
    unsigned other = lanes[from % WAVE];
    __syncthreads();
    return other;
}


__device__ inline LowHalf mbcnt_lo(int mask, int) {
    if (mask != -1) trap();
    return {};
}

__device__ inline Lane mbcnt_hi(int mask, LowHalf) {
    if (mask != -1) trap();
    return {this_lane()};
}

__device__ inline unsigned bpermute(Exchanged index, unsigned value) {
    return exchange(index.from, value);
}

__device__ inline int bpermute(Exchanged index, int value) {
    return (int)exchange(index.from, (unsigned)value);
}

__device__ inline float bpermutef(Exchanged index, float value) {
    return __uint_as_float(exchange(index.from, __float_as_uint(value)));
}

__device__ inline float bpermute(Exchanged index, float value) {
    return bpermutef(index, sent(value));
}

template <class Value> __device__ inline Value bpermutef(Own index, Value value) {
    if (index.from != this_lane()) trap();
    return value;
}

template <class Value> __device__ inline Value bpermute(Own index, Value value) {
    return bpermutef(index, value);
}

__device__ inline float bpermute(Own index, float value) {
    return bpermutef(index, sent(value));
}

} // namespace reef_hip

#define __mbcnt_lo reef_hip::mbcnt_lo
#define __mbcnt_hi reef_hip::mbcnt_hi
#define __hip_ds_bpermute reef_hip::bpermute
#define __hip_ds_bpermutef reef_hip::bpermutef

#endif
