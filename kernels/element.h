// The two kinds of elements that activations have, and views of tensors that lie in any layout.

#pragma once

#include "reef.h"

using reef::u16;
using reef::u32;
using reef::u64;

// A 16-bit float. Only stored: all sums are 32-bit.
struct Half {
    u16 bits;
};

__device__ inline float to_float(float value) { return value; }

__device__ inline float to_float(Half value) {
#if REEF_AMD
    return __builtin_bit_cast(_Float16, value.bits);
#else
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
#endif
}

__device__ inline void set(float &to, float value) { to = value; }

__device__ inline void set(Half &to, float value) {
#if REEF_AMD
    to.bits = __builtin_bit_cast(u16, (_Float16)value);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
#endif
}

// Four elements at a time; their address is a multiple of their size.
__device__ inline float4 load4(const float *from) { return *(const float4 *)from; }

__device__ inline float4 wide(float4 four) { return four; }

__device__ inline float4 wide(ushort4 bits) {
    return make_float4(to_float(Half{bits.x}), to_float(Half{bits.y}), to_float(Half{bits.z}),
                       to_float(Half{bits.w}));
}

__device__ inline float4 load4(const Half *from) { return wide(*(const ushort4 *)from); }

// Four of them as they lie in memory, to be made `wide` when they are needed: until then nothing waits for them.
template <class Element> struct FourOf;
template <> struct FourOf<float> { typedef float4 Stored; };
template <> struct FourOf<Half> { typedef ushort4 Stored; };

__device__ inline void store4(float *to, float4 value) { *(float4 *)to = value; }

__device__ inline void store4(Half *to, float4 value) {
    Half half[4];
    set(half[0], value.x);
    set(half[1], value.y);
    set(half[2], value.z);
    set(half[3], value.w);
    *(ushort4 *)to = make_ushort4(half[0].bits, half[1].bits, half[2].bits, half[3].bits);
}

__device__ inline float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// What is not a number stays none, as in torch and ONNX: fmaxf and fminf would give the other operand. From
// sm_80 on there are instructions for it; elsewhere a comparison takes the place of the maximum.
#define REEF_MAX_NAN (__CUDA_ARCH__ >= 800)

__device__ inline float at_least(float value, float low) {
#if REEF_MAX_NAN
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(value), "f"(low));
    return larger;
#else
    return value < low ? low : value;
#endif
}

__device__ inline float at_most(float value, float high) {
#if REEF_MAX_NAN
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(value), "f"(high));
    return smaller;
#else
    return value > high ? high : value;
#endif
}

// The larger of two, each of which may be no number.
__device__ inline float larger(float a, float b) {
#if REEF_MAX_NAN
    return at_least(a, b);
#else
    return b > a || b != b ? b : a;
#endif
}

__device__ inline float relu(float value) { return at_least(value, 0.0f); }

__device__ inline float4 relu(float4 v) {
    return make_float4(relu(v.x), relu(v.y), relu(v.z), relu(v.w));
}

// Divides numbers below 2^31 by a constant: `n * factor >> shift`. `Divisor` in
// operators/params.rs.
struct Divisor {
    u32 factor, shift;

    __device__ u32 operator()(u32 n) const { return (u64)n * factor >> shift; }
};

// A tensor in any layout. Addresses count elements. `View` in operators/params.rs.
struct View {
    char *data; // of the first channel of the first pixel
    u64 image;  // between images
    u32 pixel;  // between adjoining pixels
    u32 channel;
    u32 height, width;
    u32 wide; // whether it holds 32-bit floats whatever the device's elements are
    u32 unused;

    __device__ u64 at(u32 n, u32 row, u32 column, u32 c) const {
        return n * image + (u64)(row * width + column) * pixel + (u64)c * channel;
    }

    template <class Element> __device__ float load(u64 at) const {
        return wide ? ((const float *)data)[at] : to_float(((const Element *)data)[at]);
    }

    template <class Element> __device__ void store(u64 at, float value) const {
        if (wide)
            ((float *)data)[at] = value;
        else
            set(((Element *)data)[at], value);
    }
};
