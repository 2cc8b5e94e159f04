// Numbers of 8 bits, as they lie in memory (`Format` in reef_op). What one is worth is its number times its tensor's scale, which
// kernels never see: it is in the factors of sums, biases and bounds (`pack.rs` in operators).

#pragma once

#include "element.h"

// From -127 to 127.
struct Int8 {
    signed char number;
};

// A float with 4 bits of exponent and 3 of mantissa, E4M3: no infinities, NaN is all ones.
struct Fp8 {
    unsigned char bits;
};

__device__ inline float to_float(Int8 value) { return value.number; }

// By the exponents of halves, which are 8 larger: subnormals of one are those of the other.
__device__ inline float to_float(Fp8 value) {
    const u32 size = value.bits & 0x7fu;
    const u16 half = size == 0x7f ? 0x7fff : size << 7;
    const float wide = to_float(Half{half}) * 256.0f;
    return value.bits & 0x80 ? -wide : wide;
}

// The nearest integer, the even one of two; 0 for what is no number.
__device__ inline void set(Int8 &to, float value) {
    const float inside = at_most(at_least(value, -127.0f), 127.0f);
    to.number = inside != inside ? 0 : (signed char)__float2int_rn(inside);
}

// By 2^-120 the exponents of singles become those of E4M3, so that rounding the bits is all there is to do. The largest number stands
// for what lies beyond.
__device__ inline void set(Fp8 &to, float value) {
    const u32 bits = __float_as_uint(value), sign = bits >> 24 & 0x80;
    if (value != value) {
        to.bits = sign | 0x7f;
        return;
    }
    const float size = __uint_as_float(bits & 0x7fffffff);
    const u32 down = __float_as_uint((size > 1e6f ? 1e6f : size) * __uint_as_float(7u << 23));
    const u32 rounded = (down + 0x7ffff + (down >> 20 & 1)) >> 20;
    to.bits = sign | (rounded < 0x7e ? rounded : 0x7e);
}

template <> struct FourOf<Int8> { typedef char4 Stored; };
template <> struct FourOf<Fp8> { typedef uchar4 Stored; };

__device__ inline float4 wide(char4 v) { return make_float4(v.x, v.y, v.z, v.w); }
__device__ inline float4 wide(uchar4 v) {
    return make_float4(to_float(Fp8{v.x}), to_float(Fp8{v.y}), to_float(Fp8{v.z}), to_float(Fp8{v.w}));
}
__device__ inline float4 load4(const Int8 *from) { return wide(*(const char4 *)from); }
__device__ inline float4 load4(const Fp8 *from) { return wide(*(const uchar4 *)from); }

// Four at once, as one word.
template <class Number> __device__ inline void store_word(Number *to, float4 value) {
    Number number[4];
    set(number[0], value.x), set(number[1], value.y), set(number[2], value.z), set(number[3], value.w);
    u32 word = 0;
    for (int n = 3; n >= 0; n--) word = word << 8 | *(const unsigned char *)&number[n];
    *(u32 *)to = word;
}
__device__ inline void store4(Int8 *to, float4 value) { store_word(to, value); }
__device__ inline void store4(Fp8 *to, float4 value) { store_word(to, value); }

// Two floats of 8 bits as halves, each 1 / 256 of it: the pair in the even bytes, or in the odd ones. Sums of products take pairs in any
// order, if both sides have the same.
__device__ inline u32 halves_of(u32 word, bool odd) {
    const u32 bytes = odd ? word & 0xff00ff00 : word << 8 & 0xff00ff00;
    const u32 sizes = bytes >> 1 & 0x3f803f80;
    const u32 none = sizes + 0x00800080 & 0x40004000; // what has no number keeps none
    return bytes & 0x80008000 | sizes | none;
}
// What sums of such products have to be multiplied by.
const float OF_HALVES = 65536.0f;
